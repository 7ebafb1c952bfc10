/*
 * The worker host and its workers. A supervisor thread starts the host, keeps spare workers forked
 * ahead of need and hears of their ends; runs take a worker and give it back. A worker serves one
 * run at a time, and only ever one principal. Every function may be called from any thread; a taken
 * worker belongs to the thread that took it.
 */
#ifndef PROVIDERS_WASM_POOL_H
#define PROVIDERS_WASM_POOL_H

#include "core/core.h"

#include "providers/wasm/eager.h"
#include "providers/wasm/frames.h"
#include "providers/wasm/protocol.h"

#include <pthread.h>

typedef struct wasm_pool wasm_pool;

typedef struct wasm_worker {
    int socket, pidfd;
    int outbox; /* see plim_worker_outbox */
    wasm_frames frames;
    char *input;       /* WASM_INPUT_BYTES of room for what is received */
    uint64_t received; /* bytes, since it was forked */
    wasm_eager eager;  /* how its run waits for the first answer; how that went */

    /* The pool's own, guarded by its mutex. */
    struct wasm_worker *next;
    enum { WASM_WORKER_ASKED, WASM_WORKER_PROBE, WASM_WORKER_WAITING, WASM_WORKER_TAKEN } state;
    uint32_t id, pid;
    char *owner; /* principal it serves; NULL while never used */
    size_t owner_len;
    pthread_t user;      /* the thread that took it last */
    int64_t idle_due_ns; /* when its `I` must have come: after a start, and after a run */
    enum { WASM_END_NONE, WASM_END_STATUS, WASM_END_LOST } end;
    int status; /* as from waitpid, with WASM_END_STATUS */
} wasm_worker;

enum {
    WASM_INPUT_BYTES = 65536,
    WASM_IDLE_DUE_MS = 1000, /* a worker restores its snapshot within this, or is discarded */
};

/*
 * A pool for at most `slots` runs at once; `single_use` replaces a worker after every run. Starts
 * nothing. NULL when out of memory.
 */
wasm_pool *wasm_pool_new(size_t slots, bool single_use) PLIM_MUST_USE;

/* End the host and its workers and wait until they are gone. No worker may be taken. */
void wasm_pool_free(wasm_pool *pool);

/* Start the supervisor and the host if they are not running, and wait for its word. Errors are
 * marked `environment`. */
bool wasm_pool_start(wasm_pool *pool, const run_ctx *ctx, struct plim_host_ready *ready,
                     plim_error *err);

/*
 * Take an idle worker for `principal`, waiting for one under `ctx`. NULL: the host cannot be had
 * (internal, unmarked: nothing ran, but the contract leaves a fault of the machinery unmarked), or
 * the caller is gone.
 */
wasm_worker *wasm_pool_take(wasm_pool *pool, plim_bytes principal, const run_ctx *ctx,
                            plim_error *err) PLIM_MUST_USE;

/* Give a worker back after a clean return: it may serve its principal again once it says idle. */
void wasm_pool_give_back(wasm_pool *pool, wasm_worker *worker);

/* Kill a worker through its pidfd, unless it is gone, and forget it; a replacement is asked for. */
void wasm_pool_discard(wasm_pool *pool, wasm_worker *worker);

/* Why a worker that is gone ended: WASM_END_STATUS with its wait status, or WASM_END_LOST; waits
 * for the news briefly. */
int wasm_pool_end_of(wasm_pool *pool, wasm_worker *worker, int *status);

/* Fork a probe, which makes a forbidden system call, and tell how it ended (wait status). */
bool wasm_pool_probe(wasm_pool *pool, const run_ctx *ctx, int *status, plim_error *err);

/* ---- reading from a taken worker; channel.c ---- */

/* What the worker sent, without waiting; as recv. It is in `input`. */
ssize_t wasm_worker_receive(wasm_worker *worker);

/* The same, but a worker whose run is eager is asked for a moment, the processor offered to others
 * between two questions. */
ssize_t wasm_worker_ask(wasm_worker *worker);

/*
 * What a dead worker had said and not sent, into `input`; all that it sent must have been received.
 * False: its outbox holds nonsense or cannot be read.
 */
bool wasm_worker_last_words(wasm_worker *worker, plim_bytes *words);

/* Wait for the worker's `I`. False: it did not come by its due time, or something else came. */
bool wasm_worker_await_idle(wasm_worker *worker, const run_ctx *ctx);

#endif
