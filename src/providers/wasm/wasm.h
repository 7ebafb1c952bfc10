/*
 * The `wasm` provider: JavaScript snippets in QuickJS compiled to WebAssembly, translated ahead of
 * time to C, run in a confined worker process. Tier `process`, always: no container, kernel or VM
 * boundary is proved, and it is not fit for hostile code. Layout of the folder: wasm.c is the
 * provider, pool.c keeps the worker host and its workers, run.c serves one run on one worker,
 * frames.c reads a worker's bytes, envelope.c a guest's host call, smoke.c proves the bounds at
 * start, worker/ is the other program.
 */
#ifndef PROVIDERS_WASM_WASM_H
#define PROVIDERS_WASM_WASM_H

#include "core/core.h"

extern const core_provider_ops wasm_provider_ops;

#endif
