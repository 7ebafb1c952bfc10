/*
 * What is particular to a release of wasm2c: the names in its output, and the settings and types of
 * its runtime interface, wasm-rt.h. wabt.c has the functions of that interface whose types differ;
 * no other file knows the release. WABT_RELEASE, from the build, is N of 1.0.N.
 */
#ifndef PLIM_WASM_WORKER_WABT_H
#define PLIM_WASM_WORKER_WABT_H

/* Accesses out of bounds fault (see rt.h), and every function checks the stack (translated.h). */
#if WABT_RELEASE == 32
#define WASM_RT_MEMCHECK_SIGNAL_HANDLER 1
#define WASM_RT_USE_STACK_DEPTH_COUNT   1
#elif WABT_RELEASE == 34
#define WASM_RT_MEMCHECK_GUARD_PAGES  1
#define WASM_RT_USE_STACK_DEPTH_COUNT 1
#elif WABT_RELEASE == 36
#define WASM_RT_MEMCHECK_GUARD_PAGES 1
#define WASM_RT_STACK_DEPTH_COUNT    1
#else
#error "this release of wabt is not known here"
#endif

#include "guest.h"

/* The module named guest, and the functions that it imports. */
#if WABT_RELEASE == 32

typedef Z_guest_instance_t guest_instance;
typedef struct Z_wasi_snapshot_preview1_instance_t wasi_instance;
typedef struct Z_plimsoll_instance_t plimsoll_instance;

#define GUEST_INSTANTIATE(instance)                                                                \
    (Z_guest_init_module(), Z_guest_instantiate(instance, NULL, NULL))
#define GUEST_INITIALIZE        Z_guestZ__initialize
#define GUEST_FUNCTION(name)    Z_guestZ_##name
#define WASI_FUNCTION(name)     Z_wasi_snapshot_preview1Z_##name
#define PLIMSOLL_FUNCTION(name) Z_plimsollZ_##name

#else

typedef w2c_guest guest_instance;
typedef struct w2c_wasi__snapshot__preview1 wasi_instance;
typedef struct w2c_plimsoll plimsoll_instance;

#define GUEST_INSTANTIATE(instance) wasm2c_guest_instantiate(instance, NULL, NULL)
#define GUEST_INITIALIZE            w2c_guest_0x5Finitialize
#define GUEST_FUNCTION(name)        w2c_guest_##name
#define WASI_FUNCTION(name)         w2c_wasi__snapshot__preview1_##name
#define PLIMSOLL_FUNCTION(name)     w2c_plimsoll_##name

#endif

#endif
