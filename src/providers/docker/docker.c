#include "providers/docker/docker.h"

#include "providers/docker/pool.h"
#include "providers/docker/preflight.h"

enum { REMOVERS = 4 };

typedef struct docker_provider {
    core_provider base;
    core_settings settings;
    docker_keeper *keeper;
    docker_preflight *preflight;
    docker_pool *pool; /* NULL without one */
} docker_provider;

static void docker_free(core_provider *base)
{
    docker_provider *provider = (docker_provider *)base;
    if (provider->pool)
        docker_pool_stop(provider->pool);
    docker_keeper_free(provider->keeper);
    docker_pool_free(provider->pool);
    docker_preflight_free(provider->preflight);
    base_free(provider);
}

static bool docker_open(const core_settings *settings, core_provider **out, plim_error *err)
{
    docker_provider *provider = base_new(docker_provider);
    if (!provider)
        return plim_refuse_nomem(err);
    provider->base.ops = &docker_provider_ops;
    provider->settings = *settings;
    provider->keeper = docker_keeper_new(REMOVERS);
    provider->preflight = docker_preflight_new(&provider->settings);
    if (provider->keeper && provider->preflight && settings->docker_pool > 0)
        provider->pool = docker_pool_new(&provider->settings, provider->keeper, provider->preflight,
                                         (size_t)settings->docker_pool);
    *out = &provider->base;
    if (provider->keeper && provider->preflight && (provider->pool || !settings->docker_pool))
        return true;
    docker_free(&provider->base);
    return plim_refuse_nomem(err);
}

static docker_site site_of(docker_provider *provider, const docker_facts *facts)
{
    return (docker_site){.settings = &provider->settings,
                         .keeper = provider->keeper,
                         .control = facts->proof.control,
                         .tier = facts->tier};
}

static bool docker_preflight_op(core_provider *base, const run_ctx *ctx, plim_error *err)
{
    docker_provider *provider = (docker_provider *)base;
    _cleanup_(docker_state_releasep)
    docker_state *state = NULL;
    return docker_preflight_run(provider->preflight, ctx, &state, err);
}

static bool docker_reconcile(core_provider *base, const run_ctx *ctx, size_t *removed,
                             plim_error *err)
{
    docker_provider *provider = (docker_provider *)base;
    docker_engine *engine = docker_preflight_engine(provider->preflight);
    const char *tmpdir = provider->settings.tmpdir[0] ? provider->settings.tmpdir : "/tmp";
    *removed = docker_sweep_directories(tmpdir);
    return !engine || docker_keeper_sweep(provider->keeper, engine, ctx, removed, err);
}

/* What an earlier program left goes first; that it cannot be looked for stops nothing. */
static void sweep_at_start(core_provider *base, const run_ctx *ctx)
{
    size_t removed = 0;
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    if (!docker_reconcile(base, ctx, &removed, &err))
        base_log(BASE_LOG_WARN, "orphans were not looked for",
                 LOG_STR("error", plim_error_message(&err)));
    if (removed)
        base_log(BASE_LOG_WARN, "orphans removed", LOG_INT("count", (int64_t)removed));
}

static bool docker_smoke_op(core_provider *base, const run_ctx *ctx, plim_error *err)
{
    docker_provider *provider = (docker_provider *)base;
    _cleanup_(docker_state_releasep)
    docker_state *state = docker_preflight_last(provider->preflight, DOCKER_PREFLIGHT_MS);
    docker_facts facts;
    docker_proof proof;
    if (!state && !docker_preflight_run(provider->preflight, ctx, &state, err))
        return false;
    docker_preflight_facts(provider->preflight, &facts);
    docker_site site = site_of(provider, &facts);
    sweep_at_start(base, ctx);
    if (!docker_smoke(&site, state, ctx, &proof, err))
        return false;
    docker_preflight_prove(provider->preflight, state, &proof);
    return !provider->pool || docker_pool_start(provider->pool, ctx, err);
}

static void docker_describe(core_provider *base, core_description *out)
{
    docker_provider *provider = (docker_provider *)base;
    static const plim_kind kinds[DOCKER_KINDS] = {PLIM_KIND_JAVASCRIPT, PLIM_KIND_PROJECT};
    static const int64_t ceilings[DOCKER_KINDS] = {DOCKER_SNIPPET_MS_CEILING,
                                                   DOCKER_PROJECT_MS_CEILING};
    docker_facts facts;
    docker_preflight_facts(provider->preflight, &facts);
    *out = (core_description){.provider = "docker",
                              .tier = facts.tier,
                              .memory_mb = provider->settings.memory_mb,
                              .pids = provider->settings.pids,
                              .disk_mb = provider->settings.disk_mb,
                              .cpus = provider->settings.cpus};
    for (docker_kind kind = 0; kind < DOCKER_KINDS; kind++) {
        core_environment *environment = &out->environment[kinds[kind]];
        out->supports[kinds[kind]] = true;
        environment->max_timeout_ms = ceilings[kind];
        environment->javascript = kind == DOCKER_SNIPPET || facts.proof.javascript;
        environment->python = kind == DOCKER_PROJECT && facts.proof.python;
        snprintf(environment->identity, sizeof(environment->identity), "%s",
                 facts.environment[kind]);
        snprintf(environment->software_identity, sizeof(environment->software_identity), "%s",
                 facts.software[kind]);
    }
}

/* ---- one run ---- */

/* Floor and rule against what is about to be launched. */
static bool check_launch(docker_provider *provider, const docker_state *state,
                         const core_request *request, docker_facts *facts, plim_error *err)
{
    core_description now;
    docker_kind kind = request->kind == PLIM_KIND_PROJECT ? DOCKER_PROJECT : DOCKER_SNIPPET;
    docker_preflight_facts(provider->preflight, facts);
    docker_describe(&provider->base, &now);
    now.tier = facts->tier;
    snprintf(now.environment[request->kind].software_identity,
             sizeof(now.environment[request->kind].software_identity), "%s",
             state->images[kind].software);
    return core_check_evidence(&now, request, err);
}

static bool run_cold(docker_provider *provider, const core_request *request, const run_ctx *ctx,
                     int64_t began_ns, plim_result **out, plim_error *err)
{
    _cleanup_(docker_state_releasep)
    docker_state *state = NULL;
    docker_facts facts;
    docker_box box;
    if (!docker_preflight_run(provider->preflight, ctx, &state, err) ||
        !check_launch(provider, state, request, &facts, err))
        return false;
    docker_site site = site_of(provider, &facts);
    bool project = request->kind == PLIM_KIND_PROJECT;
    int64_t budget_ms = docker_timeout_of(request) + (project ? DOCKER_PROJECT_MARGIN_MS : 0);
    run_ctx bounded = run_ctx_until(ctx, began_ns + budget_ms * BASE_NS_PER_MS);
    bool answered = docker_run_launch(&site, state, project ? DOCKER_PROJECT : DOCKER_SNIPPET,
                                      DOCKER_RUN_PREFIX, budget_ms, &box, &bounded, err);
    answered = answered && docker_run_in(&site, &box, request, ctx, began_ns, out, err);
    docker_box_dispose(&box, request->slot, NULL, NULL);
    return answered;
}

/* A member of the pool, if there is a usable one. True: `*answered` says how the run went. */
static bool run_pooled(docker_provider *provider, const core_request *request, const run_ctx *ctx,
                       int64_t began_ns, plim_result **out, bool *answered, plim_error *err)
{
    docker_kind kind = request->kind == PLIM_KIND_PROJECT ? DOCKER_PROJECT : DOCKER_SNIPPET;
    _cleanup_(docker_state_releasep)
    docker_state *state = docker_preflight_last(provider->preflight, DOCKER_POOL_EVIDENCE_MS);
    docker_facts facts;
    docker_box box;
    if (!provider->pool || !state)
        return false;
    if (!check_launch(provider, state, request, &facts, err)) {
        *answered = false;
        return true;
    }
    docker_pool_demand(provider->pool, kind);
    docker_site site = site_of(provider, &facts);
    while (docker_pool_claim(provider->pool, kind, facts.tier, state, docker_timeout_of(request),
                             ctx, &box)) {
        *answered = docker_run_in(&site, &box, request, ctx, began_ns, out, err);
        bool reached = box.sent;
        docker_box_dispose(&box, request->slot, NULL, NULL);
        docker_pool_nudge(provider->pool);
        if (*answered || reached)
            return true;
        plim_error_clear(err);
    }
    return false;
}

static bool docker_run(core_provider *base, const core_request *request, plim_bytes principal,
                       const run_ctx *ctx, plim_result **out, plim_error *err)
{
    docker_provider *provider = (docker_provider *)base;
    int64_t began_ns = base_monotonic_ns();
    bool answered = false;
    (void)principal;
    if (request->kind != PLIM_KIND_JAVASCRIPT && request->kind != PLIM_KIND_PROJECT)
        return core_refuse_unsupported(err, "provider docker runs snippets and projects, not a %s",
                                       plim_kind_name(request->kind));
    if (core_request_grant_profile(request).len)
        return core_refuse_unsupported(err, "provider docker runs nothing with a grant yet");
    if (run_pooled(provider, request, ctx, began_ns, out, &answered, err))
        return answered;
    return run_cold(provider, request, ctx, began_ns, out, err);
}

const core_provider_ops docker_provider_ops = {
    .name = "docker",
    .summary = "JavaScript snippets and projects in containers of a local Engine (tier container; "
               "kernel under a proven gVisor)",
    .on_host = true,
    .default_memory_mb = DOCKER_MEMORY_MB,
    .provable = PLIM_TIER_KERNEL,
    .open = docker_open,
    .free = docker_free,
    .preflight = docker_preflight_op,
    .smoke_test = docker_smoke_op,
    .reconcile = docker_reconcile,
    .describe = docker_describe,
    .run = docker_run,
};
