/* The first process of a snippet's container: `plimsoll-guest supervise`, as ctl.h describes it. */
#ifndef GUEST_CTL_SUPERVISE_H
#define GUEST_CTL_SUPERVISE_H

/* Returns an exit status before there is a guest, and ends this process with its status after it.
 * `operands` are those after the marker. */
int ctl_supervise(const char *marker, char **operands);

#endif
