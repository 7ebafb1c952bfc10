/*
 * What keeps the guest, which has our user ID, out of the control program. A process that is not
 * dumpable can be traced, and its descriptors and memory opened, by nobody without privilege; that
 * is proven, not assumed. gVisor guards the memory of such a process but not its descriptors, so
 * there the plan is read while no other process exists, and before one does, the descriptors are
 * taken out of reach.
 */
#ifndef GUEST_CTL_ISOLATION_H
#define GUEST_CTL_ISOLATION_H

#include <stdbool.h>

/* Clear the dumpable flag and read it back. The file's mode has done it already where the program
 * was installed as it should be; this is the second lock. */
bool ctl_undumpable(void);

enum ctl_isolation {
    CTL_ISOLATION_NONE = 0, /* our memory could be opened, or nothing could be proven */
    CTL_ISOLATION_MEMORY,   /* a process of our user was refused our memory, but not our descriptors
                             */
    CTL_ISOLATION_FULL,     /* it was refused both */
};

/* Let a child of our user try to open our standard input and output and our memory, within five
 * seconds. */
enum ctl_isolation ctl_isolation_prove(void);

/* Are we the first process of this container, and the only one? */
bool ctl_isolation_alone(void);

/*
 * Is nobody able to take from us what is read from standard input now? Either our descriptors are
 * refused to our user, or there is nobody else: in a fresh container the guest's first process is
 * one that we start.
 */
bool ctl_isolation_may_read(enum ctl_isolation proven);

/*
 * Put standard output and error where no process can open them: in flight inside a socket of ours,
 * whose descriptor is returned, or -1. Descriptors 0, 1 and 2 then stand for a file that our user
 * may not open, so that trying them is refused.
 */
int ctl_isolation_hide(void);

/* The hidden standard output and error, as new descriptors. Closes the socket. */
bool ctl_isolation_show(int hidden, int streams[2]);

#endif
