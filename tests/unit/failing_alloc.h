/*
 * Stands between a program and the allocator: link it with --wrap of malloc, calloc and realloc,
 * and say in `alloc_fails` which allocations fail. Included by the one source of such a program.
 */
#ifndef TESTS_UNIT_FAILING_ALLOC_H
#define TESTS_UNIT_FAILING_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the allocation that is asked for now fails; asked once for each. */
static bool alloc_fails(void);

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);

void *__wrap_malloc(size_t size)
{
    return alloc_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return alloc_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    return alloc_fails() ? NULL : __real_realloc(block, size);
}

#endif
