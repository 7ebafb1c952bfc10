/*
 * Every allocation that the server makes while it serves fails once: no crash, no leak, no hang,
 * and the next connection is served. Linked so that malloc, calloc and realloc of the server's own
 * code come here; only those of the loop thread fail.
 */
#include "unit.h"

#include "failing_alloc.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "http/http.h"

enum { HANG_S = 20, LARGE = 300000, NTH_MAX = 10000 };

static _Thread_local bool on_loop;
static atomic_long countdown = -1; /* of the loop's allocations until one fails; below 0: none */

static bool alloc_fails(void)
{
    return on_loop && atomic_load(&countdown) >= 0 && atomic_fetch_sub(&countdown, 1) == 0;
}

/* ---- the server ---- */

static void answer(http_request *req, plim_bytes body)
{
    const http_header header = {PLIM_LIT("x-a"), PLIM_LIT("b")};
    http_respond(req, &(http_answer){.status = 200,
                                     .headers = &header,
                                     .header_count = 1,
                                     .body = body,
                                     .trailers = &header,
                                     .trailer_count = 1});
}

static void on_body(http_request *req, http_body_outcome outcome, void *data)
{
    (void)data;
    if (outcome == HTTP_BODY_COMPLETE)
        answer(req, http_request_body(req));
    else
        http_respond_text(req, 503, "no");
}

static void *answer_elsewhere(void *req)
{
    static char large[LARGE];
    http_respond(req, &(http_answer){.status = 200, .body = {large, sizeof(large)}});
    return NULL;
}

static void on_request(http_request *req, void *data)
{
    pthread_t thread;
    if (http_request_content_length(req) != 0)
        http_read_body(req, 1 << 20, on_body, data);
    else if (!base_bytes_is(http_request_path(req), "/thread"))
        answer(req, PLIM_LIT("ok"));
    else if (pthread_create(&thread, NULL, answer_elsewhere, req) == 0)
        pthread_detach(thread);
    else
        http_respond_text(req, 503, "no thread");
}

static void *serve(void *server)
{
    on_loop = true;
    bool served = http_server_run(server, NULL);
    on_loop = false;
    return served ? server : NULL;
}

/* ---- the client: says something, reads what comes until the end ---- */

static bool exchange(uint16_t port, plim_bytes request)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval hang = {HANG_S, 0};
    bool ok = false;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &hang, sizeof(hang));
    if (send(fd, request.data, request.len, MSG_NOSIGNAL) < 0)
        return false;
    char text[65536];
    for (ssize_t got; (got = recv(fd, text, sizeof(text), 0)) != 0;) {
        assert_false(got < 0 && errno == EAGAIN); /* a hang */
        if (got < 0)
            break;
        ok = ok || memmem(text, (size_t)got, "200 OK", 6) || memmem(text, (size_t)got, "\x88", 1);
    }
    return ok;
}

/* GET / and POST / in HTTP/2, then GOAWAY, on which the server closes once they are answered. */
static plim_bytes h2_requests(void)
{
    return PLIM_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                    "\0\0\0\4\0\0\0\0\0"
                    "\0\0\6\1\5\0\0\0\1\x82\x84\x86\x41\1t"
                    "\0\0\6\1\4\0\0\0\3\x83\x84\x86\x41\1t"
                    "\0\0\3\0\1\0\0\0\3abc"
                    "\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0\0");
}

static bool exchange_all(uint16_t port)
{
    static const char close[] = " HTTP/1.1\r\nHost: t\r\nConnection: close\r\n";
    base_buf text = BASE_BUF_INIT(65536);
    bool ok = true;
    base_buf_printf(&text, "GET /%s\r\n", close);
    ok &= exchange(port, base_buf_bytes(&text));
    base_buf_clear(&text);
    base_buf_printf(&text, "GET /thread%s\r\n", close);
    ok &= exchange(port, base_buf_bytes(&text));
    base_buf_clear(&text);
    base_buf_printf(&text, "POST /%sTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                    close);
    ok &= exchange(port, base_buf_bytes(&text));
    base_buf_free(&text);
    return exchange(port, h2_requests()) && ok;
}

static void test_each_allocation_fails(void **state)
{
    (void)state;
    http_server *server = http_server_new(NULL);
    http_limits limits = http_limits_default();
    limits.discard_ms = 1;
    http_listener *listener =
        http_server_listen(server,
                           &(http_listener_config){.name = "test",
                                                   .address = "127.0.0.1:0",
                                                   .limits = limits,
                                                   .handler = {.on_request = on_request}},
                           NULL);
    assert_non_null(listener);
    http_listener_start(listener);
    pthread_t thread;
    void *served;
    assert_int_equal(pthread_create(&thread, NULL, serve, server), 0);

    bool reached = true;
    long nth = 0;
    for (; reached && nth < NTH_MAX; nth++) {
        atomic_store(&countdown, nth);
        exchange_all(http_listener_port(listener));
        reached = atomic_exchange(&countdown, -1) < 0;
        assert_true(exchange_all(http_listener_port(listener)));
    }
    assert_true(nth > 10 && nth < NTH_MAX);
    http_listener_drain(listener, INT64_C(1000) * HANG_S, NULL, NULL);
    assert_int_equal(pthread_join(thread, &served), 0);
    assert_non_null(served);
    http_server_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
