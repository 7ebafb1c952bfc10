#include "providers/disabled/disabled.h"

#define NOTHING_RUNS                                                                               \
    "no provider is enabled, so nothing runs; set SANDBOX_PROVIDER, for example to wasm"

static bool disabled_open(const core_settings *settings, core_provider **out, plim_error *err)
{
    (void)settings;
    *out = base_new(core_provider);
    if (!*out)
        return plim_refuse_nomem(err);
    (*out)->ops = &disabled_provider_ops;
    return true;
}

static void disabled_free(core_provider *provider)
{
    base_free(provider);
}

/* A sandbox that runs nothing is always ready to. */
static bool disabled_preflight(core_provider *provider, const run_ctx *ctx, plim_error *err)
{
    (void)provider, (void)ctx, (void)err;
    return true;
}

static void disabled_describe(core_provider *provider, core_description *out)
{
    (void)provider;
    *out = (core_description){.provider = "disabled", .tier = PLIM_TIER_NONE};
}

static bool disabled_run(core_provider *provider, const core_request *request, plim_bytes principal,
                         const run_ctx *ctx, plim_result **out, plim_error *err)
{
    (void)provider, (void)request, (void)principal, (void)ctx, (void)out;
    return core_refuse_disabled(err, NOTHING_RUNS);
}

const core_provider_ops disabled_provider_ops = {
    .name = "disabled",
    .summary = "runs nothing (the default)",
    .on_host = true,
    .default_memory_mb = 256,
    .open = disabled_open,
    .free = disabled_free,
    .preflight = disabled_preflight,
    .describe = disabled_describe,
    .run = disabled_run,
};
