/* Answers over HTTP/2: header block, body as flow control allows, trailers. */
#include "http/h2.h"
#include "http/status.h"

static nghttp2_nv field_of(plim_bytes name, plim_bytes value)
{
    return (nghttp2_nv){(uint8_t *)name.data, (uint8_t *)value.data, name.len, value.len,
                        NGHTTP2_NV_FLAG_NONE};
}

static void add_fields(nghttp2_nv *fields, const http_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fields[i] = field_of(headers[i].name, headers[i].value);
}

void h2_send_continue(h2 *self, h2_stream *stream)
{
    const nghttp2_nv status = field_of(PLIM_LIT(":status"), PLIM_LIT("100"));
    if (nghttp2_submit_headers(self->session, NGHTTP2_FLAG_NONE, stream->id, NULL, &status, 1,
                               NULL) != 0)
        self->conn->broken = true;
}

static bool submit_trailers(h2 *self, h2_stream *stream)
{
    const http_answer *answer = &stream->answer;
    nghttp2_nv *fields = base_alloc(answer->trailer_count, sizeof(*fields));
    if (!fields)
        return false;
    add_fields(fields, answer->trailers, answer->trailer_count);
    int failed = nghttp2_submit_trailer(self->session, stream->id, fields, answer->trailer_count);
    base_free(fields);
    return failed == 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t length,
                         uint32_t *flags, nghttp2_data_source *source, void *data)
{
    h2_stream *stream = source->ptr;
    plim_bytes body = stream->answer.body;
    (void)session, (void)id;
    size_t left = body.len - stream->sent;
    if (length > left)
        length = left;
    memcpy(out, body.data + stream->sent, length);
    stream->sent += length;
    if (length == left) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->answer.trailer_count) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (!submit_trailers(data, stream))
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
    }
    return (ssize_t)length;
}

/* Submit the header block, and what must follow it at once. */
static bool submit(h2 *self, h2_stream *stream, bool is_head)
{
    const http_answer *answer = &stream->answer;
    http_digits status = http_digits_of((size_t)answer->status),
                length = http_digits_of(answer->body.len);
    bool has_body = answer->body.len && !is_head, has_trailers = answer->trailer_count && !is_head;
    nghttp2_nv *fields = base_alloc(answer->header_count + 3, sizeof(*fields));
    if (!fields)
        return false;
    size_t count = 0;
    fields[count++] = field_of(PLIM_LIT(":status"), http_digits_text(&status));
    add_fields(fields + count, answer->headers, answer->header_count);
    count += answer->header_count;
    fields[count++] = field_of(PLIM_LIT("date"), http_server_date(self->conn->server));
    if (answer->body.len && !has_trailers)
        fields[count++] = field_of(PLIM_LIT("content-length"), http_digits_text(&length));

    nghttp2_data_provider provider = {{.ptr = stream}, read_body};
    int failed;
    if (!has_body && has_trailers) {
        failed = nghttp2_submit_headers(self->session, NGHTTP2_FLAG_NONE, stream->id, NULL, fields,
                                        count, NULL);
        failed = failed || !submit_trailers(self, stream);
    } else {
        failed = nghttp2_submit_response(self->session, stream->id, fields, count,
                                         has_body ? &provider : NULL);
    }
    base_free(fields);
    return !failed;
}

/* Keep the answer until it is sent: copied, if its body and trailers are not handed over. */
static bool keep_answer(h2_stream *stream, const http_answer *answer)
{
    if (!answer->body_free && (answer->body.len || answer->trailer_count)) {
        http_reply *reply = http_reply_copy(answer);
        if (!reply)
            return false;
        answer = http_reply_answer(reply);
    }
    stream->answer = *answer;
    stream->answered = true;
    return true;
}

void h2_answer(http_conn *conn, http_request *req, const http_answer *answer)
{
    h2 *self = conn->state;
    h2_stream *stream = req->stream;
    bool is_head = base_bytes_is(http_request_method(req), "HEAD");
    http_answer kept = *answer;
    stream->req = NULL;
    if (!keep_answer(stream, &kept) || !submit(self, stream, is_head))
        h2_reset(self, stream, NGHTTP2_INTERNAL_ERROR);
    http_flood_earn(&self->flood);
    http_request_free(req);
}

/*
 * The answer is out: a client that is still sending is told that it need not, but a moment later,
 * because there are clients that forget the answer when the reset arrives together with it.
 */
int h2_on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    h2 *self = data;
    bool carries = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!carries || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!stream || stream->received)
        return 0;
    stream->sent_all = true;
    stream->deadline_ms = http_now_ms(self->conn->server) + self->conn->listener->limits.discard_ms;
    h2_watch(self, stream->deadline_ms);
    return 0;
}
