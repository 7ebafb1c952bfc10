/* The project runner: `plimsoll-guest run MARKER`. Its contract stands in ctl.h. */
#ifndef GUEST_CTL_RUN_H
#define GUEST_CTL_RUN_H

/* Do one run over stdin, stdout and stderr. The exit status. */
int ctl_run(const char *marker);

#endif
