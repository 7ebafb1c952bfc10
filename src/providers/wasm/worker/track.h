/*
 * Frozen memory that knows which of its pages were written since it was frozen.
 *
 * One region a process: the guest's linear memory as it was when the engine was ready. A page is
 * read-only until its first write faults; from then on it is writable and counted as dirty. So the
 * set of pages to copy back after a run is what the hardware saw, whatever the guest did or claims.
 * Single-threaded; track_fault() runs in a signal handler.
 */
#ifndef PLIM_WASM_WORKER_TRACK_H
#define PLIM_WASM_WORKER_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACK_BYTES_MAX                                                                            \
    (16u << 20) /* far above the prepared engine; bounds the page tables kept here */

/*
 * Freezes `length` bytes at `base` (both page-aligned, mapped readable and writable): keeps a copy,
 * makes the region read-only. False when memory is short or the region is too large.
 */
bool track_freeze(uint8_t *base, size_t length);

/* A write to `address` faulted. True when the page was frozen: it is writable now, the instruction
 * may be repeated. */
bool track_fault(const uint8_t *address);

/* Makes a range writable before the kernel writes to it, as a system call fails where an
 * instruction would fault. */
bool track_open(const uint8_t *address, size_t length);

/* Puts back every page written since the freeze or the last restore. False when the kernel refused.
 */
bool track_restore(void);

/*
 * Pages dirty now stay writable from here on and are copied at each restore: those that every run
 * writes anyway, for which a fault a run would cost more than the copy.
 */
void track_keep_open(void);

/* Pages that track_keep_open() kept. */
size_t track_open_pages(void);

#endif
