#include "wabt.h"

#include <stdarg.h>
#include <string.h>

#include "rt.h"

#if WABT_RELEASE == 32

void wasm_rt_allocate_memory(wasm_rt_memory_t *memory, uint32_t initial_pages, uint32_t max_pages)
{
    rt_allocate(memory, initial_pages, max_pages);
}

uint32_t wasm_rt_grow_memory(wasm_rt_memory_t *memory, uint32_t pages)
{
    return rt_grow(memory, pages);
}

#define FUNC_TYPES_MAX       512u
#define FUNC_TYPE_VALUES_MAX 24u

struct func_type {
    uint8_t params, results;
    uint8_t values[FUNC_TYPE_VALUES_MAX];
};

static struct func_type func_types[FUNC_TYPES_MAX];
static uint32_t func_type_count;

/* Equal signatures get equal numbers, from 1; indirect calls compare them. */
uint32_t wasm_rt_register_func_type(uint32_t params, uint32_t results, ...)
{
    struct func_type type = {.params = (uint8_t)params, .results = (uint8_t)results};
    va_list arguments;

    if (params + results > FUNC_TYPE_VALUES_MAX)
        abort();
    va_start(arguments, results);
    for (uint32_t i = 0; i < params + results; i++)
        type.values[i] = (uint8_t)va_arg(arguments, int);
    va_end(arguments);

    for (uint32_t i = 0; i < func_type_count; i++) {
        if (memcmp(&func_types[i], &type, sizeof(type)) == 0)
            return i + 1;
    }
    if (func_type_count == FUNC_TYPES_MAX)
        abort();
    func_types[func_type_count] = type;
    return ++func_type_count;
}

#else

void wasm_rt_allocate_memory(wasm_rt_memory_t *memory, uint64_t initial_pages, uint64_t max_pages,
                             bool is64)
{
    if (is64)
        abort(); /* 64-bit addresses could reach beyond the reservation */
    rt_allocate(memory, initial_pages, max_pages);
}

uint64_t wasm_rt_grow_memory(wasm_rt_memory_t *memory, uint64_t pages)
{
    return rt_grow(memory, pages);
}

#endif
