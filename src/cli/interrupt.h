/*
 * Ctrl-C: the first SIGINT, SIGTERM or SIGHUP cancels the call in flight, the second ends the
 * program as it would have without us.
 */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <plimsoll/sandbox.h>

/* From now on a signal fires `cancel`, which must outlive the matching disarm. One at a time. */
void cli_interrupt_arm(plim_cancel *cancel);
void cli_interrupt_disarm(void);

#endif
