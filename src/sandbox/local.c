/* The local backend: a provider of this process behind the core's gate. */
#include "sandbox/sandbox.h"

#include "providers/providers.h"

#include <pthread.h>

typedef struct local_backend {
    sandbox_backend base;
    core_gate *gate;
    pthread_mutex_t mutex; /* guards what is below */
    bool ready;            /* the last startup test passed */
    bool testing;          /* one is under way; others wait for it */
} local_backend;

/* How soon a caller that waits for another's startup test looks again. */
enum { LOOK_MS = 5 };

/* ---- opening ---- */

static plim_bytes look_up(void *ctx, const char *name)
{
    const plim_local_options *options = ctx;
    for (size_t i = options->setting_count; i-- > 0;)
        if (base_bytes_is(options->settings[i].name, name))
            return options->settings[i].value;
    return options->ignore_environment ? (plim_bytes){NULL, 0}
                                       : core_lookup_environment(NULL, name);
}

static bool known_settings(const plim_local_options *options, plim_error *err)
{
    for (size_t i = 0; i < options->setting_count; i++) {
        const core_setting *setting = core_setting_find(options->settings[i].name);
        const core_absent *absent = core_absent_find(options->settings[i].name);
        if (!(setting && setting->scope == CORE_SCOPE_SANDBOX) &&
            !(absent && absent->scope == CORE_SCOPE_SANDBOX))
            return core_refuse_configuration(err, "setting %zu is not one that this library knows",
                                             i + 1);
    }
    return true;
}

/*
 * One handle is one caller, and its program decides how fast it calls: the caps of one caller among
 * many do not apply here, the number of runs in flight does.
 */
static bool limits_of(const core_settings *settings, const core_provider_ops *ops,
                      core_limits *limits, plim_error *err)
{
    core_settings alone = *settings;
    alone.per_key_concurrent = alone.rate_per_min = alone.rate_burst = 0;
    return core_limits_from_settings(&alone, ops, limits, err);
}

static bool open_gate(const plim_local_options *options, core_gate **out, plim_error *err)
{
    core_settings settings;
    core_limits limits;
    core_provider *provider = NULL;
    if (!known_settings(options, err) ||
        !core_settings_read(look_up, (void *)options, &settings, err))
        return false;
    const core_provider_ops *ops = providers_find(&settings, err);
    if (!ops || !limits_of(&settings, ops, &limits, err))
        return false;
    /* What may be in flight is what the provider must keep ready. */
    settings.max_concurrent = limits.max_concurrent;
    if (!ops->open(&settings, &provider, err))
        return false;
    *out = core_gate_new(provider, &limits, settings.min_isolation);
    if (*out)
        return true;
    ops->free(provider);
    return plim_refuse_nomem(err);
}

static void local_free(sandbox_backend *base)
{
    local_backend *backend = (local_backend *)base;
    core_gate_free(backend->gate);
    pthread_mutex_destroy(&backend->mutex);
    base_free(backend);
}

/* ---- readiness ---- */

/* Is there something to test, and nobody at it? Then it is the caller's to do. */
static bool take_test(local_backend *backend, bool again, bool *passed)
{
    pthread_mutex_lock(&backend->mutex);
    *passed = backend->ready && !again;
    bool taken = !*passed && !backend->testing;
    backend->testing |= taken;
    pthread_mutex_unlock(&backend->mutex);
    return taken;
}

static bool run_test(local_backend *backend, const run_ctx *ctx, plim_error *err)
{
    bool ready = core_gate_ready(backend->gate, ctx, err);
    pthread_mutex_lock(&backend->mutex);
    backend->ready = ready;
    backend->testing = false;
    pthread_mutex_unlock(&backend->mutex);
    return ready;
}

/* One startup test at a time, as it may take a minute; whoever waits for another's can leave. */
static bool make_ready(local_backend *backend, const run_ctx *ctx, bool again, plim_error *err)
{
    bool passed;
    while (!take_test(backend, again, &passed)) {
        if (passed)
            return true;
        run_ctx pause = run_ctx_until(ctx, base_deadline_after_ms(LOOK_MS));
        run_wait wait = run_ctx_poll(&pause, NULL, 0);
        if (wait != RUN_DEADLINE || base_monotonic_ns() >= ctx->deadline_ns)
            return core_refuse_gone(err, wait);
    }
    return run_test(backend, ctx, err);
}

static bool local_ready(sandbox_backend *base, const run_ctx *ctx, plim_error *err)
{
    return make_ready((local_backend *)base, ctx, true, err);
}

/* ---- running ---- */

/*
 * The order of the contract: the request itself, the floor and the rule as far as they can be
 * judged without a startup test, and only then anything that starts a process.
 */
static bool local_run(sandbox_backend *base, const core_request *request, const run_ctx *ctx,
                      plim_result **out, plim_error *err)
{
    local_backend *backend = (local_backend *)base;
    core_description now;
    plim_bytes trace_id = request->options->trace_id;
    if (!core_validate(request, err))
        return false;
    if (trace_id.len && !core_validate_trace_id(trace_id, err))
        return false;
    if (core_request_grant_profile(request).len)
        return core_refuse_permission(
            err, "this grant profile does not exist, or it is not for this caller");
    if (!core_gate_foresee(backend->gate, request, err))
        return false;
    core_gate_describe(backend->gate, &now);
    if (now.supports[request->kind] && !make_ready(backend, ctx, false, err))
        return false;
    return core_gate_run(backend->gate, request, (plim_bytes){NULL, 0}, ctx, out, err);
}

/* A stored request is a message to a daemon; here is none that would answer with a record. */
static bool local_exchange(sandbox_backend *base, plim_bytes request, const run_ctx *ctx,
                           plim_result **out, plim_error *err)
{
    (void)base, (void)request, (void)ctx, (void)out;
    return core_refuse_unsupported(err, "an exchange of messages needs a daemon");
}

static bool local_describe(sandbox_backend *base, const run_ctx *ctx, core_description *out,
                           plim_error *err)
{
    (void)ctx, (void)err; /* it is at hand */
    core_gate_describe(((local_backend *)base)->gate, out);
    return true;
}

static const sandbox_backend_ops local_ops = {
    .free = local_free,
    .ready = local_ready,
    .run = local_run,
    .exchange = local_exchange,
    .describe = local_describe,
};

bool sandbox_local_new(const plim_local_options *options, sandbox_backend **out, plim_error *err)
{
    local_backend *backend = base_new(local_backend);
    if (!backend)
        return plim_refuse_nomem(err);
    if (!open_gate(options, &backend->gate, err)) {
        base_free(backend);
        return false;
    }
    backend->base.ops = &local_ops;
    pthread_mutex_init(&backend->mutex, NULL);
    *out = &backend->base;
    return true;
}
