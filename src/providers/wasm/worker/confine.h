/*
 * The walls: what the host takes from itself before it forks anything, and what each worker takes
 * from itself before it says that it is idle. A wall that always must stand makes the caller refuse
 * to go on; the others are reported as PLIM_WALL_* bits. Nothing here can be undone.
 */
#ifndef PLIM_WASM_WORKER_CONFINE_H
#define PLIM_WASM_WORKER_CONFINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Take on the soft limit of descriptors that a decimal number names. Whoever started this program
 * may have raised its own, and could not put it back between its fork and the start of ours. False
 * when it is no number, or more than may be had.
 */
bool confine_descriptors(const char *limit);

/*
 * What comes before the engine is prepared: the workers' filter is compiled, and resource limits
 * fix the stack's size. NULL, or the reason why not.
 */
const char *confine_early(void);

/* All other walls of the host. NULL and the bits of those that stand, or the reason why a required
 * one does not. */
const char *confine_host(uint32_t *walls);

/*
 * All walls of a worker: `socket` becomes its descriptor 3, every other one above 2 is closed.
 * `single_use` adds a limit on processor time. False when any of it fails, or when `host` is not
 * the parent any more.
 */
bool confine_worker(int socket, bool single_use, pid_t host);

/* Makes a system call that the filter forbids. Returns only if the filter does not hold. */
void confine_probe(void);

#endif
