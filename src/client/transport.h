/*
 * One exchange with a daemon: a request out, an answer in, over kept-alive connections. A request
 * is written at most once, whatever happens to it. Thread-safe: a mutex guards the idle
 * connections, and an exchange has its connection to itself.
 */
#ifndef CLIENT_TRANSPORT_H
#define CLIENT_TRANSPORT_H

#include "client/answer.h"
#include "client/url.h"

typedef struct client_transport client_transport;

/* Copies what it keeps. `ca_file` may be NULL. NULL when memory is out. Opens no connection. */
client_transport *client_transport_new(const client_url *url, const char *ca_file) PLIM_MUST_USE;
/* No exchange may be in flight. NULL allowed. */
void client_transport_free(client_transport *transport);

/*
 * Send `request`, a whole HTTP/1.1 message, and read its answer into `answer`, which the caller has
 * initialised. The deadline of `ctx` bounds everything. True: a whole answer, of any status but 3xx
 * and within the limit. False: an error, marked exactly when not one byte of the request was
 * written.
 */
bool client_transport_exchange(client_transport *transport, plim_bytes request, const run_ctx *ctx,
                               client_answer *answer, plim_error *err);

#endif
