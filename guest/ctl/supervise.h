/* The first process of a snippet's container: `plimsoll-guest supervise`, as ctl.h describes it. */
#ifndef GUEST_CTL_SUPERVISE_H
#define GUEST_CTL_SUPERVISE_H

/* The exit status. `operands` are those after the marker. */
int ctl_supervise(const char *marker, char **operands);

#endif
