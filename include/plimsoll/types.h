/*
 * Plain values of the plimsoll API: bytes, tiers, outcomes and reasons. No function here allocates
 * or fails. Everything is safe to use from any thread.
 */
#ifndef PLIMSOLL_TYPES_H
#define PLIMSOLL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PLIM_API __attribute__((visibility("default")))
#else
#define PLIM_API
#endif

/** Borrowed bytes: `len` bytes at `data`; `data` may be NULL when `len` is 0. Text is UTF-8 and has
 * no terminator. */
typedef struct plim_bytes {
    const char *data;
    size_t len;
} plim_bytes;

#ifdef __cplusplus
#define PLIM_BYTES_(d, n) (plim_bytes{(d), (n)})
#else
#define PLIM_BYTES_(d, n) ((plim_bytes){(d), (n)})
#endif

/** The bytes of a string literal, without its terminator. */
#define PLIM_LIT(literal) PLIM_BYTES_("" literal, sizeof(literal) - 1)

/** The bytes of a C string, without its terminator; NULL gives no bytes. Borrows `text`. */
static inline plim_bytes plim_bytes_of(const char *text)
{
    return PLIM_BYTES_(text, text ? strlen(text) : 0);
}

/**
 * How strong the wall around a run was, weakest first. As a floor, UNKNOWN means "none asked" and
 * NONE is refused: a floor is one of the four named walls. A tier is configuration, provider
 * evidence and a startup test; it is not attestation.
 */
typedef enum {
    PLIM_TIER_UNKNOWN = 0, /**< no evidence; meets no floor */
    PLIM_TIER_NONE,        /**< nothing runs, or nothing stands around it; meets no floor */
    PLIM_TIER_PROCESS,     /**< a process of the same machine and user */
    PLIM_TIER_CONTAINER,   /**< a container on a shared kernel */
    PLIM_TIER_KERNEL,      /**< a kernel of its own, in user space */
    PLIM_TIER_VM           /**< a virtual machine */
} plim_tier;

/** The name of a tier, e.g. `"process"`; a value outside the enum gives `"unknown"`. */
PLIM_API const char *plim_tier_name(plim_tier tier);

/** Read a floor: exactly `process`, `container`, `kernel` or `vm`. False, and `*out` untouched, for
 * anything else. */
PLIM_API bool plim_tier_from_name(plim_bytes name, plim_tier *out);

/** Does evidence of `have` meet the floor `floor`? UNKNOWN and NONE evidence meet no floor but
 * UNKNOWN (none asked). */
PLIM_API bool plim_tier_meets(plim_tier have, plim_tier floor);

/**
 * Why nothing ran. PLIM_ND_NONE on an error means the opposite of certainty: the code may have run,
 * so repeating the call could run it twice. Every other value is a promise that it did not.
 */
typedef enum {
    PLIM_ND_NONE = 0,
    PLIM_ND_REQUEST = 1,    /**< malformed or out of bounds, or cancelled before it was sent */
    PLIM_ND_PERMISSION = 2, /**< the caller may not do this */
    PLIM_ND_PROTOCOL = 3,   /**< the daemon speaks another protocol number */
    PLIM_ND_UNSUPPORTED =
        4, /**< this provider cannot run this kind of request, or nothing is enabled */
    PLIM_ND_ISOLATION = 5, /**< the sandbox is weaker than the floor */
    PLIM_ND_CAPACITY = 6,  /**< no slot, rate or budget left now */
    PLIM_ND_ENVIRONMENT =
        7, /**< the software or the sandbox is not what it must be, or could not be reached */
    PLIM_ND_UNKNOWN = 255 /**< marked by a daemon with a reason this library does not know */
} plim_not_dispatched;

/** The name of a reason, e.g. `"isolation"`; `""` for PLIM_ND_NONE. */
PLIM_API const char *plim_not_dispatched_name(plim_not_dispatched reason);

/** What a call returned: PLIM_OK, or the class of its error. The class is for messages; the reason
 * decides a retry. */
typedef enum {
    PLIM_OK = 0,
    /* never sent */
    PLIM_E_INVALID_BASE_URL,
    PLIM_E_INSECURE_HTTP,
    PLIM_E_INVALID_OPTION,
    PLIM_E_RAW_GRANT_UNSUPPORTED,
    PLIM_E_RECORDER_CANNOT_KEEP_SESSIONS,
    PLIM_E_SESSION_STOPPED,
    PLIM_E_NOMEM,
    /* refused or answered */
    PLIM_E_INVALID_REQUEST,
    PLIM_E_INSUFFICIENT_ISOLATION,
    PLIM_E_SOFTWARE_MISMATCH,
    PLIM_E_DISABLED,
    PLIM_E_UNSUPPORTED,
    PLIM_E_PROTOCOL_MISMATCH,
    PLIM_E_AT_CAPACITY,
    PLIM_E_SESSION_ENDED,
    PLIM_E_REMOTE, /**< the sandbox's side failed; the error's code says how */
    PLIM_E_UNANSWERED_CALL,
    /* no usable answer */
    PLIM_E_TRANSPORT,
    PLIM_E_REQUEST_TIMEOUT,
    PLIM_E_CANCELED,
    PLIM_E_RESPONSE_TOO_LARGE,
    PLIM_E_MALFORMED,
    /* data loss: an answer came and does not check */
    PLIM_E_ANSWER_NOT_BOUND,
    PLIM_E_NO_RECORD,
    PLIM_E_RECORD_VERSION,
    PLIM_E_RECORD_MISMATCH,
    PLIM_E_CHAIN,
    PLIM_E_ISOLATION_EVIDENCE,
    PLIM_E_SOFTWARE_EVIDENCE,
    PLIM_E_RESULT_KIND,
    /* ran and checked */
    PLIM_E_NOT_RECORDED,
    PLIM_E_ENVIRONMENT_MISMATCH,
    /* placement, attest */
    PLIM_E_NO_BACKEND,
    PLIM_E_LINE,
    PLIM_E_LINK,
    PLIM_E_INCOMPLETE,
    PLIM_E_SIGNATURE,
    PLIM_E_STATEMENT,
    PLIM_E_STORED,
    PLIM_E_EXPECTED,
    PLIM_E_IO
} plim_status;

/** The name of a status, e.g. `"insufficient_isolation"`; `"ok"` for PLIM_OK. */
PLIM_API const char *plim_status_name(plim_status status);

#ifdef __cplusplus
}
#endif

#endif
