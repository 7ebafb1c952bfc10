#include "step.h"

#include "child.h"
#include "io.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum {
    KILLED_WAIT_MS = 2000, /* for the kernel to end what was killed */
    DROP_BYTES = 64 << 10,
};

/* A step as it runs. */
struct running {
    pid_t shell; /* 0 once it was waited for */
    int status;
    int64_t began, deadline, ended; /* `ended`: when the shell was seen to have exited */
    bool killed;
};

static void on_child(int signal)
{
    (void)signal; /* its arrival ends a ppoll */
}

bool ctl_runner_init(struct ctl_runner *runner, int work, const struct ctl_env *env)
{
    struct sigaction action = {.sa_handler = on_child};
    *runner = (struct ctl_runner){.work = work, .env = env};
    for (size_t i = 0; i < 2; i++) {
        runner->streams[i] =
            (struct ctl_stream){.fd = -1, .bytes = base_alloc(CTL_STEP_OUTPUT_MAX, 1)};
        if (!runner->streams[i].bytes) {
            errno = ENOMEM;
            return false;
        }
    }
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    return sigaction(SIGCHLD, &action, NULL) == 0 && sigprocmask(SIG_BLOCK, &child, NULL) == 0 &&
           prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

/* In the child: become the shell, or say through `failure` why not. */
static void become_shell(const struct ctl_runner *runner, const char *command, const int outputs[2],
                         int failure)
{
    char *const argv[] = {"sh", "-c", (char *)command, NULL};
    setpgid(0, 0);
    ctl_child_begin();
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(outputs[0], STDOUT_FILENO) >= 0 &&
        dup2(outputs[1], STDERR_FILENO) >= 0 && fchdir(runner->work) == 0)
        ctl_exec(argv, runner->env);
    int error = errno;
    (void)!write(failure, &error, sizeof error);
    _exit(CTL_EXIT_NOT_FOUND);
}

/* Did the shell start? Waits until the pipe that it closes by starting has ended. */
static bool has_started(int failure)
{
    int error;
    ssize_t got;
    do
        got = read(failure, &error, sizeof error);
    while (got < 0 && errno == EINTR);
    return got == 0;
}

/* Start a step's shell with two pipes, whose read ends the runner keeps. 0 when that failed. */
static pid_t start(struct ctl_runner *runner, const char *command)
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    pid_t pid = -1;
    bool ready = true;
    for (size_t i = 0; i < 3; i++)
        ready = ready && pipe2(pipes[i], O_CLOEXEC) == 0;
    if (ready)
        pid = fork();
    if (pid == 0)
        become_shell(runner, command, (int[]){pipes[0][1], pipes[1][1]}, pipes[2][1]);
    for (size_t i = 0; i < 3; i++)
        base_fd_close(&pipes[i][1]);
    if (pid > 0 && !has_started(pipes[2][0])) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        pid = -1;
    }
    for (size_t i = 0; i < 2; i++) {
        if (pid > 0)
            fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
        else
            base_fd_close(&pipes[i][0]);
        runner->streams[i].fd = pipes[i][0];
        runner->streams[i].len = 0;
    }
    base_fd_close(&pipes[2][0]);
    return pid > 0 ? pid : 0;
}

/* Wait for every child that has ended; orphans become our children, and nobody else would. */
static void reap(struct running *step)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != step->shell)
            continue;
        step->shell = 0;
        step->status = status;
        step->ended = ctl_now_ms();
    }
}

static void kill_all(struct running *step)
{
    if (step->killed)
        return;
    step->killed = true;
    if (step->shell > 0)
        kill(-step->shell, SIGKILL);
    ctl_tree_kill();
}

/* Read what is there of one stream. What goes past the budget of both is dropped, and is the end of
 * the step. */
static void read_stream(struct ctl_runner *runner, struct ctl_stream *stream,
                        struct ctl_step_result *result)
{
    unsigned char spare[DROP_BYTES];
    size_t room = CTL_STEP_OUTPUT_MAX - runner->streams[0].len - runner->streams[1].len;
    bool keep = room > 0 && !result->truncated;
    size_t want = keep && room < sizeof spare ? room : sizeof spare;
    ssize_t got = read(stream->fd, keep ? stream->bytes + stream->len : spare, want);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0)
        base_fd_close(&stream->fd);
    else if (keep)
        stream->len += (size_t)got;
    else
        result->truncated = true;
}

/* Read and drop what outputs of earlier steps have, so that whoever holds them is not stopped by a
 * full pipe. */
static void drain(struct ctl_runner *runner, const struct pollfd *polled)
{
    unsigned char spare[DROP_BYTES];
    size_t kept = 0;
    for (size_t i = 0; i < runner->left_count; i++) {
        ssize_t got = 1;
        if (polled[i].revents)
            got = read(runner->left_open[i], spare, sizeof spare);
        if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
            runner->left_open[kept++] = runner->left_open[i];
        else
            close(runner->left_open[i]);
    }
    runner->left_count = kept;
}

/* Wait until an output has something, a child has ended or `until` is reached; then read. */
static void wait_and_read(struct ctl_runner *runner, int64_t until, struct ctl_step_result *result)
{
    struct pollfd polled[2 + 2 * CTL_PLAN_STEPS_MAX];
    for (size_t i = 0; i < 2; i++)
        polled[i] = (struct pollfd){.fd = runner->streams[i].fd, .events = POLLIN};
    for (size_t i = 0; i < runner->left_count; i++)
        polled[2 + i] = (struct pollfd){.fd = runner->left_open[i], .events = POLLIN};
    int64_t left = until - ctl_now_ms();
    left = left > 0 ? left : 0;
    struct timespec wait = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    sigset_t none;
    sigemptyset(&none);
    if (ppoll(polled, 2 + runner->left_count, &wait, &none) <= 0)
        return;
    for (size_t i = 0; i < 2; i++) {
        if (polled[i].revents)
            read_stream(runner, &runner->streams[i], result);
    }
    drain(runner, polled + 2);
}

/* Until when a step may go on as it stands, or 0 when it is over. Kills it when its time or its
 * budget has run out. */
static int64_t next_deadline(const struct ctl_runner *runner, struct running *step,
                             struct ctl_step_result *result)
{
    int64_t now = ctl_now_ms();
    bool output_ended = runner->streams[0].fd < 0 && runner->streams[1].fd < 0;
    if (!step->shell) {
        int64_t until = step->ended + CTL_STEP_LINGER_MS;
        return output_ended || result->truncated || now >= until ? 0 : until;
    }
    if (!step->killed && (result->truncated || now >= step->deadline)) {
        result->timed_out = !result->truncated;
        kill_all(step);
        step->deadline = now + KILLED_WAIT_MS;
    } else if (step->killed && now >= step->deadline) {
        return 0;
    }
    return step->deadline;
}

static int exit_code(const struct running *step, const struct ctl_step_result *result)
{
    if (result->timed_out)
        return CTL_STEP_EXIT_TIMEOUT;
    if (result->truncated || step->shell || !WIFEXITED(step->status))
        return CTL_STEP_EXIT_NONE; /* a step that floods is killed, even when its shell was faster
                                    */
    return WEXITSTATUS(step->status);
}

void ctl_runner_step(struct ctl_runner *runner, const char *command, int64_t timeout_ms,
                     struct ctl_step_result *result)
{
    struct running step = {.began = ctl_now_ms()};
    *result = (struct ctl_step_result){.exit_code = CTL_STEP_EXIT_NONE};
    step.deadline = step.began + timeout_ms;
    step.shell = start(runner, command);
    if (!step.shell) {
        result->duration_ms = ctl_now_ms() - step.began;
        return;
    }
    for (;;) {
        reap(&step);
        int64_t until = next_deadline(runner, &step, result);
        if (!until)
            break;
        wait_and_read(runner, until, result);
    }
    if (result->truncated)
        kill_all(&step); /* the shell was gone, and what it left flooded us */
    for (size_t i = 0; i < 2; i++) {
        struct ctl_stream *stream = &runner->streams[i];
        if (stream->fd >= 0 &&
            runner->left_count < sizeof runner->left_open / sizeof runner->left_open[0])
            runner->left_open[runner->left_count++] = TAKE_FD(stream->fd);
        base_fd_close(&stream->fd);
    }
    result->out = (plim_bytes){(char *)runner->streams[0].bytes, runner->streams[0].len};
    result->err = (plim_bytes){(char *)runner->streams[1].bytes, runner->streams[1].len};
    result->exit_code = exit_code(&step, result);
    result->duration_ms = ctl_now_ms() - step.began;
}
