#include "supervise.h"

#include "child.h"
#include "ctl.h"
#include "end.h"
#include "io.h"
#include "isolation.h"
#include "start.h"
#include "tree.h"
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 << 10 };

/* All of a run. Static, because an environment is large and there is one run in a process. */
static struct {
    struct ctl_start start;
    pid_t guest;      /* 0 once it has ended, or asked to */
    pid_t leaving;    /* the guest that has asked to end, and has not */
    int status;       /* of the guest, once it has ended or asked to */
    int watch;        /* readable when somebody asks to end; -1 when that is not told */
    int children;     /* readable when a child may have ended */
    int in, to_guest; /* -1 once they are done with */
    unsigned char head[CTL_HEAD_BYTES];
    size_t head_len;
    uint64_t left; /* of the input, not read yet */
    char piece[PIECE_BYTES];
    plim_bytes waiting; /* of the piece, not written yet */
} run;

static bool has_head(void)
{
    return run.head_len == sizeof run.head;
}

/* In the child, with the read end of its input. */
static _Noreturn void become_guest(int input)
{
    setsid(); /* a signal to its own group must not be one to us */
    ctl_child_begin();
    if (dup2(input, STDIN_FILENO) < 0)
        _exit(CTL_EXIT_NO_EXEC);
    _exit(ctl_start_exec(&run.start));
}

/* Start the guest with a pipe as its input. */
static bool start_guest(void)
{
    int ends[2];
    sigset_t all, child;
    sigfillset(&all);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return false;
    run.children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    run.watch = ctl_watch_exits();
    run.guest = run.children < 0 ? -1 : fork();
    if (run.guest == 0)
        become_guest(ends[0]);
    close(ends[0]);
    run.in = STDIN_FILENO;
    run.to_guest = ends[1];
    return run.guest > 0 && fcntl(run.to_guest, F_SETFL, O_NONBLOCK) == 0;
}

/* Wait for whoever has ended: orphans of the guest become our children, and nobody else would. */
static void reap(void)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    while (read(run.children, &info, sizeof info) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != run.guest)
            continue;
        run.guest = 0;
        run.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
}

/* Somebody asks to end. Of the guest that is its end: it runs no more. */
static void hear_out(void)
{
    if (!ctl_watch_take(run.watch, run.guest, &run.status))
        return;
    run.leaving = run.guest;
    run.guest = 0;
}

/* All of the input was read and passed on: its end is the guest's. */
static void finish_input(void)
{
    if (has_head() && !run.left && !run.waiting.len)
        base_fd_close(&run.to_guest);
}

/* Read the rest of the head, then a piece of the input. False at an end that is too early. */
static bool take_in(void)
{
    bool head = !has_head();
    size_t most = run.left < sizeof run.piece ? (size_t)run.left : sizeof run.piece;
    ssize_t got = head ? read(run.in, run.head + run.head_len, sizeof run.head - run.head_len)
                       : read(run.in, run.piece, most);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    if (got == 0)
        return false;
    if (!head) {
        run.waiting = (plim_bytes){run.piece, (size_t)got};
        run.left -= (size_t)got;
        return true;
    }
    run.head_len += (size_t)got;
    for (size_t i = CTL_KEY_BYTES; has_head() && i < sizeof run.head; i++)
        run.left = run.left << 8 | run.head[i];
    return true;
}

/* Pass on what the guest takes. One that has closed its input gets nothing more. */
static void pass_on(void)
{
    while (run.waiting.len) {
        ssize_t wrote = write(run.to_guest, run.waiting.data, run.waiting.len);
        if (wrote < 0 && errno == EAGAIN)
            return;
        if (wrote < 0 && errno != EINTR) {
            base_fd_close(&run.to_guest);
            run.waiting.len = 0;
            return;
        }
        size_t used = wrote > 0 ? (size_t)wrote : 0;
        run.waiting = (plim_bytes){run.waiting.data + used, run.waiting.len - used};
    }
}

/* Feed the guest until it has ended. False when its input was cut. */
static bool serve(void)
{
    while (run.guest) {
        bool reads = run.to_guest >= 0 && !run.waiting.len;
        struct pollfd fds[] = {
            {.fd = run.children, .events = POLLIN},
            {.fd = reads ? run.in : -1, .events = POLLIN},
            {.fd = run.waiting.len ? run.to_guest : -1, .events = POLLOUT},
            {.fd = run.watch, .events = POLLIN},
        };
        if (poll(fds, sizeof fds / sizeof fds[0], -1) < 0)
            continue;
        if (fds[0].revents)
            reap();
        if (run.guest && fds[3].revents)
            hear_out();
        if (fds[1].revents && !take_in())
            return false;
        pass_on();
        finish_input();
    }
    return true;
}

/* Start the guest, feed it and tell its end. The exit status. */
static int run_guest(void)
{
    static const int streams[2] = {STDOUT_FILENO, STDERR_FILENO};
    if (!start_guest()) {
        ctl_complain("the command cannot be started", errno);
        return CTL_EXIT_NO_EXEC;
    }
    if (!serve()) {
        ctl_tree_end(0);
        return CTL_EXIT_NO_INPUT;
    }
    uint32_t disk = run.status ? ctl_end_full_places() : 0;
    if (has_head() && ctl_tree_end(run.leaving))
        ctl_end_write(streams, run.head, run.status, disk);
    explicit_bzero(run.head, sizeof run.head);
    return run.status;
}

int ctl_supervise(const char *marker, char **operands)
{
    if (!ctl_isolation_may_read(ctl_isolation_prove())) {
        ctl_complain(CTL_ERROR_ISOLATION, 0);
        return CTL_EXIT_ISOLATION;
    }
    int status = ctl_start_read(operands, &run.start);
    if (status != CTL_EXIT_OK)
        return status;
    ctl_start_warm(&run.start);
    if (!ctl_write_all(STDERR_FILENO, plim_bytes_of(marker)))
        return CTL_EXIT_NO_REPORT;
    ctl_watch_leave(run_guest());
}
