/* What becomes of a request on the way: what was sent, what may have been, and that never twice. */
#include "client/answer.h"

#include "test_client_server.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cmocka.h>

enum {
    LONG_MS = 60000,
    SHORT_MS = 300
}; /* bounds against hanging; nothing is asserted about time */

#define expect_error(err, wanted, name, mark)                                                      \
    do {                                                                                           \
        if (plim_error_status(&(err)) != (wanted) || plim_error_not_dispatched(&(err)) != (mark))  \
            fail_msg("%s %s (%s): %s", plim_status_name(plim_error_status(&(err))),                \
                     plim_error_code(&(err)),                                                      \
                     plim_not_dispatched_name(plim_error_not_dispatched(&(err))),                  \
                     plim_error_message(&(err)));                                                  \
        assert_string_equal(plim_error_code(&(err)), (name));                                      \
        plim_error_clear(&(err));                                                                  \
    } while (0)

static client *client_of(const char *url, int64_t timeout_ms, const char *ca_file)
{
    client *made = NULL;
    plim_client_options options = {.size = sizeof(options),
                                   .base_url = plim_bytes_of(url),
                                   .request_timeout_ms = timeout_ms,
                                   .ca_file = plim_bytes_of(ca_file)};
    assert_true(client_new(&options, &made, NULL));
    return made;
}

/* A run by URL that must fail. */
static void expect_unreachable(const char *url, const char *ca_file)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    client *made = client_of(url, LONG_MS, ca_file);
    run_snippet(made, "1", &result, &err);
    expect_error(err, PLIM_E_TRANSPORT, "unavailable", PLIM_ND_ENVIRONMENT);
    assert_null(result);
    client_free(made);
}

/* ---- nothing was sent ---- */

static void a_refused_connect_is_marked(void **state)
{
    (void)state;
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", server_closed_port());
    expect_unreachable(url, NULL);
}

static void a_name_that_does_not_resolve_is_marked(void **state)
{
    (void)state;
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    client *made = client_of("https://no-such-host.invalid", 2000, NULL);
    run_snippet(made, "1", &result, &err);
    /* A resolver that never answers is a timeout, and marked all the same. */
    assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_ENVIRONMENT);
    plim_error_clear(&err);
    client_free(made);
}

/* A port whose connects hang: nobody accepts, and the queue is full. */
static int hanging_port(int fds[32])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fds[0], (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fds[0], 0), 0);
    getsockname(fds[0], (struct sockaddr *)&address, &size);
    for (int i = 1; i < 32; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fds[i], (struct sockaddr *)&address, size);
    }
    return ntohs(address.sin_port);
}

static void a_connect_that_hangs_times_out_marked(void **state)
{
    (void)state;
    int fds[32];
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", hanging_port(fds));
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    client *made = client_of(url, SHORT_MS, NULL);
    run_snippet(made, "1", &result, &err);
    expect_error(err, PLIM_E_REQUEST_TIMEOUT, "deadline_exceeded", PLIM_ND_ENVIRONMENT);
    client_free(made);
    for (int i = 0; i < 32; i++)
        close(fds[i]);
}

static void a_cancelled_call_is_not_sent(void **state)
{
    (void)state;
    server served;
    server_start(&served, server_good, NULL, NULL);
    client *made = server_client(&served, LONG_MS, NULL);
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result = NULL;
    plim_javascript_request snippet = {.code = PLIM_LIT("1")};
    core_request request = {
        .kind = PLIM_KIND_JAVASCRIPT, .options = &snippet.options, .javascript = &snippet};
    run_ctx none = RUN_CTX_NONE, canceled = {BASE_NEVER, eventfd(1, EFD_CLOEXEC)};
    run_ctx late = {base_monotonic_ns() - 1, -1};
    /* On a new connection, then on a kept one. */
    for (int i = 0; i < 2; i++) {
        assert_false(client_run(made, &request, &canceled, &result, &err));
        expect_error(err, PLIM_E_CANCELED, "canceled", PLIM_ND_REQUEST);
        assert_false(client_run(made, &request, &late, &result, &err));
        expect_error(err, PLIM_E_REQUEST_TIMEOUT, "deadline_exceeded", PLIM_ND_ENVIRONMENT);
        assert_int_equal(atomic_load(&served.requests), i);
        assert_true(client_run(made, &request, &none, &result, &err));
        plim_result_free(TAKE_PTR(result));
    }
    close(canceled.cancel_fd);
    client_free(made);
    server_stop(&served);
}

/* ---- TLS ---- */

static bool cut(server_conn *conn, server_request *request)
{
    (void)conn, (void)request;
    return false;
}

static void tls_is_verified(void **state)
{
    (void)state;
    char pem[] = "/tmp/plimsoll-test-XXXXXX";
    int fd = mkstemp(pem);
    assert_true(fd >= 0);
    close(fd);
    server served;
    server_start(&served, server_good, NULL, server_tls(pem));
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    client *made = client_of(served.url, LONG_MS, pem);
    for (int i = 0; i < 3; i++) {
        if (run_snippet(made, "1", &result, &err) != PLIM_OK)
            fail_msg("%s", plim_error_message(&err));
        plim_result_free(result);
    }
    assert_int_equal(atomic_load(&served.connections), 1);
    client_free(made);
    expect_unreachable(served.url, NULL);          /* nobody whom the system trusts */
    expect_unreachable(served.url, "/nowhere/ca"); /* a file that is not there */
    char url[64];
    snprintf(url, sizeof(url), "https://localhost:%d", served.port);
    expect_unreachable(url, pem); /* the certificate is for another name */
    assert_int_equal(atomic_load(&served.requests), 3);
    server_stop(&served);

    server_start(&served, server_good, NULL, NULL);
    snprintf(url, sizeof(url), "https://127.0.0.1:%d", served.port);
    expect_unreachable(url, pem); /* a cleartext port */
    server_stop(&served);

    /* A peer that closes on us after the request: no signal, no mark. */
    server_start(&served, cut, NULL, server_tls(pem));
    served.on_head = cut;
    made = client_of(served.url, LONG_MS, pem);
    char *code = base_alloc(PLIM_CODE_BYTES_MAX + 1, 1);
    memset(code, '1', PLIM_CODE_BYTES_MAX);
    run_snippet(made, code, &result, &err);
    expect_error(err, PLIM_E_TRANSPORT, "unavailable", PLIM_ND_NONE);
    base_free(code);
    client_free(made);
    server_stop(&served);
    unlink(pem);
}

/* ---- after it was sent ---- */

/* Run against a script and expect an unmarked error and exactly one request. */
static void expect_lost(server_script *script, void *arg, int64_t timeout_ms, plim_status status,
                        const char *code)
{
    server served;
    server_start(&served, script, arg, NULL);
    client *made = server_client(&served, timeout_ms, NULL);
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    run_snippet(made, "1", &result, &err);
    assert_null(result);
    expect_error(err, status, code, PLIM_ND_NONE);
    client_free(made);
    server_stop(&served);
    assert_int_equal(atomic_load(&served.requests), 1);
    assert_int_equal(atomic_load(&served.connections), 1);
}

static bool write_raw(server_conn *conn, server_request *request)
{
    const char *form = conn->server->arg;
    (void)request;
    server_write(conn, form, strlen(form));
    return false;
}

static void an_answer_that_breaks_off_is_lost(void **state)
{
    (void)state;
    static char *const answers[] = {
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 99 x\r\nContent-Length: 0\r\n\r\n",
    };
    for (size_t i = 0; i < PLIM_COUNT(answers); i++)
        expect_lost(write_raw, answers[i], LONG_MS, PLIM_E_TRANSPORT, "unavailable");
}

static bool wait_for_the_end(server_conn *conn, server_request *request)
{
    char byte;
    (void)request;
    while (recv(conn->fd, &byte, 1, 0) > 0)
        ;
    return false;
}

static bool trickle(server_conn *conn, server_request *request)
{
    server_printf(conn,
                  "HTTP/1.1 200 OK\r\nPlimsoll-Request-Id: %s\r\nContent-Length: 100000\r\n\r\n",
                  request->id);
    struct timespec pause = {0, 5000000L};
    for (int i = 0; i < 2000; i++) {
        if (send(conn->fd, "x", 1, MSG_NOSIGNAL) != 1)
            break;
        nanosleep(&pause, NULL);
    }
    return false;
}

static bool interim_without_end(server_conn *conn, server_request *request)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    (void)request;
    while (send(conn->fd, interim, sizeof(interim) - 1, MSG_NOSIGNAL) > 0)
        ;
    return false;
}

static void no_daemon_outlives_the_deadline(void **state)
{
    (void)state;
    expect_lost(wait_for_the_end, NULL, SHORT_MS, PLIM_E_REQUEST_TIMEOUT, "deadline_exceeded");
    expect_lost(trickle, NULL, SHORT_MS, PLIM_E_REQUEST_TIMEOUT, "deadline_exceeded");
    expect_lost(interim_without_end, NULL, LONG_MS, PLIM_E_TRANSPORT, "unavailable");
}

static bool claim_too_much(server_conn *conn, server_request *request)
{
    server_printf(conn, "HTTP/1.1 200 OK\r\nPlimsoll-Request-Id: %s\r\nContent-Length: %d\r\n\r\n",
                  request->id, CLIENT_BODY_BYTES_MAX + 1);
    return wait_for_the_end(conn, request);
}

static bool send_too_much(server_conn *conn, server_request *request)
{
    static char block[65536];
    server_printf(
        conn, "HTTP/1.1 200 OK\r\nPlimsoll-Request-Id: %s\r\nTransfer-Encoding: chunked\r\n\r\n",
        request->id);
    for (size_t sent = 0; sent < CLIENT_BODY_BYTES_MAX; sent += sizeof(block)) {
        server_printf(conn, "%zx\r\n", sizeof(block));
        server_write(conn, block, sizeof(block));
        server_printf(conn, "\r\n");
    }
    server_printf(conn, "1\r\nx\r\n0\r\n\r\n");
    return wait_for_the_end(conn, request);
}

static void an_answer_past_the_limit_is_given_up(void **state)
{
    (void)state;
    expect_lost(claim_too_much, NULL, LONG_MS, PLIM_E_RESPONSE_TOO_LARGE, "resource_exhausted");
    expect_lost(send_too_much, NULL, LONG_MS, PLIM_E_RESPONSE_TOO_LARGE, "resource_exhausted");
}

static void a_redirect_is_not_followed(void **state)
{
    (void)state;
    server other;
    server_start(&other, server_good, NULL, NULL);
    char answer[512];
    static const int statuses[] = {301, 302, 303, 307, 308, 304};
    for (size_t i = 0; i < PLIM_COUNT(statuses); i++) {
        snprintf(answer, sizeof(answer),
                 "HTTP/1.1 %d x\r\nLocation: %s/plimsoll.v1.SandboxService/Run\r\n"
                 "Plimsoll-Not-Dispatched: request\r\nContent-Length: 99\r\n\r\n",
                 statuses[i], other.url);
        expect_lost(write_raw, answer, LONG_MS, PLIM_E_TRANSPORT, "unknown");
    }
    server_stop(&other);
    assert_int_equal(atomic_load(&other.connections), 0);
}

static void a_proxy_of_the_environment_is_not_used(void **state)
{
    (void)state;
    char proxy[64];
    snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", server_closed_port());
    static const char *const names[] = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < PLIM_COUNT(names); i++)
        setenv(names[i], proxy, 1);
    server served;
    server_start(&served, server_good, NULL, NULL);
    client *made = server_client(&served, LONG_MS, NULL);
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    assert_int_equal(run_snippet(made, "1", &result, &err), PLIM_OK);
    plim_result_free(result);
    client_free(made);
    server_stop(&served);
    for (size_t i = 0; i < PLIM_COUNT(names); i++)
        unsetenv(names[i]);
}

/* ---- early answers ---- */

/* Refuse when the head was read, and close on the unread body: the kernel resets the connection. */
static bool refuse_at_once(server_conn *conn, server_request *request)
{
    static const char body[] = "{\"code\":\"resource_exhausted\",\"message\":\"early\",\"details\":"
                               "[{\"type\":\"plimsoll.v1.NotDispatched\",\"value\":\"CAY\"}]}";
    server_printf(conn,
                  "HTTP/1.1 429 x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                  "Plimsoll-Request-Id: %s\r\nContent-Length: %zu\r\n\r\n%s",
                  request->id, sizeof(body) - 1, body);
    return false;
}

static void an_answer_before_the_body_was_read_is_received(void **state)
{
    (void)state;
    static char content[PLIM_FILE_CONTENT_BYTES_MAX];
    memset(content, 'x', sizeof(content));
    plim_file file = {PLIM_LIT("f"), {content, sizeof(content)}};
    plim_bytes step = PLIM_LIT("true");
    plim_project_request project = {
        .files = &file, .file_count = 1, .steps = &step, .step_count = 1};
    core_request request = {
        .kind = PLIM_KIND_PROJECT, .options = &project.options, .project = &project};
    run_ctx ctx = RUN_CTX_NONE;
    server served;
    server_start(&served, server_good, NULL, NULL);
    served.on_head = refuse_at_once;
    client *made = server_client(&served, LONG_MS, NULL);
    for (int i = 0; i < 100; i++) {
        plim_error err = PLIM_ERROR_INIT;
        plim_result *result = NULL;
        assert_false(client_run(made, &request, &ctx, &result, &err));
        expect_error(err, PLIM_E_AT_CAPACITY, "resource_exhausted", PLIM_ND_CAPACITY);
    }
    assert_int_equal(atomic_load(&served.requests), 100);
    client_free(made);
    server_stop(&served);
}

/* ---- kept connections ---- */

/* Run `count` snippets; the status of the last. */
static plim_status run_many(client *made, int count)
{
    plim_status status = PLIM_OK;
    for (int i = 0; i < count; i++) {
        plim_error err = PLIM_ERROR_INIT;
        plim_result *result;
        status = run_snippet(made, "1", &result, &err);
        if (status != PLIM_OK)
            assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_NONE);
        plim_result_free(result);
        plim_error_clear(&err);
    }
    return status;
}

static bool good_then_cut(server_conn *conn, server_request *request)
{
    return request->on_connection == 1 && server_good(conn, request);
}

static void a_cut_kept_connection_is_no_reason_to_send_again(void **state)
{
    (void)state;
    server served;
    server_start(&served, good_then_cut, NULL, NULL);
    client *made = server_client(&served, LONG_MS, NULL);
    assert_int_equal(run_many(made, 1), PLIM_OK);
    assert_int_equal(run_many(made, 1), PLIM_E_TRANSPORT);
    assert_int_equal(atomic_load(&served.requests), 2);
    assert_int_equal(atomic_load(&served.connections), 1);
    assert_int_equal(run_many(made, 1), PLIM_OK);
    assert_int_equal(atomic_load(&served.connections), 2);
    client_free(made);
    server_stop(&served);
}

static bool good_then_close(server_conn *conn, server_request *request)
{
    server_good(conn, request);
    return false;
}

/* Says more than it was asked for: those bytes must not become the next answer. */
static bool good_and_more(server_conn *conn, server_request *request)
{
    base_buf body;
    server_run_answer(request, NULL, &body);
    server_printf(conn,
                  "HTTP/1.1 200 x\r\nContent-Type: application/proto\r\nPlimsoll-Request-Id: %s\r\n"
                  "Content-Length: %zu\r\n\r\n",
                  request->id, body.len);
    base_buf_add_text(&body, "HTTP/1.1 200 OK\r\n");
    server_write(conn, body.data, body.len);
    base_buf_free(&body);
    return true;
}

static bool good_but_last(server_conn *conn, server_request *request)
{
    base_buf body;
    server_run_answer(request, NULL, &body);
    server_answer(conn, request, 200, "application/proto", "Connection: close\r\n",
                  base_buf_bytes(&body));
    base_buf_free(&body);
    return true;
}

/* Chunked, with an interim answer before it and a trailer after it. */
static bool good_in_chunks(server_conn *conn, server_request *request)
{
    base_buf body;
    server_run_answer(request, NULL, &body);
    server_printf(conn,
                  "HTTP/1.1 103 Early Hints\r\nPlimsoll-Request-Id: 0\r\n\r\n"
                  "HTTP/1.1 200 OK\r\nContent-Type: Application/Proto ; a=b\r\n"
                  "plimsoll-request-id:%s\r\nTransfer-Encoding: chunked\r\n\r\n",
                  request->id);
    for (size_t i = 0; i < body.len; i++) {
        server_printf(conn, "1\r\n");
        server_write(conn, body.data + i, 1);
        server_printf(conn, "\r\n");
    }
    server_printf(conn, "0\r\nPlimsoll-Request-Id: 0\r\n\r\n");
    base_buf_free(&body);
    return true;
}

static void connections_are_kept_while_they_are_sound(void **state)
{
    (void)state;
    static const struct {
        server_script *script;
        int connections;
    } rows[] = {{server_good, 1},
                {good_in_chunks, 1},
                {good_then_close, 5},
                {good_and_more, 5},
                {good_but_last, 5}};
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        server served;
        server_start(&served, rows[i].script, NULL, NULL);
        client *made = server_client(&served, LONG_MS, NULL);
        for (int run = 0; run < 5; run++) {
            assert_int_equal(run_many(made, 1), PLIM_OK);
            if (rows[i].script == good_then_close)
                server_wait_closed(&served);
        }
        assert_int_equal(atomic_load(&served.requests), 5);
        assert_int_equal(atomic_load(&served.connections), rows[i].connections);
        client_free(made);
        server_stop(&served);
    }
}

/* A program that this one starts gets none of the client's descriptors. */
static void descriptors_are_closed_on_exec(void **state)
{
    (void)state;
    bool before[256];
    for (int fd = 0; fd < 256; fd++)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    server served;
    server_start(&served, server_good, NULL, NULL);
    client *made = server_client(&served, LONG_MS, NULL);
    assert_int_equal(run_many(made, 2), PLIM_OK);
    for (int fd = 0; fd < 256; fd++)
        if (!before[fd] && fcntl(fd, F_GETFD) == 0)
            fail_msg("descriptor %d would be inherited", fd);
    client_free(made);
    server_stop(&served);
    for (int fd = 0; fd < 256; fd++)
        assert_true(before[fd] || fcntl(fd, F_GETFD) < 0);
}

/* A pair that another thread has just made, with a byte on its way, to be inherited on purpose. */
static struct {
    bool wanted;
    int ends[2];
} stranger;

/* In place of libcurl's own, which it calls: the moment when the client looks for libcurl's pair.
 */
CURLMcode curl_multi_wakeup(CURLM *multi)
{
    CURLMcode (*real)(CURLM *) = (CURLMcode(*)(CURLM *))dlsym(RTLD_NEXT, "curl_multi_wakeup");
    if (stranger.wanted) {
        stranger.wanted = false;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stranger.ends), 0);
        assert_int_equal(send(stranger.ends[0], "", 1, MSG_NOSIGNAL), 1);
    }
    return real(multi);
}

static void a_socket_of_another_thread_stays_as_it_is(void **state)
{
    (void)state;
    server served;
    server_start(&served, server_good, NULL, NULL);
    client *made = server_client(&served, LONG_MS, NULL);
    stranger.wanted = true;
    assert_int_equal(run_many(made, 1), PLIM_OK);
    assert_false(stranger.wanted);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(fcntl(stranger.ends[i], F_GETFD), 0);
        close(stranger.ends[i]);
    }
    client_free(made);
    server_stop(&served);
}

/* ---- cancel in flight ---- */

static bool fire_and_wait(server_conn *conn, server_request *request)
{
    uint64_t one = 1;
    (void)!write(*(int *)conn->server->arg, &one, sizeof(one));
    return wait_for_the_end(conn, request);
}

static bool answer_and_fire(server_conn *conn, server_request *request)
{
    uint64_t one = 1;
    server_good(conn, request);
    (void)!write(*(int *)conn->server->arg, &one, sizeof(one));
    return wait_for_the_end(conn, request);
}

static void a_call_in_flight_can_be_cancelled(void **state)
{
    (void)state;
    int fd = eventfd(0, EFD_CLOEXEC);
    run_ctx ctx = {BASE_NEVER, fd};
    plim_javascript_request snippet = {.code = PLIM_LIT("1")};
    core_request request = {
        .kind = PLIM_KIND_JAVASCRIPT, .options = &snippet.options, .javascript = &snippet};
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result = NULL;
    server served;
    server_start(&served, fire_and_wait, &fd, NULL);
    client *made = server_client(&served, LONG_MS, NULL);
    assert_false(client_run(made, &request, &ctx, &result, &err));
    expect_error(err, PLIM_E_CANCELED, "canceled", PLIM_ND_NONE);
    client_free(made);
    server_stop(&served);
    assert_int_equal(atomic_load(&served.requests), 1);
    close(fd);

    /* The whole answer had arrived: it is returned. */
    fd = ctx.cancel_fd = eventfd(0, EFD_CLOEXEC);
    server_start(&served, answer_and_fire, &fd, NULL);
    made = server_client(&served, LONG_MS, NULL);
    assert_true(client_run(made, &request, &ctx, &result, &err));
    plim_result_free(result);
    client_free(made);
    server_stop(&served);
    close(fd);
}

/* ---- the parser, at every cut ---- */

static void an_answer_is_the_same_in_any_pieces(void **state)
{
    (void)state;
    static const char text[] =
        "HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 200 OK\r\nA: one \r\nb:\r\nB: two\r\n"
        "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nA: three\r\n\r\n";
    size_t size = sizeof(text) - 1;
    for (size_t first = 0; first <= size; first++) {
        client_answer answer;
        client_answer_init(&answer);
        client_answer_feed(&answer, (plim_bytes){text, first});
        client_answer_feed(&answer, (plim_bytes){text + first, size - first});
        plim_bytes value;
        assert_int_equal(answer.state, CLIENT_ANSWER_COMPLETE);
        assert_int_equal(answer.status, 200);
        assert_true(answer.keep_alive);
        assert_int_equal(answer.body.len, 5);
        assert_memory_equal(answer.body.data, "abcde", 5);
        assert_true(client_answer_header(&answer, "a", &value));
        assert_true(base_bytes_is(value, "one"));
        assert_false(client_answer_header(&answer, "b", &value)); /* twice */
        assert_false(client_answer_header(&answer, "x", &value)); /* of the interim answer */
        client_answer_free(&answer);
    }
    for (size_t length = 0; length < size; length++) {
        client_answer answer;
        client_answer_init(&answer);
        client_answer_feed(&answer, (plim_bytes){text, length});
        assert_int_equal(client_answer_end(&answer), CLIENT_ANSWER_CUT);
        client_answer_free(&answer);
    }
}

static void an_answer_without_length_ends_with_its_connection(void **state)
{
    (void)state;
    client_answer answer;
    client_answer_init(&answer);
    assert_int_equal(client_answer_feed(&answer, PLIM_LIT("HTTP/1.0 200 OK\r\n\r\nabc")),
                     CLIENT_ANSWER_MORE);
    assert_int_equal(client_answer_end(&answer), CLIENT_ANSWER_COMPLETE);
    assert_false(answer.keep_alive);
    assert_int_equal(answer.body.len, 3);
    client_answer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_connect_is_marked),
        cmocka_unit_test(a_name_that_does_not_resolve_is_marked),
        cmocka_unit_test(a_connect_that_hangs_times_out_marked),
        cmocka_unit_test(a_cancelled_call_is_not_sent),
        cmocka_unit_test(tls_is_verified),
        cmocka_unit_test(an_answer_that_breaks_off_is_lost),
        cmocka_unit_test(no_daemon_outlives_the_deadline),
        cmocka_unit_test(an_answer_past_the_limit_is_given_up),
        cmocka_unit_test(a_redirect_is_not_followed),
        cmocka_unit_test(a_proxy_of_the_environment_is_not_used),
        cmocka_unit_test(an_answer_before_the_body_was_read_is_received),
        cmocka_unit_test(a_cut_kept_connection_is_no_reason_to_send_again),
        cmocka_unit_test(connections_are_kept_while_they_are_sound),
        cmocka_unit_test(descriptors_are_closed_on_exec),
        cmocka_unit_test(a_socket_of_another_thread_stays_as_it_is),
        cmocka_unit_test(a_call_in_flight_can_be_cancelled),
        cmocka_unit_test(an_answer_is_the_same_in_any_pieces),
        cmocka_unit_test(an_answer_without_length_ends_with_its_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
