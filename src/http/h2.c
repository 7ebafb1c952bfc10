#include "http/h2.h"

/*
 * Windows: of a stream, so that an 8 MiB body needs few round trips; of the connection, so that a
 * few streams may upload at once. What is received is either kept within the body limit that the
 * handler chose or dropped, so windows bound bytes in flight, not memory.
 */
enum { STREAM_WINDOW = 256 << 10, CONNECTION_WINDOW = 1 << 20 };

static nghttp2_session *new_session(h2 *self)
{
    nghttp2_session *session = NULL;
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0 &&
        h2_set_callbacks(callbacks)) {
        nghttp2_option_set_no_auto_window_update(option, 1);
        if (nghttp2_session_server_new2(&session, callbacks, self, option) != 0)
            session = NULL;
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
}

static bool h2_open(http_conn *conn)
{
    const http_limits *limits = &conn->listener->limits;
    h2 *self = base_new(h2);
    if (!self || !(self->session = new_session(self))) {
        base_free(self);
        return false;
    }
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)limits->h2_streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)limits->header_bytes_max},
    };
    self->conn = conn;
    self->check_ms = INT64_MAX;
    self->idle_ms = http_now_ms(conn->server);
    http_flood_init(&self->flood, self->idle_ms);
    conn->state = self;
    if (nghttp2_submit_settings(self->session, NGHTTP2_FLAG_NONE, settings, PLIM_COUNT(settings)) ==
            0 &&
        nghttp2_session_set_local_window_size(self->session, NGHTTP2_FLAG_NONE, 0,
                                              CONNECTION_WINDOW) == 0)
        return true;
    nghttp2_session_del(self->session);
    base_free(self);
    return false;
}

static void h2_free(http_conn *conn)
{
    h2 *self = conn->state;
    while (self->streams)
        h2_stream_free(self, self->streams);
    nghttp2_session_del(self->session);
    base_free(self);
}

void h2_end(h2 *self, uint32_t code)
{
    if (self->ended)
        return;
    self->ended = true;
    if (nghttp2_session_terminate_session(self->session, code) != 0)
        self->conn->broken = true;
}

static void h2_input(http_conn *conn, plim_bytes bytes)
{
    h2 *self = conn->state;
    ssize_t used = nghttp2_session_mem_recv(self->session, (const uint8_t *)bytes.data, bytes.len);
    if (used == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
        h2_end(self, NGHTTP2_PROTOCOL_ERROR);
    } else if (used == NGHTTP2_ERR_FLOODED) {
        h2_end(self, NGHTTP2_ENHANCE_YOUR_CALM);
    } else if (used < 0) {
        h2_end(self, NGHTTP2_INTERNAL_ERROR);
    }
}

static void h2_eof(http_conn *conn)
{
    conn->broken = true;
}

/* While the socket is full, what the client sends would only make more to send. */
static bool h2_wants_input(const http_conn *conn)
{
    return conn->writes == 0;
}

static bool h2_pull(http_conn *conn)
{
    h2 *self = conn->state;
    base_buf *out = &conn->server->out;
    while (out->len < HTTP_OUT_HIGH) {
        const uint8_t *data;
        ssize_t length = nghttp2_session_mem_send(self->session, &data);
        if (length < 0)
            conn->broken = true;
        if (length <= 0)
            break;
        base_buf_add(out, (plim_bytes){(const char *)data, (size_t)length});
    }
    if (out->len >= HTTP_OUT_HIGH)
        return true;
    if (!nghttp2_session_want_read(self->session) && !nghttp2_session_want_write(self->session))
        http_conn_linger(conn);
    return false;
}

/* ---- time ---- */

/* When `stream` must have moved on; what is due by then is done here. */
static int64_t check_stream(h2 *self, h2_stream *stream, int64_t now)
{
    int64_t body = stream->started_ms + self->conn->listener->limits.request_ms;
    bool reading = stream->req && stream->req->on_body && !stream->received;
    if (stream->deadline_ms <= now && !stream->headers_done)
        self->conn->broken = true; /* a header block in pieces holds up the whole connection */
    else if (stream->deadline_ms <= now)
        h2_reset(self, stream, stream->sent_all ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
    else if (reading && body <= now)
        http_request_deliver_body(stream->req, HTTP_BODY_TIMEOUT);
    else if (reading && body < stream->deadline_ms)
        return body;
    return stream->deadline_ms;
}

static void check_streams(h2 *self, int64_t now)
{
    bool late = false;
    self->check_ms = INT64_MAX;
    for (h2_stream *stream = self->streams, *next; stream; stream = next) {
        next = stream->next;
        int64_t due = check_stream(self, stream, now);
        late = late || (due <= now && !stream->sent_all);
        if (due > now)
            h2_watch(self, due);
    }
    /* A reset cannot be sent where nothing can: the reader is the one that is late. */
    if (late && self->conn->writes)
        self->conn->broken = true;
}

static int64_t h2_tick(http_conn *conn, int64_t now)
{
    h2 *self = conn->state;
    const http_limits *limits = &conn->listener->limits;
    if (self->streams) {
        if (self->check_ms <= now)
            check_streams(self, now);
        return self->check_ms;
    }
    int64_t deadline =
        self->settled ? self->idle_ms + limits->idle_ms : conn->accepted_ms + limits->header_ms;
    if (deadline > now)
        return deadline;
    if (self->ended || conn->writes || !self->settled)
        conn->broken = true; /* it was told to go, or cannot be told */
    h2_end(self, NGHTTP2_NO_ERROR);
    return now + limits->header_ms;
}

static void h2_drain(http_conn *conn)
{
    h2 *self = conn->state;
    if (self->draining)
        return;
    self->draining = true;
    int32_t last = nghttp2_session_get_last_proc_stream_id(self->session);
    if (nghttp2_submit_goaway(self->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0))
        conn->broken = true;
}

const http_proto http_proto_h2 = {
    .open = h2_open,
    .free = h2_free,
    .input = h2_input,
    .eof = h2_eof,
    .wants_input = h2_wants_input,
    .pull = h2_pull,
    .answer = h2_answer,
    .tick = h2_tick,
    .drain = h2_drain,
};
