/*
 * A request, inside the folder: made by a protocol when a header block is complete, given to the
 * handler, freed by the protocol when its answer has been taken over. It may outlive its stream and
 * its connection; then the answer is dropped.
 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include "http/server.h"

typedef struct http_reply http_reply;

struct http_request {
    net_head head;
    plim_bytes path, query;
    http_version version;
    int64_t content_length;
    int64_t deadline_ms; /* on the loop's clock: the end of the answer's time */
    http_listener *listener;
    http_gate *gate;
    void *data;
    bool is_tls;
    char peer[56];

    /* loop thread */
    http_conn *conn; /* NULL once it is gone */
    http_request *conn_prev, *conn_next;
    void *stream; /* HTTP/2: NULL once it is closed */
    int cancel_fd;
    atomic_bool canceled;

    base_buf body;
    http_body_fn on_body; /* NULL unless asked for and not yet called */
    void *on_body_data;
    bool delivered; /* the handler has it, and must answer it */
    bool body_complete;

    /* set by http_respond, then read by the loop thread */
    http_reply *reply; /* NULL: refuse with 500 */
    http_request *next;
};

/* A new request of `conn`, with nothing in its head; NULL when out of memory. */
http_request *http_request_new(http_conn *conn, http_version version) PLIM_MUST_USE;
void http_request_free(http_request *req);

/* Call the handler. `req` may be gone when this returns. */
void http_request_deliver(http_request *req);

/* Call the body's callback, if it waits. `req` may be gone when this returns. */
void http_request_deliver_body(http_request *req, http_body_outcome outcome);

/* One more piece of the body: COMPLETE when it was kept, else why the body cannot be had. */
http_body_outcome http_request_add_body(http_request *req, plim_bytes piece);

/* Tell whoever works on it that nobody waits for the answer. */
void http_request_cancel(http_request *req);

/* The connection or stream is gone: cancel, and tell a body callback that waits; free it if the
 * handler never saw it. */
void http_request_gone(http_request *req);

/* A copy of everything in `answer` that is not handed over; NULL when out of memory. The body's
 * ownership moves on success and on failure. */
http_reply *http_reply_copy(const http_answer *answer) PLIM_MUST_USE;
/* The answer in it; its body_free frees the reply. */
const http_answer *http_reply_answer(const http_reply *reply);

/* May this be sent? */
bool http_answer_valid(const http_answer *answer);
void http_answer_drop_body(const http_answer *answer);

/* Take over the answers that other threads have queued. */
void http_requests_answered(http_request *first);

#endif
