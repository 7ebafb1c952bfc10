/*
 * The system-call filter of a worker: one table of what is allowed and why, compiled once by the
 * host and installed by each worker after its fork. Anything else kills the process.
 */
#ifndef PLIM_WASM_WORKER_FILTER_H
#define PLIM_WASM_WORKER_FILTER_H

#include <stdbool.h>

/* Compiles the table. False when the library or the kernel cannot. Host only, before the first
 * fork. */
bool filter_compile(void);

/* Installs the filter in this process, for good. */
bool filter_install(void);

#endif
