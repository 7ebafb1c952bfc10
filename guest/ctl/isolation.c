#include "isolation.h"

#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

static bool all_refused(pid_t pid)
{
    return is_refused(pid, "fd/0", O_RDONLY) && is_refused(pid, "fd/1", O_RDONLY) &&
           is_refused(pid, "fd/1", O_WRONLY) && is_refused(pid, "mem", O_RDONLY);
}

bool ctl_isolation_holds(void)
{
    int ends[2], status = -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    pid_t self = getpid(), child = fork();
    if (child == 0)
        _exit(all_refused(self) ? 0 : 1); /* the pipe's end closes with it */
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
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
