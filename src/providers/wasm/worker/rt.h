/*
 * The WebAssembly runtime beneath the translated guest: our own implementation, with wabt.c, of the
 * functions that wasm2c's output calls (wasm-rt.h), with what the stock one lacks: a page cap a
 * run, a snapshot, and traps that never return.
 *
 * One memory a process. It is a reservation of address space with nothing mapped behind the current
 * size, so an access out of bounds faults; the fault handler turns faults inside the reservation
 * into traps and lets all others crash. No mapping is ever executable. Single-threaded.
 */
#ifndef PLIM_WASM_WORKER_RT_H
#define PLIM_WASM_WORKER_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wabt.h"

/* Receives the reason of a trap, perhaps in a signal handler, and must not return. */
typedef __attribute__((noreturn)) void (*rt_trap_handler)(const char *reason);

/* Who hears of traps; without one a trap aborts the process. */
void rt_on_trap(rt_trap_handler handler);

/*
 * Lets translated code use the native stack down to `RT_STACK_BYTES` below the caller's frame; a
 * call beyond that traps
 * ("call stack exhausted"). The process must have a stack of RT_STACK_RLIMIT_BYTES.
 */
void rt_bound_stack(void);
extern uintptr_t rt_stack_limit;

#define RT_STACK_RLIMIT_BYTES (8u << 20)
#define RT_STACK_BYTES                                                                             \
    (RT_STACK_RLIMIT_BYTES - (512u << 10)) /* the rest: our own frames on either side */

/* Maps the one memory; a process that cannot have it ends. */
void rt_allocate(wasm_rt_memory_t *memory, uint64_t initial_pages, uint64_t max_pages);

/* Grows the memory and returns the pages it had, or UINT32_MAX when the cap or the kernel refuses.
 */
uint32_t rt_grow(wasm_rt_memory_t *memory, uint64_t pages);

/* Most pages the memory may have from now on; at most what 32-bit sizes can state. */
void rt_set_page_cap(wasm_rt_memory_t *memory, uint64_t pages);

/* Bytes `address` .. `address + length` of the guest as the host sees them; NULL when any is
 * outside its memory. */
uint8_t *rt_guest_bytes(const wasm_rt_memory_t *memory, uint32_t address, uint64_t length);

/* Freezes the memory as it is now, and makes all tables read-only. */
bool rt_freeze(const wasm_rt_memory_t *memory);

/*
 * Puts the memory's bytes back as they were frozen and releases what it grew by, so that it reads
 * as zero when grown again. `memory` still has the size that the run left. False: it grew too far
 * to be worth it, or the kernel refused; the process must not run anything more.
 */
bool rt_restore(const wasm_rt_memory_t *memory, uint32_t frozen_pages);

#endif
