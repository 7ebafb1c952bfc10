#include "daemon/ready.h"

#include "daemon/answer.h"

/* A preflight is bounded by its provider; this is for one that is not. */
enum { PREFLIGHT_MS_MAX = 10000 };

void daemon_ready_init(daemon_ready *ready, struct uv_loop_s *loop, core_gate *gate)
{
    *ready = (daemon_ready){.gate = gate, .loop = loop, .failures = DAEMON_THROTTLE_INIT};
    ready->work.data = ready;
}

/* On a thread of the pool. Nobody's leaving ends it: others may wait for the same answer. */
static void check(uv_work_t *work)
{
    daemon_ready *ready = work->data;
    run_ctx ctx = {base_deadline_after_ms(PREFLIGHT_MS_MAX), -1};
    plim_error_clear(&ready->failure);
    ready->is_ready = core_gate_preflight(ready->gate, &ctx, &ready->failure);
}

static void log_failure(daemon_ready *ready)
{
    daemon_throttled line;
    if (daemon_throttle_hit(&ready->failures, base_monotonic_ns(), &line))
        base_log(BASE_LOG_WARN, "not ready", LOG_STR("error", plim_error_message(&ready->failure)),
                 LOG_INT("count", (int64_t)line.count), LOG_INT("window_ms", line.window_ms));
}

/* The answer never says why: hosts, images and paths are not for whoever can reach the port. */
static void answer_all(const daemon_ready *ready, http_request *list)
{
    while (list) {
        http_request *next = http_request_data(list);
        if (ready->is_ready)
            daemon_answer_text(list, 200, "ready\n");
        else
            daemon_answer_text(list, 503, "not ready\n");
        list = next;
    }
}

static void begin(daemon_ready *ready);

static void on_checked(uv_work_t *work, int status)
{
    daemon_ready *ready = work->data;
    (void)status; /* never cancelled */
    ready->checking = false;
    if (!ready->is_ready)
        log_failure(ready);
    answer_all(ready, TAKE_PTR(ready->asked));
    if (ready->waiting)
        begin(ready);
}

static void begin(daemon_ready *ready)
{
    ready->asked = TAKE_PTR(ready->waiting);
    ready->checking = true;
    uv_queue_work(ready->loop, &ready->work, check, on_checked);
}

void daemon_ready_answer(daemon_ready *ready, http_request *req)
{
    http_request_set_data(req, ready->waiting);
    ready->waiting = req;
    if (!ready->checking)
        begin(ready);
}
