/*
 * The door of the http layer: a server of HTTP/1.1 and HTTP/2, cleartext or TLS, with any number of
 * listeners. It knows nothing of RPC or callers; a handler per listener decides what a request
 * gets. One loop thread owns sockets, timers and parsing, and runs every callback below; the
 * functions marked "any thread" may be called from elsewhere, all others from the loop thread (or
 * before http_server_run).
 *
 * The life of a request:
 *   1. on_request: the header block is complete, no body byte was read. The handler either calls
 *      http_respond, or http_read_body, or keeps the pointer and responds later from any thread.
 *   2. after http_read_body: its callback, once, with the whole body or why there is none.
 *   3. http_respond: exactly once per request, always, also when the client is gone. It ends the
 *      caller's use of the pointer; everything borrowed from the request goes with it.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/base.h"

#include "http/limit.h"

typedef struct http_server http_server;
typedef struct http_listener http_listener;
typedef struct http_request http_request;
struct uv_loop_s;

typedef struct http_header {
    plim_bytes name, value;
} http_header;

typedef enum { HTTP_VERSION_1_0, HTTP_VERSION_1_1, HTTP_VERSION_2 } http_version;

/* ---- what a listener calls ---- */

/* At most this many headers can be added to an answer that the server makes by itself. */
enum { HTTP_REFUSAL_HEADERS_MAX = 4 };

typedef struct http_handler {
    /* A header block is complete. See "the life of a request". */
    void (*on_request)(http_request *req, void *data);

    /*
     * The server answers by itself with `status` (400, 431, 500, 505): fill `out` with headers to
     * add and return how many. `req` is NULL when no whole header block was understood; otherwise
     * its headers may be read and borrowed from. Such a request was never given to on_request,
     * unless `status` is 500 (http_respond was handed an answer that may not be sent). May be NULL.
     */
    size_t (*on_refusal)(const http_request *req, int status,
                         http_header out[HTTP_REFUSAL_HEADERS_MAX], void *data);

    /* Accepting failed for good, for the reason `why`; open connections are still served. Called at
     * most once. May be NULL. */
    void (*on_failed)(http_listener *listener, const char *why, void *data);

    void *data;
} http_handler;

/* ---- reading a request ---- */

/* Bytes of a request are borrowed and live until http_respond. Any thread, one at a time. */
plim_bytes http_request_method(const http_request *req);
/* The path as sent, before the first '?'; not decoded, not cleaned. "*" for OPTIONS *. Of an
 * absolute-form target, the path part. */
plim_bytes http_request_path(const http_request *req);
/* What follows the first '?'; empty when there is none. */
plim_bytes http_request_query(const http_request *req);
http_version http_request_version(const http_request *req);
bool http_request_is_tls(const http_request *req);
/* The client's address as text, e.g. "127.0.0.1:4711" or "[::1]:4711"; terminated. */
const char *http_request_peer(const http_request *req);

/* Value of the first header `name` (given in lower case, compared ignoring case); false and empty
 * bytes when there is none. */
bool http_request_header(const http_request *req, const char *name, plim_bytes *value);
/* How often the header occurs. */
size_t http_request_header_count(const http_request *req, const char *name);
/* Headers in order of arrival; false past the last. HTTP/2 pseudo headers are not among them. */
bool http_request_header_at(const http_request *req, size_t index, http_header *out);

/* Declared length of the body; 0 for none, -1 when it will only be known at its end. */
int64_t http_request_content_length(const http_request *req);

/* ---- the body ---- */

typedef enum {
    HTTP_BODY_COMPLETE,  /* http_request_body is all of it (perhaps empty) */
    HTTP_BODY_TOO_LARGE, /* declared or proved longer than the limit; reading stopped there */
    HTTP_BODY_TIMEOUT,   /* it did not arrive within the request time */
    HTTP_BODY_MALFORMED, /* bad chunked coding, or more or less than declared */
    HTTP_BODY_GONE,      /* the client left before its end */
    HTTP_BODY_NOMEM      /* no memory to hold it */
} http_body_outcome;

typedef void (*http_body_fn)(http_request *req, http_body_outcome outcome, void *data);

/*
 * Ask for the whole body, at most `bytes_max`. Only inside on_request, at most once, and not after
 * http_respond. Sends `100 Continue` if the client waits for it. `on_body` is called on the loop
 * thread after on_request has returned, exactly once unless http_respond comes first; on any
 * outcome the request must still be answered.
 */
void http_read_body(http_request *req, size_t bytes_max, http_body_fn on_body, void *data);

/* The body, after HTTP_BODY_COMPLETE; empty before. */
plim_bytes http_request_body(const http_request *req);

/* ---- while it is handled ---- */

/* A pointer of the handler's own. */
void http_request_set_data(http_request *req, void *data);
void *http_request_data(const http_request *req);

/*
 * An eventfd that becomes readable when the answer has no reader any more: the client went away or
 * reset the stream, the answer's time has passed, or the listener closes hard. Made on first call;
 * -1 when no descriptor is left. Borrowed, closed by http_respond. Loop thread.
 */
int http_request_cancel_fd(http_request *req);
/* The same as a question. Any thread. */
bool http_request_canceled(const http_request *req);
/* When the answer's time ends (monotonic ns, as run_ctx wants it). Any thread. */
int64_t http_request_deadline_ns(const http_request *req);

/* ---- answering ---- */

typedef struct http_answer {
    int status; /* 200-599 */
    /*
     * Copied. Names in lower case; values hold no control character but tab. The server adds
     * `date`, `content-length` or `transfer-encoding`, and `connection` itself and refuses these.
     */
    const http_header *headers;
    size_t header_count;
    /* Copied, unless `body_free` is set: then it is borrowed until body_free(body_data), which is
     * called exactly once, on any thread, whatever becomes of the answer. */
    plim_bytes body;
    void (*body_free)(void *body_data);
    void *body_data;
    /* Sent after the body: an HTTP/2 trailer block, or chunked trailers over HTTP/1.1 (dropped for
     * HTTP/1.0 and for HEAD). Copied. */
    const http_header *trailers;
    size_t trailer_count;
} http_answer;

/*
 * Answer `req` and give it up. Any thread; inside a callback of this very request nothing is
 * queued. An answer that breaks the rules above, or finds no memory, is replaced by an empty 500
 * and false is returned; true otherwise, also when the client is already gone and nothing is sent.
 * If the body of an HTTP/1.x request was not read to its end, the connection closes after the
 * answer; a stream of HTTP/2 is reset with NO_ERROR.
 */
bool http_respond(http_request *req, const http_answer *answer);

/* The answer `status` with a text/plain body (may be NULL for none) and no other header. */
bool http_respond_text(http_request *req, int status, const char *body);

/* ---- the server ---- */

http_server *http_server_new(plim_error *err) PLIM_MUST_USE;
/* After http_server_run has returned, or without it. Requests still held elsewhere stay valid until
 * http_respond. NULL allowed. */
void http_server_free(http_server *server);
BASE_CLEANUP_FN(http_server, http_server_free, http_server_freep)

/* The loop, for timers and signals of the program. They must be closed for http_server_run to
 * return. */
struct uv_loop_s *http_server_loop(http_server *server);

/*
 * Serve on the calling thread until every listener is closed (see http_listener_drain), then
 * return. False when the loop itself fails. SIGPIPE is ignored from here on, in the whole process.
 */
bool http_server_run(http_server *server, plim_error *err) PLIM_MUST_USE;

typedef struct http_listener_config {
    const char *name; /* for errors, e.g. "rpc". Borrowed for the listener's life */
    const char
        *address; /* host:port; IPv6 in brackets; empty host = every interface; port 0 = any */
    const char *tls_cert_file, *tls_key_file; /* PEM, both or neither */
    http_limits limits;
    http_handler handler;
} http_listener_config;

/* Bind and listen, and load the key pair. Connections wait in the kernel's queue until
 * http_listener_start. The server owns the listener. NULL and `err` otherwise. */
http_listener *http_server_listen(http_server *server, const http_listener_config *config,
                                  plim_error *err) PLIM_MUST_USE;

/* Begin to accept. Before http_server_run, or on the loop thread. */
void http_listener_start(http_listener *listener);

uint16_t http_listener_port(const http_listener *listener);
/* The bound address as text, e.g. "127.0.0.1:8746"; terminated. */
const char *http_listener_address(const http_listener *listener);

/*
 * Stop accepting and close the socket; close idle connections, send GOAWAY, let requests in flight
 * finish; after `budget_ms` cancel what is left and close hard. `on_drained(clean, data)` (may be
 * NULL) is then called once on the loop thread; `clean` is false when the budget ran out. Any
 * thread; a second call may only shorten the budget, and its callback is ignored.
 */
void http_listener_drain(http_listener *listener, int64_t budget_ms,
                         void (*on_drained)(bool clean, void *data), void *data);

#endif
