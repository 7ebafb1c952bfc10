#include "isolation.h"

#include "ctl.h"
#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum { PROOF_WAIT_MS = 5000 };

bool ctl_undumpable(void)
{
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
}

static bool is_refused(pid_t pid, const char *what, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd < 0 && (errno == EACCES || errno == EPERM);
}

static enum ctl_isolation try_all(pid_t pid)
{
    if (!is_refused(pid, "mem", O_RDONLY))
        return CTL_ISOLATION_NONE;
    if (is_refused(pid, "fd/0", O_RDONLY) && is_refused(pid, "fd/1", O_RDONLY) &&
        is_refused(pid, "fd/1", O_WRONLY))
        return CTL_ISOLATION_FULL;
    return CTL_ISOLATION_MEMORY;
}

enum ctl_isolation ctl_isolation_prove(void)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return CTL_ISOLATION_NONE;
    pid_t self = getpid(), child = fork();
    if (child == 0)
        _exit((int)try_all(self)); /* the pipe's end closes with it */
    close(ends[1]);
    struct pollfd ended = {.fd = ends[0], .events = POLLIN};
    int64_t deadline = ctl_now_ms() + PROOF_WAIT_MS, left = PROOF_WAIT_MS;
    while (child > 0 && left > 0 && poll(&ended, 1, (int)left) < 0 && errno == EINTR)
        left = deadline - ctl_now_ms();
    close(ends[0]);
    if (child > 0 && !(ended.revents & POLLHUP))
        kill(child, SIGKILL);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) > CTL_ISOLATION_FULL)
        return CTL_ISOLATION_NONE;
    return (enum ctl_isolation)WEXITSTATUS(status);
}

bool ctl_isolation_alone(void)
{
    size_t processes = 0;
    DIR *folder = opendir("/proc");
    if (!folder)
        return false;
    /* cppcheck-suppress readdirCalled ; there is one thread */
    for (struct dirent *entry; (entry = readdir(folder));)
        processes += entry->d_name[strspn(entry->d_name, "0123456789")] == '\0';
    closedir(folder);
    return getpid() == 1 && processes == 1;
}

bool ctl_isolation_may_read(enum ctl_isolation proven)
{
    return proven == CTL_ISOLATION_FULL ||
           (proven == CTL_ISOLATION_MEMORY && ctl_isolation_alone());
}

/* Send two descriptors through a socket, or receive them where there are none yet. */
static bool pass(int socket, int fds[2])
{
    enum { BYTES = 2 * sizeof(int) };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(BYTES)];
    } control = {.bytes = {0}};
    char byte = 0;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    if (fds[0] < 0) {
        struct cmsghdr *got = NULL;
        if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) == 1)
            got = CMSG_FIRSTHDR(&message);
        if (!got || got->cmsg_type != SCM_RIGHTS || got->cmsg_len != CMSG_LEN(BYTES))
            return false;
        memcpy(fds, CMSG_DATA(got), BYTES);
        return true;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(BYTES);
    memcpy(CMSG_DATA(header), fds, BYTES);
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* Let all three standard descriptors stand for a file that our user may not open. */
static bool forbid_stdio(void)
{
    int forbidden = open(CTL_PROGRAM, O_PATH | O_CLOEXEC);
    bool done = forbidden >= 0;
    for (int fd = STDIN_FILENO; done && fd <= STDERR_FILENO; fd++)
        done = dup2(forbidden, fd) == fd;
    base_fd_close(&forbidden);
    return done;
}

int ctl_isolation_hide(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    _cleanup_fd_ int to = ends[0], from = ends[1];
    return pass(to, (int[]){STDOUT_FILENO, STDERR_FILENO}) && forbid_stdio() ? TAKE_FD(from) : -1;
}

bool ctl_isolation_show(int hidden, int streams[2])
{
    streams[0] = streams[1] = -1;
    bool shown = pass(hidden, streams);
    close(hidden);
    return shown;
}
