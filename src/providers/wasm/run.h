/*
 * One run on one worker: send the source, capture what comes back up to the caps, kill at the
 * deadline. Blocking; used by the thread that took the worker.
 */
#ifndef PROVIDERS_WASM_RUN_H
#define PROVIDERS_WASM_RUN_H

#include "providers/wasm/pool.h"

/* Bytes kept of each stream; later ones are read and dropped. */
enum { WASM_OUTPUT_BYTES_MAX = 65536 };

typedef struct wasm_stream {
    base_buf kept;
    bool truncated;
} wasm_stream;

typedef enum {
    WASM_RUN_DONE,    /* clean return with `exit_code`: the worker may be given back */
    WASM_RUN_ABORTED, /* trap, crash or nonsense after the start mark: `reason` says what; a result
                       */
    WASM_RUN_TIMEOUT, /* the run's deadline */
    WASM_RUN_GONE,    /* the caller: cancelled or its own deadline (`why`) */
    WASM_RUN_LOST,    /* the worker or its host was lost: no result. `reason` says what */
} wasm_run_end;

typedef struct wasm_run {
    wasm_stream out, err;
    bool started; /* the start mark came: from here on there is a result */
    unsigned char exit_code;
    run_wait why;
    char reason[PLIM_WORKER_TRAP_MAX + 32];
    int64_t duration_ns;
} wasm_run;

void wasm_run_init(wasm_run *run);
void wasm_run_free(wasm_run *run);

/*
 * Run `source` with at most `page_cap` pages of memory until `deadline_ns` (monotonic) at most, or
 * until `ctx` ends it. Afterwards the worker is dead unless WASM_RUN_DONE is returned.
 */
wasm_run_end wasm_run_on(wasm_pool *pool, wasm_worker *worker, plim_bytes source, uint32_t page_cap,
                         const run_ctx *ctx, int64_t deadline_ns, wasm_run *run);

#endif
