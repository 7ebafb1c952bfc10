/*
 * One call of a procedure: the HTTP request around a message, and the first judgement of its
 * answer: is it bound to this request, is it an error, is it of the content type asked for.
 */
#ifndef CLIENT_CALL_H
#define CLIENT_CALL_H

#include "client/answer.h"
#include "client/client.h"
#include "client/transport.h"

struct client {
    base_arena *arena; /* holds the struct and the texts */
    client_transport *transport;
    const char *authority, *path;
    char *token; /* wiped when freed; NULL for none */
    size_t token_size;
    int64_t timeout_ms;
    plim_recorder recorder; /* `record` is NULL without one */
    plim_log_fn *log;       /* NULL for none */
    void *log_ctx;
};

/* Tell the log how a call that began at `started_ns` went; `err` is not set when it went well. */
void client_log_call(const client *self, const char *procedure, int64_t started_ns,
                     const plim_error *err);

typedef enum {
    CLIENT_CALL_ANSWERED, /* a bound success; the answer's body is the message */
    CLIENT_CALL_UNBOUND,  /* a success that is not bound: `err` is PLIM_E_ANSWER_NOT_BOUND, the body
                             is there */
    CLIENT_CALL_FAILED    /* `err` says why */
} client_call_outcome;

/* Send `message` to `procedure`, e.g. "Run", and read the answer into an initialised `answer`. */
client_call_outcome client_call(client *self, const char *procedure, plim_bytes message,
                                const run_ctx *ctx, client_answer *answer, plim_error *err);

#endif
