#include "core/core.h"

struct core_gate {
    core_provider *provider;
    core_limiter *limiter;
    plim_tier min_isolation;
};

bool core_check_evidence(const core_description *description, const core_request *request,
                         plim_error *err)
{
    const plim_run_options *options = request->options;
    if (!plim_tier_meets(description->tier, options->minimum_isolation))
        return core_refuse_isolation(err,
                                     "the sandbox (provider %s) is of tier %s, below the floor %s",
                                     description->provider, plim_tier_name(description->tier),
                                     plim_tier_name(options->minimum_isolation));
    const char *identity = description->environment[request->kind].software_identity;
    if (!core_rule_allows(&options->software, plim_bytes_of(identity)))
        return core_refuse_software(
            err,
            identity[0] ? "the software of provider %s is not what the rule names"
                        : "provider %s states no software identity, so no rule can be met",
            description->provider);
    return true;
}

/* The memory budget: how many runs of this size fit. */
static bool clamp_to_memory(const core_settings *settings, const core_provider_ops *ops,
                            core_limits *limits, plim_error *err)
{
    if (settings->total_memory_mb == 0 || !ops->on_host)
        return true;
    int64_t each = settings->memory_mb ? settings->memory_mb : ops->default_memory_mb;
    int64_t fit = settings->total_memory_mb / each - settings->docker_pool;
    if (fit < 1)
        return core_refuse_configuration(
            err, "SANDBOX_TOTAL_MEMORY_MB is %" PRId64 ": not one run of %" PRId64 " MiB fits%s",
            settings->total_memory_mb, each,
            settings->docker_pool ? " beside SANDBOX_DOCKER_POOL" : "");
    if (fit < limits->max_concurrent)
        limits->max_concurrent = fit;
    return true;
}

bool core_limits_from_settings(const core_settings *settings, const core_provider_ops *ops,
                               core_limits *out, plim_error *err)
{
    *out = (core_limits){.max_concurrent = settings->max_concurrent};
    if (settings->docker_pool > settings->max_concurrent)
        return core_refuse_configuration(
            err, "SANDBOX_DOCKER_POOL is %" PRId64 ", above SANDBOX_MAX_CONCURRENT",
            settings->docker_pool);
    if (!clamp_to_memory(settings, ops, out, err))
        return false;
    if (settings->per_key_concurrent > out->max_concurrent)
        return core_refuse_configuration(err,
                                         "SANDBOX_PER_KEY_CONCURRENT is %" PRId64
                                         ", above the %" PRId64 " runs that may be in flight",
                                         settings->per_key_concurrent, out->max_concurrent);
    int64_t half = out->max_concurrent / 2;
    out->per_key_concurrent = settings->per_key_concurrent != CORE_SETTING_UNSET
                                  ? settings->per_key_concurrent
                              : half > 0 ? half
                                         : 1;
    out->rate_per_min = settings->rate_per_min != CORE_SETTING_UNSET ? settings->rate_per_min : 30;
    out->rate_burst = settings->rate_burst ? settings->rate_burst : out->rate_per_min;
    return true;
}

core_gate *core_gate_new(core_provider *provider, const core_limits *limits,
                         plim_tier min_isolation)
{
    core_gate *gate = base_new(core_gate);
    if (!gate)
        return NULL;
    gate->limiter = core_limiter_new(limits);
    if (!gate->limiter) {
        base_free(gate);
        return NULL;
    }
    gate->provider = provider;
    gate->min_isolation = min_isolation;
    return gate;
}

void core_gate_free(core_gate *gate)
{
    if (!gate)
        return;
    gate->provider->ops->free(gate->provider);
    core_limiter_free(gate->limiter);
    base_free(gate);
}

bool core_gate_preflight(core_gate *gate, const run_ctx *ctx, plim_error *err)
{
    return gate->provider->ops->preflight(gate->provider, ctx, err);
}

bool core_gate_ready(core_gate *gate, const run_ctx *ctx, plim_error *err)
{
    const core_provider_ops *ops = gate->provider->ops;
    if (!core_gate_preflight(gate, ctx, err))
        return false;
    if (ops->smoke_test && !ops->smoke_test(gate->provider, ctx, err))
        return false;
    core_description now;
    core_gate_describe(gate, &now);
    if (!plim_tier_meets(now.tier, gate->min_isolation))
        return core_refuse_isolation(
            err, "provider %s is of tier %s, below SANDBOX_MIN_ISOLATION=%s", now.provider,
            plim_tier_name(now.tier), plim_tier_name(gate->min_isolation));
    return true;
}

bool core_gate_foresee(core_gate *gate, const core_request *request, plim_error *err)
{
    plim_tier provable = gate->provider->ops->provable;
    if (provable && plim_tier_meets(provable, request->options->minimum_isolation))
        return true;
    core_description now;
    core_gate_describe(gate, &now);
    return core_check_evidence(&now, request, err);
}

/*
 * A caller that is gone, or waits no longer, is told so first: what its leaving broke off inside a
 * provider is no fault of it. A mark stands, whatever the reason for it.
 */
static void name_departure(const run_ctx *ctx, plim_error *err)
{
    if (!err || err->code != PLIM_CODE_INTERNAL || err->not_dispatched != PLIM_ND_NONE)
        return;
    if (run_ctx_is_canceled(ctx))
        core_fail_gone(err, RUN_CANCELED);
    else if (base_monotonic_ns() >= ctx->deadline_ns)
        core_fail_gone(err, RUN_DEADLINE);
}

bool core_gate_dispatch(core_gate *gate, const core_request *request, plim_bytes principal,
                        const run_ctx *ctx, plim_result **out, bool *dispatched, plim_error *err)
{
    core_description now;
    *dispatched = false;
    core_gate_describe(gate, &now);
    if (!core_check_evidence(&now, request, err))
        return false;
    core_slot *slot = core_slot_new(gate->limiter, principal, err);
    if (!slot)
        return false;
    *dispatched = true;
    core_request admitted = *request;
    admitted.slot = slot;
    bool answered = gate->provider->ops->run(gate->provider, &admitted, principal, ctx, out, err);
    if (!answered)
        name_departure(ctx, err);
    core_slot_finish(slot, principal, ctx);
    return answered;
}

bool core_gate_run(core_gate *gate, const core_request *request, plim_bytes principal,
                   const run_ctx *ctx, plim_result **out, plim_error *err)
{
    bool dispatched;
    return core_gate_dispatch(gate, request, principal, ctx, out, &dispatched, err);
}

bool core_gate_reconcile(core_gate *gate, const run_ctx *ctx, size_t *removed, plim_error *err)
{
    *removed = 0;
    return !gate->provider->ops->reconcile ||
           gate->provider->ops->reconcile(gate->provider, ctx, removed, err);
}

void core_gate_describe(core_gate *gate, core_description *out)
{
    gate->provider->ops->describe(gate->provider, out);
}

void core_gate_counts(core_gate *gate, core_admission_counts *out)
{
    core_limiter_counts(gate->limiter, out);
}
