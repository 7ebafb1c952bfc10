#include "http/request.h"

#include <sys/eventfd.h>

#include "http/conn.h"

http_request *http_request_new(http_conn *conn, http_version version)
{
    http_request *req = base_new(http_request);
    if (!req)
        return NULL;
    req->version = version;
    req->listener = conn->listener;
    req->gate = conn->server->gate;
    req->is_tls = conn->tls != NULL;
    req->deadline_ms = http_now_ms(conn->server) + conn->listener->limits.answer_ms;
    req->cancel_fd = -1;
    memcpy(req->peer, conn->peer, sizeof(req->peer));
    net_head_init(&req->head, (size_t)conn->listener->limits.header_bytes_max);
    http_gate_ref(req->gate);
    http_conn_link(conn, req);
    return req;
}

void http_request_free(http_request *req)
{
    http_conn_unlink(req);
    net_head_free(&req->head);
    base_buf_free(&req->body);
    base_fd_close(&req->cancel_fd);
    http_gate_unref(req->gate);
    base_free(req);
}

/* ---- reading ---- */

plim_bytes http_request_method(const http_request *req)
{
    return net_head_bytes(&req->head, req->head.method);
}

plim_bytes http_request_path(const http_request *req)
{
    return req->path;
}

plim_bytes http_request_query(const http_request *req)
{
    return req->query;
}

http_version http_request_version(const http_request *req)
{
    return req->version;
}

bool http_request_is_tls(const http_request *req)
{
    return req->is_tls;
}

const char *http_request_peer(const http_request *req)
{
    return req->peer;
}

bool http_request_header(const http_request *req, const char *name, plim_bytes *value)
{
    return net_head_find(&req->head, name, value, NULL);
}

size_t http_request_header_count(const http_request *req, const char *name)
{
    plim_bytes value;
    size_t count;
    net_head_find(&req->head, name, &value, &count);
    return count;
}

bool http_request_header_at(const http_request *req, size_t index, http_header *out)
{
    if (index >= req->head.count)
        return false;
    const net_field *field = &req->head.fields[index];
    *out = (http_header){net_head_bytes(&req->head, field->name),
                         net_head_bytes(&req->head, field->value)};
    return true;
}

int64_t http_request_content_length(const http_request *req)
{
    return req->content_length;
}

plim_bytes http_request_body(const http_request *req)
{
    return req->body_complete ? base_buf_bytes(&req->body) : (plim_bytes){NULL, 0};
}

void http_request_set_data(http_request *req, void *data)
{
    req->data = data;
}

void *http_request_data(const http_request *req)
{
    return req->data;
}

int64_t http_request_deadline_ns(const http_request *req)
{
    return req->deadline_ms * BASE_NS_PER_MS;
}

/* ---- cancelling ---- */

static void signal_cancel(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
        return; /* the counter is full: it is readable already */
}

int http_request_cancel_fd(http_request *req)
{
    if (req->cancel_fd < 0) {
        req->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (req->cancel_fd >= 0 && http_request_canceled(req))
            signal_cancel(req->cancel_fd);
    }
    return req->cancel_fd;
}

bool http_request_canceled(const http_request *req)
{
    return atomic_load(&req->canceled);
}

void http_request_cancel(http_request *req)
{
    if (atomic_exchange(&req->canceled, true))
        return;
    if (req->cancel_fd >= 0)
        signal_cancel(req->cancel_fd);
}

void http_request_gone(http_request *req)
{
    if (!req->delivered) {
        http_request_free(req);
        return;
    }
    http_request_cancel(req);
    http_request_deliver_body(req, HTTP_BODY_GONE);
}

/* ---- the body ---- */

void http_read_body(http_request *req, size_t bytes_max, http_body_fn on_body, void *data)
{
    req->body = BASE_BUF_INIT(bytes_max);
    req->on_body = on_body;
    req->on_body_data = data;
}

http_body_outcome http_request_add_body(http_request *req, plim_bytes piece)
{
    if (piece.len > req->body.max - req->body.len)
        return HTTP_BODY_TOO_LARGE;
    return base_buf_add(&req->body, piece) ? HTTP_BODY_COMPLETE : HTTP_BODY_NOMEM;
}

/* ---- calling the handler ---- */

void http_request_deliver(http_request *req)
{
    const http_handler *handler = &req->listener->handler;
    http_gate *gate = req->gate;
    req->delivered = true;
    gate->current = req;
    handler->on_request(req, handler->data);
    gate->current = NULL;
}

void http_request_deliver_body(http_request *req, http_body_outcome outcome)
{
    if (!req->on_body)
        return;
    http_gate *gate = req->gate;
    http_body_fn on_body = req->on_body;
    req->on_body = NULL;
    req->body_complete = outcome == HTTP_BODY_COMPLETE;
    gate->current = req;
    on_body(req, outcome, req->on_body_data);
    gate->current = NULL;
}
