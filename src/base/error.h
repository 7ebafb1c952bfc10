/*
 * Filling the public plim_error. The contract (docs/internals/errors.md): a fallible function is
 * `bool thing(..., plim_error *err)`; it fills `err` once, where the fault is seen, and returns
 * false; callers add context with plim_error_wrap on the way up; the top prints it. `err` may be
 * NULL.
 *
 * Two constructors exist and no other code writes an error: plim_fail for "it may have run" (no
 * mark) and plim_refuse for "nothing ran" (marked with the reason). A mark on something that ran is
 * a security defect; its absence is not.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <plimsoll/error.h>

/* RPC status codes, numbered as gRPC numbers them: X(name, number, http status of a Connect
 * answer). */
#define PLIM_CODES(X)                                                                              \
    X(CANCELED, canceled, 1, 499)                                                                  \
    X(UNKNOWN, unknown, 2, 500)                                                                    \
    X(INVALID_ARGUMENT, invalid_argument, 3, 400)                                                  \
    X(DEADLINE_EXCEEDED, deadline_exceeded, 4, 504)                                                \
    X(NOT_FOUND, not_found, 5, 404)                                                                \
    X(ALREADY_EXISTS, already_exists, 6, 409)                                                      \
    X(PERMISSION_DENIED, permission_denied, 7, 403)                                                \
    X(RESOURCE_EXHAUSTED, resource_exhausted, 8, 429)                                              \
    X(FAILED_PRECONDITION, failed_precondition, 9, 400)                                            \
    X(ABORTED, aborted, 10, 409)                                                                   \
    X(OUT_OF_RANGE, out_of_range, 11, 400)                                                         \
    X(UNIMPLEMENTED, unimplemented, 12, 501)                                                       \
    X(INTERNAL, internal, 13, 500)                                                                 \
    X(UNAVAILABLE, unavailable, 14, 503)                                                           \
    X(DATA_LOSS, data_loss, 15, 500)                                                               \
    X(UNAUTHENTICATED, unauthenticated, 16, 401)

typedef enum {
    PLIM_CODE_OK = 0,
#define X(upper, lower, number, http) PLIM_CODE_##upper = number,
    PLIM_CODES(X)
#undef X
} plim_code;

/* Lower snake name of a code; "ok" for 0, "unknown" for a number outside the table. */
const char *plim_code_name(int code);
/* The code of a name; PLIM_CODE_OK when there is none such. */
plim_code plim_code_from_name(plim_bytes name);
/* HTTP status of a Connect error answer with this code. */
int plim_code_http_status(plim_code code);

/* An error that says nothing about whether code ran. Always false, so that `return plim_fail(...)`
 * reads well. */
bool plim_fail(plim_error *err, plim_status status, plim_code code, const char *format, ...)
    PLIM_PRINTF(4, 5);

/* A refusal: nothing ran, for this reason. Always false. */
bool plim_refuse(plim_error *err, plim_status status, plim_code code, plim_not_dispatched reason,
                 const char *format, ...) PLIM_PRINTF(5, 6);

/* Out of memory before anything was dispatched; after that use plim_fail with PLIM_E_NOMEM. Always
 * false. */
bool plim_refuse_nomem(plim_error *err);

/* Put "context: " before the message. Always false. */
bool plim_error_wrap(plim_error *err, const char *format, ...) PLIM_PRINTF(2, 3);

/* Give `*to` (may be NULL) what `*from` holds; `from` is then clear. Always false. */
bool plim_error_move(plim_error *to, plim_error *from);

/*
 * What a layer above adds to an error (`more`): its own struct starts with this, and
 * plim_error_clear releases it through `free`. Set it after plim_fail or plim_refuse, which clear
 * the error.
 */
struct plim_error_more {
    void (*free)(struct plim_error_more *more);
};

#define _cleanup_error_ _cleanup_(plim_error_clear)

/* Text of an errno value in the C locale, e.g. "No such file or directory"; static. */
const char *base_errno_text(int number);

#endif
