/*
 * The life of one worker after its fork: confine itself, then serve runs over its socket until one
 * ends in anything but a clean return.
 */
#ifndef PLIM_WASM_WORKER_WORKER_H
#define PLIM_WASM_WORKER_WORKER_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Turns this freshly forked process into a worker on `socket` that speaks through the memory file
 * `outbox`. `flags` are PLIM_FORK_*; `host` is the process that must be its parent.
 */
void worker_main(int socket, int outbox, uint8_t flags, pid_t host) __attribute__((noreturn));

#endif
