/* Run: the checks in an order that clients rely on, then the record of what came back. */
#include "rpc/procedures.h"

/* The hard deadline of a dispatched call. */
#define RUN_DEADLINE_NS (WIRE_TIMEOUT_MS_MAX * BASE_NS_PER_MS)

struct run {
    const wire_run_request *in;
    core_request request;
    core_description now; /* what the provider stated before */
    int64_t started_unix_ms, started_ns, dispatched_ns;
    char request_sha256[BASE_SHA256_HEX + 1];
};

/* Unknown, not for this caller, or for nobody in open mode: one refusal, so that names cannot be
 * found by trying. No profile exists in this version. */
static bool check_grant(const core_request *request, plim_error *err)
{
    return core_request_grant_profile(request).len == 0 ||
           core_refuse_permission(err,
                                  "the grant profile does not exist or is not for this caller");
}

static bool check_caller_waits(const run_ctx *ctx, plim_error *err)
{
    struct pollfd none;
    run_ctx now = run_ctx_until(ctx, base_monotonic_ns());
    if (run_ctx_poll(&now, &none, 0) == RUN_CANCELED)
        return core_refuse_gone(err, RUN_CANCELED);
    return ctx->deadline_ns > base_monotonic_ns() || core_refuse_gone(err, RUN_DEADLINE);
}

static bool digest_request(struct run *run, plim_error *err)
{
    record_request digested;
    return (wire_record_request(run->in, &run->request, &digested) &&
            record_request_digest(&digested, run->request_sha256)) ||
           plim_refuse_nomem(err);
}

static int64_t elapsed_ms(int64_t since_ns)
{
    return (base_monotonic_ns() - since_ns) / BASE_NS_PER_MS;
}

/* One event for each call that the provider got. */
static void report(rpc_call *call, const struct run *run, const plim_result *result,
                   const plim_error *err)
{
    const rpc_sandbox *sandbox = rpc_call_data(call);
    if (!sandbox->dispatched)
        return;
    plim_bytes trace_id = run->request.options->trace_id;
    rpc_dispatched event = {
        .request = &run->request,
        .caller = rpc_call_caller(call)->id,
        .trace_id = trace_id,
        .trace_id_rejected = run->in->trace_id.len > 0 && trace_id.len == 0,
        .sandbox = result ? result->provider : run->now.provider,
        .isolation = result ? result->isolation : plim_tier_name(run->now.tier),
        .result = result,
        .error = result ? NULL : err,
        .duration_ms = elapsed_ms(run->dispatched_ns),
    };
    sandbox->dispatched(sandbox->data, &event);
}

static bool dispatch(rpc_call *call, struct run *run, plim_result **result, plim_error *err)
{
    const rpc_sandbox *sandbox = rpc_call_data(call);
    run_ctx ctx = rpc_call_ctx(call);
    if (!check_caller_waits(&ctx, err))
        return false;
    run->dispatched_ns = base_monotonic_ns();
    ctx = run_ctx_until(&ctx, run->dispatched_ns + RUN_DEADLINE_NS);
    bool dispatched;
    bool answered = core_gate_dispatch(sandbox->gate, &run->request, rpc_call_caller(call)->id,
                                       &ctx, result, &dispatched, err);
    if (dispatched)
        report(call, run, answered ? *result : NULL, err);
    return answered;
}

/* Everything that the record is over takes its last form here. */
static bool complete(struct run *run, plim_result *result)
{
    if (run->request.kind == PLIM_KIND_PROJECT)
        result->duration_ms = elapsed_ms(run->dispatched_ns);
    if (!result->environment[0]) {
        const char *stated = run->now.environment[run->request.kind].identity;
        result->environment = base_arena_text(result->arena, plim_bytes_of(stated));
    }
    return result->environment && wire_repair_result(result) && record_canonical_nan(result);
}

static const void *write_answer(rpc_call *call, const struct run *run, const plim_result *result)
{
    record_facts facts = {
        .request_sha256 = run->request_sha256,
        .software = &run->request.options->software,
        .started_unix_ms = run->started_unix_ms,
        .ended_unix_ms = run->started_unix_ms + elapsed_ms(run->started_ns),
    };
    base_arena *arena = rpc_call_arena(call);
    plim_record *record = base_arena_alloc(arena, 1, sizeof(*record));
    wire_run_response *response = wire_write_result(arena, result);
    if (!record || !response || !record_fill(record, arena, result, &facts))
        return NULL;
    response->record = wire_write_record(arena, record);
    return response->record ? response : NULL;
}

bool rpc_run(rpc_call *call, const void *request, const void **response, plim_error *err)
{
    const rpc_sandbox *sandbox = rpc_call_data(call);
    struct run *run = base_arena_alloc(rpc_call_arena(call), 1, sizeof(*run));
    plim_result *result;
    if (!run)
        return plim_refuse_nomem(err);
    run->in = request;
    run->started_unix_ms = base_wall_unix_ms();
    run->started_ns = base_monotonic_ns();
    if (!rpc_check_protocol(run->in->protocol, err) ||
        !wire_read_request(rpc_call_arena(call), run->in, &run->request, err) ||
        !check_grant(&run->request, err) || !digest_request(run, err))
        return false;
    core_gate_describe(sandbox->gate, &run->now);
    if (!dispatch(call, run, &result, err))
        return false;
    rpc_call_set_state(call, result);
    *response = complete(run, result) ? write_answer(call, run, result) : NULL;
    if (*response)
        return true;
    rpc_run_release(call);
    return core_fail_internal(err, "no memory to state what a run answered");
}

void rpc_run_release(rpc_call *call)
{
    plim_result_free(rpc_call_state(call));
    rpc_call_set_state(call, NULL);
}
