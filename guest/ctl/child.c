#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* A kernel that must kill for memory takes the guest before us. A process may always raise its own
 * score. */
static void offer_to_oom_killer(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, "1000", 4) < 0)
        errno = 0; /* the kernel then chooses by size, as it would have */
    close(fd);
}

void ctl_child_begin(void)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    offer_to_oom_killer();
}
