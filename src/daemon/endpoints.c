#include "daemon/answer.h"
#include "daemon/metrics.h"
#include "daemon/state.h"

enum { METRICS_BYTES_MAX = 16 * 1024 };

/* ---- RPC listener: health, then the procedures ---- */

static void on_rpc(http_request *req, void *data)
{
    daemon_state *daemon = data;
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
    return (http_handler){.on_request = on_rpc, .data = daemon};
}

/* ---- metrics listener ---- */

static void read_metrics(const daemon_state *daemon, daemon_metrics *out)
{
    core_admission_counts counts;
    core_gate_counts(daemon->gate, &counts);
    *out = (daemon_metrics){.inflight = {(uint64_t)counts.in_flight}};
    out->shed[DAEMON_SHED_at_capacity] = counts.shed[CORE_SHED_AT_CAPACITY];
    out->shed[DAEMON_SHED_per_key] = counts.shed[CORE_SHED_PER_KEY];
    out->shed[DAEMON_SHED_rate] = counts.shed[CORE_SHED_RATE];
}

static void answer_metrics(http_request *req, const daemon_state *daemon)
{
    static const http_header type = {{"content-type", 12}, {"text/plain; version=0.0.4", 25}};
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(METRICS_BYTES_MAX);
    daemon_metrics metrics;
    read_metrics(daemon, &metrics);
    daemon_metrics_text(&metrics, &text);
    daemon_answer(req, &(http_answer){.status = text.failed ? 500 : 200,
                                      .headers = &type,
                                      .header_count = 1,
                                      .body = base_buf_bytes(&text)});
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
    return (http_handler){.on_request = on_metrics, .data = daemon};
}
