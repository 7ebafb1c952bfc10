/*
 * Included ahead of every engine source (-include), so that the engine itself stays unmodified.
 *
 * The engine leaves `Atomics` out on WASI because it knows no threads there. Atomics is an ordinary
 * ECMAScript global that a snippet may expect, and with one thread its locks have nothing to do:
 * this header switches it on and gives the locks empty bodies. `Atomics.wait` never reaches them:
 * the shim forbids blocking.
 */
#ifndef PLIM_GUEST_ENGINE_CONFIG_H
#define PLIM_GUEST_ENGINE_CONFIG_H

#ifdef __wasi__

#include <stdint.h>

#include "quickjs-c-atomics.h"

#define EMSCRIPTEN
#define CONFIG_ATOMICS
#define JS_ONCE_INIT 0

typedef int js_once_t;
typedef int js_mutex_t;
typedef int js_cond_t;

static inline void js_once(js_once_t *guard, void (*callback)(void))
{
    if (*guard == 0) {
        *guard = 1;
        callback();
    }
}

static inline void js_mutex_init(js_mutex_t *mutex)
{
    *mutex = 0;
}

static inline void js_mutex_lock(const js_mutex_t *mutex)
{
    (void)mutex;
}

static inline void js_mutex_unlock(const js_mutex_t *mutex)
{
    (void)mutex;
}

static inline void js_cond_init(js_cond_t *cond)
{
    *cond = 0;
}

static inline void js_cond_destroy(const js_cond_t *cond)
{
    (void)cond;
}

static inline void js_cond_signal(const js_cond_t *cond)
{
    (void)cond;
}

/* A wait that nobody could end must not be silent: it traps. */
static inline void js_cond_wait(const js_cond_t *cond, const js_mutex_t *mutex)
{
    (void)cond;
    (void)mutex;
    __builtin_trap();
}

static inline int js_cond_timedwait(const js_cond_t *cond, const js_mutex_t *mutex,
                                    uint64_t timeout_ns)
{
    (void)cond;
    (void)mutex;
    (void)timeout_ns;
    __builtin_trap();
}

#endif
#endif
