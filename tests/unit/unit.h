/*
 * What the unit tests share: cmocka with the headers it needs, and checks of bytes and errors that
 * say what they found. Include it first: base/base.h bans calls that cmocka's header mentions.
 */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <plimsoll/plimsoll.h>

/* `actual` is exactly the bytes of the literal. */
#define assert_bytes(actual, literal)                                                              \
    assert_bytes_at((actual), PLIM_LIT(literal), __FILE__, __LINE__)

static inline void assert_bytes_at(plim_bytes actual, plim_bytes expected, const char *file,
                                   int line)
{
    if (actual.len == expected.len &&
        (actual.len == 0 || memcmp(actual.data, expected.data, actual.len) == 0))
        return;
    print_error("found \"%.*s\" (%zu bytes), expected \"%.*s\" (%zu bytes)\n", (int)actual.len,
                actual.data ? actual.data : "", actual.len, (int)expected.len,
                expected.data ? expected.data : "", expected.len);
    _fail(file, line);
}

/* `text` contains `part`. */
#define assert_contains(text, part) assert_contains_at((text), (part), __FILE__, __LINE__)

static inline void assert_contains_at(const char *text, const char *part, const char *file,
                                      int line)
{
    if (strstr(text, part))
        return;
    print_error("\"%s\" does not contain \"%s\"\n", text, part);
    _fail(file, line);
}

/* The error is a refusal of this class, code and reason, with something to read. */
#define assert_refused(err, class, code, reason)                                                   \
    assert_error_at((err), (class), (code), (reason), __FILE__, __LINE__)

/* The error says nothing about whether anything ran. */
#define assert_failed(err, class, code)                                                            \
    assert_error_at((err), (class), (code), PLIM_ND_NONE, __FILE__, __LINE__)

static inline void assert_error_at(const plim_error *err, plim_status class, const char *code,
                                   plim_not_dispatched reason, const char *file, int line)
{
    bool marked = reason != PLIM_ND_NONE;
    if (plim_error_status(err) == class && strcmp(plim_error_code(err), code) == 0 &&
        plim_error_not_dispatched(err) == reason && plim_may_have_run(err) == !marked &&
        plim_error_message(err)[0] != '\0')
        return;
    print_error("found %s, %s, reason \"%s\", \"%s\"; expected %s, %s, reason \"%s\"\n",
                plim_status_name(plim_error_status(err)), plim_error_code(err),
                plim_not_dispatched_name(plim_error_not_dispatched(err)), plim_error_message(err),
                plim_status_name(class), code, plim_not_dispatched_name(reason));
    _fail(file, line);
}

#endif
