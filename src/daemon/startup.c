#include "daemon/environment.h"
#include "daemon/hardened.h"
#include "daemon/state.h"

enum {
    READY_MS_MAX = 120000,
    METRICS_CONNECTIONS_MAX = 64,
    METRICS_REQUEST_MS_MAX = 10000,
    METRICS_ANSWER_MS_MAX = 10000,
};

/* ---- steps 4 to 9: what runs, and how much of it ---- */

static void warn_clamped(const daemon_state *daemon, int64_t requested)
{
    if (daemon->limits.max_concurrent < requested)
        base_log(BASE_LOG_WARN, "SANDBOX_TOTAL_MEMORY_MB lowers the runs in flight",
                 LOG_INT("requested", requested),
                 LOG_INT("effective", daemon->limits.max_concurrent));
}

static bool open_provider(daemon_state *daemon, plim_error *err)
{
    core_provider *provider = NULL;
    if (!daemon->provider->open(&daemon->sandbox, &provider, err))
        return false;
    daemon->gate = core_gate_new(provider, &daemon->limits, daemon->sandbox.min_isolation);
    if (daemon->gate)
        return true;
    daemon->provider->free(provider);
    return plim_refuse_nomem(err);
}

static bool build(daemon_state *daemon, plim_error *err)
{
    if (!core_settings_read(core_lookup_environment, NULL, &daemon->sandbox, err))
        return false;
    daemon->provider = daemon->program->find_provider(&daemon->sandbox, err);
    if (!daemon->provider ||
        !core_limits_from_settings(&daemon->sandbox, daemon->provider, &daemon->limits, err))
        return false;
    int64_t requested = daemon->sandbox.max_concurrent;
    /* What may be in flight is what the provider must keep ready. */
    daemon->sandbox.max_concurrent = daemon->limits.max_concurrent;
    if (!open_provider(daemon, err))
        return false;
    warn_clamped(daemon, requested);
    return true;
}

/* ---- steps 12 to 15: who may call, and the policy ---- */

static bool runs_code(const daemon_state *daemon)
{
    return strcmp(daemon->provider->name, "disabled") != 0;
}

static bool check_tls(const core_daemon_settings *settings, plim_error *err)
{
    if (!settings->tls_cert[0] == !settings->tls_key[0])
        return true;
    return core_refuse_configuration(
        err, "%s is set without %s",
        settings->tls_cert[0] ? "PLIMSOLL_TLS_CERT" : "PLIMSOLL_TLS_KEY",
        settings->tls_cert[0] ? "PLIMSOLL_TLS_KEY" : "PLIMSOLL_TLS_CERT");
}

/* Violations are logged here, whole and in one line: the message of an error is too short. */
static bool check_hardened(const daemon_state *daemon, bool tier_known)
{
    if (!daemon->settings.hardened)
        return true;
    daemon_facts facts = {
        .tier_known = tier_known,
        .tier = daemon->proven,
        .auth = daemon_auth_mode_of(daemon->auth),
        .daemon = &daemon->settings,
        .sandbox = &daemon->sandbox,
        .limits = &daemon->limits,
        .lookup = core_lookup_environment,
    };
    _cleanup_buf_ base_buf violations = BASE_BUF_INIT(8192);
    size_t count = daemon_hardened_check(&facts, &violations);
    if (count == 0)
        return true;
    base_log(BASE_LOG_ERROR, "hardened mode refuses this configuration",
             LOG_INT("count", (int64_t)count), LOG_STR("violations", base_buf_text(&violations)));
    return false;
}

static bool choose_callers(daemon_state *daemon, plim_error *err)
{
    daemon->auth = daemon_auth_new(&daemon->settings, runs_code(daemon), err);
    daemon_forget_token();
    return daemon->auth && check_tls(&daemon->settings, err);
}

/* ---- step 16: listeners ---- */

static const char *text_or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static http_listener *listen_on(daemon_state *daemon, const char *name, const char *address,
                                const http_limits *limits, http_handler handler, plim_error *err)
{
    return http_server_listen(daemon->server,
                              &(http_listener_config){
                                  .name = name,
                                  .address = address,
                                  .tls_cert_file = text_or_null(daemon->settings.tls_cert),
                                  .tls_key_file = text_or_null(daemon->settings.tls_key),
                                  .limits = *limits,
                                  .handler = handler,
                              },
                              err);
}

static bool bind_rpc(daemon_state *daemon, plim_error *err)
{
    http_limits limits = http_limits_default();
    limits.connections_max = daemon->connections_max;
    daemon->rpc =
        listen_on(daemon, "rpc", daemon->settings.addr, &limits, daemon_rpc_handler(daemon), err);
    return daemon->rpc != NULL;
}

static bool bind_metrics(daemon_state *daemon, plim_error *err)
{
    const char *address = daemon->settings.metrics_addr;
    http_limits limits = http_limits_default();
    if (strcmp(address, "off") == 0)
        return true;
    limits.connections_max = METRICS_CONNECTIONS_MAX;
    limits.request_ms = METRICS_REQUEST_MS_MAX;
    limits.answer_ms = METRICS_ANSWER_MS_MAX;
    daemon->metrics =
        listen_on(daemon, "metrics", address, &limits, daemon_metrics_handler(daemon), err);
    if (daemon->metrics && !core_address_is_loopback(plim_bytes_of(address)))
        base_log(BASE_LOG_WARN, "the metrics listener has no authentication and is not loopback",
                 LOG_STR("metrics_addr", http_listener_address(daemon->metrics)));
    return daemon->metrics != NULL;
}

static bool bind_listeners(daemon_state *daemon, plim_error *err)
{
    daemon->server = http_server_new(err);
    if (!daemon->server)
        return false;
    daemon_ready_init(&daemon->ready, http_server_loop(daemon->server), daemon->gate);
    return daemon_make_procedures(daemon, err) && bind_rpc(daemon, err) &&
           bind_metrics(daemon, err);
}

/* ---- steps 17 to 24: proof, then service ---- */

static bool prove(daemon_state *daemon, plim_error *err)
{
    run_ctx ctx = {base_deadline_after_ms(READY_MS_MAX), -1};
    core_description now;
    if (!core_gate_ready(daemon->gate, &ctx, err))
        return false;
    core_gate_describe(daemon->gate, &now);
    daemon->proven = now.tier;
    if (!check_hardened(daemon, true))
        return false;
    if (daemon->settings.hardened)
        base_log(BASE_LOG_INFO, "hardened mode is in force");
    return true;
}

static bool start_recheck(daemon_state *daemon, plim_error *err)
{
    daemon->recheck = (daemon_recheck){.gate = daemon->gate,
                                       .auth = daemon->auth,
                                       .proven = daemon->proven,
                                       .period_ms = daemon->program->recheck_ms};
    return daemon_recheck_start(&daemon->recheck, err);
}

bool daemon_start(daemon_state *daemon, plim_error *err)
{
    return build(daemon, err) &&
           core_daemon_settings_read(core_lookup_environment, NULL, &daemon->settings, err) &&
           choose_callers(daemon, err) && check_hardened(daemon, false) &&
           bind_listeners(daemon, err) && prove(daemon, err) && start_recheck(daemon, err);
}
