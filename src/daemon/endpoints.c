#include "daemon/answer.h"
#include "daemon/audit.h"
#include "daemon/metrics.h"
#include "daemon/state.h"

enum { METRICS_BYTES_MAX = 16 * 1024 };

/* ---- dispatched calls ---- */

static void on_dispatched(void *data, const rpc_dispatched *event)
{
    daemon_state *daemon = data;
    daemon_audit_line line;
    atomic_fetch_add(&daemon->runs, 1);
    if (!event->result && daemon_metrics_is_fault(event->error))
        atomic_fetch_add(&daemon->runs_failed, 1);
    daemon_audit_build(event, &line);
    base_log_fields(line.level, line.message, line.fields, line.count);
}

bool daemon_make_procedures(daemon_state *daemon, plim_error *err)
{
    rpc_config config;
    daemon->calls =
        (rpc_sandbox){.gate = daemon->gate, .dispatched = on_dispatched, .data = daemon};
    rpc_sandbox_config(&daemon->calls, (size_t)daemon->limits.max_concurrent, &config);
    if (daemon_auth_for_rpc(daemon->auth, &daemon->authenticator))
        config.auth = &daemon->authenticator;
    daemon->procedures = rpc_server_new(&config, err);
    return daemon->procedures != NULL;
}

/* ---- RPC listener: health, then the procedures ---- */

static void on_rpc(http_request *req, void *data)
{
    daemon_state *daemon = data;
    if (rpc_take(daemon->procedures, req))
        return;
    plim_bytes path = http_request_path(req);
    if (base_bytes_is(path, "/healthz"))
        daemon_answer_text(req, 200, "ok\n");
    else if (base_bytes_is(path, "/readyz"))
        daemon_ready_answer(&daemon->ready, req);
    else
        daemon_answer_text(req, 404, "not found\n");
}

http_handler daemon_rpc_handler(daemon_state *daemon)
{
    return (http_handler){.on_request = on_rpc,
                          .on_refusal = daemon_bind_refusal,
                          .on_failed = daemon_on_listener_failed,
                          .data = daemon};
}

/* ---- metrics listener ---- */

static void read_metrics(const daemon_state *daemon, daemon_metrics *out)
{
    core_admission_counts counts;
    core_gate_counts(daemon->gate, &counts);
    *out = (daemon_metrics){.runs = {atomic_load(&daemon->runs)},
                            .runs_failed = {atomic_load(&daemon->runs_failed)},
                            .inflight = {(uint64_t)counts.in_flight}};
    out->shed[DAEMON_SHED_at_capacity] = counts.shed[CORE_SHED_AT_CAPACITY];
    out->shed[DAEMON_SHED_per_key] = counts.shed[CORE_SHED_PER_KEY];
    out->shed[DAEMON_SHED_rate] = counts.shed[CORE_SHED_RATE];
}

static void answer_metrics(http_request *req, const daemon_state *daemon)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(METRICS_BYTES_MAX);
    daemon_metrics metrics;
    read_metrics(daemon, &metrics);
    daemon_metrics_text(&metrics, &text);
    daemon_answer(req, text.failed ? 500 : 200, "text/plain; version=0.0.4", base_buf_bytes(&text));
}

static void on_metrics(http_request *req, void *data)
{
    if (base_bytes_is(http_request_path(req), "/metrics"))
        answer_metrics(req, data);
    else
        daemon_answer_text(req, 404, "not found\n");
}

http_handler daemon_metrics_handler(daemon_state *daemon)
{
    return (http_handler){.on_request = on_metrics,
                          .on_refusal = daemon_bind_refusal,
                          .on_failed = daemon_on_listener_failed,
                          .data = daemon};
}
