/*
 * An outbound HTTP/1.1 exchange over a Unix socket: one connection, one request at a time, every
 * wait through a run context. What a request means is the caller's business. A connection belongs
 * to one thread at a time.
 */
#ifndef NET_EXCHANGE_H
#define NET_EXCHANGE_H

#include "net/response.h"

/* How a step of an exchange ended. */
typedef enum {
    NET_DONE,
    NET_DEADLINE, /* the context's deadline passed */
    NET_CANCELED, /* the context was cancelled */
    NET_BROKEN,   /* the connection, or what came over it; `reason` says how */
    NET_TOO_LARGE /* the answer is past its bound, or memory is out */
} net_end;

enum { NET_CONN_INPUT_BYTES = 32 * 1024 };

typedef struct net_conn {
    int fd; /* -1 when closed */
    net_response response;
    const char *reason; /* static; after NET_BROKEN or NET_TOO_LARGE */
    plim_bytes unread;  /* in `input` */
    char input[NET_CONN_INPUT_BYTES];
} net_conn;

/* The whole answer to a request. `body` was made by the caller and bounds it. */
typedef struct net_answer {
    int status;
    bool keep_alive; /* the connection may be used again */
    base_buf body;
} net_answer;

/* Connect to the socket at `path`. NULL when that failed: `*end` says how, and errno. */
net_conn *net_conn_open(const char *path, const run_ctx *ctx, net_end *end) PLIM_MUST_USE;
void net_conn_free(net_conn *conn);
BASE_CLEANUP_FN(net_conn, net_conn_free, net_conn_freep)

/* Is it still open, with nothing unasked in it? Does not wait. */
bool net_conn_is_idle(const net_conn *conn);

/* Write all of `bytes`. */
net_end net_conn_send(net_conn *conn, plim_bytes bytes, const run_ctx *ctx);

/* Read until the whole answer is there. For a 101, `status` is that, and what follows it is read
 * with net_conn_read. */
net_end net_conn_receive(net_conn *conn, const run_ctx *ctx, net_answer *answer);

/* Read until the head is there: `status` is set, some of the body may be in already, and `*whole`
 * says that all of it is. */
net_end net_conn_receive_head(net_conn *conn, const run_ctx *ctx, net_answer *answer, bool *whole);

/*
 * Take in what there is, without waiting, of an answer: true when it is whole or broken, and then
 * `*end` says which.
 */
bool net_conn_receive_some(net_conn *conn, net_answer *answer, net_end *end);

/*
 * After an upgrade: the next bytes, borrowed until the next call, without waiting. `*end` is
 * NET_DONE with no bytes when there is nothing yet, NET_BROKEN when the peer has closed or failed;
 * `*closed` says that it closed in order.
 */
plim_bytes net_conn_read(net_conn *conn, net_end *end, bool *closed);

/* Append a request with a body of that length (none when it is 0 and the method has none). */
void net_request_write(base_buf *out, const char *method, const char *target, const char *fields,
                       plim_bytes body);

#endif
