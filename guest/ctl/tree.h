/* Ending everything that we started, whatever process groups and sessions it made for itself. */
#ifndef GUEST_CTL_TREE_H
#define GUEST_CTL_TREE_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Send SIGKILL to every process that descends from us and wait, within a bound, until there is
 * none. As the first process of a container that is one call that nothing can outrun; elsewhere
 * orphans must become our children (the caller is their reaper) and the process table is read until
 * none is left. Does not wait for the children.
 */
void ctl_tree_kill(void);

/*
 * As the first process of a container: end every other process in it, so that none of them does
 * anything more when this returns true, and wait for that within a bound. `leaving` is one that
 * stands in a call to end, or 0: killed, it does nothing more, and its memory is not waited for.
 * The caller has blocked SIGCHLD.
 */
bool ctl_tree_end(pid_t leaving);

#endif
