/*
 * plimsoll-wasm-worker: the worker host. It prepares the engine once, confines itself, and then
 * forks workers that inherit the prepared engine, on request and one at a time, until its parent
 * goes away.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine.h"
#include "engine.h"
#include "guest_identity.h"
#include "providers/wasm/protocol.h"
#include "worker.h"

#define WORKERS_MAX                                                                                \
    1024u /* far above any sensible number of slots; more are answered with N and EAGAIN */

static struct {
    pid_t pid; /* 0 = free */
    uint32_t id;
} workers[WORKERS_MAX];

/* ---- control messages ---- */

static __attribute__((noreturn)) void leave(enum plim_host_exit code)
{
    _exit((int)code); /* workers die with us: parent-death signal */
}

/* One packet: a tag, then `length` bytes; with the descriptors of a worker, or none. */
static void send_packet(uint8_t tag, const void *payload, size_t length, const int *fds)
{
    const size_t fds_bytes = PLIM_HOST_WORKER_FDS * sizeof(int);
    uint8_t packet[PLIM_HOST_PACKET_MAX] = {tag};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(PLIM_HOST_WORKER_FDS * sizeof(int))];
    } control = {0};
    struct iovec vector = {.iov_base = packet, .iov_len = 1 + length};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    ssize_t sent;

    memcpy(packet + 1, payload, length);
    if (fds != NULL) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        control.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(fds_bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), fds, fds_bytes);
    }
    do {
        sent = sendmsg(PLIM_WORKER_FD, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0)
        leave(errno == EPIPE || errno == ECONNRESET ? PLIM_HOST_EXIT_PARENT_GONE
                                                    : PLIM_HOST_EXIT_LOST);
}

static __attribute__((noreturn)) void refuse(const char *reason)
{
    send_packet(PLIM_HOST_REFUSED, reason, strnlen(reason, PLIM_WORKER_TRAP_MAX), NULL);
    leave(PLIM_HOST_EXIT_REFUSED);
}

static void announce(uint32_t walls)
{
    struct plim_host_ready ready = {
        .version = PLIM_WORKER_PROTOCOL_VERSION,
        .snapshot_pages = engine_frozen_pages(),
        .module_max_pages = engine_module_pages_max(),
        .walls = walls,
    };

    static_assert(sizeof(PLIM_GUEST_SHA256) == sizeof(ready.identity) + 1, "64 hex digits");
    memcpy(ready.identity, PLIM_GUEST_SHA256, sizeof(ready.identity));
    send_packet(PLIM_HOST_READY, &ready, sizeof(ready), NULL);
}

/* ---- start ---- */

static bool is_control_socket(int fd)
{
    int domain = 0, type = 0;
    socklen_t length = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET;
}

static bool is_null_device(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
}

/* What was inherited may carry secrets or reach out; nothing but the agreed four descriptors is let
 * in. */
static void check_inheritance(void)
{
    if (!is_control_socket(PLIM_WORKER_FD))
        leave(PLIM_HOST_EXIT_NO_SOCKET);
    if (close_range(PLIM_WORKER_FD + 1, ~0u, 0) != 0)
        refuse("inherited descriptors cannot be closed");
    for (int fd = 0; fd < PLIM_WORKER_FD; fd++) {
        if (!is_null_device(fd))
            refuse("descriptors 0, 1 and 2 must be /dev/null");
    }
    if (environ != NULL && environ[0] != NULL)
        refuse("the environment must be empty");
    if (chdir("/") != 0)
        refuse("the root directory cannot be entered");
    if (fcntl(PLIM_WORKER_FD, F_SETFL, 0) != 0)
        refuse("the control socket cannot be made blocking");
}

/* Children are learnt of through a descriptor, so that one poll waits for everything and no handler
 * runs. */
static int open_child_events(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- workers ---- */

static void refuse_worker(uint32_t id, int error)
{
    const struct plim_host_no_worker answer = {.id = id, .error = error};

    send_packet(PLIM_HOST_NO_WORKER, &answer, sizeof(answer), NULL);
}

static size_t free_entry(void)
{
    size_t i = 0;

    while (i < WORKERS_MAX && workers[i].pid != 0)
        i++;
    return i;
}

/* What a worker and its parent speak through. */
struct line {
    int pair[2]; /* the parent's end, the worker's end */
    int outbox;
};

static void close_line(const struct line *line)
{
    close(line->pair[0]);
    close(line->outbox);
}

/* False with errno. */
static bool open_line(struct line *line)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line->pair) != 0)
        return false;
    line->outbox = memfd_create("plimsoll-outbox", MFD_CLOEXEC);
    if (line->outbox >= 0 && ftruncate(line->outbox, sizeof(struct plim_worker_outbox)) == 0)
        return true;
    const int error = errno;
    close(line->pair[1]);
    close_line(line);
    errno = error;
    return false;
}

static void fork_worker(uint32_t id, uint8_t flags)
{
    const pid_t host = getpid();
    const size_t entry = free_entry();
    struct line line;

    if (entry == WORKERS_MAX) {
        refuse_worker(id, EAGAIN);
        return;
    }
    if (!open_line(&line)) {
        refuse_worker(id, errno);
        return;
    }
    const pid_t pid = fork();
    if (pid == 0)
        worker_main(line.pair[1], line.outbox, flags, host);

    const int fork_error = errno;
    close(line.pair[1]);
    if (pid < 0) {
        close_line(&line);
        refuse_worker(id, fork_error);
        return;
    }
    /* The child is not reaped before the next turn of the loop, so this is it and no successor of
     * its number. */
    const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        const int error = errno;
        close_line(&line); /* the worker sees the end of its socket */
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        refuse_worker(id, error);
        return;
    }
    workers[entry].pid = pid;
    workers[entry].id = id;
    const struct plim_host_worker answer = {.id = id, .pid = (uint32_t)pid};
    send_packet(PLIM_HOST_WORKER, &answer, sizeof(answer),
                (const int[PLIM_HOST_WORKER_FDS]){line.pair[0], pidfd, line.outbox});
    close_line(&line);
    close(pidfd);
}

static void reap_workers(void)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < WORKERS_MAX; i++) {
            if (workers[i].pid != pid)
                continue;
            const struct plim_host_exited event = {.id = workers[i].id, .status = status};
            workers[i].pid = 0;
            send_packet(PLIM_HOST_EXITED, &event, sizeof(event), NULL);
            break;
        }
    }
}

/* ---- loop ---- */

static void serve_request(void)
{
    uint8_t packet[PLIM_HOST_PACKET_MAX];
    struct plim_host_fork request;
    ssize_t got;

    do {
        got = recv(PLIM_WORKER_FD, packet, sizeof(packet), MSG_TRUNC);
    } while (got < 0 && errno == EINTR);
    if (got == 0)
        leave(PLIM_HOST_EXIT_PARENT_GONE);
    if (got < 0)
        leave(errno == ECONNRESET ? PLIM_HOST_EXIT_PARENT_GONE : PLIM_HOST_EXIT_LOST);
    if (got != 1 + (ssize_t)sizeof(request) || packet[0] != PLIM_HOST_FORK)
        leave(PLIM_HOST_EXIT_PROTOCOL);
    memcpy(&request, packet + 1, sizeof(request));
    if ((request.flags & ~PLIM_FORK_FLAGS_ALL) != 0)
        leave(PLIM_HOST_EXIT_PROTOCOL);
    fork_worker(request.id, request.flags);
}

static __attribute__((noreturn)) void serve(int child_events)
{
    struct pollfd waits[] = {
        {.fd = PLIM_WORKER_FD, .events = POLLIN},
        {.fd = child_events, .events = POLLIN},
    };
    struct signalfd_siginfo drained;

    for (;;) {
        if (poll(waits, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            leave(PLIM_HOST_EXIT_LOST);
        }
        if (waits[1].revents != 0) {
            (void)!read(child_events, &drained, sizeof(drained));
            reap_workers();
        }
        if (waits[0].revents != 0)
            serve_request();
    }
}

int main(int argc, char **argv)
{
    static const struct engine_ports
        none; /* each worker sets its own; the host itself runs nothing */
    const char *problem;
    uint32_t walls;
    int child_events;

    check_inheritance();
    if (argc > 2 || (argc == 2 && !confine_descriptors(argv[1])))
        refuse("this program is started by the plimsoll library; its one argument is a limit of "
               "descriptors");
    if ((problem = confine_early()) != NULL || (problem = engine_prepare(&none)) != NULL)
        refuse(problem);
    child_events = open_child_events();
    if (child_events < 0)
        refuse("child events cannot be watched");
    if ((problem = confine_host(&walls)) != NULL)
        refuse(problem);
    announce(walls);
    serve(child_events);
}
