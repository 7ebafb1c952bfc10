/* What a process of the guest starts with, whatever the control program has set for itself. */
#ifndef GUEST_CTL_CHILD_H
#define GUEST_CTL_CHILD_H

/* In a child, before it becomes a program of the guest: no signal blocked or ignored, and first in
 * line when the kernel must kill for memory. */
void ctl_child_begin(void);

#endif
