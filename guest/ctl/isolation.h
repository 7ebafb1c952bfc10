/* What keeps the guest, which has our user ID, out of the control program: a process that is not
 * dumpable can be traced, and its descriptors and memory opened, by nobody without privilege. */
#ifndef GUEST_CTL_ISOLATION_H
#define GUEST_CTL_ISOLATION_H

#include <stdbool.h>

/* Clear the dumpable flag and read it back. The file's mode has done it already where the program
 * was installed as it should be; this is the second lock. */
bool ctl_undumpable(void);

/* Let a child of the same user try to open our descriptors and our memory. True when it was refused
 * each time, within five seconds. */
bool ctl_isolation_holds(void);

#endif
