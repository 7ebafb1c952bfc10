/*
 * The background loop: one thread that looks now and then whether the provider's tier is still the
 * proven one, and asks the provider to check itself when it is not. Without it every request with a
 * higher floor would stay refused until somebody polled /readyz.
 */
#ifndef DAEMON_RECHECK_H
#define DAEMON_RECHECK_H

#include "core/core.h"

#include "daemon/auth.h"

#include <pthread.h>

typedef struct daemon_recheck {
    core_gate *gate;
    daemon_auth *auth; /* whose refusals may wait to be reported */
    plim_tier proven;
    int64_t period_ms;
    pthread_t thread;
    int stop_fd; /* eventfd; -1 when the thread does not run */
} daemon_recheck;

#define DAEMON_RECHECK_INIT                                                                        \
    {                                                                                              \
        .stop_fd = -1                                                                              \
    }

/* Start the thread; the members above `thread` are set. */
bool daemon_recheck_start(daemon_recheck *recheck, plim_error *err);

/* End a check that runs, and the thread. Harmless without one. */
void daemon_recheck_stop(daemon_recheck *recheck);

#endif
