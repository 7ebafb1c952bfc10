/*
 * The startup test of the `wasm` provider: throwaway runs, through the same path as requests, that
 * prove the bounds. Until it passed nothing is served.
 */
#ifndef PROVIDERS_WASM_SMOKE_H
#define PROVIDERS_WASM_SMOKE_H

#include "providers/wasm/pool.h"

/* Errors: marked `environment`, naming the check that failed. */
bool wasm_smoke(wasm_pool *pool, const run_ctx *ctx, plim_error *err);

#endif
