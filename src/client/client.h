/*
 * The door of the client layer: a daemon as a sandbox. A request is sent at most once, and an
 * answer is believed only after its record was checked against the request as sent. A client is
 * shared by any number of threads; requests, results and errors belong to one. Neither token nor
 * request appears in an error or in what the caller's log is told.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "wire/wire.h"

#include <plimsoll/client.h>

typedef struct client client;

/*
 * Open a client for a daemon; sends nothing. `options` is complete (its size was checked by the
 * caller) and is copied. Errors: PLIM_E_INVALID_BASE_URL, PLIM_E_INSECURE_HTTP,
 * PLIM_E_INVALID_OPTION, PLIM_E_NOMEM; all marked.
 */
bool client_new(const plim_client_options *options, client **out, plim_error *err);

/* Calls in flight must have returned. NULL allowed. */
void client_free(client *self);

/*
 * Validate, send, check, record. True: `*out` is the result and has its record. False: `*out` is
 * NULL, or with code data_loss what came back, without a record, or with PLIM_E_NOT_RECORDED the
 * checked result. `*out` must be NULL before.
 */
bool client_run(client *self, const core_request *request, const run_ctx *ctx, plim_result **out,
                plim_error *err);

/* The same for a binary RunRequest, sent exactly as given. */
bool client_exchange(client *self, plim_bytes request, const run_ctx *ctx, plim_result **out,
                     plim_error *err);

/*
 * What the daemon says of itself now. `out->provider` is static: "unknown" for a provider that this
 * library does not know. With PLIM_E_PROTOCOL_MISMATCH (a daemon of another number, marked
 * `protocol`) `out` is filled too, else untouched.
 */
bool client_describe(client *self, const run_ctx *ctx, core_description *out, plim_error *err);

/* Keep `*cause` as the error that came before `err`, and clear it. Without memory it is dropped. */
void client_error_set_cause(plim_error *err, plim_error *cause);

#endif
