#include "providers/wasm/host.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PROGRAM_NAME "plimsoll-wasm-worker"

/* How long an ended host may take to be gone by itself. */
enum { HOST_END_MS = 2000 };

/* The file that holds this code: the program, or the shared library. */
static bool own_path(char *out, size_t size)
{
    Dl_info info;
    char real[4096];
    if (dladdr((const void *)wasm_host_locate, &info) && info.dli_fname &&
        strchr(info.dli_fname, '/') && realpath(info.dli_fname, real))
        return (size_t)snprintf(out, size, "%s", real) < size;
    ssize_t length = readlink("/proc/self/exe", out, size - 1);
    if (length < 0)
        return false;
    out[length] = '\0';
    return true;
}

bool wasm_host_locate(char *path, size_t size)
{
    char self[4096];
    size_t build_dir_len = strlen(PLIM_BUILD_DIR);
    bool in_build_tree = own_path(self, sizeof(self)) &&
                         strncmp(self, PLIM_BUILD_DIR, build_dir_len) == 0 &&
                         self[build_dir_len] == '/';
    const char *file = in_build_tree ? PLIM_BUILD_WORKER : PLIM_LIBEXEC_DIR "/" PROGRAM_NAME;
    return (size_t)snprintf(path, size, "%s", file) < size;
}

static bool spawn_with(wasm_host *host, const char *path, int their_end, plim_error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_adddup2(&actions, 0, 2);
    posix_spawn_file_actions_adddup2(&actions, their_end, PLIM_WORKER_FD);
    posix_spawn_file_actions_addchdir_np(&actions, "/");
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    /* The one thing it is told: the limit of descriptors to take on before anything else, which
     * posix_spawn cannot set. */
    char limit[24] = "";
    if (base_fd_limit_before() > 0)
        snprintf(limit, sizeof(limit), "%" PRIu64, base_fd_limit_before());
    char *const arguments[] = {(char[]){PROGRAM_NAME}, limit[0] ? limit : NULL, NULL};
    char *const environment[] = {NULL};
    int failed = posix_spawn(&host->pid, path, &actions, &attributes, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed)
        return core_refuse_environment(err, "cannot start %s: %s", path, base_errno_text(failed));
    return true;
}

bool wasm_host_spawn(wasm_host *host, plim_error *err)
{
    char path[4096];
    int ends[2];
    *host = WASM_HOST_NONE;
    if (!wasm_host_locate(path, sizeof(path)))
        return core_refuse_environment(err, "cannot locate " PROGRAM_NAME);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return core_refuse_environment(err, "cannot make a socket pair: %s",
                                       base_errno_text(errno));
    _cleanup_fd_ int ours = ends[0], theirs = ends[1];
    /* Descriptors 0 to 2 are opened over below: the source of a dup2 must not be one of them. */
    if (theirs <= 2) {
        int higher = fcntl(theirs, F_DUPFD_CLOEXEC, PLIM_WORKER_FD + 1);
        if (higher < 0)
            return core_refuse_environment(err, "cannot make a descriptor: %s",
                                           base_errno_text(errno));
        base_fd_close(&theirs);
        theirs = higher;
    }
    if (!spawn_with(host, path, theirs, err))
        return false;
    host->pidfd = pidfd_open(host->pid, 0);
    if (host->pidfd < 0) {
        int failed = errno;
        kill(host->pid, SIGKILL); /* not reaped yet, so the number is still its own */
        waitpid(host->pid, NULL, 0);
        host->pid = -1;
        return core_refuse_environment(err, "cannot watch the worker host: %s",
                                       base_errno_text(failed));
    }
    host->control = TAKE_FD(ours);
    return true;
}

void wasm_host_kill(wasm_host *host)
{
    base_fd_close(&host->control);
    if (host->pid >= 0)
        pidfd_send_signal(host->pidfd, SIGKILL, NULL, 0);
}

bool wasm_host_reap(wasm_host *host, int wait_ms)
{
    if (host->pid < 0)
        return true;
    struct pollfd wait_for = {.fd = host->pidfd, .events = POLLIN};
    int status;
    /* A program that ignores SIGCHLD, or reaps all children itself, has taken the status: that is
     * an end as well. */
    if (poll(&wait_for, 1, wait_ms) != 1 || waitpid(host->pid, &status, WNOHANG) == 0)
        return false;
    base_fd_close(&host->pidfd);
    host->pid = -1;
    return true;
}

void wasm_host_end(wasm_host *host)
{
    base_fd_close(&host->control);
    if (wasm_host_reap(host, HOST_END_MS))
        return;
    wasm_host_kill(host);
    /* The bound is for a kernel that is stuck in it; then its parent's end reaps it. */
    if (!wasm_host_reap(host, HOST_END_MS))
        base_fd_close(&host->pidfd);
}

bool wasm_host_ask_fork(wasm_host *host, uint32_t id, uint8_t flags)
{
    struct {
        char tag;
        struct plim_host_fork body;
    } __attribute__((packed)) packet = {PLIM_HOST_FORK, {id, flags}};
    ssize_t sent = send(host->control, &packet, sizeof(packet), MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent == (ssize_t)sizeof(packet);
}

void wasm_packet_close(wasm_packet *packet)
{
    for (size_t i = 0; i < PLIM_COUNT(packet->fds); i++)
        base_fd_close(&packet->fds[i]);
}

/* Take the descriptors of a packet: those of a worker, or none at all. Surplus ones are closed. */
static void take_descriptors(struct msghdr *message, wasm_packet *out)
{
    size_t count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
            if (count < PLIM_COUNT(out->fds))
                out->fds[count++] = fd;
            else
                base_fd_close(&fd);
        }
    }
}

static size_t body_size(unsigned char tag)
{
    switch (tag) {
    case PLIM_HOST_READY:
        return sizeof(struct plim_host_ready);
    case PLIM_HOST_WORKER:
        return sizeof(struct plim_host_worker);
    case PLIM_HOST_NO_WORKER:
        return sizeof(struct plim_host_no_worker);
    case PLIM_HOST_EXITED:
        return sizeof(struct plim_host_exited);
    }
    return SIZE_MAX;
}

static bool fill_packet(wasm_packet *out, plim_bytes packet)
{
    out->tag = (unsigned char)packet.data[0];
    plim_bytes body = {packet.data + 1, packet.len - 1};
    if (out->tag == PLIM_HOST_REFUSED) {
        size_t length = body.len < PLIM_WORKER_TRAP_MAX ? body.len : PLIM_WORKER_TRAP_MAX;
        memcpy(out->reason, body.data, length);
        out->reason[length] = '\0';
        return true;
    }
    if (body.len != body_size(out->tag))
        return false;
    memcpy(&out->ready, body.data, body.len);
    /* They come in order, so the last one means all. */
    return out->tag != PLIM_HOST_WORKER || out->fds[PLIM_HOST_WORKER_FDS - 1] >= 0;
}

wasm_packet_result wasm_host_receive(wasm_host *host, wasm_packet *out)
{
    char bytes[PLIM_HOST_PACKET_MAX];
    union {
        char space[CMSG_SPACE((PLIM_HOST_WORKER_FDS + 2) * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {bytes, sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t length;
    for (size_t i = 0; i < PLIM_COUNT(out->fds); i++)
        out->fds[i] = -1;
    do
        length = recvmsg(host->control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return WASM_PACKET_NONE;
    if (length <= 0)
        return WASM_PACKET_GONE;
    take_descriptors(&message, out);
    if (!(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
        fill_packet(out, (plim_bytes){bytes, (size_t)length}))
        return WASM_PACKET_OK;
    wasm_packet_close(out);
    return WASM_PACKET_GONE;
}
