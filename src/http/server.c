#include "http/server.h"

#include <signal.h>

#include "http/request.h"

static void on_wakeup(uv_async_t *wakeup)
{
    http_server *server = wakeup->data;
    http_requests_answered(http_gate_take(server->gate));
    for (http_listener *listener = server->listeners; listener; listener = listener->next)
        http_listener_check_orders(listener);
}

http_server *http_server_new(plim_error *err)
{
    plim_error_clear(err);
    http_server *server = base_new(http_server);
    if (!server) {
        plim_refuse_nomem(err);
        return NULL;
    }
    server->in = base_alloc(HTTP_READ_BYTES + HTTP_TLS_RECORD_BYTES, 1);
    server->out = BASE_BUF_INIT(HTTP_OUT_MAX);
    server->cipher = BASE_BUF_INIT(HTTP_CIPHER_MAX);
    server->gate = http_gate_new();
    int failed = uv_loop_init(&server->loop);
    if (!failed && server->in && server->gate)
        failed = uv_async_init(&server->loop, &server->wakeup, on_wakeup);
    if (failed || !server->in || !server->gate) {
        plim_refuse(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED, PLIM_ND_CAPACITY,
                    "cannot make an event loop");
        if (server->gate)
            http_gate_unref(server->gate);
        base_free(server->in);
        base_free(server);
        return NULL;
    }
    server->wakeup.data = server;
    server->gate->wakeup = &server->wakeup;
    server->wakeup_open = true;
    return server;
}

struct uv_loop_s *http_server_loop(http_server *server)
{
    return &server->loop;
}

static void close_wakeup(http_server *server)
{
    if (!server->wakeup_open)
        return;
    server->wakeup_open = false;
    http_requests_answered(http_gate_close(server->gate));
    uv_close((uv_handle_t *)&server->wakeup, NULL);
}

void http_server_listener_closed(http_server *server)
{
    for (const http_listener *listener = server->listeners; listener; listener = listener->next)
        if (listener->state != HTTP_LISTENER_CLOSED)
            return;
    close_wakeup(server);
}

bool http_server_run(http_server *server, plim_error *err)
{
    plim_error_clear(err);
    signal(SIGPIPE, SIG_IGN); /* a write to a closed connection is an error code, not a death */
    server->gate->thread = pthread_self();
    uv_update_time(&server->loop);
    if (uv_run(&server->loop, UV_RUN_DEFAULT) != 0)
        return plim_fail(err, PLIM_E_IO, PLIM_CODE_INTERNAL, "the event loop stopped early");
    return true;
}

void http_server_free(http_server *server)
{
    if (!server)
        return;
    for (http_listener *listener = server->listeners; listener; listener = listener->next)
        if (listener->state != HTTP_LISTENER_CLOSED)
            http_listener_abort(listener);
    if (!server->listeners)
        close_wakeup(server);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->loop);
    while (server->listeners) {
        http_listener *listener = server->listeners;
        server->listeners = listener->next;
        http_listener_free(listener);
    }
    http_gate_unref(server->gate);
    base_buf_free(&server->out);
    base_buf_free(&server->cipher);
    base_free(server->in);
    base_free(server);
}

plim_bytes http_server_date(http_server *server)
{
    int64_t now = base_wall_unix_ms() / 1000;
    if (now != server->date_s) {
        time_t seconds = (time_t)now;
        struct tm utc;
        gmtime_r(&seconds, &utc);
        /* The C locale's names: the program never sets another. */
        strftime(server->date, sizeof(server->date), "%a, %d %b %Y %H:%M:%S GMT", &utc);
        server->date_s = now;
    }
    return plim_bytes_of(server->date);
}
