/*
 * Whether one side may spend its processor's time on asking for the other's word before it sleeps:
 * a run for its answer, a worker for its next run. That is quicker where both are awake, and in
 * vain where snippets are long, runs are rare or the machine is busy: then it is tried less and
 * less often. A pure state machine; one per pool, under its mutex, and one per worker.
 */
#ifndef PROVIDERS_WASM_EAGER_H
#define PROVIDERS_WASM_EAGER_H

#include <stdbool.h>

typedef enum {
    WASM_EAGER_NOT, /* sleeps at once */
    WASM_EAGER,     /* asks for a moment first; then one of: */
    WASM_EAGER_PAID,
    WASM_EAGER_IN_VAIN
} wasm_eager;

typedef struct wasm_eagerness {
    int pause; /* runs until one may be eager again */
    int last;  /* the pause before */
} wasm_eagerness;

/* May the next one be eager? Counts it if not. */
bool wasm_eager_may(wasm_eagerness *eagerness);

/* How it went; other values than the last two change nothing. */
void wasm_eager_learn(wasm_eagerness *eagerness, wasm_eager how);

#endif
