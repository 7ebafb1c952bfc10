/*
 * The inside of the server, for this folder only: the loop, its scratch buffers, the gate through
 * which other threads hand in answers, and the listeners. All of it belongs to the loop thread but
 * the gate, which has its own lock.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "http/http.h"
#include "net/net.h"

typedef struct http_conn http_conn;
typedef struct http_tls_context http_tls_context;

/*
 * Where other threads leave answered requests. Counted, because a request may be answered after the
 * server is gone: every request and the server hold one reference.
 */
typedef struct http_gate {
    atomic_size_t refs;
    pthread_mutex_t lock;       /* guards first, last, wakeup and the listeners' drain orders */
    http_request *first, *last; /* answered, in order */
    uv_async_t *wakeup;         /* NULL once the loop has ended */

    /* loop thread only, but for `thread`, which is set before any request exists */
    pthread_t thread;
    const http_request *current; /* the request whose callback is running */
} http_gate;

http_gate *http_gate_new(void) PLIM_MUST_USE;
void http_gate_ref(http_gate *gate);
void http_gate_unref(http_gate *gate);
/* Is this the loop's thread, inside a callback of `req`? */
bool http_gate_is_current(const http_gate *gate, const http_request *req);
/* Queue an answered request and wake the loop; false when the loop has ended. */
bool http_gate_push(http_gate *gate, http_request *req);
/* Take everything that is queued, linked by `next`. */
http_request *http_gate_take(http_gate *gate);
/* The loop ends: nothing more is queued. Returns what still was. */
http_request *http_gate_close(http_gate *gate);

/* Bytes read at once, and plaintext that one connection may gather before it must be written. */
enum {
    HTTP_READ_BYTES = 65536,
    HTTP_TLS_RECORD_BYTES = 16384,
    HTTP_OUT_HIGH = 65536,
    HTTP_OUT_MAX = 1 << 20,
    HTTP_CIPHER_MAX = 2 << 20
};

struct http_server {
    uv_loop_t loop;
    uv_async_t wakeup;
    http_gate *gate;
    http_listener *listeners;
    /* Scratch for the connection whose turn it is; empty between turns. */
    char *in;        /* HTTP_READ_BYTES, then HTTP_TLS_RECORD_BYTES for what was decrypted */
    base_buf out;    /* plaintext to send */
    base_buf cipher; /* the same under TLS, encrypted */
    bool wakeup_open;
    int64_t date_s;
    char date[32]; /* the date header's value for second date_s */
};

/* The value of a date header now. */
plim_bytes http_server_date(http_server *server);

/* A listener has closed: once all have, let the loop end. */
void http_server_listener_closed(http_server *server);

typedef enum {
    HTTP_LISTENER_BOUND,
    HTTP_LISTENER_ACCEPTING,
    HTTP_LISTENER_DRAINING,
    HTTP_LISTENER_CLOSED
} http_listener_state;

struct http_listener {
    http_server *server;
    http_listener *next;
    http_limits limits;
    http_handler handler;
    http_tls_context *tls; /* NULL for cleartext */
    http_listener_state state;
    int fd;
    uint16_t port;
    char address[64];

    uv_poll_t poll;   /* of fd */
    uv_timer_t timer; /* accepting: back-off after EMFILE; draining: the budget */
    unsigned handles; /* of the two, not yet closed */
    bool polling;
    bool failed; /* accepting is over */

    http_conn *conns;
    int64_t conn_count;

    /* the order to drain; under the gate's lock until the loop has taken it */
    bool drain_ordered;
    int64_t drain_until_ms; /* on the loop's clock */
    bool drained_clean;
    void (*on_drained)(bool clean, void *data);
    void *on_drained_data;
};

/* Carry out a drain that was ordered; on the loop thread. */
void http_listener_check_orders(http_listener *listener);
/* A connection of this listener is gone. */
void http_listener_conn_closed(http_listener *listener, http_conn *conn);
/* Close hard, now: for http_server_free. */
void http_listener_abort(http_listener *listener);
void http_listener_free(http_listener *listener);

/* Milliseconds on the loop's (monotonic) clock. */
static inline int64_t http_now_ms(const http_server *server)
{
    return (int64_t)uv_now(&server->loop);
}

#endif
