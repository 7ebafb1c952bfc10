#include "daemon/recheck.h"

#include <signal.h>
#include <sys/eventfd.h>

enum { PREFLIGHT_MS_MAX = 30000, RECONCILE_MS_MAX = 30000 };

static bool is_below(plim_tier tier, plim_tier proven)
{
    return tier == PLIM_TIER_UNKNOWN || tier < proven;
}

static void check_tier(const daemon_recheck *recheck)
{
    core_description now;
    core_gate_describe(recheck->gate, &now);
    if (!is_below(now.tier, recheck->proven))
        return;
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    run_ctx ctx = {base_deadline_after_ms(PREFLIGHT_MS_MAX), recheck->stop_fd};
    core_gate_preflight(recheck->gate, &ctx, &err);
    core_gate_describe(recheck->gate, &now);
    if (is_below(now.tier, recheck->proven))
        base_log(BASE_LOG_WARN, "isolation below proven",
                 LOG_STR("isolation", plim_tier_name(now.tier)),
                 LOG_STR("proven", plim_tier_name(recheck->proven)),
                 LOG_STR("error", plim_error_message(&err)));
}

/* What a program that crashed has left behind. */
static void reconcile(const daemon_recheck *recheck)
{
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    run_ctx ctx = {base_deadline_after_ms(RECONCILE_MS_MAX), recheck->stop_fd};
    size_t removed;
    if (!core_gate_reconcile(recheck->gate, &ctx, &removed, &err))
        base_log(BASE_LOG_WARN, "orphans were not looked for",
                 LOG_STR("error", plim_error_message(&err)));
    if (removed > 0)
        base_log(BASE_LOG_WARN, "orphans removed", LOG_INT("count", (int64_t)removed));
}

static void *run(void *data)
{
    const daemon_recheck *recheck = data;
    for (;;) {
        run_ctx ctx = {base_deadline_after_ms(recheck->period_ms), recheck->stop_fd};
        if (run_ctx_poll(&ctx, NULL, 0) != RUN_DEADLINE)
            return NULL;
        check_tier(recheck);
        reconcile(recheck);
        daemon_auth_report_refused(recheck->auth, false);
    }
}

/* Signals are for the loop thread. */
static int create_thread(daemon_recheck *recheck)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&recheck->thread, NULL, run, recheck);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

bool daemon_recheck_start(daemon_recheck *recheck, plim_error *err)
{
    recheck->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (recheck->stop_fd < 0)
        return core_fail_internal(err, "no eventfd: %s", base_errno_text(errno));
    int failed = create_thread(recheck);
    if (!failed)
        return true;
    base_fd_close(&recheck->stop_fd);
    return core_fail_internal(err, "cannot start a thread: %s", base_errno_text(failed));
}

void daemon_recheck_stop(daemon_recheck *recheck)
{
    if (recheck->stop_fd < 0)
        return;
    eventfd_write(recheck->stop_fd, 1);
    pthread_join(recheck->thread, NULL);
    base_fd_close(&recheck->stop_fd);
}
