/*
 * Included ahead of the translated guest (-include): makes its call-depth check count bytes of
 * native stack.
 *
 * wasm2c's output can count calls and trap past a number. Frames differ by a factor of ten, so a
 * number that is safe for the largest would end deeply nested but harmless sources long before the
 * 8 MiB are used. The two names that its check is made of are therefore given other meanings:
 * `++depth > maximum` becomes "the stack pointer is below the limit", and `--depth` nothing.
 */
#ifndef PLIM_WASM_WORKER_TRANSLATED_H
#define PLIM_WASM_WORKER_TRANSLATED_H

#include <stdint.h>

#define WASM_RT_MAX_CALL_STACK_DEPTH (rt_stack_pointer < rt_stack_limit ? 0u : 1u)

#include "wabt.h"

#define wasm_rt_call_stack_depth                                                                   \
    (uint32_t)                                                                                     \
    {                                                                                              \
        0                                                                                          \
    }

#if defined(__x86_64__)
register uintptr_t rt_stack_pointer __asm__("rsp");
#elif defined(__aarch64__)
register uintptr_t rt_stack_pointer __asm__("sp");
#else
#error "name the stack pointer of this architecture"
#endif

/* Lowest address that translated code may use of the native stack; see rt_bound_stack(). */
extern uintptr_t rt_stack_limit;

#endif
