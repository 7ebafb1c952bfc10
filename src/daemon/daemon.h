/*
 * The door of the daemon: `plimsolld` without its choice of providers, so that a test can bring its
 * own. One call runs the program from its arguments to its exit status.
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "core/core.h"

/* What the program is made with. */
typedef struct daemon_program {
    /* As providers_find: the provider that settings name, or NULL and an error. */
    const core_provider_ops *(*find_provider)(const core_settings *settings, plim_error *err);
    int64_t recheck_ms; /* how often the tier is looked at again */
    int64_t drain_ms;   /* how long calls in flight may take to end after a signal */
} daemon_program;

/* What the contract says: every minute, and six of them. */
enum { DAEMON_RECHECK_MS = 60000, DAEMON_DRAIN_MS = 360000 };

/* Exit status: 0 clean stop or help, 1 cannot start or a listener failed, 2 bad argument. */
int daemon_main(int argc, char **argv, const daemon_program *program);

#endif
