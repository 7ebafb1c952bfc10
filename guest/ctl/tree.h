/* Ending everything that we started, whatever process groups and sessions it made for itself. */
#ifndef GUEST_CTL_TREE_H
#define GUEST_CTL_TREE_H

#include <stdbool.h>

/*
 * Send SIGKILL to every process that descends from us and wait, within a bound, until there is
 * none. As the first process of a container that is one call that nothing can outrun; elsewhere
 * orphans must become our children (the caller is their reaper) and the process table is read until
 * none is left. Does not wait for the children.
 */
void ctl_tree_kill(void);

/*
 * As the first process of a container: end every other process in it and wait, within a bound, for
 * all of them, so that none of the guest's lives when this returns true. The caller has blocked
 * SIGCHLD.
 */
bool ctl_tree_end(void);

#endif
