/*
 * What the files of the daemon share: one struct, filled step by step at startup and constant once
 * the loop runs, but for what its members guard themselves. daemon.c owns it.
 */
#ifndef DAEMON_STATE_H
#define DAEMON_STATE_H

#include "core/core.h"

#include "daemon/auth.h"
#include "daemon/daemon.h"
#include "daemon/ready.h"
#include "daemon/recheck.h"
#include "http/http.h"
#include "rpc/rpc.h"

#include <stdatomic.h>
#include <uv.h>

typedef struct daemon_state {
    const daemon_program *program;
    core_settings sandbox;
    core_daemon_settings settings;
    const core_provider_ops *provider;
    core_limits limits; /* effective */
    int64_t connections_max;
    core_gate *gate;
    daemon_auth *auth;
    plim_tier proven; /* the tier that the startup test saw */

    rpc_authenticator authenticator;
    rpc_sandbox calls;
    rpc_server *procedures;
    _Atomic uint64_t runs, runs_failed; /* dispatched, and of them the infrastructure's faults */

    http_server *server;
    http_listener *rpc, *metrics; /* `metrics` is NULL when off */
    daemon_ready ready;
    daemon_recheck recheck;

    uv_signal_t interrupt, terminate;
    bool draining;        /* the loop's: calls in flight end, no new ones begin */
    bool listener_failed; /* that is why */
} daemon_state;

/* startup.c: everything before the loop, in the order of the contract. False: `err` names what is
 * wrong, or is not set because that was logged already. */
bool daemon_start(daemon_state *daemon, plim_error *err);

/* endpoints.c: the procedures, and the handlers of the listeners. */
bool daemon_make_procedures(daemon_state *daemon, plim_error *err);
http_handler daemon_rpc_handler(daemon_state *daemon);
http_handler daemon_metrics_handler(daemon_state *daemon);

/* serve.c: the http_handler.on_failed of every listener. A daemon that is deaf on one of its ports
 * must not look alive: it drains and ends, so that what supervises it starts another. */
void daemon_on_listener_failed(http_listener *listener, const char *why, void *data);

/* serve.c: run the loop until a signal, or a listener's failure, has drained it. */
bool daemon_serve(daemon_state *daemon, plim_error *err);

#endif
