#include "daemon/state.h"

#include <signal.h>

/* A scrape that is under way may end. */
enum { METRICS_DRAIN_MS = 2000 };

/* ---- stopping ---- */

static void on_drained(bool clean, void *data)
{
    daemon_state *daemon = data;
    if (!clean)
        base_log(BASE_LOG_ERROR, "calls in flight did not end in time; their connections were "
                                 "closed");
    /* Until here a scraper could watch the runs in flight come to an end. */
    if (daemon->metrics)
        http_listener_drain(daemon->metrics, METRICS_DRAIN_MS, NULL, NULL);
}

/* Stopped handles give the signals back to the system, so a second one kills at once. */
static void give_signals_back(daemon_state *daemon)
{
    uv_close((uv_handle_t *)&daemon->interrupt, NULL);
    uv_close((uv_handle_t *)&daemon->terminate, NULL);
}

/* Once, whatever asks for it first. */
static void begin_drain(daemon_state *daemon)
{
    if (daemon->draining)
        return;
    daemon->draining = true;
    give_signals_back(daemon);
    http_listener_drain(daemon->rpc, daemon->program->drain_ms, on_drained, daemon);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    begin_drain(handle->data);
}

void daemon_on_listener_failed(http_listener *listener, const char *why, void *data)
{
    daemon_state *daemon = data;
    base_log(BASE_LOG_ERROR, "a listener failed; plimsolld stops serving",
             LOG_STR("listener", listener == daemon->metrics ? "metrics" : "rpc"),
             LOG_STR("addr", http_listener_address(listener)), LOG_STR("error", why));
    /* One that fails while a signal's drain is under way changes nothing about why it stops. */
    daemon->listener_failed |= !daemon->draining;
    begin_drain(daemon);
}

static bool take_signals(daemon_state *daemon, plim_error *err)
{
    uv_loop_t *loop = http_server_loop(daemon->server);
    if (uv_signal_init(loop, &daemon->interrupt) == 0 &&
        uv_signal_init(loop, &daemon->terminate) == 0 &&
        uv_signal_start(&daemon->interrupt, on_signal, SIGINT) == 0 &&
        uv_signal_start(&daemon->terminate, on_signal, SIGTERM) == 0) {
        daemon->interrupt.data = daemon->terminate.data = daemon;
        return true;
    }
    return core_fail_internal(err, "signals cannot be handled");
}

/* ---- serving ---- */

/* Everything here is what holds, not what was asked for. */
static void log_listening(const daemon_state *daemon)
{
    const core_limits *limits = &daemon->limits;
    core_description now;
    core_gate_describe(daemon->gate, &now);
    base_log(
        BASE_LOG_INFO, "plimsolld listening", LOG_STR("addr", http_listener_address(daemon->rpc)),
        LOG_STR("provider", now.provider), LOG_STR("isolation", plim_tier_name(now.tier)),
        LOG_BOOL("auth", daemon_auth_mode_of(daemon->auth) != DAEMON_AUTH_OPEN),
        LOG_INT("max_concurrent", limits->max_concurrent),
        LOG_INT("per_key_concurrent", limits->per_key_concurrent),
        LOG_INT("rate_per_min", limits->rate_per_min), LOG_INT("rate_burst", limits->rate_burst),
        LOG_INT("mem_mb", now.memory_mb), LOG_NUM("cpus", now.cpus), LOG_INT("pids", now.pids),
        LOG_INT("disk_mb", now.disk_mb), LOG_BOOL("tls", daemon->settings.tls_cert[0] != '\0'),
        LOG_STR("metrics_addr", daemon->metrics ? http_listener_address(daemon->metrics) : "off"),
        LOG_STR("guard_addr", "none"), LOG_INT("max_connections", daemon->connections_max));
}

bool daemon_serve(daemon_state *daemon, plim_error *err)
{
    if (!take_signals(daemon, err))
        return false;
    log_listening(daemon);
    http_listener_start(daemon->rpc);
    if (daemon->metrics)
        http_listener_start(daemon->metrics);
    return http_server_run(daemon->server, err);
}
