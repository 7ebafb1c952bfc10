/*
 * A daemon as a sandbox: how to open it, and what an error says when a daemon's answer is behind
 * it. The handle is the same plim_sandbox as a local one; every answer is checked before it is
 * believed. A call whose answer arrived but does not check fails with code `data_loss` and sets
 * both `*out` and `*err`: the result is what came back, without a record, and both are the caller's
 * to free.
 *
 * Not in this version: sessions (open, calls, close, plim_session_exchange, an error's record of an
 * unanswered call) and what signs records.
 */
#ifndef PLIMSOLL_CLIENT_H
#define PLIMSOLL_CLIENT_H

#include <plimsoll/record.h>
#include <plimsoll/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Milliseconds of a whole exchange when no other number is given: above a daemon's ceiling on a
 * run. */
#define PLIM_REQUEST_TIMEOUT_MS 360000

/**
 * Who keeps what was run, as a journal or a harness does. A callback is called on the thread that
 * makes the call, after every check has passed and before the call returns, so from several threads
 * at once when the handle is shared; an exchange that failed any check never reaches it. Its
 * arguments are borrowed. Anything but 0 means that the exchange was not kept: the call then
 * returns PLIM_E_NOT_RECORDED together with the result. A recorder without all three callbacks
 * serves single runs only; `record` must be there. Sessions are not in this version, so the other
 * two are kept and not called.
 */
typedef struct plim_recorder {
    size_t size;
    void *ctx;
    /** An answered run: the binary `RunRequest` as it was sent, or of a session call its stored
     * form, and the binary `RunResponse` as it was received. They hold code and output in full. */
    int (*record)(void *ctx, plim_bytes request, plim_bytes response);
    /** A session call that may have run and has no answer, and its checked record. */
    int (*record_unanswered)(void *ctx, plim_bytes request, const plim_record *record);
    /** A session that was closed, as both sides saw it: its fingerprint, how many calls it had and
     * the digest of the last one's record. */
    int (*record_close)(void *ctx, const char *session, uint64_t calls,
                        const char *last_record_sha256);
} plim_recorder;

/** Gets one line of text about a call, without a line end and never with a token, code, output or a
 * session's ID. Called as a recorder is. */
typedef void plim_log_fn(void *log_ctx, const char *text);

/** How to reach a daemon. Zero in every member but `size` and `base_url` means the default. */
typedef struct plim_client_options {
    size_t size;
    /** `http://` or `https://`, host, and a port and path if need be. */
    plim_bytes base_url;
    /** Bearer token: visible ASCII. None for an open development daemon. */
    plim_bytes token;
    /** Allow cleartext to a host that is not this machine: code, output and token are then readable
     * on the way. */
    bool insecure_http;
    /** Bounds a whole exchange, from name resolution to the last byte of the answer; 0 takes
     * PLIM_REQUEST_TIMEOUT_MS. */
    int64_t request_timeout_ms;
    /** PEM file of the authorities to trust in place of the system's. */
    plim_bytes ca_file;
    /** Copied; its `ctx` must outlive the handle. */
    const plim_recorder *recorder;
    /** NULL: the library says nothing. `log_ctx` must outlive the handle. */
    plim_log_fn *log;
    void *log_ctx;
} plim_client_options;

/**
 * Open a handle for a daemon; nothing is sent and no connection is made. Errors:
 * PLIM_E_INVALID_BASE_URL, PLIM_E_INSECURE_HTTP (cleartext to another machine),
 * PLIM_E_INVALID_OPTION. The token is copied, never printed, and wiped with the handle.
 */
PLIM_API plim_status plim_sandbox_connect(const plim_client_options *options, plim_sandbox **out,
                                          plim_error *err);

/**
 * Send a binary `RunRequest` exactly as given: nothing is filled in, not even the protocol's
 * number, and nothing is validated first. The answer is checked and recorded like a run's. For
 * repeating a stored request. Errors besides those of a run: PLIM_E_INVALID_REQUEST, marked, for
 * bytes that are no such message or hold a table whose rows differ in width;
 * PLIM_E_UNSUPPORTED, marked, on a handle that is not a daemon's.
 */
PLIM_API plim_status plim_exchange(plim_sandbox *sandbox, plim_bytes request, plim_cancel *cancel,
                                   plim_result **out, plim_error *err);

/** How a session ended; numbered as on the wire. OPEN on an error that does not speak of a session.
 */
typedef enum {
    PLIM_SESSION_OPEN = 0,
    PLIM_SESSION_CLOSED = 1,
    PLIM_SESSION_EXPIRED = 2,
    PLIM_SESSION_DISK_EXCEEDED = 3,
    PLIM_SESSION_MAIN_PROCESS_ENDED = 4,
    PLIM_SESSION_BOUNDARY_FAILED = 5,
    PLIM_SESSION_SANDBOX_CHANGED = 6,
    PLIM_SESSION_SHUTDOWN = 7,
    PLIM_SESSION_REPLACED = 8,
    PLIM_SESSION_NOT_FOUND = 9,
    PLIM_SESSION_UNCLAIMED = 10,
    PLIM_SESSION_UNKNOWN = 255 /**< it ended, for a reason this library does not know */
} plim_session_end;

/** The name of a session's end, e.g. `"disk_exceeded"`. */
PLIM_API const char *plim_session_end_name(plim_session_end end);

/** @name What a daemon's answer adds to an error. Borrowed from the error. */
/**@{*/
/** Did an answer come that cannot be tied to this request? Then nothing it claimed is believed. */
PLIM_API bool plim_error_answer_not_bound(const plim_error *err);
PLIM_API plim_session_end plim_error_session_end(const plim_error *err);
/** One sentence on why the session ended; `""` when there is none. */
PLIM_API const char *plim_error_session_end_detail(const plim_error *err);
/** The error that came before this one; NULL without one. */
PLIM_API const plim_error *plim_error_cause(const plim_error *err);
/**@}*/

/** @name Exchanges as bytes: binary `RunRequest` and `RunResponse`. Nothing is sent. */
/**@{*/
/** The digests that a record must state of these messages. PLIM_E_MALFORMED when the bytes are not
 * such a message; `out` is then `""`. */
PLIM_API plim_status plim_request_digest(plim_bytes request, char out[PLIM_DIGEST_HEX_SIZE]);
PLIM_API plim_status plim_result_digest(plim_bytes response, char out[PLIM_DIGEST_HEX_SIZE]);

/**
 * Check an answer of a single run against its request as a client does: same kind, record, digests,
 * evidence, floor, rule. PLIM_OK: `*out` is the record, freed with plim_record_free.
 */
PLIM_API plim_status plim_check_exchange(plim_bytes request, plim_bytes response, plim_record **out,
                                         plim_error *err);

/**
 * Check the binary `RunRecord` that a daemon states for a session call that may have run and has no
 * answer, against the call's stored form: digests, rule, floor, and that it is of a session.
 * Whether it follows the record before it is for whoever holds that one. PLIM_OK: `*out` is the
 * record, freed with plim_record_free.
 */
PLIM_API plim_status plim_check_unanswered(plim_bytes request, plim_bytes record, plim_record **out,
                                           plim_error *err);
/**@}*/

#ifdef __cplusplus
}
#endif

#endif
