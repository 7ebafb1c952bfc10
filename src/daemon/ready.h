/*
 * `/readyz`: the provider's preflight, run off the loop, one at a time however many ask. Whoever
 * asks while a check runs waits for the next one, so no answer is older than its question. Loop
 * thread only, but for the check itself.
 */
#ifndef DAEMON_READY_H
#define DAEMON_READY_H

#include "core/core.h"

#include "daemon/throttle.h"
#include "http/http.h"

#include <uv.h>

typedef struct daemon_ready {
    core_gate *gate;
    struct uv_loop_s *loop;
    uv_work_t work;
    bool checking;
    http_request *asked;   /* wait for the check that runs; linked through their data */
    http_request *waiting; /* wait for the one after it */
    bool is_ready;         /* what the last check found */
    plim_error failure;    /* why not */
    daemon_throttle failures;
} daemon_ready;

void daemon_ready_init(daemon_ready *ready, struct uv_loop_s *loop, core_gate *gate);

/* Answer `req` once a check that starts from now on has ended. */
void daemon_ready_answer(daemon_ready *ready, http_request *req);

#endif
