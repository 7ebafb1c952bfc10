/* What the fuzz targets of both encodings do with a message that decoded. */
#ifndef TESTS_FUZZ_MESSAGES_H
#define TESTS_FUZZ_MESSAGES_H

#include "fuzz.h"

static const wire_type *const fuzz_types[] = {
#define X(name, generated) WIRE_TYPE(name),
    WIRE_MESSAGES(X)
#undef X
};

/* Encode, decode, encode: both encodings must be the same bytes. */
static inline void fuzz_again(wire_codec codec, const wire_type *type, const void *message)
{
    base_arena *arena = base_arena_new(WIRE_DECODE_BYTES_MAX);
    base_buf first = BASE_BUF_INIT(64 << 20), second = BASE_BUF_INIT(64 << 20);
    plim_error err = PLIM_ERROR_INIT;
    if (!arena || !wire_encode(codec, message, &first))
        abort();
    void *back = wire_decode(arena, codec, type, base_buf_bytes(&first), &err);
    if (!back || !wire_encode(codec, back, &second) ||
        !base_bytes_equal(base_buf_bytes(&first), base_buf_bytes(&second)))
        abort();
    base_buf_free(&first);
    base_buf_free(&second);
    base_arena_free(arena);
}

static inline void fuzz_convert(base_arena *arena, const wire_type *type, void *message)
{
    core_request request;
    plim_error err = PLIM_ERROR_INIT;
    if (type == WIRE_TYPE(run_request) && wire_read_request(arena, message, &request, &err) &&
        !wire_write_request(arena, &request))
        abort();
    if (type == WIRE_TYPE(run_response))
        plim_result_free(wire_read_result(message));
    plim_error_clear(&err);
}

static inline void fuzz_round_trip(wire_codec codec, const uint8_t *data, size_t size)
{
    if (size == 0)
        return;
    const wire_type *type = fuzz_types[data[0] % PLIM_COUNT(fuzz_types)];
    base_arena *arena = base_arena_new(WIRE_DECODE_BYTES_MAX);
    plim_error err = PLIM_ERROR_INIT;
    void *message = arena ? wire_decode(arena, codec, type,
                                        (plim_bytes){(const char *)data + 1, size - 1}, &err)
                          : NULL;
    if (message) {
        fuzz_again(WIRE_PROTO, type, message);
        fuzz_again(WIRE_JSON, type, message);
        fuzz_convert(arena, type, message);
    }
    plim_error_clear(&err);
    base_arena_free(arena);
}

#endif
