/*
 * Whether a run may spend its processor's time on asking for its answer before it sleeps. That is
 * quicker where the worker runs beside it, and in vain where snippets are long or the machine is
 * busy: then it is tried less and less often. A pure state machine; one per pool, under its mutex.
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

/* May the next run be eager? Counts it if not. */
bool wasm_eager_may(wasm_eagerness *eagerness);

/* How it went; other values than the last two change nothing. */
void wasm_eager_learn(wasm_eagerness *eagerness, wasm_eager how);

#endif
