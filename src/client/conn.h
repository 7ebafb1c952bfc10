/*
 * One connection to a daemon. libcurl resolves, connects and speaks TLS (CURLOPT_CONNECT_ONLY); it
 * never sees a request, so it cannot send one twice, follow a redirect, use a proxy or decide that
 * an answer to half a request is an error. Belongs to one thread at a time; every wait is the
 * caller's and goes through run_ctx.
 */
#ifndef CLIENT_CONN_H
#define CLIENT_CONN_H

#include "client/url.h"

typedef struct client_conn client_conn;

/* Once per process, before the first connection; any thread, any number of times. False: no TLS. */
bool client_conn_init(void);

/*
 * Connect within `ctx`. NULL with an error: nothing was sent, and the error is marked so. `ca_file`
 * may be NULL: the system's authorities.
 */
client_conn *client_conn_open(const client_url *url, const char *ca_file, const run_ctx *ctx,
                              plim_error *err) PLIM_MUST_USE;

/* Close at once, whatever is in flight. NULL allowed. */
void client_conn_close(client_conn *conn);
BASE_CLEANUP_FN(client_conn, client_conn_close, client_conn_closep)

/* Can an idle connection carry a request? Not when the peer has closed it or has said anything. */
bool client_conn_idle_usable(const client_conn *conn);

/* The socket, to wait on. */
int client_conn_fd(const client_conn *conn);

typedef enum {
    CLIENT_IO_SOME,  /* `*count` bytes were taken or given */
    CLIENT_IO_AGAIN, /* none now: wait for the socket */
    CLIENT_IO_END,   /* the peer has closed its side */
    CLIENT_IO_FAILED /* the connection is broken */
} client_io;

/* After AGAIN, send the same bytes again: TLS may hold a part of them. */
client_io client_conn_send(client_conn *conn, plim_bytes bytes, size_t *count);
client_io client_conn_receive(client_conn *conn, char *into, size_t size, size_t *count);

#endif
