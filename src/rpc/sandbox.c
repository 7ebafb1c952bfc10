/* The five procedures, but for Run itself. */
#include "rpc/procedures.h"

const char rpc_sandbox_prefix[] = "/plimsoll.v1.SandboxService/";

/* Threads beyond those that runs keep busy: they decode, and shed what is too much. */
enum { WORKERS_EXTRA = 2 };

bool rpc_check_protocol(uint32_t protocol, plim_error *err)
{
    if (wire_protocol_served(protocol))
        return true;
    if (protocol == 0)
        return plim_refuse(
            err, PLIM_E_PROTOCOL_MISMATCH, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_PROTOCOL,
            "the request states no protocol number; this daemon speaks %d", WIRE_PROTOCOL);
    return plim_refuse(err, PLIM_E_PROTOCOL_MISMATCH, PLIM_CODE_UNIMPLEMENTED, PLIM_ND_PROTOCOL,
                       "this daemon speaks protocol %d, the request states %" PRIu32, WIRE_PROTOCOL,
                       protocol);
}

static bool describe(rpc_call *call, const void *request, const void **response, plim_error *err)
{
    (void)request;
    const rpc_sandbox *sandbox = rpc_call_data(call);
    core_description *now = base_arena_alloc(rpc_call_arena(call), 1, sizeof(*now));
    if (!now)
        return plim_refuse_nomem(err);
    core_gate_describe(sandbox->gate, now);
    /* Clients raise an error when the number is not their own, and only those of the present number
     * send an ID. */
    *response = wire_write_description(rpc_call_arena(call), now,
                                       rpc_call_has_request_id(call) ? WIRE_PROTOCOL
                                                                     : WIRE_PROTOCOL_OLDEST);
    return *response || plim_refuse_nomem(err);
}

/* ---- sessions: what can be judged of them, until they exist ---- */

static bool no_sessions(plim_error *err)
{
    return core_refuse_unsupported(err, "this daemon keeps no sessions");
}

static bool open_session(rpc_call *call, const void *request, const void **response,
                         plim_error *err)
{
    (void)call, (void)response;
    const wire_open_session_request *in = request;
    wire_head head = {.minimum_isolation = in->minimum_isolation,
                      .software_rule = in->software_rule};
    plim_run_options options;
    return rpc_check_protocol(in->protocol, err) && wire_read_options(&head, &options, err) &&
           no_sessions(err);
}

static bool session_run(rpc_call *call, const void *request, const void **response, plim_error *err)
{
    (void)call, (void)response;
    const wire_session_run_request *in = request;
    wire_head head = wire_head_of(in);
    plim_run_options options;
    return rpc_check_protocol(in->protocol, err) && wire_read_options(&head, &options, err) &&
           no_sessions(err);
}

static bool close_session(rpc_call *call, const void *request, const void **response,
                          plim_error *err)
{
    (void)call, (void)response;
    const wire_close_session_request *in = request;
    return rpc_check_protocol(in->protocol, err) && no_sessions(err);
}

/* ---- the table ---- */

#define PATH(name) "/plimsoll.v1.SandboxService/" name

const rpc_method rpc_sandbox_methods[RPC_SANDBOX_METHODS] = {
    {PATH("Run"), RPC_SCOPE_RUN, WIRE_TYPE(run_request), rpc_run, rpc_run_release, false},
    {PATH("Describe"), RPC_SCOPE_RUN, WIRE_TYPE(describe_request), describe, NULL, true},
    {PATH("OpenSession"), RPC_SCOPE_RUN, WIRE_TYPE(open_session_request), open_session, NULL, true},
    {PATH("SessionRun"), RPC_SCOPE_RUN, WIRE_TYPE(session_run_request), session_run, NULL, true},
    {PATH("CloseSession"), RPC_SCOPE_RUN, WIRE_TYPE(close_session_request), close_session, NULL,
     true},
};

void rpc_sandbox_config(rpc_sandbox *sandbox, size_t max_concurrent, rpc_config *out)
{
    *out = (rpc_config){
        .methods = rpc_sandbox_methods,
        .method_count = RPC_SANDBOX_METHODS,
        .prefix = rpc_sandbox_prefix,
        .mark_type = "plimsoll.v1.NotDispatched",
        .conceal = rpc_conceal,
        .message_bytes_max = RPC_MESSAGE_BYTES_MAX,
        .decode_slots = 2 * max_concurrent,
        .workers_max = max_concurrent + WORKERS_EXTRA,
        .data = sandbox,
    };
}
