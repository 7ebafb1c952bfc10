#include "http/conn.h"

#include <netinet/in.h>
#include <poll.h>

#include "http/tls.h"

/* ---- requests of a connection ---- */

void http_conn_link(http_conn *conn, http_request *req)
{
    req->conn = conn;
    req->conn_prev = NULL;
    req->conn_next = conn->requests;
    if (conn->requests)
        conn->requests->conn_prev = req;
    conn->requests = req;
    conn->request_count++;
}

void http_conn_unlink(http_request *req)
{
    http_conn *conn = req->conn;
    if (!conn)
        return;
    if (req->conn_prev)
        req->conn_prev->conn_next = req->conn_next;
    else
        conn->requests = req->conn_next;
    if (req->conn_next)
        req->conn_next->conn_prev = req->conn_prev;
    req->conn = NULL;
    conn->request_count--;
}

void http_conn_refuse(http_conn *conn, http_request *req, int status,
                      void (*send)(http_conn *conn, http_request *req, const http_answer *answer))
{
    const http_handler *handler = &conn->listener->handler;
    http_header headers[HTTP_REFUSAL_HEADERS_MAX];
    http_answer answer = {.status = status, .headers = headers};
    if (handler->on_refusal)
        answer.header_count = handler->on_refusal(req, status, headers, handler->data);
    if (answer.header_count > HTTP_REFUSAL_HEADERS_MAX || !http_answer_valid(&answer))
        answer.header_count = 0;
    send(conn, req, &answer);
}

/* ---- closing ---- */

static void on_closed(uv_handle_t *handle)
{
    http_conn *conn = handle->data;
    if (--conn->handles)
        return;
    if (conn->proto)
        conn->proto->free(conn);
    http_tls_free(conn->tls);
    http_listener_conn_closed(conn->listener, conn);
    base_free(conn);
}

void http_conn_kill(http_conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    while (conn->requests) {
        http_request *req = conn->requests;
        http_conn_unlink(req);
        req->stream = NULL;
        http_request_gone(req);
    }
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
    uv_close((uv_handle_t *)&conn->timer, on_closed);
}

void http_conn_linger(http_conn *conn)
{
    if (conn->lingering)
        return;
    conn->lingering = true;
    conn->linger_until = INT64_MAX; /* the answer's time still holds until it is flushed */
}

bool http_conn_peer_left(const http_conn *conn)
{
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)&conn->tcp, &fd) != 0)
        return true;
    struct pollfd peer = {.fd = fd, .events = POLLRDHUP};
    return poll(&peer, 1, 0) == 1;
}

void http_conn_drain(http_conn *conn)
{
    if (conn->proto)
        conn->proto->drain(conn);
    else
        conn->broken = true;
    http_conn_settle(conn);
}

/* ---- sending ---- */

typedef struct write_request {
    uv_write_t uv;
    http_conn *conn;
    char bytes[];
} write_request;

static void on_written(uv_write_t *uv, int status)
{
    write_request *request = (write_request *)uv;
    http_conn *conn = request->conn;
    base_free(request);
    conn->writes--;
    conn->blocked_ms = http_now_ms(conn->server);
    if (conn->closing)
        return;
    if (status < 0)
        conn->broken = true;
    http_conn_settle(conn);
}

/* Send `bytes`; what the socket does not take now is copied and sent when it can. */
static bool send_bytes(http_conn *conn, plim_bytes bytes)
{
    if (conn->writes == 0) {
        uv_buf_t buf = uv_buf_init((char *)bytes.data, (unsigned)bytes.len);
        int sent = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
        if (sent < 0 && sent != UV_EAGAIN)
            return false;
        size_t taken = sent > 0 ? (size_t)sent : 0;
        bytes = (plim_bytes){bytes.data + taken, bytes.len - taken};
        if (bytes.len == 0)
            return true;
    }
    write_request *request = base_alloc(1, sizeof(*request) + bytes.len);
    if (!request)
        return false;
    request->conn = conn;
    memcpy(request->bytes, bytes.data, bytes.len);
    uv_buf_t buf = uv_buf_init(request->bytes, (unsigned)bytes.len);
    if (uv_write(&request->uv, (uv_stream_t *)&conn->tcp, &buf, 1, on_written) != 0) {
        base_free(request);
        return false;
    }
    if (conn->writes++ == 0)
        conn->blocked_ms = http_now_ms(conn->server);
    return true;
}

/* Send what is in the scratch buffers, and what the protocol adds while the socket takes it. */
static bool flush(http_conn *conn)
{
    http_server *server = conn->server;
    base_buf *wire = conn->tls ? &server->cipher : &server->out;
    for (bool more = true; more;) {
        more = conn->proto && conn->writes == 0 && !conn->lingering && conn->proto->pull(conn);
        if (conn->broken || server->out.failed)
            return false;
        if (conn->tls && !http_tls_write(conn->tls, base_buf_bytes(&server->out)))
            return false;
        if (wire->len && !send_bytes(conn, base_buf_bytes(wire)))
            return false;
        base_buf_clear(&server->out);
        base_buf_clear(&server->cipher);
    }
    return true;
}

/* ---- receiving ---- */

static bool open_proto(http_conn *conn, const http_proto *proto)
{
    if (proto->open(conn)) {
        conn->proto = proto;
        return true;
    }
    conn->broken = true;
    return false;
}

/* Cleartext: four bytes tell HTTP/2 with prior knowledge from HTTP/1.x. */
static void sniff(http_conn *conn, plim_bytes bytes)
{
    static const char preface[] = {'P', 'R', 'I', ' '};
    const http_proto *proto = &http_proto_h2;
    size_t used = 0;
    while (conn->sniffed < sizeof(preface) && proto == &http_proto_h2) {
        if (used == bytes.len)
            return;
        char byte = bytes.data[used++];
        if (byte != preface[conn->sniffed])
            proto = &http_proto_h1;
        conn->sniff[conn->sniffed++] = byte;
    }
    if (!open_proto(conn, proto))
        return;
    conn->proto->input(conn, (plim_bytes){conn->sniff, conn->sniffed});
    if (used < bytes.len)
        conn->proto->input(conn, (plim_bytes){bytes.data + used, bytes.len - used});
}

static void receive_plain(http_conn *conn, plim_bytes bytes)
{
    if (conn->lingering || conn->broken)
        return;
    if (conn->proto)
        conn->proto->input(conn, bytes);
    else
        sniff(conn, bytes);
}

static void receive_eof(http_conn *conn)
{
    if (conn->eof)
        return;
    conn->eof = true;
    if (conn->lingering)
        return;
    if (conn->proto)
        conn->proto->eof(conn);
    else
        conn->broken = true;
}

static void receive_tls(http_conn *conn, plim_bytes ciphertext)
{
    http_tls_feed(conn->tls, ciphertext);
    http_tls_result result = http_tls_handshake(conn->tls);
    if (result == HTTP_TLS_OK && !conn->proto &&
        !open_proto(conn, http_tls_is_h2(conn->tls) ? &http_proto_h2 : &http_proto_h1))
        return;
    while (result == HTTP_TLS_OK) {
        char *plain = conn->server->in + HTTP_READ_BYTES;
        size_t length = HTTP_TLS_RECORD_BYTES;
        result = http_tls_read(conn->tls, plain, &length);
        if (result == HTTP_TLS_OK)
            receive_plain(conn, (plim_bytes){plain, length});
    }
    http_tls_feed(conn->tls, (plim_bytes){NULL, 0});
    if (result == HTTP_TLS_EOF)
        receive_eof(conn);
    else if (result == HTTP_TLS_ERROR && !conn->lingering)
        http_conn_linger(conn); /* an alert may be waiting to be sent */
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    http_conn *conn = handle->data;
    *buf = uv_buf_init(conn->server->in, HTTP_READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buf)
{
    http_conn *conn = stream->data;
    if (conn->closing || length == 0)
        return;
    plim_bytes bytes = {buf->base, length > 0 ? (size_t)length : 0};
    if (length == UV_EOF)
        receive_eof(conn);
    else if (length < 0)
        conn->broken = true;
    else if (conn->tls)
        receive_tls(conn, bytes);
    else
        receive_plain(conn, bytes);
    http_conn_settle(conn);
}

/* ---- the end of a turn ---- */

/* Everything is flushed: half-close, so that a client still sending gets the answer and not a
 * reset, and give it a moment to notice. */
static void on_shut(uv_shutdown_t *shut, int status)
{
    (void)status; /* closing follows in any case */
    base_free(shut);
}

static void begin_shutdown(http_conn *conn)
{
    conn->shut = true;
    conn->linger_until = http_now_ms(conn->server) + conn->listener->limits.discard_ms;
    if (conn->tls) {
        http_tls_close(conn->tls);
        if (!flush(conn)) {
            conn->broken = true;
            return;
        }
    }
    uv_shutdown_t *shut = base_new(uv_shutdown_t);
    if (!shut || uv_shutdown(shut, (uv_stream_t *)&conn->tcp, on_shut) != 0) {
        base_free(shut);
        conn->broken = true;
    }
}

static void set_reading(http_conn *conn)
{
    bool want = !conn->eof && (conn->lingering || !conn->proto || conn->proto->wants_input(conn));
    if (want == conn->reading)
        return;
    conn->reading = want;
    if (!want)
        uv_read_stop((uv_stream_t *)&conn->tcp);
    else if (uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) != 0)
        conn->broken = true;
}

static int64_t next_deadline(http_conn *conn, int64_t now)
{
    const http_limits *limits = &conn->listener->limits;
    if (conn->shut)
        return conn->linger_until;
    int64_t deadline =
        conn->proto ? conn->proto->tick(conn, now) : conn->accepted_ms + limits->header_ms;
    /* Whatever is being said, a client that takes none of it for so long is not there. */
    int64_t stuck = conn->writes ? conn->blocked_ms + limits->answer_ms : INT64_MAX;
    if (stuck <= now || (!conn->proto && deadline <= now))
        conn->broken = true;
    return stuck < deadline ? stuck : deadline;
}

static void on_timer(uv_timer_t *timer)
{
    http_conn *conn = timer->data;
    conn->armed_ms = INT64_MAX;
    http_conn_settle(conn);
}

/* The timer only ever has to fire early enough: a deadline that moved later is noticed when it
 * fires, so that a busy connection does not touch the timer at all. */
static void set_timer(http_conn *conn, int64_t deadline, int64_t now)
{
    if (deadline >= conn->armed_ms)
        return;
    conn->armed_ms = deadline;
    uint64_t wait = deadline > now ? (uint64_t)(deadline - now) : 0;
    uv_timer_start(&conn->timer, on_timer, wait, 0);
}

void http_conn_settle(http_conn *conn)
{
    http_server *server = conn->server;
    int64_t now = http_now_ms(server), deadline = INT64_MAX;
    if (!conn->closing && !conn->broken) {
        deadline = next_deadline(conn, now);
        if (!flush(conn))
            conn->broken = true;
        if (conn->lingering && !conn->shut && !conn->broken && conn->writes == 0)
            begin_shutdown(conn);
        if (!conn->broken)
            deadline = next_deadline(conn, now);
        if (conn->shut && (conn->eof || deadline <= now))
            conn->broken = true;
        if (!conn->broken)
            set_reading(conn);
    }
    base_buf_clear(&server->out);
    base_buf_clear(&server->cipher);
    if (conn->closing)
        return;
    if (conn->broken)
        http_conn_kill(conn);
    else if (deadline != INT64_MAX)
        set_timer(conn, deadline, now);
}

/* ---- opening ---- */

static void describe_peer(http_conn *conn, const struct sockaddr *peer)
{
    char host[INET6_ADDRSTRLEN] = "?";
    uint16_t port = 0;
    if (peer->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)peer;
        uv_ip6_name(in6, host, sizeof(host));
        port = ntohs(in6->sin6_port);
    } else if (peer->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)peer;
        uv_ip4_name(in, host, sizeof(host));
        port = ntohs(in->sin_port);
    }
    snprintf(conn->peer, sizeof(conn->peer), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

static void link_to_listener(http_conn *conn, http_listener *listener)
{
    conn->listener = listener;
    conn->server = listener->server;
    conn->next = listener->conns;
    if (listener->conns)
        listener->conns->prev = conn;
    listener->conns = conn;
    listener->conn_count++;
}

void http_conn_open(http_listener *listener, int fd, const struct sockaddr *peer)
{
    http_server *server = listener->server;
    http_conn *conn = base_new(http_conn);
    http_tls *tls = conn && listener->tls ? http_tls_new(listener->tls, &server->cipher) : NULL;
    if (!conn || (listener->tls && !tls)) {
        base_free(conn);
        close(fd);
        return;
    }
    link_to_listener(conn, listener);
    describe_peer(conn, peer);
    conn->tls = tls;
    conn->accepted_ms = http_now_ms(server);
    conn->armed_ms = INT64_MAX;
    conn->handles = 2;
    uv_timer_init(&server->loop, &conn->timer);
    uv_tcp_init(&server->loop, &conn->tcp);
    conn->tcp.data = conn->timer.data = conn;
    if (uv_tcp_open(&conn->tcp, fd) != 0) {
        close(fd);
        conn->broken = true;
    } else {
        uv_tcp_nodelay(&conn->tcp, 1);
    }
    http_conn_settle(conn);
}
