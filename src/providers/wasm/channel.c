#include "providers/wasm/pool.h"

#include <sched.h>
#include <sys/socket.h>

ssize_t wasm_worker_receive(wasm_worker *worker)
{
    ssize_t count = recv(worker->socket, worker->input, WASM_INPUT_BYTES, MSG_DONTWAIT);
    if (count > 0)
        worker->received += (uint64_t)count;
    return count;
}

/*
 * A trivial snippet is answered within it, and so is a reset; putting a processor to sleep and
 * waking it again takes longer than either: 20 to 60 us where processors are virtual.
 */
enum { EAGER_NS = 100000 };

ssize_t wasm_worker_ask(wasm_worker *worker)
{
    ssize_t count = wasm_worker_receive(worker);
    if (worker->eager != WASM_EAGER || count >= 0)
        return count;
    int64_t until_ns = base_monotonic_ns() + EAGER_NS;
    while (count < 0 && base_monotonic_ns() < until_ns) {
        sched_yield(); /* the worker may be waiting for this very processor */
        count = wasm_worker_receive(worker);
    }
    return count;
}

bool wasm_worker_last_words(wasm_worker *worker, plim_bytes *words)
{
    struct plim_worker_outbox outbox;
    *words = (plim_bytes){NULL, 0};
    if (pread(worker->outbox, &outbox, sizeof(outbox), 0) != (ssize_t)sizeof(outbox) ||
        outbox.length > sizeof(outbox.bytes) || outbox.sent > worker->received)
        return false;
    /* Killed after a send and before it was counted: those bytes came already. */
    uint64_t skip = worker->received - outbox.sent;
    if (skip < outbox.length) {
        size_t left = outbox.length - (size_t)skip;
        memcpy(worker->input, outbox.bytes + skip, left);
        *words = (plim_bytes){worker->input, left};
        worker->received += left;
    }
    return true;
}

bool wasm_worker_await_idle(wasm_worker *worker, const run_ctx *ctx)
{
    run_ctx bounded = run_ctx_until(ctx, worker->idle_due_ns);
    while (worker->frames.phase == WASM_PHASE_STARTING) {
        ssize_t count = wasm_worker_ask(worker);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            struct pollfd fd = {.fd = worker->socket, .events = POLLIN};
            if (run_ctx_poll(&bounded, &fd, 1) != RUN_READY)
                return false;
            continue;
        }
        if (count <= 0)
            return false;
        plim_bytes input = {worker->input, (size_t)count}, payload;
        wasm_frame_kind kind = wasm_frames_next(&worker->frames, &input, &payload);
        if ((kind != WASM_FRAME_IDLE && kind != WASM_FRAME_MORE) || input.len)
            return false;
    }
    return worker->frames.phase == WASM_PHASE_IDLE;
}
