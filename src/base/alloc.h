/*
 * Allocation. Everything returns NULL when memory is out, and every caller says what that means for
 * it; nothing here ends the process. An arena frees all it gave out at once; it belongs to one
 * thread at a time.
 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include <plimsoll/types.h>

/* Zeroed memory for `count` objects of `size` bytes; NULL when out of memory or when the product
 * overflows. */
void *base_alloc(size_t count, size_t size) PLIM_MUST_USE;

#define base_new(type) ((type *)base_alloc(1, sizeof(type)))

/* Resize to `count * size` bytes, contents kept, new bytes not zeroed. On NULL the old block still
 * stands. */
void *base_realloc(void *block, size_t count, size_t size) PLIM_MUST_USE;

/* A heap copy with a terminator; NULL when out of memory. */
char *base_strdup(const char *text) PLIM_MUST_USE;

void base_free(void *block);

/* Overwrite a secret so that no later read finds it, then free. NULL allowed. */
void base_free_secret(void *block, size_t size);

void base_wipe(void *block, size_t size);

static inline void base_free_slot(void *slot)
{
    void **pointer = slot;
    base_free(*pointer);
    *pointer = NULL;
}

#define _cleanup_free_ _cleanup_(base_free_slot)

/* ---- arena ---- */

typedef struct base_arena base_arena;

/* A new arena that will hold at most `bytes_max` bytes in all; NULL when out of memory. Free with
 * base_arena_free. */
base_arena *base_arena_new(size_t bytes_max) PLIM_MUST_USE;
void base_arena_free(base_arena *arena);

/* Zeroed memory aligned for any type, living as long as the arena; NULL past the arena's maximum or
 * out of memory. */
void *base_arena_alloc(base_arena *arena, size_t count, size_t size) PLIM_MUST_USE;

/* Copy of `bytes` with a terminator after it (not counted); NULL as above. */
char *base_arena_text(base_arena *arena, plim_bytes bytes) PLIM_MUST_USE;
bool base_arena_dup(base_arena *arena, plim_bytes bytes, plim_bytes *out) PLIM_MUST_USE;

/* printf into the arena; NULL as above. */
char *base_arena_printf(base_arena *arena, const char *format, ...) PLIM_PRINTF(2, 3) PLIM_MUST_USE;

BASE_CLEANUP_FN(base_arena, base_arena_free, base_arena_freep)

/* Checked size arithmetic: false, and `*out` untouched, when the result does not fit. */
static inline bool base_size_add(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

static inline bool base_size_mul(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

#endif
