/* For the tests of the wire layer: decoding and encoding in one line, in an arena of the test. */
#ifndef TESTS_WIRE_SUPPORT_H
#define TESTS_WIRE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/wire.h"

static base_arena *arena;
static plim_error error;

static int make_arena(void **state)
{
    (void)state;
    arena = base_arena_new(WIRE_DECODE_BYTES_MAX);
    error = (plim_error)PLIM_ERROR_INIT;
    return arena ? 0 : -1;
}

static int free_arena(void **state)
{
    (void)state;
    base_arena_free(arena);
    plim_error_clear(&error);
    return 0;
}

#define WIRE_TEST(name) cmocka_unit_test_setup_teardown(name, make_arena, free_arena)

/* A copy without a terminator, so that a sanitizer sees a read past the end. */
static inline plim_bytes exact(plim_bytes bytes)
{
    char *copy = base_arena_alloc(arena, 1, bytes.len ? bytes.len : 1);
    assert_non_null(copy);
    if (bytes.len)
        memcpy(copy, bytes.data, bytes.len);
    return (plim_bytes){copy, bytes.len};
}

static inline void *decode(wire_codec codec, const wire_type *type, plim_bytes in)
{
    plim_error_clear(&error);
    return wire_decode(arena, codec, type, exact(in), &error);
}

/* Decode a message that must be well formed. */
static inline void *decoded(wire_codec codec, const wire_type *type, plim_bytes in)
{
    void *message = decode(codec, type, in);
    if (!message)
        fail_msg("not decoded: %s", plim_error_message(&error));
    return message;
}

/* The input must be refused as malformed, unmarked. */
static inline void refused(wire_codec codec, const wire_type *type, plim_bytes in)
{
    if (decode(codec, type, in))
        fail_msg("decoded though malformed: %.*s", (int)in.len, in.data);
    assert_string_equal(plim_error_code(&error), "invalid_argument");
    assert_int_equal(plim_error_not_dispatched(&error), PLIM_ND_NONE);
}

static inline plim_bytes encoded(wire_codec codec, const void *message)
{
    base_buf buf = BASE_BUF_INIT(32 << 20);
    plim_bytes kept;
    assert_true(wire_encode(codec, message, &buf));
    assert_true(base_arena_dup(arena, base_buf_bytes(&buf), &kept));
    base_buf_free(&buf);
    return kept;
}

static inline void is_text(plim_bytes bytes, const char *expected)
{
    if (!base_bytes_is(bytes, expected))
        fail_msg("\"%.*s\" is not \"%s\"", (int)bytes.len, bytes.data, expected);
}

#define JSON(type, text)          decoded(WIRE_JSON, WIRE_TYPE(type), plim_bytes_of(text))
#define JSON_REFUSED(type, text)  refused(WIRE_JSON, WIRE_TYPE(type), plim_bytes_of(text))
#define PROTO(type, text)         decoded(WIRE_PROTO, WIRE_TYPE(type), PLIM_LIT(text))
#define PROTO_REFUSED(type, text) refused(WIRE_PROTO, WIRE_TYPE(type), PLIM_LIT(text))

#endif
