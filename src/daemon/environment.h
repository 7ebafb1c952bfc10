/* The process environment, looked at once at startup: names that nobody reads, and the secret that
 * must not stay there. */
#ifndef DAEMON_ENVIRONMENT_H
#define DAEMON_ENVIRONMENT_H

#include "core/core.h"

/* Log one WARN for each variable of `environment` (NULL-terminated NAME=value) that begins like one
 * of ours and is none, in sorted order. */
void daemon_warn_unknown(char *const *environment);

/* Overwrite PLIMSOLL_TOKEN where it stands and take it out of the environment, so that neither a
 * child process nor a reader of /proc finds it. Before threads exist. */
void daemon_forget_token(void);

#endif
