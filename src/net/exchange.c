#include "net/net.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A response head of ours is small; more is a peer that misbehaves. */
enum { HEAD_BYTES_MAX = 16 * 1024 };

/* A full backlog: how long to wait before the next try. */
enum { BACKLOG_RETRY_MS = 5 };

static net_end end_of(run_wait wait)
{
    switch (wait) {
    case RUN_DEADLINE:
        return NET_DEADLINE;
    case RUN_CANCELED:
        return NET_CANCELED;
    default:
        return NET_BROKEN;
    }
}

static net_end fault(net_conn *conn, net_end end, const char *reason)
{
    conn->reason = reason;
    return end;
}

/* A Unix socket connects at once, or its backlog is full: then it is tried again for a while. */
static net_end connect_to(int fd, const struct sockaddr_un *address, const run_ctx *ctx)
{
    while (connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0) {
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return NET_BROKEN;
        run_ctx pause = run_ctx_until(ctx, base_deadline_after_ms(BACKLOG_RETRY_MS));
        run_wait wait = run_ctx_poll(&pause, NULL, 0);
        if (wait != RUN_DEADLINE)
            return end_of(wait);
        if (base_monotonic_ns() >= ctx->deadline_ns)
            return NET_DEADLINE;
    }
    return NET_DONE;
}

net_conn *net_conn_open(const char *path, const run_ctx *ctx, net_end *end)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    *end = NET_BROKEN;
    if (length >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    memcpy(address.sun_path, path, length);
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return NULL;
    *end = connect_to(fd, &address, ctx);
    if (*end != NET_DONE)
        return NULL;
    net_conn *conn = base_new(net_conn);
    if (!conn) {
        *end = NET_TOO_LARGE;
        return NULL;
    }
    net_response_init(&conn->response, HEAD_BYTES_MAX);
    conn->fd = TAKE_FD(fd);
    return conn;
}

void net_conn_free(net_conn *conn)
{
    if (!conn)
        return;
    base_fd_close(&conn->fd);
    net_response_free(&conn->response);
    base_free(conn);
}

bool net_conn_is_idle(const net_conn *conn)
{
    char byte;
    return conn->unread.len == 0 && recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EINTR);
}

net_end net_conn_send(net_conn *conn, plim_bytes bytes, const run_ctx *ctx)
{
    while (bytes.len) {
        ssize_t count = send(conn->fd, bytes.data, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            bytes = (plim_bytes){bytes.data + count, bytes.len - (size_t)count};
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return fault(conn, NET_BROKEN, "the connection broke while a request was sent");
        struct pollfd fd = {.fd = conn->fd, .events = POLLOUT};
        run_wait wait = run_ctx_poll(ctx, &fd, 1);
        if (wait != RUN_READY)
            return fault(conn, end_of(wait), "waiting failed");
    }
    return NET_DONE;
}

/* Fill `unread` when it is empty. NET_DONE without bytes: nothing there yet. */
static net_end fill(net_conn *conn, bool *closed)
{
    *closed = false;
    if (conn->unread.len)
        return NET_DONE;
    ssize_t count;
    do {
        count = recv(conn->fd, conn->input, sizeof(conn->input), MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
        return errno == EAGAIN ? NET_DONE : fault(conn, NET_BROKEN, "the connection broke");
    *closed = count == 0;
    conn->unread = (plim_bytes){conn->input, (size_t)count};
    return NET_DONE;
}

/* True when the answer is whole or broken. */
static bool take_in(net_conn *conn, bool closed, net_answer *answer, net_end *end)
{
    net_response *response = &conn->response;
    for (;;) {
        plim_bytes piece = {NULL, 0};
        net_response_event event = closed ? net_response_closed(response)
                                          : net_response_next(response, &conn->unread, &piece);
        switch (event) {
        case NET_RESPONSE_MORE:
            return false;
        case NET_RESPONSE_HEAD:
            answer->status = response->status;
            break;
        case NET_RESPONSE_BODY:
            if (base_buf_add(&answer->body, piece))
                break;
            *end = fault(conn, NET_TOO_LARGE, "the answer is larger than its bound");
            return true;
        case NET_RESPONSE_END:
            answer->keep_alive = response->keep_alive && !closed;
            *end = NET_DONE;
            return true;
        case NET_RESPONSE_UPGRADED:
            answer->status = response->status;
            answer->keep_alive = false;
            *end = NET_DONE;
            return true;
        case NET_RESPONSE_BAD:
            *end = fault(conn, NET_BROKEN, response->reason);
            return true;
        }
    }
}

bool net_conn_receive_some(net_conn *conn, net_answer *answer, net_end *end)
{
    for (;;) {
        bool closed;
        *end = fill(conn, &closed);
        if (*end != NET_DONE)
            return true;
        if (!closed && conn->unread.len == 0)
            return false;
        if (take_in(conn, closed, answer, end))
            return true;
    }
}

net_end net_conn_receive_head(net_conn *conn, const run_ctx *ctx, net_answer *answer, bool *whole)
{
    net_end end = NET_DONE;
    while (!(*whole = net_conn_receive_some(conn, answer, &end)) && answer->status == 0) {
        struct pollfd fd = {.fd = conn->fd, .events = POLLIN};
        run_wait wait = run_ctx_poll(ctx, &fd, 1);
        if (wait != RUN_READY)
            return fault(conn, end_of(wait), "waiting failed");
    }
    return end;
}

net_end net_conn_receive(net_conn *conn, const run_ctx *ctx, net_answer *answer)
{
    net_end end;
    while (!net_conn_receive_some(conn, answer, &end)) {
        struct pollfd fd = {.fd = conn->fd, .events = POLLIN};
        run_wait wait = run_ctx_poll(ctx, &fd, 1);
        if (wait != RUN_READY)
            return fault(conn, end_of(wait), "waiting failed");
    }
    return end;
}

plim_bytes net_conn_read(net_conn *conn, net_end *end, bool *closed)
{
    *end = fill(conn, closed);
    if (*end == NET_DONE && *closed)
        *end = fault(conn, NET_BROKEN, "the peer closed");
    if (*end != NET_DONE)
        return (plim_bytes){NULL, 0};
    plim_bytes bytes = conn->unread;
    conn->unread = (plim_bytes){NULL, 0};
    return bytes;
}

void net_request_write(base_buf *out, const char *method, const char *target, const char *fields,
                       plim_bytes body)
{
    base_buf_printf(out, "%s %s HTTP/1.1\r\nHost: engine\r\n%s", method, target, fields);
    if (body.len)
        base_buf_printf(out, "Content-Type: application/json\r\n");
    if (body.len || strcmp(method, "POST") == 0)
        base_buf_printf(out, "Content-Length: %zu\r\n", body.len);
    base_buf_add_text(out, "\r\n");
    base_buf_add(out, body);
}
