#include "client/conn.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

struct client_conn {
    CURLM *multi;
    CURL *easy;
    curl_socket_t fd;             /* of the connection that was made */
    char detail[CURL_ERROR_SIZE]; /* libcurl's own words about a failure */

    /* what libcurl waits for while it connects */
    struct pollfd watched[RUN_CTX_POLL_MAX];
    size_t watched_count;
    int64_t timer_ns;
    bool overflow;
};

static bool library_ready;

static void init_library(void)
{
    library_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

bool client_conn_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_library);
    return library_ready;
}

/* ---- what libcurl asks for while it connects ---- */

static short poll_events(int what)
{
    return (short)((what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0));
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *unused)
{
    (void)easy;
    (void)unused;
    client_conn *conn = user;
    size_t at = 0;
    while (at < conn->watched_count && conn->watched[at].fd != fd)
        at++;
    if (what == CURL_POLL_REMOVE) {
        if (at < conn->watched_count)
            conn->watched[at] = conn->watched[--conn->watched_count];
        return 0;
    }
    if (at == RUN_CTX_POLL_MAX) {
        conn->overflow = true;
        return 0;
    }
    if (at == conn->watched_count)
        conn->watched_count++;
    conn->watched[at] = (struct pollfd){.fd = fd, .events = poll_events(what)};
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *user)
{
    (void)multi;
    client_conn *conn = user;
    conn->timer_ns = timeout_ms < 0 ? BASE_NEVER : base_deadline_after_ms(timeout_ms);
    return 0;
}

static curl_socket_t on_open(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)user;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* ---- descriptors across exec ---- */

/* The descriptors from the lowest free one on, and which of them were in use at a moment. */
typedef struct fd_range {
    int lowest;
    bool used[64];
} fd_range;

static fd_range look_at_range(void)
{
    fd_range range = {.lowest = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int fd = range.lowest;
    base_fd_close(&fd);
    for (size_t i = 0; i < PLIM_COUNT(range.used); i++)
        range.used[i] = fcntl(range.lowest + (int)i, F_GETFD) >= 0;
    return range;
}

/* Has a local socket bytes on the way, to it or from it? */
static bool holds_bytes(int fd)
{
    int domain = 0, unread = 0, unsent = 0;
    socklen_t size = sizeof(domain);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
           ((ioctl(fd, FIONREAD, &unread) == 0 && unread) ||
            (ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent));
}

/*
 * libcurl 7 keeps a pair of sockets in each multi handle to wake it up, and leaves it open across
 * exec. The pair is known by what it is for: of the descriptors that are new since `before`, the
 * two that hold a byte only after a wake-up. One that is not found stays as it is.
 */
static void hide_wakeup_pair(CURLM *multi, fd_range *before)
{
    if (before->lowest < 0)
        return;
    for (size_t i = 0; i < PLIM_COUNT(before->used); i++)
        before->used[i] |= holds_bytes(before->lowest + (int)i);
    if (curl_multi_wakeup(multi) != CURLM_OK)
        return;
    for (size_t i = 0; i < PLIM_COUNT(before->used); i++)
        if (!before->used[i] && holds_bytes(before->lowest + (int)i))
            fcntl(before->lowest + (int)i, F_SETFD, FD_CLOEXEC);
    curl_multi_poll(multi, NULL, 0, 0, NULL); /* takes the byte out again */
}

/* ---- connecting ---- */

static bool set_options(client_conn *conn, const client_url *url, const char *ca_file,
                        const run_ctx *ctx)
{
    CURL *easy = conn->easy;
    int64_t left_ms = (ctx->deadline_ns - base_monotonic_ns()) / BASE_NS_PER_MS;
    long timeout_ms = left_ms < 1 ? 1 : left_ms > INT32_MAX ? INT32_MAX : (long)left_ms;
    bool set = true;
#define SET(option, value) (set = set && curl_easy_setopt(easy, (option), (value)) == CURLE_OK)
    SET(CURLOPT_URL, url->origin);
    SET(CURLOPT_ERRORBUFFER, conn->detail);
    SET(CURLOPT_CONNECT_ONLY, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_PROXY, ""); /* not even one that the environment names */
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_NOSIGNAL, 1L);
    /* A lookup that hangs is left behind, not waited for. */
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (ca_file) {
        SET(CURLOPT_CAINFO, ca_file);
        SET(CURLOPT_CAPATH, (char *)NULL);
    }
#undef SET
    return set;
}

static client_conn *conn_new(void)
{
    client_conn *conn = base_new(client_conn);
    if (!conn)
        return NULL;
    conn->fd = CURL_SOCKET_BAD;
    conn->timer_ns = BASE_NEVER;
    conn->easy = curl_easy_init();
    fd_range before = look_at_range();
    conn->multi = curl_multi_init();
    if (conn->multi)
        hide_wakeup_pair(conn->multi, &before);
    if (conn->easy && conn->multi &&
        curl_multi_setopt(conn->multi, CURLMOPT_SOCKETFUNCTION, on_socket) == CURLM_OK &&
        curl_multi_setopt(conn->multi, CURLMOPT_SOCKETDATA, conn) == CURLM_OK &&
        curl_multi_setopt(conn->multi, CURLMOPT_TIMERFUNCTION, on_timer) == CURLM_OK &&
        curl_multi_setopt(conn->multi, CURLMOPT_TIMERDATA, conn) == CURLM_OK)
        return conn;
    client_conn_close(conn);
    return NULL;
}

/* Tell libcurl about every socket that is ready. The set may change under each call. */
static CURLMcode pass_on(client_conn *conn, int *running)
{
    struct pollfd ready[RUN_CTX_POLL_MAX];
    size_t count = conn->watched_count;
    memcpy(ready, conn->watched, count * sizeof(*ready));
    CURLMcode code = CURLM_OK;
    for (size_t i = 0; i < count && code == CURLM_OK; i++) {
        int bits = (ready[i].revents & (POLLIN | POLLHUP) ? CURL_CSELECT_IN : 0) |
                   (ready[i].revents & POLLOUT ? CURL_CSELECT_OUT : 0) |
                   (ready[i].revents & (POLLERR | POLLNVAL) ? CURL_CSELECT_ERR : 0);
        if (bits)
            code = curl_multi_socket_action(conn->multi, ready[i].fd, bits, running);
    }
    return code;
}

/* Drive libcurl until it has connected or given up. RUN_READY: it has an outcome. */
static run_wait drive(client_conn *conn, const run_ctx *ctx)
{
    int running = 0;
    CURLMcode code = curl_multi_socket_action(conn->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    while (code == CURLM_OK && running && !conn->overflow) {
        run_ctx step = run_ctx_until(ctx, conn->timer_ns);
        run_wait wait = run_ctx_poll(&step, conn->watched, conn->watched_count);
        if (wait == RUN_READY)
            code = pass_on(conn, &running);
        else if (wait == RUN_DEADLINE && base_monotonic_ns() < ctx->deadline_ns)
            code = curl_multi_socket_action(conn->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        else
            return wait;
    }
    return code == CURLM_OK && !conn->overflow ? RUN_READY : RUN_FAILED;
}

static bool unreachable(plim_error *err, const client_url *url, const char *why)
{
    return plim_refuse(err, PLIM_E_TRANSPORT, PLIM_CODE_UNAVAILABLE, PLIM_ND_ENVIRONMENT,
                       "cannot connect to %s: %s", url->authority, why);
}

/* What stood in the way: the system's word where it has one, else libcurl's, the exact one first.
 */
static bool refused(plim_error *err, const client_url *url, const client_conn *conn, CURLcode code)
{
    long number = 0;
    const char *why = conn->detail[0] ? conn->detail : curl_easy_strerror(code);
    if (code == CURLE_COULDNT_CONNECT &&
        curl_easy_getinfo(conn->easy, CURLINFO_OS_ERRNO, &number) == CURLE_OK && number)
        why = base_errno_text((int)number);
    if (code != CURLE_SSL_CONNECT_ERROR)
        return unreachable(err, url, why);
    char handshake[CURL_ERROR_SIZE + 64];
    snprintf(handshake, sizeof(handshake), "the TLS handshake failed (%s)", why);
    return unreachable(err, url, handshake);
}

static bool too_late(plim_error *err, const client_url *url)
{
    return plim_refuse(err, PLIM_E_REQUEST_TIMEOUT, PLIM_CODE_DEADLINE_EXCEEDED,
                       PLIM_ND_ENVIRONMENT, "the time was up before %s was connected",
                       url->authority);
}

/* libcurl's outcome as an error; true when it has connected. */
static bool outcome(client_conn *conn, const client_url *url, plim_error *err)
{
    int left;
    CURLMsg *message = curl_multi_info_read(conn->multi, &left);
    CURLcode code =
        message && message->msg == CURLMSG_DONE ? message->data.result : CURLE_COULDNT_CONNECT;
    if (code == CURLE_OK)
        code = curl_easy_getinfo(conn->easy, CURLINFO_ACTIVESOCKET, &conn->fd);
    if (code == CURLE_OK && conn->fd == CURL_SOCKET_BAD)
        code = CURLE_COULDNT_CONNECT;
    if (code == CURLE_OUT_OF_MEMORY)
        return plim_refuse_nomem(err);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return too_late(err, url);
    return code == CURLE_OK || refused(err, url, conn, code);
}

static bool connect_within(client_conn *conn, const client_url *url, const char *ca_file,
                           const run_ctx *ctx, plim_error *err)
{
    if (!set_options(conn, url, ca_file, ctx) ||
        curl_multi_add_handle(conn->multi, conn->easy) != CURLM_OK)
        return plim_refuse_nomem(err);
    switch (drive(conn, ctx)) {
    case RUN_READY:
        return outcome(conn, url, err);
    case RUN_DEADLINE:
        return too_late(err, url);
    case RUN_CANCELED:
        return plim_refuse(err, PLIM_E_CANCELED, PLIM_CODE_CANCELED, PLIM_ND_REQUEST,
                           "the call was cancelled before anything was sent");
    default:
        return unreachable(err, url, "waiting for the network failed");
    }
}

client_conn *client_conn_open(const client_url *url, const char *ca_file, const run_ctx *ctx,
                              plim_error *err)
{
    client_conn *conn = conn_new();
    if (!conn) {
        plim_refuse_nomem(err);
        return NULL;
    }
    if (connect_within(conn, url, ca_file, ctx, err))
        return conn;
    client_conn_close(conn);
    return NULL;
}

void client_conn_close(client_conn *conn)
{
    if (!conn)
        return;
    /* First, so that libcurl has nobody to say goodbye to and cannot be kept waiting. */
    if (conn->fd != CURL_SOCKET_BAD)
        shutdown(conn->fd, SHUT_RDWR);
    if (conn->multi && conn->easy)
        curl_multi_remove_handle(conn->multi, conn->easy);
    curl_easy_cleanup(conn->easy);
    curl_multi_cleanup(conn->multi);
    base_free(conn);
}

/* ---- a connection that was made ---- */

bool client_conn_idle_usable(const client_conn *conn)
{
    char byte;
    ssize_t count;
    do {
        count = recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

int client_conn_fd(const client_conn *conn)
{
    return conn->fd;
}

client_io client_conn_send(client_conn *conn, plim_bytes bytes, size_t *count)
{
    switch (curl_easy_send(conn->easy, bytes.data, bytes.len, count)) {
    case CURLE_OK:
        return CLIENT_IO_SOME;
    case CURLE_AGAIN:
        return CLIENT_IO_AGAIN;
    default:
        return CLIENT_IO_FAILED;
    }
}

client_io client_conn_receive(client_conn *conn, char *into, size_t size, size_t *count)
{
    switch (curl_easy_recv(conn->easy, into, size, count)) {
    case CURLE_OK:
        return *count ? CLIENT_IO_SOME : CLIENT_IO_END;
    case CURLE_AGAIN:
        return CLIENT_IO_AGAIN;
    default:
        return CLIENT_IO_FAILED;
    }
}
