/*
 * The five procedures of plimsoll.v1.SandboxService, as methods of the transport. The table states
 * path and scope of each; rpc_sandbox is what they work on, shared by all calls and threads.
 */
#ifndef RPC_SANDBOX_H
#define RPC_SANDBOX_H

/* One call that the provider got, for the audit line and the counters. Everything is borrowed. */
typedef struct rpc_dispatched {
    const core_request *request;
    plim_bytes caller;         /* id of the principal, or "anon" */
    plim_bytes trace_id;       /* accepted; empty for none */
    bool trace_id_rejected;    /* one was sent and is not well formed */
    const char *sandbox;       /* provider */
    const char *isolation;     /* the tier that the call ran behind, or the provider's before it */
    const plim_result *result; /* NULL when it failed */
    const plim_error *error;   /* when it failed: the provider's, with its text */
    int64_t duration_ms;       /* from dispatch to return */
} rpc_dispatched;

typedef struct rpc_sandbox {
    core_gate *gate;
    /* Called once for each dispatched call, before its answer is sent, from any thread. May be
     * NULL.
     */
    void (*dispatched)(void *data, const rpc_dispatched *event);
    void *data;
} rpc_sandbox;

enum { RPC_SANDBOX_METHODS = 5 };
extern const rpc_method rpc_sandbox_methods[RPC_SANDBOX_METHODS];
extern const char rpc_sandbox_prefix[]; /* "/plimsoll.v1.SandboxService/" */

/* The scope that all of them need. */
#define RPC_SCOPE_RUN "code:run"

/*
 * The configuration of a server of these procedures: `sandbox` as data, slots and workers sized for
 * `max_concurrent` runs in flight. The caller sets `auth`.
 */
void rpc_sandbox_config(rpc_sandbox *sandbox, size_t max_concurrent, rpc_config *out);

#endif
