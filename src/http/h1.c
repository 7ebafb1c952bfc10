/*
 * HTTP/1.x on a connection: one request at a time, in order. The parser reports what arrived; the
 * answer is written to server->out piece by piece as the socket takes it.
 */
#include "http/conn.h"
#include "http/status.h"

typedef enum {
    H1_READ, /* between messages, in a head, or in a body that was asked for */
    H1_WAIT, /* a request is with the handler */
    H1_SEND  /* its answer is being written */
} h1_phase;

typedef struct h1 {
    net_http1 parser;
    base_buf held; /* input that must wait for its turn */
    h1_phase phase;
    http_request *req;   /* from HEAD until answered */
    int64_t started_ms;  /* first byte of the message; when `begun` */
    int64_t idle_ms;     /* end of the last one */
    int64_t deadline_ms; /* of the answer */
    bool first;          /* no message was complete yet */
    bool begun;          /* a message is being received */
    bool receiving;      /* its end was not seen */
    bool keep_alive, is_1_1, is_head, draining;

    /* what is left of the answer */
    plim_bytes body;
    void (*body_free)(void *data);
    void *body_data;
    base_buf tail; /* after the body: the end of chunked coding and the trailers */
} h1;

/* Pipelined input that waits; past it the connection is not read (one read may go past it). */
enum { HELD_MAX = 16384 };
/* A body up to this is copied beside its head, so that the usual answer is one write. */
enum { COPIED_BODY_MAX = 16384 };

static bool h1_open(http_conn *conn)
{
    h1 *self = base_new(h1);
    if (!self)
        return false;
    net_http1_init(&self->parser, (size_t)conn->listener->limits.header_bytes_max);
    self->held = BASE_BUF_INIT(HELD_MAX + HTTP_READ_BYTES);
    self->tail = BASE_BUF_INIT(HTTP_OUT_MAX);
    self->first = self->begun =
        true; /* the first message's time counts from accept, and the handshake in it */
    self->started_ms = conn->accepted_ms;
    conn->state = self;
    return true;
}

static void drop_body(h1 *self)
{
    if (self->body_free)
        self->body_free(self->body_data);
    self->body_free = NULL;
    self->body = (plim_bytes){NULL, 0};
}

static void h1_free(http_conn *conn)
{
    h1 *self = conn->state;
    drop_body(self);
    net_http1_free(&self->parser);
    base_buf_free(&self->held);
    base_buf_free(&self->tail);
    base_free(self);
}

/* ---- answering ---- */

static void add_header(base_buf *out, plim_bytes name, plim_bytes value)
{
    base_buf_add(out, name);
    base_buf_add(out, PLIM_LIT(": "));
    base_buf_add(out, value);
    base_buf_add(out, PLIM_LIT("\r\n"));
}

static void add_headers(base_buf *out, const http_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_header(out, headers[i].name, headers[i].value);
}

static void write_head(http_conn *conn, const http_answer *answer, bool chunked)
{
    const h1 *self = conn->state;
    base_buf *out = &conn->server->out;
    http_digits length = http_digits_of(answer->body.len),
                status = http_digits_of((size_t)answer->status);
    base_buf_add(out, PLIM_LIT("HTTP/1.1 "));
    base_buf_add(out, http_digits_text(&status));
    base_buf_add(out, PLIM_LIT(" "));
    base_buf_add(out, http_status_reason(answer->status));
    base_buf_add(out, PLIM_LIT("\r\n"));
    add_headers(out, answer->headers, answer->header_count);
    add_header(out, PLIM_LIT("date"), http_server_date(conn->server));
    if (chunked)
        add_header(out, PLIM_LIT("transfer-encoding"), PLIM_LIT("chunked"));
    else if (answer->status != 204 && answer->status != 304)
        add_header(out, PLIM_LIT("content-length"), http_digits_text(&length));
    if (!self->keep_alive)
        add_header(out, PLIM_LIT("connection"), PLIM_LIT("close"));
    else if (!self->is_1_1)
        add_header(out, PLIM_LIT("connection"), PLIM_LIT("keep-alive"));
    base_buf_add(out, PLIM_LIT("\r\n"));
}

/* Own what is left of the body until it is written. */
static bool keep_body(h1 *self, const http_answer *answer)
{
    self->body = answer->body;
    self->body_free = answer->body_free;
    self->body_data = answer->body_data;
    if (answer->body_free || answer->body.len == 0)
        return true;
    char *copy = base_alloc(answer->body.len, 1);
    if (!copy)
        return false;
    memcpy(copy, answer->body.data, answer->body.len);
    self->body = (plim_bytes){copy, answer->body.len};
    self->body_free = base_free;
    self->body_data = copy;
    return true;
}

static void write_body(http_conn *conn, const http_answer *answer, bool chunked)
{
    h1 *self = conn->state;
    base_buf *out = &conn->server->out;
    if (chunked) {
        if (answer->body.len) {
            base_buf_printf(out, "%zx\r\n", answer->body.len);
            base_buf_add_text(&self->tail, "\r\n");
        }
        base_buf_add_text(&self->tail, "0\r\n");
        add_headers(&self->tail, answer->trailers, answer->trailer_count);
        base_buf_add_text(&self->tail, "\r\n");
    }
    if (answer->body.len <= COPIED_BODY_MAX) {
        base_buf_add(out, answer->body);
        http_answer_drop_body(answer);
    } else if (!keep_body(self, answer)) {
        conn->broken = true;
    }
}

static void send_answer(http_conn *conn, const http_answer *answer)
{
    h1 *self = conn->state;
    bool chunked = answer->trailer_count && self->is_1_1 && !self->is_head;
    /* What follows an unread body cannot be told from it. */
    self->keep_alive = self->keep_alive && !self->receiving && !self->draining;
    self->phase = H1_SEND;
    write_head(conn, answer, chunked);
    if (self->is_head)
        http_answer_drop_body(answer);
    else
        write_body(conn, answer, chunked);
    if (self->tail.failed)
        conn->broken = true;
}

static void h1_answer(http_conn *conn, http_request *req, const http_answer *answer)
{
    h1 *self = conn->state;
    send_answer(conn, answer);
    self->req = NULL;
    net_http1_return_head(&self->parser, &req->head);
    http_request_free(req);
}

/* Some of the answer into server->out; true once all of it is there. */
static bool send_some(http_conn *conn)
{
    h1 *self = conn->state;
    base_buf *out = &conn->server->out;
    if (self->body.len) {
        size_t room = out->len < HTTP_OUT_HIGH ? HTTP_OUT_HIGH - out->len : 0;
        size_t length = self->body.len < room ? self->body.len : room;
        base_buf_add(out, (plim_bytes){self->body.data, length});
        self->body = (plim_bytes){self->body.data + length, self->body.len - length};
        if (self->body.len)
            return false;
        drop_body(self);
    }
    if (self->tail.len) {
        base_buf_add(out, base_buf_bytes(&self->tail));
        base_buf_free(&self->tail);
    }
    return true;
}

static void next_message(http_conn *conn)
{
    h1 *self = conn->state;
    if (!self->keep_alive) {
        http_conn_linger(conn);
        return;
    }
    self->phase = H1_READ;
    self->first = self->begun = false;
    self->idle_ms = http_now_ms(conn->server);
}

/* ---- receiving ---- */

/* Refuse what cannot be given to the handler; the connection ends with it. */
static void send_refusal(http_conn *conn, http_request *req, const http_answer *answer)
{
    (void)req;
    send_answer(conn, answer);
}

static void refuse(http_conn *conn, int status)
{
    h1 *self = conn->state;
    self->keep_alive = false;
    self->is_head = false;
    self->deadline_ms = http_now_ms(conn->server) + conn->listener->limits.request_ms;
    http_request *req = NULL;
    if (self->parser.head_complete && (req = http_request_new(conn, HTTP_VERSION_1_1)))
        req->head = net_http1_take_head(&self->parser);
    http_conn_refuse(conn, req, status, send_refusal);
    if (req)
        http_request_free(req);
}

static http_request *new_request(http_conn *conn)
{
    h1 *self = conn->state;
    http_request *req = http_request_new(conn, self->is_1_1 ? HTTP_VERSION_1_1 : HTTP_VERSION_1_0);
    if (!req)
        return NULL;
    req->head = net_http1_take_head(&self->parser);
    req->path = self->parser.path;
    req->query = self->parser.query;
    req->content_length = self->parser.content_length;
    return req;
}

/* The handler asked for the body: take it, unless it is known that it cannot be had. */
static void begin_body(http_conn *conn, bool expects, bool more_input)
{
    h1 *self = conn->state;
    http_request *req = self->req;
    if (!self->receiving) {
        http_request_deliver_body(req, HTTP_BODY_COMPLETE);
    } else if (req->content_length > 0 && (uint64_t)req->content_length > req->body.max) {
        http_request_deliver_body(req, HTTP_BODY_TOO_LARGE);
    } else {
        self->phase = H1_READ;
        if (expects && !more_input)
            base_buf_add_text(&conn->server->out, "HTTP/1.1 100 Continue\r\n\r\n");
    }
}

static void on_head(http_conn *conn, plim_bytes *input)
{
    h1 *self = conn->state;
    net_http1 *parser = &self->parser;
    bool expects = net_http1_expects_continue(parser);
    plim_bytes method = net_head_bytes(&parser->head, parser->head.method), none;
    self->is_1_1 = net_http1_is_1_1(parser);
    self->is_head = base_bytes_is(method, "HEAD");
    self->keep_alive = parser->keep_alive;
    self->req = new_request(conn);
    if (!self->req) {
        conn->broken = true;
        return;
    }
    /* Without a body the message ends here, and the parser says so without more input. */
    self->receiving =
        parser->content_length != 0 || net_http1_next(parser, input, &none) != NET_HTTP1_END;
    self->deadline_ms = self->req->deadline_ms;
    self->phase = H1_WAIT;
    if (conn->eof)
        http_request_cancel(self->req);
    http_request_deliver(self->req);
    if (self->req && self->req->on_body)
        begin_body(conn, expects, input->len > 0);
}

/* The body ends here, well or not. */
static void end_body(http_conn *conn, http_body_outcome outcome)
{
    h1 *self = conn->state;
    self->phase = H1_WAIT;
    self->receiving = outcome != HTTP_BODY_COMPLETE;
    http_request_deliver_body(self->req, outcome);
}

/*
 * Is this the start of a connection in neither protocol? An answer in HTTP/1.1 would mean nothing
 * to such a client, and one of HTTP/2 with a broken preface must not get one (RFC 9113 3.4).
 */
static bool is_foreign(const http_conn *conn, plim_bytes rest)
{
    const h1 *self = conn->state;
    return !conn->tls && self->first && self->parser.unknown_method &&
           (rest.len == 0 || !memmem(rest.data, rest.len, " HTTP/1.", 8));
}

static void on_fault(http_conn *conn, net_http1_event event, plim_bytes rest)
{
    h1 *self = conn->state;
    if (is_foreign(conn, rest))
        http_conn_linger(conn);
    else if (self->req)
        end_body(conn, event == NET_HTTP1_NOMEM ? HTTP_BODY_NOMEM : HTTP_BODY_MALFORMED);
    else if (event == NET_HTTP1_NOMEM)
        conn->broken = true;
    else
        refuse(conn, event == NET_HTTP1_TOO_LARGE ? 431 : event == NET_HTTP1_VERSION ? 505 : 400);
}

/* Give input to the parser until it is used up or a request must be handled first. */
static void parse(http_conn *conn, plim_bytes *input)
{
    h1 *self = conn->state;
    while (self->phase == H1_READ && !conn->broken && !conn->lingering) {
        plim_bytes piece;
        net_http1_event event = net_http1_next(&self->parser, input, &piece);
        if (event == NET_HTTP1_MORE) {
            if (!self->begun && net_http1_in_message(&self->parser)) {
                self->begun = true;
                self->started_ms = http_now_ms(conn->server);
            }
            return;
        }
        if (event == NET_HTTP1_HEAD) {
            on_head(conn, input);
        } else if (event == NET_HTTP1_BODY) {
            http_body_outcome outcome = http_request_add_body(self->req, piece);
            if (outcome != HTTP_BODY_COMPLETE)
                end_body(conn, outcome);
        } else if (event == NET_HTTP1_END) {
            end_body(conn, HTTP_BODY_COMPLETE);
        } else {
            on_fault(conn, event, *input);
        }
    }
}

/* Write, then read on, as far as the output has room and requests answer at once. */
static void advance(http_conn *conn, plim_bytes *input)
{
    h1 *self = conn->state;
    while (!conn->broken && conn->server->out.len < HTTP_OUT_HIGH) {
        if (self->phase == H1_SEND) {
            if (!send_some(conn))
                return;
            next_message(conn);
        }
        if (conn->lingering || self->phase != H1_READ || input->len == 0 || conn->writes)
            return;
        parse(conn, input);
    }
}

/* Will nothing that still arrives be looked at? */
static bool discards(const h1 *self)
{
    return self->phase == H1_SEND && !self->keep_alive;
}

static void h1_input(http_conn *conn, plim_bytes bytes)
{
    h1 *self = conn->state;
    if (self->held.len == 0)
        advance(conn, &bytes);
    if (bytes.len == 0 || conn->lingering || discards(self))
        return;
    if (!base_buf_add(&self->held, bytes))
        conn->broken = true;
}

static bool h1_pull(http_conn *conn)
{
    h1 *self = conn->state;
    plim_bytes input = base_buf_bytes(&self->held);
    advance(conn, &input);
    if (input.len == 0 && self->held.data) {
        base_buf_free(&self->held);
    } else if (self->held.data && input.len < self->held.len) {
        memmove(self->held.data, input.data, input.len);
        self->held.len = input.len;
    }
    if (conn->lingering || conn->broken)
        return false;
    if (conn->eof && self->phase == H1_READ && self->held.len == 0) {
        if (self->req)
            end_body(conn, HTTP_BODY_GONE);
        else
            http_conn_linger(conn);
    }
    return self->phase == H1_SEND || (self->phase == H1_READ && self->held.len);
}

static bool h1_wants_input(const http_conn *conn)
{
    const h1 *self = conn->state;
    return discards(self) || self->held.len < HELD_MAX;
}

/* A client that closes its side while it waits for an answer has gone, as far as anybody can tell;
 * the answer is still written, for one that only half-closed. */
static void h1_eof(http_conn *conn)
{
    h1 *self = conn->state;
    if (self->req)
        http_request_cancel(self->req);
}

/* ---- time ---- */

/* While a connection is not read, for its client has sent too much ahead, it is asked this often
 * whether that client is still there. */
enum { PEER_LOOK_MS = 1000 };

/* The next time to look at the peer of a request that is being served; INT64_MAX for none. */
static int64_t look_at_peer(http_conn *conn, int64_t now)
{
    h1 *self = conn->state;
    if (!self->req || h1_wants_input(conn) || http_request_canceled(self->req))
        return INT64_MAX;
    if (!http_conn_peer_left(conn))
        return now + PEER_LOOK_MS;
    http_request_cancel(self->req);
    return INT64_MAX;
}

static int64_t h1_tick(http_conn *conn, int64_t now)
{
    h1 *self = conn->state;
    const http_limits *limits = &conn->listener->limits;
    int64_t deadline;
    if (self->phase != H1_READ) {
        deadline = self->deadline_ms;
    } else if (self->req) {
        deadline = self->started_ms + limits->request_ms;
        if (deadline <= now) {
            end_body(conn, HTTP_BODY_TIMEOUT);
            return self->deadline_ms;
        }
    } else {
        deadline =
            self->begun ? self->started_ms + limits->header_ms : self->idle_ms + limits->idle_ms;
    }
    if (deadline <= now)
        conn->broken = true;
    int64_t look = look_at_peer(conn, now);
    return look < deadline ? look : deadline;
}

static void h1_drain(http_conn *conn)
{
    h1 *self = conn->state;
    self->draining = true;
    if (self->phase == H1_READ && !self->req && !net_http1_in_message(&self->parser))
        http_conn_linger(conn);
}

const http_proto http_proto_h1 = {
    .open = h1_open,
    .free = h1_free,
    .input = h1_input,
    .eof = h1_eof,
    .wants_input = h1_wants_input,
    .pull = h1_pull,
    .answer = h1_answer,
    .tick = h1_tick,
    .drain = h1_drain,
};
