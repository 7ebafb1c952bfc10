#include "providers/wasm/smoke.h"

#include "providers/wasm/run.h"

#include <signal.h>
#include <sys/wait.h>

enum {
    CHECK_MS = 5000, /* a check that should end by itself */
    ENDLESS_MS = 50, /* the deadline of the endless loop */
    SMALL_HEADROOM_PAGES =
        96, /* 6 MiB above the snapshot: past the cap quickly, whatever cap is configured */
};

/* Workers that ran a check are never handed to a caller: this principal cannot be a caller's (it
 * holds a control). */
#define SMOKE_PRINCIPAL PLIM_LIT("\001smoke")

static const struct check {
    const char *name;
    const char *code;
    int deadline_ms;
    wasm_run_end end; /* expected; WASM_RUN_LOST: a result of any kind, but not exit 0 */
    unsigned char exit_code;
    const char *out; /* expected stdout; NULL: any */
} checks[] = {
    {"arithmetic", "console.log(6 * 7)", CHECK_MS, WASM_RUN_DONE, 0, "42\n"},
    {"no network function", "console.log(typeof fetch)", CHECK_MS, WASM_RUN_DONE, 0, "undefined\n"},
    {"a global is set", "globalThis.left = 1; Array.prototype.left = 1", CHECK_MS, WASM_RUN_DONE, 0,
     ""},
    {"nothing is left", "console.log(typeof left, [].left)", CHECK_MS, WASM_RUN_DONE, 0,
     "undefined undefined\n"},
    {"endless loop", "console.log('in'); for (;;);", ENDLESS_MS, WASM_RUN_TIMEOUT, 0, "in\n"},
    {"memory limit", "const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))", CHECK_MS,
     WASM_RUN_LOST, 0, ""},
    {"recursion", "function f(n) { return n ? f(n - 1) + 1 : 0 } f(200000)", CHECK_MS,
     WASM_RUN_LOST, 0, ""},
};

static bool as_expected(const struct check *check, wasm_run_end end, const wasm_run *run)
{
    if (check->out && !base_bytes_is(base_buf_bytes(&run->out.kept), check->out))
        return false;
    if (check->end == WASM_RUN_LOST)
        return end == WASM_RUN_ABORTED || (end == WASM_RUN_DONE && run->exit_code != 0);
    return end == check->end && (end != WASM_RUN_DONE || run->exit_code == check->exit_code);
}

static bool run_check(wasm_pool *pool, wasm_worker *worker, const struct check *check,
                      uint32_t page_cap, const run_ctx *ctx, wasm_run_end *end, plim_error *err)
{
    wasm_run run;
    wasm_run_init(&run);
    *end = wasm_run_on(pool, worker, plim_bytes_of(check->code), page_cap, ctx,
                       base_deadline_after_ms(check->deadline_ms), &run);
    bool good = as_expected(check, *end, &run);
    if (!good && *end == WASM_RUN_GONE)
        core_refuse_gone(err, run.why);
    else if (!good)
        core_refuse_environment(
            err, "startup test \"%s\" failed: end %d, exit code %d, %zu bytes of output",
            check->name, (int)*end, run.exit_code, run.out.kept.len);
    wasm_run_free(&run);
    return good;
}

/* A worker for a check; without one the provider is not ready, and says why. */
static wasm_worker *take_for(wasm_pool *pool, const char *check, const run_ctx *ctx,
                             plim_error *err)
{
    _cleanup_error_ plim_error why = PLIM_ERROR_INIT;
    wasm_worker *worker = wasm_pool_take(pool, SMOKE_PRINCIPAL, ctx, &why);
    if (!worker && plim_error_status(&why) == PLIM_E_CANCELED)
        plim_error_move(err, &why);
    else if (!worker)
        core_refuse_environment(err, "startup test \"%s\": %s", check, plim_error_message(&why));
    return worker;
}

/* One worker serves check after check until one of them costs its life, so that the reset between
 * runs is tested too. */
static bool run_checks(wasm_pool *pool, uint32_t page_cap, const run_ctx *ctx, plim_error *err)
{
    wasm_worker *worker = NULL;
    bool good = true;
    for (size_t i = 0; good && i < PLIM_COUNT(checks); i++) {
        run_ctx bounded = run_ctx_until(ctx, base_deadline_after_ms(CHECK_MS));
        if (!worker)
            worker = take_for(pool, checks[i].name, &bounded, err);
        if (!worker)
            return false;
        wasm_run_end end;
        good = run_check(pool, worker, &checks[i], page_cap, ctx, &end, err);
        if (end != WASM_RUN_DONE || !wasm_worker_await_idle(worker, &bounded)) {
            wasm_pool_discard(pool, worker);
            worker = NULL;
        }
    }
    if (worker)
        wasm_pool_discard(pool, worker);
    return good;
}

bool wasm_smoke(wasm_pool *pool, const run_ctx *ctx, plim_error *err)
{
    struct plim_host_ready ready;
    int status;
    if (!wasm_pool_start(pool, ctx, &ready, err) ||
        !run_checks(pool, ready.snapshot_pages + SMALL_HEADROOM_PAGES, ctx, err) ||
        !wasm_pool_probe(pool, ctx, &status, err))
        return false;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
        return core_refuse_environment(
            err, "startup test \"system-call filter\" failed: a forbidden call was not fatal");
    return true;
}
