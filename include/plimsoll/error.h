/*
 * The one error value. The caller owns it: start it as PLIM_ERROR_INIT, pass its address (or NULL,
 * if the reason does not matter), read it with the accessors, release it with plim_error_clear. One
 * thread at a time. Every call clears the error on entry, so a value may be used again and again.
 *
 * The one question to ask of an error is whether anything ran: plim_may_have_run answers it, and
 * nothing else does.
 */
#ifndef PLIMSOLL_ERROR_H
#define PLIMSOLL_ERROR_H

#include <plimsoll/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Longest message, in bytes, terminator included; longer ones are cut at a character. */
#define PLIM_ERROR_MESSAGE_MAX 512

/** Read it with the accessors; the members are not part of the interface. */
typedef struct plim_error {
    plim_status status;
    int code;
    plim_not_dispatched not_dispatched;
    int http_status;
    struct plim_error_more *more;
    char message[PLIM_ERROR_MESSAGE_MAX];
} plim_error;

/* clang-format off */
#define PLIM_ERROR_INIT {PLIM_OK, 0, PLIM_ND_NONE, 0, NULL, {0}}
/* clang-format on */

/** The class of the error; PLIM_OK when there is none. */
PLIM_API plim_status plim_error_status(const plim_error *err);

/** The status code in lower snake case, e.g. `"failed_precondition"`; `"ok"` when there is no
 * error. Static. */
PLIM_API const char *plim_error_code(const plim_error *err);

/** One sentence for a person; valid until the error is cleared or used again. Never NULL, never
 * holds a secret. */
PLIM_API const char *plim_error_message(const plim_error *err);

/** Why nothing ran, or PLIM_ND_NONE: it may have. */
PLIM_API plim_not_dispatched plim_error_not_dispatched(const plim_error *err);

/** The HTTP status of a daemon's answer; 0 when there was none. */
PLIM_API int plim_error_http_status(const plim_error *err);

/** True unless the error carries the promise that nothing ran. True also for an error that is not
 * set. */
PLIM_API bool plim_may_have_run(const plim_error *err);

/** Release what the error holds and set it to PLIM_ERROR_INIT. NULL is allowed. */
PLIM_API void plim_error_clear(plim_error *err);

#ifdef __cplusplus
}
#endif

#endif
