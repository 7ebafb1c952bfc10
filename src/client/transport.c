#include "client/transport.h"

#include "client/conn.h"

#include <pthread.h>

enum {
    IDLE_MAX = 64,      /* connections kept for reuse; more callers at once connect afresh */
    READ_BYTES = 65536, /* of one read */
    IDLE_MS_MAX =
        100 * INT64_C(1000) /* below a daemon's two minutes, so that it seldom closes under us */
};

typedef struct idle_conn {
    client_conn *conn;
    int64_t since_ns;
} idle_conn;

struct client_transport {
    base_arena *arena;
    client_url url;
    const char *ca_file;
    pthread_mutex_t mutex; /* guards `idle` and `idle_count` */
    idle_conn idle[IDLE_MAX];
    size_t idle_count;
};

/* An exchange in progress. */
typedef struct exchange {
    client_conn *conn;
    const run_ctx *ctx;
    plim_bytes unsent;
    client_answer *answer;
    bool sent; /* set immediately before the first byte of the request is written */
} exchange;

client_transport *client_transport_new(const client_url *url, const char *ca_file)
{
    base_arena *arena = base_arena_new(65536);
    client_transport *transport = arena ? base_arena_alloc(arena, 1, sizeof(*transport)) : NULL;
    if (transport) {
        transport->arena = arena;
        transport->url = *url;
        transport->url.origin = base_arena_text(arena, plim_bytes_of(url->origin));
        transport->url.authority = base_arena_text(arena, plim_bytes_of(url->authority));
        transport->url.path = NULL; /* the request has it */
        transport->ca_file = ca_file ? base_arena_text(arena, plim_bytes_of(ca_file)) : NULL;
        if (transport->url.origin && transport->url.authority && (transport->ca_file || !ca_file) &&
            pthread_mutex_init(&transport->mutex, NULL) == 0)
            return transport;
    }
    base_arena_free(arena);
    return NULL;
}

void client_transport_free(client_transport *transport)
{
    if (!transport)
        return;
    for (size_t i = 0; i < transport->idle_count; i++)
        client_conn_close(transport->idle[i].conn);
    pthread_mutex_destroy(&transport->mutex);
    base_arena_free(transport->arena);
}

/* ---- the pool ---- */

static client_conn *pool_take(client_transport *transport, int64_t *since_ns)
{
    client_conn *conn = NULL;
    pthread_mutex_lock(&transport->mutex);
    if (transport->idle_count) {
        idle_conn *last = &transport->idle[--transport->idle_count];
        conn = last->conn;
        *since_ns = last->since_ns;
    }
    pthread_mutex_unlock(&transport->mutex);
    return conn;
}

/* Takes the connection, or closes it when there are enough. */
static void pool_give(client_transport *transport, client_conn *conn)
{
    pthread_mutex_lock(&transport->mutex);
    if (transport->idle_count < IDLE_MAX)
        transport->idle[transport->idle_count++] = (idle_conn){TAKE_PTR(conn), base_monotonic_ns()};
    pthread_mutex_unlock(&transport->mutex);
    client_conn_close(conn);
}

/* A connection that can carry a request: the idle one that was used last, or a new one. */
static client_conn *obtain(client_transport *transport, const run_ctx *ctx, plim_error *err)
{
    int64_t since_ns;
    client_conn *conn;
    while ((conn = pool_take(transport, &since_ns))) {
        if (base_monotonic_ns() - since_ns < IDLE_MS_MAX * BASE_NS_PER_MS &&
            client_conn_idle_usable(conn))
            return conn;
        client_conn_close(conn);
    }
    return client_conn_open(&transport->url, transport->ca_file, ctx, err);
}

/* ---- errors ---- */

static bool fail_lost(plim_error *err, const char *what)
{
    return plim_fail(err, PLIM_E_TRANSPORT, PLIM_CODE_UNAVAILABLE,
                     "%s; the request was sent and may have been served", what);
}

static bool fail_waiting(const exchange *it, run_wait why, plim_error *err)
{
    if (why == RUN_CANCELED)
        return it->sent ? plim_fail(err, PLIM_E_CANCELED, PLIM_CODE_CANCELED,
                                    "the call was cancelled after the request was sent")
                        : plim_refuse(err, PLIM_E_CANCELED, PLIM_CODE_CANCELED, PLIM_ND_REQUEST,
                                      "the call was cancelled before anything was sent");
    if (why == RUN_DEADLINE)
        return it->sent
                   ? plim_fail(err, PLIM_E_REQUEST_TIMEOUT, PLIM_CODE_DEADLINE_EXCEEDED,
                               "the time was up before the answer was complete")
                   : plim_refuse(err, PLIM_E_REQUEST_TIMEOUT, PLIM_CODE_DEADLINE_EXCEEDED,
                                 PLIM_ND_ENVIRONMENT, "the time was up before anything was sent");
    return fail_lost(err, "waiting for the daemon failed");
}

/* What the state of the answer means; true for a whole one that is no redirect. */
static bool judge(const exchange *it, plim_error *err)
{
    switch (it->answer->state) {
    case CLIENT_ANSWER_COMPLETE:
        if (it->answer->status < 300 || it->answer->status >= 400)
            return true;
        plim_fail(err, PLIM_E_TRANSPORT, PLIM_CODE_UNKNOWN, "redirect not followed (HTTP %d)",
                  it->answer->status);
        break;
    case CLIENT_ANSWER_TOO_LARGE:
        plim_fail(err, PLIM_E_RESPONSE_TOO_LARGE, PLIM_CODE_RESOURCE_EXHAUSTED,
                  "the answer is larger than %d bytes", CLIENT_BODY_BYTES_MAX);
        break;
    case CLIENT_ANSWER_NOMEM:
        return plim_fail(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED,
                         "out of memory while the answer was read");
    case CLIENT_ANSWER_BAD:
        return fail_lost(err, "the answer is not HTTP");
    default:
        return fail_lost(err, "the connection was closed before the answer was complete");
    }
    if (err)
        err->http_status = it->answer->status;
    return false;
}

/* ---- one exchange ---- */

/* Read what is there. False: the connection has ended; the answer's state says what it was. */
static bool drain(exchange *it)
{
    char bytes[READ_BYTES];
    while (it->answer->state == CLIENT_ANSWER_MORE) {
        size_t count = 0;
        switch (client_conn_receive(it->conn, bytes, sizeof(bytes), &count)) {
        case CLIENT_IO_SOME:
            client_answer_feed(it->answer, (plim_bytes){bytes, count});
            break;
        case CLIENT_IO_AGAIN:
            return true;
        default:
            client_answer_end(it->answer);
            return false;
        }
        /* A peer that always has more must not keep us from looking at the clock. */
        if (base_monotonic_ns() >= it->ctx->deadline_ns)
            return true;
    }
    return true;
}

/* Write what the socket takes. False: it will take no more. */
static bool push(exchange *it)
{
    while (it->unsent.len) {
        size_t count = 0;
        switch (client_conn_send(it->conn, it->unsent, &count)) {
        case CLIENT_IO_SOME:
            it->unsent = (plim_bytes){it->unsent.data + count, it->unsent.len - count};
            break;
        case CLIENT_IO_AGAIN:
            return true;
        default:
            return false;
        }
        if (base_monotonic_ns() >= it->ctx->deadline_ns)
            return true;
    }
    return true;
}

/* A call that is over before its first byte must not send it. */
static bool still_wanted(const exchange *it, plim_error *err)
{
    run_ctx now = run_ctx_until(it->ctx, 0);
    run_wait wait = run_ctx_poll(&now, NULL, 0);
    if (wait == RUN_CANCELED || base_monotonic_ns() >= it->ctx->deadline_ns)
        return fail_waiting(it, wait, err);
    return true;
}

/*
 * Write and read until the answer is whole. The daemon may answer before it has read everything and
 * close: a write that fails ends the writing, never the reading.
 */
static bool converse(exchange *it, plim_error *err)
{
    if (!still_wanted(it, err))
        return false;
    bool writing = it->sent = true;
    for (;;) {
        if (writing)
            writing = push(it) && it->unsent.len;
        if (!drain(it) || it->answer->state != CLIENT_ANSWER_MORE)
            return judge(it, err);
        if (base_monotonic_ns() >= it->ctx->deadline_ns)
            return fail_waiting(it, RUN_DEADLINE, err);
        struct pollfd fd = {.fd = client_conn_fd(it->conn),
                            .events = (short)(writing ? POLLIN | POLLOUT : POLLIN)};
        run_wait wait = run_ctx_poll(it->ctx, &fd, 1);
        if (wait == RUN_READY)
            continue;
        /* The whole answer may have arrived all the same. */
        drain(it);
        return it->answer->state == CLIENT_ANSWER_COMPLETE ? judge(it, err)
                                                           : fail_waiting(it, wait, err);
    }
}

bool client_transport_exchange(client_transport *transport, plim_bytes request, const run_ctx *ctx,
                               client_answer *answer, plim_error *err)
{
    _cleanup_(client_conn_closep)
    client_conn *conn = obtain(transport, ctx, err);
    if (!conn)
        return false;
    exchange it = {.conn = conn, .ctx = ctx, .unsent = request, .answer = answer};
    if (!converse(&it, err))
        return false;
    if (answer->keep_alive && it.unsent.len == 0)
        pool_give(transport, TAKE_PTR(conn));
    return true;
}
