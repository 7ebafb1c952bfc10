#include "providers/wasm/wasm.h"

#include "providers/wasm/pool.h"
#include "providers/wasm/run.h"
#include "providers/wasm/smoke.h"

#include "guest_identity.h"

/* What records and results state: the engine by its content. */
#define GUEST_IDENTITY "quickjs-wasm:sha256:" PLIM_GUEST_SHA256

enum {
    TIMEOUT_MS_DEFAULT = 5000,  /* a request that asks for none */
    TIMEOUT_MS_CEILING = 30000, /* longer requests are cut to it */
    EXIT_TIMED_OUT = 124,
    EXIT_ABORTED = 134,
    PAGES_PER_MB = 16,
};

typedef struct wasm_provider {
    core_provider base;
    wasm_pool *pool;
    uint32_t page_cap;
    int64_t memory_mb;
    plim_error unfit; /* a configuration this provider cannot honour; PLIM_OK when there is none */
} wasm_provider;

/* Only memory can be enforced here; a limit that would not hold is refused, not ignored. */
static void check_settings(const core_settings *settings, plim_error *unfit)
{
    const struct {
        bool set;
        const char *name;
    } refused[] = {
        {settings->cpus > 0, "SANDBOX_CPUS"},
        {settings->pids > 0, "SANDBOX_PIDS"},
        {settings->disk_mb > 0, "SANDBOX_DISK_MB"},
    };
    for (size_t i = 0; i < PLIM_COUNT(refused); i++)
        if (refused[i].set) {
            core_refuse_configuration(
                unfit, "provider wasm can enforce a memory limit only; %s must not be set",
                refused[i].name);
            return;
        }
}

static uint32_t page_cap_of(int64_t memory_mb)
{
    if (memory_mb == 0)
        return PLIM_WASM_PAGES_DEFAULT;
    if (memory_mb > PLIM_WASM_PAGES_MAX / PAGES_PER_MB)
        return PLIM_WASM_PAGES_MAX;
    return (uint32_t)memory_mb * PAGES_PER_MB;
}

/* The engine's own pages, and something to work with. */
static bool check_memory(const wasm_provider *provider, uint32_t snapshot_pages, plim_error *err)
{
    uint32_t least = snapshot_pages + PLIM_WASM_PAGES_HEADROOM;
    if (provider->page_cap >= least)
        return true;
    return core_refuse_configuration(
        err, "SANDBOX_MEMORY_MB is %" PRId64 "; the engine needs at least %u", provider->memory_mb,
        (least + PAGES_PER_MB - 1) / PAGES_PER_MB);
}

static bool wasm_open(const core_settings *settings, core_provider **out, plim_error *err)
{
    wasm_provider *provider = base_new(wasm_provider);
    wasm_pool *pool = wasm_pool_new((size_t)settings->max_concurrent, settings->wasm_fresh_process);
    if (!provider || !pool) {
        base_free(provider);
        wasm_pool_free(pool);
        return plim_refuse_nomem(err);
    }
    provider->base.ops = &wasm_provider_ops;
    provider->pool = pool;
    provider->memory_mb = settings->memory_mb;
    provider->page_cap = page_cap_of(settings->memory_mb);
    check_settings(settings, &provider->unfit);
    *out = &provider->base;
    return true;
}

static void wasm_free(core_provider *base)
{
    wasm_provider *provider = (wasm_provider *)base;
    wasm_pool_free(provider->pool);
    plim_error_clear(&provider->unfit);
    base_free(provider);
}

static bool refuse_unfit(const wasm_provider *provider, plim_error *err)
{
    return core_refuse_configuration(err, "%s", plim_error_message(&provider->unfit));
}

static bool wasm_preflight(core_provider *base, const run_ctx *ctx, plim_error *err)
{
    wasm_provider *provider = (wasm_provider *)base;
    struct plim_host_ready ready;
    if (provider->unfit.status != PLIM_OK)
        return refuse_unfit(provider, err);
    return wasm_pool_start(provider->pool, ctx, &ready, err) &&
           check_memory(provider, ready.snapshot_pages, err);
}

static bool wasm_smoke_test(core_provider *base, const run_ctx *ctx, plim_error *err)
{
    wasm_provider *provider = (wasm_provider *)base;
    return wasm_smoke(provider->pool, ctx, err);
}

static void wasm_describe(core_provider *base, core_description *out)
{
    const wasm_provider *provider = (const wasm_provider *)base;
    *out = (core_description){
        .provider = "wasm", .tier = PLIM_TIER_PROCESS, .memory_mb = provider->memory_mb};
    out->supports[PLIM_KIND_JAVASCRIPT] = true;
    core_environment *javascript = &out->environment[PLIM_KIND_JAVASCRIPT];
    memcpy(javascript->identity, GUEST_IDENTITY, sizeof(GUEST_IDENTITY));
    javascript->max_timeout_ms = TIMEOUT_MS_CEILING;
    javascript->javascript = true;
}

/* ---- one run ---- */

static int64_t timeout_of(const plim_run_options *options)
{
    if (options->timeout_ms <= 0)
        return TIMEOUT_MS_DEFAULT;
    return options->timeout_ms < TIMEOUT_MS_CEILING ? options->timeout_ms : TIMEOUT_MS_CEILING;
}

/* A guest that was ended from outside learns why on its stderr, unless it wrote there itself. */
static void explain_abort(wasm_run *run)
{
    if (run->err.kept.len == 0)
        base_buf_printf(&run->err.kept, "guest aborted: %s\n", run->reason);
}

static plim_result *result_of(wasm_run *run, int32_t exit_code, bool timed_out)
{
    plim_result *result = core_result_new(PLIM_KIND_JAVASCRIPT);
    if (!result)
        return NULL;
    result->provider = "wasm";
    result->tier = PLIM_TIER_PROCESS;
    result->isolation = plim_tier_name(PLIM_TIER_PROCESS);
    result->environment = GUEST_IDENTITY;
    result->exit_code = exit_code;
    result->timed_out = timed_out;
    result->out_truncated = run->out.truncated;
    result->err_truncated = run->err.truncated;
    result->duration_ns = run->duration_ns;
    result->duration_ms = run->duration_ns / BASE_NS_PER_MS;
    if (!base_arena_dup(result->arena, base_buf_bytes(&run->out.kept), &result->out) ||
        !base_arena_dup(result->arena, base_buf_bytes(&run->err.kept), &result->err)) {
        plim_result_free(result);
        return NULL;
    }
    return result;
}

static bool answer(wasm_run *run, wasm_run_end end, plim_result **out, plim_error *err)
{
    switch (end) {
    case WASM_RUN_DONE:
        *out = result_of(run, run->exit_code, false);
        break;
    case WASM_RUN_TIMEOUT:
        *out = result_of(run, EXIT_TIMED_OUT, true);
        break;
    case WASM_RUN_ABORTED:
        explain_abort(run);
        *out = result_of(run, EXIT_ABORTED, false);
        break;
    case WASM_RUN_GONE:
        return core_fail_gone(err, run->why);
    case WASM_RUN_LOST:
        return core_fail_internal(err, "%s", run->reason);
    }
    return *out || plim_fail(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED,
                             "out of memory after the run");
}

/*
 * A worker that is lost before its start mark has run nothing, so another may take its place: its
 * host may have been killed, or the kernel may have been out of memory. Once; a fault that stays is
 * an error.
 */
enum { RUN_TRIES = 2 };

static bool run_snippet(wasm_provider *provider, const plim_javascript_request *request,
                        plim_bytes principal, const run_ctx *ctx, plim_result **out,
                        plim_error *err)
{
    int64_t deadline_ns = base_deadline_after_ms(timeout_of(&request->options));
    run_ctx bounded = run_ctx_until(ctx, deadline_ns);
    wasm_run_end end = WASM_RUN_LOST;
    wasm_run run;
    /* A short run is over before anybody looks at its caller, so that is done before it has a
     * worker. */
    if (run_ctx_is_canceled(ctx))
        return core_refuse_gone(err, RUN_CANCELED);
    wasm_run_init(&run);
    for (int i = 0; i < RUN_TRIES && end == WASM_RUN_LOST && !run.started; i++) {
        wasm_worker *worker = wasm_pool_take(provider->pool, principal, &bounded, err);
        if (!worker) {
            wasm_run_free(&run);
            /* A caller that waits no longer is no fault of the machinery. */
            return base_monotonic_ns() < ctx->deadline_ns ? false
                                                          : core_refuse_gone(err, RUN_DEADLINE);
        }
        end = wasm_run_on(provider->pool, worker, request->code, provider->page_cap, ctx,
                          deadline_ns, &run);
        if (end == WASM_RUN_DONE)
            wasm_pool_give_back(provider->pool, worker);
        else
            wasm_pool_discard(provider->pool, worker);
    }
    bool answered = answer(&run, end, out, err);
    wasm_run_free(&run);
    return answered;
}

static bool wasm_provider_run(core_provider *base, const core_request *request,
                              plim_bytes principal, const run_ctx *ctx, plim_result **out,
                              plim_error *err)
{
    wasm_provider *provider = (wasm_provider *)base;
    core_description now;
    wasm_describe(base, &now);
    if (!core_check_evidence(&now, request, err))
        return false;
    if (request->kind != PLIM_KIND_JAVASCRIPT)
        return core_refuse_unsupported(err, "provider wasm runs snippets of JavaScript, not a %s",
                                       plim_kind_name(request->kind));
    if (provider->unfit.status != PLIM_OK)
        return refuse_unfit(provider, err);
    return run_snippet(provider, request->javascript, principal, ctx, out, err);
}

const core_provider_ops wasm_provider_ops = {
    .name = "wasm",
    .summary = "JavaScript snippets in QuickJS as WebAssembly, in a confined process of this "
               "machine (tier process)",
    .on_host = true,
    .default_memory_mb = PLIM_WASM_PAGES_DEFAULT / PAGES_PER_MB,
    .open = wasm_open,
    .free = wasm_free,
    .preflight = wasm_preflight,
    .smoke_test = wasm_smoke_test,
    .describe = wasm_describe,
    .run = wasm_provider_run,
};
