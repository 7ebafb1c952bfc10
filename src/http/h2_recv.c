/* What nghttp2 calls for frames that arrive: from frames to streams, from streams to requests. */
#include "http/h2.h"

/* One header block may expand to this many times the limit before the whole connection is given up:
 * the rest of a block that is too large must be decoded for the compression state's sake. */
enum { HEADER_BLOCKS_MAX = 4 };

/* Requests that the client has reset but that still run count against its streams: this many times
 * the stream limit, and new ones are refused. */
enum { REQUESTS_PER_STREAM = 2 };

static int64_t now_ms(const h2 *self)
{
    return http_now_ms(self->conn->server);
}

static h2_stream *stream_of(h2 *self, int32_t id)
{
    return nghttp2_session_get_stream_user_data(self->session, id);
}

/* ---- streams ---- */

static h2_stream *stream_new(h2 *self, int32_t id)
{
    h2_stream *stream = base_new(h2_stream);
    if (!stream)
        return NULL;
    stream->id = id;
    stream->started_ms = now_ms(self);
    stream->deadline_ms = stream->started_ms + self->conn->listener->limits.header_ms;
    h2_watch(self, stream->deadline_ms);
    stream->next = self->streams;
    if (self->streams)
        self->streams->prev = stream;
    self->streams = stream;
    self->stream_count++;
    return stream;
}

void h2_stream_free(h2 *self, h2_stream *stream)
{
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        self->streams = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
    if (--self->stream_count == 0)
        self->idle_ms = now_ms(self);
    if (stream->answered)
        http_answer_drop_body(&stream->answer);
    base_free(stream);
}

void h2_reset(h2 *self, h2_stream *stream, uint32_t code)
{
    if (nghttp2_submit_rst_stream(self->session, NGHTTP2_FLAG_NONE, stream->id, code) != 0)
        self->conn->broken = true;
}

static void refuse(h2 *self, h2_stream *stream)
{
    if (stream->refused)
        return;
    stream->refused = true;
    h2_reset(self, stream, NGHTTP2_REFUSED_STREAM);
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *data)
{
    h2 *self = data;
    h2_stream *stream = stream_of(self, id);
    (void)session, (void)code;
    if (!stream)
        return 0;
    http_request *req = stream->req;
    h2_stream_free(self, stream);
    if (req) {
        req->stream = NULL;
        http_request_gone(req);
    }
    return 0;
}

/* ---- header blocks ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    h2 *self = data;
    http_conn *conn = self->conn;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    h2_stream *stream = stream_new(self, frame->hd.stream_id);
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(session, stream->id, stream);
    size_t requests_max = REQUESTS_PER_STREAM * (size_t)conn->listener->limits.h2_streams_max;
    if (conn->request_count < requests_max)
        stream->req = http_request_new(conn, HTTP_VERSION_2);
    if (stream->req)
        stream->req->stream = stream;
    else
        refuse(self, stream);
    return 0;
}

static bool add_pseudo(net_head *head, plim_bytes name, plim_bytes value)
{
    if (base_bytes_is(name, ":method"))
        return net_head_extend(head, &head->method, value);
    if (base_bytes_is(name, ":path"))
        return net_head_extend(head, &head->target, value);
    return true;
}

static bool add_field(net_head *head, plim_bytes name, plim_bytes value)
{
    if (name.len && name.data[0] == ':')
        return add_pseudo(head, name, value);
    if (!net_head_field_begin(head) || !net_head_field_name(head, name) ||
        !net_head_field_value(head, value))
        return false;
    net_head_field_end(head);
    return true;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *data)
{
    h2 *self = data;
    size_t bytes_max = (size_t)self->conn->listener->limits.header_bytes_max;
    h2_stream *stream = stream_of(self, frame->hd.stream_id);
    (void)session, (void)flags;
    if (!stream || self->ended)
        return 0;
    stream->header_bytes += name_length + value_length + 32; /* RFC 9113 6.5.2 */
    if (stream->header_bytes > HEADER_BLOCKS_MAX * bytes_max) {
        h2_end(self, NGHTTP2_ENHANCE_YOUR_CALM);
        return 0;
    }
    bool trailer = frame->headers.cat != NGHTTP2_HCAT_REQUEST;
    if (stream->refused || trailer)
        return 0;
    if (stream->header_bytes > bytes_max ||
        !add_field(&stream->req->head, (plim_bytes){(const char *)name, name_length},
                   (plim_bytes){(const char *)value, value_length}))
        refuse(self, stream);
    return 0;
}

/* nghttp2 has checked the pseudo headers, and that content-length is one number and true. */
static bool complete_request(http_request *req, bool ended)
{
    net_head *head = &req->head;
    plim_bytes length;
    if (!net_target_split(net_head_bytes(head, head->method), net_head_bytes(head, head->target),
                          &req->path, &req->query))
        return false;
    req->content_length = ended ? 0 : -1;
    return ended || !net_head_find(head, "content-length", &length, NULL) ||
           net_length_parse(length, &req->content_length);
}

/* The handler asked for the body: take it, unless it is known that it cannot be had. */
static void begin_body(h2 *self, h2_stream *stream)
{
    http_request *req = stream->req;
    plim_bytes expect;
    if (stream->received)
        http_request_deliver_body(req, HTTP_BODY_COMPLETE);
    else if (req->content_length > 0 && (uint64_t)req->content_length > req->body.max)
        http_request_deliver_body(req, HTTP_BODY_TOO_LARGE);
    else if (net_head_find(&req->head, "expect", &expect, NULL) &&
             base_ascii_equal_ignore_case(expect, "100-continue"))
        h2_send_continue(self, stream);
    h2_watch(self, stream->started_ms + self->conn->listener->limits.request_ms);
}

static void on_request_headers(h2 *self, h2_stream *stream)
{
    http_request *req = stream->req;
    if (stream->refused)
        return;
    if (!complete_request(req, stream->received)) {
        stream->refused = true;
        h2_reset(self, stream, NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    stream->headers_done = true;
    req->deadline_ms = now_ms(self) + self->conn->listener->limits.answer_ms;
    stream->deadline_ms = req->deadline_ms;
    h2_watch(self, stream->deadline_ms);
    http_request_deliver(req);
    if (stream->req && stream->req->on_body)
        begin_body(self, stream);
}

/* ---- bodies ---- */

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t length, void *data)
{
    h2 *self = data;
    h2_stream *stream = stream_of(self, id);
    (void)flags;
    if (!stream || !stream->req || !stream->req->on_body)
        /* Not asked for: its stream's window stays shut, the others' must not. */
        return nghttp2_session_consume_connection(session, length);
    http_body_outcome outcome =
        http_request_add_body(stream->req, (plim_bytes){(const char *)bytes, length});
    if (outcome == HTTP_BODY_COMPLETE)
        return nghttp2_session_consume(session, id, length);
    http_request_deliver_body(stream->req, outcome);
    return nghttp2_session_consume_connection(session, length);
}

static void on_end_stream(h2_stream *stream)
{
    stream->received = true;
    if (stream->req && stream->headers_done)
        http_request_deliver_body(stream->req, HTTP_BODY_COMPLETE);
}

/* ---- frames ---- */

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    h2 *self = data;
    (void)session;
    if (frame->hd.type == NGHTTP2_SETTINGS)
        self->settled = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    h2_stream *stream = stream_of(self, frame->hd.stream_id);
    if (!stream || self->ended)
        return 0;
    bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        stream->received = ends;
        on_request_headers(self, stream);
    } else if (ends) {
        on_end_stream(stream);
    }
    return 0;
}

static bool is_empty_data(const nghttp2_frame_hd *hd)
{
    return hd->type == NGHTTP2_DATA && hd->length == 0 && !(hd->flags & NGHTTP2_FLAG_END_STREAM);
}

/* What kind of flood a frame may belong to; HTTP_FLOOD_KINDS for those that cost their sender. */
static http_flood_kind flood_kind(const nghttp2_frame_hd *hd)
{
    switch (hd->type) {
    case NGHTTP2_PING:
        return HTTP_FLOOD_PING;
    case NGHTTP2_SETTINGS:
        return HTTP_FLOOD_SETTINGS;
    case NGHTTP2_RST_STREAM:
        return HTTP_FLOOD_RESET;
    case NGHTTP2_CONTINUATION:
        return HTTP_FLOOD_CONTINUATION;
    case NGHTTP2_PRIORITY:
        return HTTP_FLOOD_PRIORITY;
    case NGHTTP2_WINDOW_UPDATE:
        return HTTP_FLOOD_WINDOW_UPDATE;
    case NGHTTP2_DATA:
        return is_empty_data(hd) ? HTTP_FLOOD_EMPTY_DATA : HTTP_FLOOD_KINDS;
    default:
        return HTTP_FLOOD_KINDS;
    }
}

/*
 * A stream that the client skipped can never be opened (RFC 9113 5.1.1). nghttp2 cannot tell it
 * from one that was open and for which frames may still be under way, and ignores both.
 */
static bool opens_skipped_stream(h2 *self, const nghttp2_frame_hd *hd)
{
    if (hd->type != NGHTTP2_HEADERS)
        return false;
    if (hd->stream_id > self->newest_id) {
        int32_t expected = self->newest_id ? self->newest_id + 2 : 1;
        if (hd->stream_id > expected) {
            self->gap_from = expected;
            self->gap_to = hd->stream_id - 2;
        }
        self->newest_id = hd->stream_id;
    }
    return hd->stream_id >= self->gap_from && hd->stream_id <= self->gap_to;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *data)
{
    h2 *self = data;
    (void)session;
    http_flood_kind kind = flood_kind(hd);
    self->continuations = kind == HTTP_FLOOD_CONTINUATION ? self->continuations + 1 : 0;
    if (self->continuations > HTTP_CONTINUATIONS_MAX ||
        (kind != HTTP_FLOOD_KINDS && !http_flood_take(&self->flood, kind, now_ms(self))))
        h2_end(self, NGHTTP2_ENHANCE_YOUR_CALM);
    if (opens_skipped_stream(self, hd))
        h2_end(self, NGHTTP2_PROTOCOL_ERROR);
    return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *data)
{
    h2 *self = data;
    (void)session, (void)frame, (void)error;
    if (!http_flood_take(&self->flood, HTTP_FLOOD_INVALID, now_ms(self)))
        h2_end(self, NGHTTP2_ENHANCE_YOUR_CALM);
    return 0;
}

bool h2_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, h2_on_frame_send);
    return true;
}
