#define BASE_ALLOC_IMPLEMENTATION
#include "base/base.h"

void *base_alloc(size_t count, size_t size)
{
    return calloc(count ? count : 1, size ? size : 1);
}

void *base_realloc(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (!base_size_mul(count, size, &bytes))
        return NULL;
    return realloc(block, bytes ? bytes : 1);
}

char *base_strdup(const char *text)
{
    return strdup(text);
}

void base_free(void *block)
{
    free(block);
}

void base_wipe(void *block, size_t size)
{
    if (block)
        explicit_bzero(block, size);
}

void base_free_secret(void *block, size_t size)
{
    base_wipe(block, size);
    free(block);
}

/* ---- arena: a list of chunks, the newest first; an object larger than a chunk gets one of its own
 * ---- */

enum { ARENA_CHUNK_BYTES = 4096 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(max_align_t) char bytes[];
};

struct base_arena {
    struct arena_chunk *chunks;
    size_t taken, bytes_max;
};

base_arena *base_arena_new(size_t bytes_max)
{
    base_arena *arena = base_new(base_arena);
    if (arena)
        arena->bytes_max = bytes_max;
    return arena;
}

void base_arena_free(base_arena *arena)
{
    if (!arena)
        return;
    for (struct arena_chunk *chunk = arena->chunks; chunk;) {
        struct arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    free(arena);
}

static struct arena_chunk *arena_chunk_for(base_arena *arena, size_t bytes)
{
    struct arena_chunk *chunk = arena->chunks;
    if (chunk && chunk->size - chunk->used >= bytes)
        return chunk;
    size_t size = bytes > ARENA_CHUNK_BYTES ? bytes : ARENA_CHUNK_BYTES, whole;
    if (!base_size_add(size, sizeof(*chunk), &whole))
        return NULL;
    chunk = calloc(1, whole);
    if (!chunk)
        return NULL;
    chunk->size = size;
    /* A large object's chunk is full from birth: keep the half-used one in front for what comes
     * next. */
    if (bytes > ARENA_CHUNK_BYTES && arena->chunks) {
        chunk->next = arena->chunks->next;
        arena->chunks->next = chunk;
    } else {
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    return chunk;
}

void *base_arena_alloc(base_arena *arena, size_t count, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    size_t bytes, total;
    if (!base_size_mul(count, size, &bytes) || !base_size_add(bytes, align - 1, &bytes))
        return NULL;
    bytes &= ~(align - 1);
    if (bytes == 0)
        bytes = align;
    if (!base_size_add(arena->taken, bytes, &total) || total > arena->bytes_max)
        return NULL;
    struct arena_chunk *chunk = arena_chunk_for(arena, bytes);
    if (!chunk)
        return NULL;
    void *memory = chunk->bytes + chunk->used;
    chunk->used += bytes;
    arena->taken = total;
    return memory;
}

char *base_arena_text(base_arena *arena, plim_bytes bytes)
{
    size_t size;
    if (!base_size_add(bytes.len, 1, &size))
        return NULL;
    char *copy = base_arena_alloc(arena, size, 1);
    if (copy && bytes.len)
        memcpy(copy, bytes.data, bytes.len);
    return copy;
}

bool base_arena_dup(base_arena *arena, plim_bytes bytes, plim_bytes *out)
{
    char *copy = base_arena_text(arena, bytes);
    if (!copy)
        return false;
    *out = (plim_bytes){copy, bytes.len};
    return true;
}

char *base_arena_printf(base_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : base_arena_alloc(arena, (size_t)length + 1, 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}
