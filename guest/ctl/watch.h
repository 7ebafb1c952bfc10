/*
 * Being told that a process asks to end (exit_group) before its kernel takes its memory apart,
 * which for an interpreter takes longer than a short snippet. A system-call filter sends each such
 * call to the first process of the container, which answers it. Without the kernel's help (gVisor,
 * a profile that refuses seccomp, Linux before 5.5) there is no watch, and an end is seen when it
 * is over.
 */
#ifndef GUEST_CTL_WATCH_H
#define GUEST_CTL_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Watch the calls of every process that is forked from now on; the caller's own too, so that it
 * must end by ctl_watch_leave. A descriptor that is readable when a call waits, closed on exec, or
 * -1 when there is no watch.
 */
int ctl_watch_exits(void);

/*
 * Take a call that waits. True: it is one of `guest` (of its first thread), which stays in it until
 * it is killed, and `status` is what it ends with, 0 to 255. Any other process goes on to its end.
 */
bool ctl_watch_take(int watch, pid_t guest, int *status);

/* End this process, which has one thread, and leave nothing to flush. */
_Noreturn void ctl_watch_leave(int status);

#endif
