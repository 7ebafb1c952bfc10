/*
 * HTTP/2 inside: the session of a connection and its streams. h2.c drives the session; h2_recv.c is
 * what nghttp2 calls for frames that arrive; h2_send.c writes answers. Loop thread only.
 */
#ifndef HTTP_H2_H
#define HTTP_H2_H

#include <nghttp2/nghttp2.h>

#include "http/conn.h"
#include "http/flood.h"

typedef struct h2_stream {
    struct h2_stream *prev, *next;
    int32_t id;
    http_request *req;   /* from the first header until answered */
    int64_t started_ms;  /* first frame */
    int64_t deadline_ms; /* of the header block, then of the answer, then of what is discarded */
    size_t header_bytes; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts them */
    bool refused;        /* reset before it became a request */
    bool headers_done;
    bool received; /* the client has ended its side */

    /* the answer, once there is one */
    http_answer answer;
    size_t sent; /* of the body */
    bool answered;
    bool sent_all; /* and it has left, while the client is still sending */
} h2_stream;

typedef struct h2 {
    nghttp2_session *session;
    http_conn *conn;
    h2_stream *streams;
    size_t stream_count;
    http_flood flood;
    int64_t check_ms; /* no stream's time ends before this */
    int64_t idle_ms;  /* since when there is no stream */
    unsigned continuations;
    int32_t newest_id;        /* the highest stream the client has opened */
    int32_t gap_from, gap_to; /* the ids it last skipped: closed without having been open */
    bool settled;             /* the client's SETTINGS came: the connection is established */
    bool draining;            /* GOAWAY was sent: ends with its last stream */
    bool ended;               /* the session was told to terminate */
} h2;

/* End the connection with GOAWAY(code) once what is queued has left. */
void h2_end(h2 *self, uint32_t code);

/* Look at the streams at `due` at the latest. */
static inline void h2_watch(h2 *self, int64_t due)
{
    if (due < self->check_ms)
        self->check_ms = due;
}

/* h2_recv.c */
bool h2_set_callbacks(nghttp2_session_callbacks *callbacks);
void h2_stream_free(h2 *self, h2_stream *stream);
void h2_reset(h2 *self, h2_stream *stream, uint32_t code);

/* h2_send.c */
void h2_answer(http_conn *conn, http_request *req, const http_answer *answer);
void h2_send_continue(h2 *self, h2_stream *stream);
int h2_on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *data);

#endif
