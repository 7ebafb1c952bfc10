#include <netdb.h>
#include <sys/socket.h>

#include "http/conn.h"
#include "http/tls.h"

/* Connections taken per wake-up before others get a turn; the wait after running out of
 * descriptors or memory, long enough not to spin. */
enum { ACCEPTS_PER_TURN = 32, BACK_OFF_MS = 100 };

/* ---- binding ---- */

static bool invalid(plim_error *err, const http_listener_config *config, const char *why)
{
    return plim_refuse(err, PLIM_E_INVALID_OPTION, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,
                       "%s listener: address \"%s\": %s", config->name, config->address, why);
}

/* host:port, the host perhaps in brackets, perhaps empty. */
static bool split_address(const http_listener_config *config, char host[256], char port[8],
                          plim_error *err)
{
    const char *colon = strrchr(config->address, ':'), *from = config->address, *to = colon;
    if (!colon)
        return invalid(err, config, "no port");
    if (to > from && from[0] == '[' && to[-1] == ']') {
        from++;
        to--;
    } else if (memchr(from, ':', (size_t)(to - from))) {
        return invalid(err, config, "an IPv6 address stands in brackets");
    }
    int64_t number;
    if (!net_length_parse(plim_bytes_of(colon + 1), &number) || number > 65535)
        return invalid(err, config, "the port is not a number up to 65535");
    if (to - from > 255)
        return invalid(err, config, "the host is too long");
    snprintf(host, 256, "%.*s", (int)(to - from), from);
    snprintf(port, 8, "%d", (int)number);
    return true;
}

static bool bind_and_listen(int fd, const struct addrinfo *info, bool every_interface)
{
    int on = 1, only_6 = !every_interface;
    return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
           (info->ai_family != AF_INET6 ||
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_6, sizeof(only_6)) == 0) &&
           bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0;
}

/* A listening socket on one resolved address; -1 with errno. */
static int listen_on(const struct addrinfo *info, bool every_interface)
{
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol);
    if (fd >= 0 && !bind_and_listen(fd, info, every_interface))
        base_fd_close(&fd);
    return fd;
}

/* Every interface is the IPv6 one that takes IPv4 too, or IPv4 where there is no IPv6. */
static int try_family(const char *host, const char *port, int family, int *resolve_error)
{
    struct addrinfo hints = {.ai_family = family,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found = NULL;
    *resolve_error = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
    if (*resolve_error)
        return -1;
    int fd = -1;
    for (const struct addrinfo *info = found; info && fd < 0; info = info->ai_next)
        fd = listen_on(info, !host[0]);
    int saved = errno;
    freeaddrinfo(found);
    errno = saved;
    return fd;
}

static bool bind_address(http_listener *listener, const http_listener_config *config,
                         plim_error *err)
{
    char host[256] = "", port[8] = "";
    if (!split_address(config, host, port, err))
        return false;
    int unresolved = 0;
    listener->fd = try_family(host, port, host[0] ? AF_UNSPEC : AF_INET6, &unresolved);
    if (listener->fd < 0 && !host[0] && (unresolved || errno == EAFNOSUPPORT))
        listener->fd = try_family(host, port, AF_INET, &unresolved);
    if (listener->fd < 0)
        return invalid(err, config, unresolved ? gai_strerror(unresolved) : base_errno_text(errno));

    struct sockaddr_storage bound;
    socklen_t length = sizeof(bound);
    if (getsockname(listener->fd, (struct sockaddr *)&bound, &length) != 0 ||
        getnameinfo((struct sockaddr *)&bound, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return invalid(err, config, "cannot read back what was bound");
    int64_t number = 0;
    base_parse_int(plim_bytes_of(port), &number);
    listener->port = (uint16_t)number;
    snprintf(listener->address, sizeof(listener->address),
             strchr(host, ':') ? "[%.46s]:%s" : "%.46s:%s", host, port);
    return true;
}

http_listener *http_server_listen(http_server *server, const http_listener_config *config,
                                  plim_error *err)
{
    plim_error_clear(err);
    http_listener *listener = base_new(http_listener);
    if (!listener) {
        plim_refuse_nomem(err);
        return NULL;
    }
    listener->server = server;
    listener->limits = config->limits;
    listener->handler = config->handler;
    listener->fd = -1;
    bool tls = config->tls_cert_file && config->tls_key_file;
    if (tls)
        listener->tls = http_tls_context_new(config->tls_cert_file, config->tls_key_file, err);
    if ((tls && !listener->tls) || !bind_address(listener, config, err)) {
        http_listener_free(listener);
        return NULL;
    }
    uv_poll_init(&server->loop, &listener->poll, listener->fd);
    uv_timer_init(&server->loop, &listener->timer);
    listener->poll.data = listener->timer.data = listener;
    listener->handles = 2;
    listener->next = server->listeners;
    server->listeners = listener;
    return listener;
}

void http_listener_free(http_listener *listener)
{
    base_fd_close(&listener->fd);
    http_tls_context_free(listener->tls);
    base_free(listener);
}

uint16_t http_listener_port(const http_listener *listener)
{
    return listener->port;
}

const char *http_listener_address(const http_listener *listener)
{
    return listener->address;
}

/* ---- accepting ---- */

static void set_polling(http_listener *listener);

static void on_back_off_over(uv_timer_t *timer)
{
    set_polling(timer->data);
}

static bool at_cap(const http_listener *listener)
{
    return listener->limits.connections_max > 0 &&
           listener->conn_count >= listener->limits.connections_max;
}

typedef enum { ACCEPT_NEXT, ACCEPT_NONE, ACCEPT_LATER, ACCEPT_NEVER } accept_fate;

/* What an error of accept(2) says about the next call. */
static accept_fate fate_of(int error)
{
    switch (error) {
    case EAGAIN:
        return ACCEPT_NONE;
    case EBADF:
    case EINVAL:
    case ENOTSOCK:
    case EOPNOTSUPP:
        return ACCEPT_NEVER; /* it is no listening socket any more */
    case EINTR:
    case ECONNABORTED: /* and what else a connection died of while it waited (accept(2), "Linux") */
    case EPROTO:
    case ENOPROTOOPT:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
        return ACCEPT_NEXT;
    default: /* no descriptor or no memory: the connection stays in the kernel's queue */
        return ACCEPT_LATER;
    }
}

static accept_fate accept_one(http_listener *listener)
{
    struct sockaddr_storage peer = {0};
    socklen_t length = sizeof(peer);
    int fd = accept4(listener->fd, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return fate_of(errno);
    http_conn_open(listener, fd, (struct sockaddr *)&peer);
    return ACCEPT_NEXT;
}

static void give_up(http_listener *listener, const char *why)
{
    listener->failed = true;
    if (listener->handler.on_failed)
        listener->handler.on_failed(listener, why, listener->handler.data);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    http_listener *listener = poll->data;
    accept_fate fate = ACCEPT_NEXT;
    (void)status, (void)events; /* accept says what is wrong, too */
    for (int i = 0; i < ACCEPTS_PER_TURN && fate == ACCEPT_NEXT && !at_cap(listener); i++)
        fate = accept_one(listener);
    if (fate == ACCEPT_NEVER)
        give_up(listener, base_errno_text(errno));
    if (fate == ACCEPT_LATER) /* asking again at once would spin */
        uv_timer_start(&listener->timer, on_back_off_over, BACK_OFF_MS, 0);
    set_polling(listener);
}

static void set_polling(http_listener *listener)
{
    bool want = listener->state == HTTP_LISTENER_ACCEPTING && !listener->failed &&
                !at_cap(listener) && !uv_is_active((uv_handle_t *)&listener->timer);
    if (want == listener->polling)
        return;
    listener->polling = want;
    if (want)
        uv_poll_start(&listener->poll, UV_READABLE, on_connection);
    else if (listener->state == HTTP_LISTENER_ACCEPTING)
        uv_poll_stop(&listener->poll);
}

void http_listener_start(http_listener *listener)
{
    if (listener->state != HTTP_LISTENER_BOUND)
        return;
    listener->state = HTTP_LISTENER_ACCEPTING;
    set_polling(listener);
}

/* ---- draining ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    http_listener *listener = handle->data;
    if (--listener->handles)
        return;
    listener->state = HTTP_LISTENER_CLOSED;
    if (listener->on_drained)
        listener->on_drained(listener->drained_clean, listener->on_drained_data);
    http_server_listener_closed(listener->server);
}

static void close_if_empty(http_listener *listener)
{
    if (listener->state == HTTP_LISTENER_DRAINING && !listener->conns &&
        !uv_is_closing((uv_handle_t *)&listener->timer))
        uv_close((uv_handle_t *)&listener->timer, on_handle_closed);
}

static void kill_all(http_listener *listener)
{
    for (http_conn *conn = listener->conns, *next; conn; conn = next) {
        next = conn->next;
        http_conn_kill(conn);
    }
}

static void on_budget_over(uv_timer_t *timer)
{
    http_listener *listener = timer->data;
    listener->drained_clean = false;
    kill_all(listener);
}

static void begin_drain(http_listener *listener)
{
    listener->state = HTTP_LISTENER_DRAINING;
    listener->drained_clean = true;
    listener->polling = false;
    /* In this order: closing the handle takes the descriptor out of the loop. */
    uv_close((uv_handle_t *)&listener->poll, on_handle_closed);
    base_fd_close(&listener->fd);
    for (http_conn *conn = listener->conns, *next; conn; conn = next) {
        next = conn->next;
        http_conn_drain(conn);
    }
}

void http_listener_check_orders(http_listener *listener)
{
    http_gate *gate = listener->server->gate;
    pthread_mutex_lock(&gate->lock);
    bool ordered = listener->drain_ordered;
    int64_t until = listener->drain_until_ms, now = http_now_ms(listener->server);
    listener->drain_ordered = false;
    pthread_mutex_unlock(&gate->lock);
    if (!ordered || listener->state == HTTP_LISTENER_CLOSED)
        return;
    if (listener->state != HTTP_LISTENER_DRAINING)
        begin_drain(listener);
    close_if_empty(listener);
    if (!uv_is_closing((uv_handle_t *)&listener->timer))
        uv_timer_start(&listener->timer, on_budget_over, until > now ? (uint64_t)(until - now) : 0,
                       0);
}

void http_listener_drain(http_listener *listener, int64_t budget_ms,
                         void (*on_drained)(bool clean, void *data), void *data)
{
    http_gate *gate = listener->server->gate;
    int64_t until = base_monotonic_ns() / BASE_NS_PER_MS + (budget_ms > 0 ? budget_ms : 0);
    pthread_mutex_lock(&gate->lock);
    if (gate->wakeup) {
        if (listener->drain_until_ms == 0) {
            listener->on_drained = on_drained;
            listener->on_drained_data = data;
        }
        if (listener->drain_until_ms == 0 || until < listener->drain_until_ms)
            listener->drain_until_ms = until;
        listener->drain_ordered = true;
        uv_async_send(gate->wakeup);
    }
    pthread_mutex_unlock(&gate->lock);
}

void http_listener_conn_closed(http_listener *listener, http_conn *conn)
{
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        listener->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    listener->conn_count--;
    set_polling(listener);
    close_if_empty(listener);
}

void http_listener_abort(http_listener *listener)
{
    if (listener->state != HTTP_LISTENER_DRAINING && listener->state != HTTP_LISTENER_CLOSED)
        begin_drain(listener);
    kill_all(listener);
    close_if_empty(listener);
}
