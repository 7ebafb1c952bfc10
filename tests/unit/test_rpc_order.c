/* The pipeline before a message is decoded: every step before the next, no body byte before them.
 */
#include "rpc_server.h"

#define ID "0123456789abcdef0123456789abcdef"

/* A header that promises 100 bytes, of which 2 are sent. The answer must come all the same. */
static void short_post(const char *path, const char *headers, answer *out)
{
    char request[2048];
    snprintf(request, sizeof(request),
             "POST %s HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n%s\r\n{}", path, headers);
    exchange(plim_bytes_of(request), out);
}

static void credentials_come_before_the_body(void **state)
{
    (void)state;
    answer a;
    static const char *const missing[] = {"",
                                          "Authorization: abc\r\n",
                                          "Authorization: Basic abc\r\n",
                                          "Authorization: Bearer\r\n",
                                          "Authorization: Bearer a b\r\n",
                                          "Authorization: Bearer a\r\nAuthorization: Bearer a\r\n"};
    for (size_t i = 0; i < PLIM_COUNT(missing); i++) {
        short_post(PROCEDURE "Run", missing[i], &a);
        is_error(&a, 401, "unauthenticated", "CAI");
        has_header(&a, "plimsoll-not-dispatched", "request");
        assert_true(a.closed);
    }
    short_post(PROCEDURE "Run", "Authorization: Bearer unknown\r\n", &a);
    is_error(&a, 401, "unauthenticated", "CAI");
    assert_int_equal(refused_credentials, PLIM_COUNT(missing) + 1);
    short_post(PROCEDURE "Run", "Authorization: Bearer *\r\n", &a);
    is_error(&a, 401, "unauthenticated", "CAI");
    short_post(PROCEDURE "Run", "Authorization: Bearer \xff\r\n", &a);
    is_error(&a, 401, "unauthenticated", "CAI");
    short_post(PROCEDURE "Run", "Authorization: Bearer broken\r\n", &a);
    is_error(&a, 503, "unavailable", "");
    has_header(&a, "plimsoll-not-dispatched", "request");
    short_post(PROCEDURE "Run", "Authorization: Bearer scopeless\r\n", &a);
    is_error(&a, 403, "permission_denied", "CAI");
    assert_int_equal(fake.runs, 0);
}

static void unknown_names_are_denied(void **state)
{
    (void)state;
    answer a;
    short_post(PROCEDURE "RunJavaScript", "", &a);
    is_error(&a, 401, "unauthenticated", "CAI");
    short_post(PROCEDURE "RunJavaScript", "Authorization: Bearer good\r\n", &a);
    is_error(&a, 403, "permission_denied", "CAI");
    short_post("/other", "", &a);
    assert_int_equal(a.status, 404);
    has_header(&a, "plimsoll-not-dispatched", "unsupported");
}

static void unknown_names_are_unknown_in_open_mode(void **state)
{
    (void)state;
    answer a;
    short_post(PROCEDURE "RunJavaScript", "", &a);
    assert_int_equal(a.status, 404);
    has_header(&a, "plimsoll-not-dispatched", "unsupported");
    short_post(PROCEDURE "run", "", &a);
    assert_int_equal(a.status, 404);
    short_post("/plimsoll.v1.SandboxService/Run/", "", &a);
    assert_int_equal(a.status, 404);
    post("Describe?x=1", "", "{}", &a);
    assert_int_equal(a.status, 200);
}

static void authentication_comes_before_everything(void **state)
{
    (void)state;
    answer a;
    exchange(plim_bytes_of("GET " PROCEDURE "Run HTTP/1.1\r\nHost: t\r\n\r\n"), &a);
    is_error(&a, 401, "unauthenticated", "CAI");
    exchange(plim_bytes_of("POST " PROCEDURE "Run HTTP/1.1\r\nHost: t\r\nContent-Length: "
                           "8388609\r\n\r\n{}"),
             &a);
    is_error(&a, 401, "unauthenticated", "CAI");
    post("Run", "Content-Encoding: br\r\n", "{}", &a);
    is_error(&a, 401, "unauthenticated", "CAI");
}

static void lengths_are_refused_unread(void **state)
{
    (void)state;
    answer a;
    exchange(plim_bytes_of("PUT " PROCEDURE
                           "Run HTTP/1.1\r\nHost: t\r\nContent-Length: 8388609\r\n\r\n{}"),
             &a);
    is_error(&a, 429, "resource_exhausted", "CAE");
    has_header(&a, "plimsoll-not-dispatched", "request");
    assert_true(a.closed);
}

static void methods_and_types_are_narrow(void **state)
{
    (void)state;
    answer a;
    exchange(plim_bytes_of("GET " PROCEDURE "Run HTTP/1.1\r\nHost: t\r\n\r\n"), &a);
    assert_int_equal(a.status, 405);
    has_header(&a, "allow", "POST");
    has_header(&a, "plimsoll-not-dispatched", "request");
    assert_int_equal(a.body_len, 0);
    static const char *const types[] = {"text/plain", "application/connect+proto",
                                        "application/grpc-web-text"};
    for (size_t i = 0; i < PLIM_COUNT(types); i++) {
        char headers[128];
        snprintf(headers, sizeof(headers), "Content-Type: %s\r\n", types[i]);
        post_bytes("Run", headers, PLIM_LIT("{}"), &a);
        assert_int_equal(a.status, 415);
        assert_int_equal(a.body_len, 0);
        assert_non_null(strstr(header_of(&a, "accept-post", 0), "application/grpc-web+proto"));
        has_header(&a, "plimsoll-not-dispatched", "request");
    }
}

static void protocol_headers_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        int status;
        const char *code;
    } bad[] = {
        {"Connect-Protocol-Version: 2\r\n", 400, "invalid_argument"},
        {"Connect-Protocol-Version: \r\n", 400, "invalid_argument"},
        {"Connect-Timeout-Ms: 12345678901\r\n", 400, "invalid_argument"},
        {"Connect-Timeout-Ms: 1s\r\n", 400, "invalid_argument"},
        {"Content-Encoding: br\r\n", 501, "unimplemented"},
        {"Content-Encoding: gzip, gzip\r\n", 501, "unimplemented"},
    };
    answer a;
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        post("Describe", bad[i].headers, "{}", &a);
        is_error(&a, bad[i].status, bad[i].code, "");
        has_header(&a, "plimsoll-not-dispatched", "request");
    }
    static const char *const good[] = {"", "Connect-Protocol-Version: 1\r\n",
                                       "Content-Encoding: identity\r\n",
                                       "Connect-Timeout-Ms: 0\r\n"};
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        post("Describe", good[i], "{}", &a);
        assert_int_equal(a.status, 200);
        has_header(&a, "plimsoll-not-dispatched", NULL);
    }
}

static void errors_have_the_protocol_of_the_type(void **state)
{
    (void)state;
    answer a;
    short_post(PROCEDURE "Run", "Content-Type: application/grpc-web+proto\r\n", &a);
    assert_int_equal(a.status, 200);
    has_header(&a, "plimsoll-not-dispatched", NULL);
    assert_int_equal((unsigned char)a.body[0], 0x80);
    assert_non_null(strstr(a.body + 5, "grpc-status: 16\r\n"));
    assert_non_null(strstr(a.body + 5, "grpc-status-details-bin: "));
    has_header(&a, "content-type", "application/grpc-web+proto");
    short_post(PROCEDURE "Run", "Content-Type: text/plain\r\n", &a);
    is_error(&a, 401, "unauthenticated", "CAI");
    has_header(&a, "content-type", "application/json");
}

/* ---- binding ---- */

static void only_good_ids_are_echoed(void **state)
{
    (void)state;
    static const struct {
        const char *headers, *echoed;
    } cases[] = {
        {"Plimsoll-Request-Id: " ID "\r\n", ID},
        {"", NULL},
        {"Plimsoll-Request-Id: 0123456789ABCDEF0123456789ABCDEF\r\n", NULL},
        {"Plimsoll-Request-Id: 0123456789abcdef0123456789abcde\r\n", NULL},
        {"Plimsoll-Request-Id: 0123456789abcdef0123456789abcdeg\r\n", NULL},
        {"Plimsoll-Request-Id: " ID "\r\nPlimsoll-Request-Id: " ID "\r\n", NULL},
    };
    answer a;
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        post("Describe", cases[i].headers, "{}", &a);
        assert_int_equal(a.status, 200);
        has_header(&a, "plimsoll-request-id", cases[i].echoed);
        /* Describe states the number that such a client has. */
        assert_non_null(strstr(a.body, cases[i].echoed ? "\"protocol\":3" : "\"protocol\":2"));
    }
}

static void every_answer_is_bound(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        int status;
        const char *mark;
    } cases[] = {
        {"POST " PROCEDURE "Run", 400, "request"}, /* no JSON */
        {"GET " PROCEDURE "Run", 405, "request"},
        {"GET /healthz", 200, NULL},
        {"GET /nowhere", 404, "unsupported"},
        {"POST " PROCEDURE "Nothing", 404, "unsupported"},
    };
    answer a;
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        char request[512];
        snprintf(request, sizeof(request),
                 "%s HTTP/1.1\r\nHost: t\r\n" JSON_TYPE "Plimsoll-Request-Id: " ID
                 "\r\nContent-Length: 1\r\n\r\n{",
                 cases[i].request);
        exchange(plim_bytes_of(request), &a);
        assert_int_equal(a.status, cases[i].status);
        has_header(&a, "plimsoll-request-id", ID);
        has_header(&a, "plimsoll-not-dispatched", cases[i].mark);
    }
    /* A refusal by the handler marks itself. */
    post("Run", "Plimsoll-Request-Id: " ID "\r\n", "{}", &a);
    is_error(&a, 400, "invalid_argument", "CAM");
    has_header(&a, "plimsoll-request-id", ID);
    has_header(&a, "plimsoll-not-dispatched", NULL);
}

/* ---- bodies ---- */

static void bodies_reach_decoding_at_the_limit(void **state)
{
    (void)state;
    answer a;
    base_buf body = BASE_BUF_INIT(9 << 20);
    base_buf_add_text(&body, "{\"x\":\"");
    for (int extra = 0; extra < 2; extra++) {
        char *room = base_buf_reserve(&body, 8388608 - 8 - 6 + 8);
        assert_non_null(room);
        size_t fill = 8388608 - 8 + (size_t)extra;
        memset(body.data + 6, 'a', fill);
        memcpy(body.data + 6 + fill, "\"}", 2);
        post_bytes("Describe", JSON_TYPE, (plim_bytes){body.data, 6 + fill + 2}, &a);
        if (extra)
            is_error(&a, 429, "resource_exhausted", "CAE");
        else
            assert_int_equal(a.status, 200);
    }
    base_buf_free(&body);
}

static void chunked_bodies_have_the_same_limit(void **state)
{
    (void)state;
    answer a;
    base_buf request = BASE_BUF_INIT(10 << 20);
    base_buf_add_text(&request, "POST " PROCEDURE "Run HTTP/1.1\r\nHost: t\r\n" JSON_TYPE
                                "Transfer-Encoding: chunked\r\n\r\n800001\r\n");
    char *room = base_buf_reserve(&request, 0x800001);
    assert_non_null(room);
    memset(room, ' ', 0x800001);
    request.len += 0x800001;
    base_buf_add_text(&request, "\r\n0\r\n\r\n");
    exchange(base_buf_bytes(&request), &a);
    assert_int_equal(a.status, 429);
    has_header(&a, "plimsoll-not-dispatched", "request");
    base_buf_free(&request);
}

static void malformed_messages_are_marked_by_the_header(void **state)
{
    (void)state;
    answer a;
    post("Run", "", "{", &a);
    is_error(&a, 400, "invalid_argument", "");
    has_header(&a, "plimsoll-not-dispatched", "request");
    post("Run", "", "", &a);
    is_error(&a, 400, "invalid_argument", "");
    post_bytes("Run", "Content-Type: application/proto\r\n", PLIM_LIT("\x08"), &a);
    is_error(&a, 400, "invalid_argument", "");
    /* An empty message is a message. */
    post_bytes("Describe", "Content-Type: application/proto\r\n", PLIM_LIT(""), &a);
    assert_int_equal(a.status, 200);
    /* A list past its limit has the detail too, whatever the protocol number. */
    base_buf many = BASE_BUF_INIT(1024);
    base_buf_add_text(&many, "{\"protocol\":9,\"project\":{\"steps\":[\"\"");
    for (int i = 0; i < 20; i++)
        base_buf_add_text(&many, ",\"\"");
    base_buf_add_text(&many, "]}}");
    post("Run", "", base_buf_text(&many), &a);
    base_buf_free(&many);
    is_error(&a, 400, "invalid_argument", "CAE");
    has_header(&a, "plimsoll-not-dispatched", "request");
}

static void gzip_goes_both_ways(void **state)
{
    (void)state;
    answer a;
    static const unsigned char empty_object[] = {
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0xae, 5, 0, 0x43, 0xbf, 0xa6, 0xa3, 2, 0, 0, 0};
    plim_bytes body = {(const char *)empty_object, sizeof(empty_object)};
    post_bytes("Describe", JSON_TYPE "Content-Encoding: gzip\r\n", body, &a);
    assert_int_equal(a.status, 200);
    has_header(&a, "content-encoding", "gzip");
    has_header(&a, "accept-encoding", "gzip");
    assert_memory_equal(a.body, "\x1f\x8b", 2);
    post("Describe", "Accept-Encoding: br, gzip\r\n", "{}", &a);
    has_header(&a, "content-encoding", "gzip");
    post("Describe", "Accept-Encoding: gzip;q=1\r\n", "{}", &a);
    has_header(&a, "content-encoding", NULL);
    has_header(&a, "accept-encoding", "gzip");
    /* Errors are never compressed. */
    post("Run", "Accept-Encoding: gzip\r\n", "{}", &a);
    is_error(&a, 400, "invalid_argument", "CAM");
    has_header(&a, "content-encoding", NULL);
    post_bytes("Describe", JSON_TYPE "Content-Encoding: gzip\r\n",
               (plim_bytes){body.data, body.len - 1}, &a);
    is_error(&a, 400, "invalid_argument", "");
}

static void connections_are_reused(void **state)
{
    (void)state;
    static answer a;
    int fd = dial();
    for (int i = 0; i < 3; i++) {
        send_all(fd, plim_bytes_of("POST " PROCEDURE "Run HTTP/1.1\r\nHost: t\r\n" JSON_TYPE
                                   "Content-Length: 44\r\n\r\n"
                                   "{\"protocol\":3,\"javascript\":{\"code\":\"1+1+1\"}}"));
        receive(fd, &a);
        assert_int_equal(a.status, 200);
        assert_false(a.closed);
    }
    assert_int_equal(fake.runs, 3);
    close(fd);
}

/* ---- decode slots ---- */

static int setup_one_slot(void **state)
{
    (void)state;
    start_server((server_options){.auth = NULL, .decode_slots = 1});
    return 0;
}

static _Atomic bool run_entered, run_may_end;

static bool wait_for_test(const core_request *request, const run_ctx *ctx, plim_result **out,
                          plim_error *err)
{
    (void)request, (void)err;
    run_entered = true;
    struct pollfd none;
    while (!run_may_end) {
        run_ctx soon = run_ctx_until(ctx, base_deadline_after_ms(5));
        run_wait wait = run_ctx_poll(&soon, &none, 0);
        if (wait == RUN_CANCELED || ctx->deadline_ns <= base_monotonic_ns())
            return core_fail_gone(err, wait);
    }
    *out = fake_result(PLIM_KIND_JAVASCRIPT);
    return true;
}

static void wait_for(_Atomic bool *flag)
{
    while (!*flag)
        usleep(1000);
}

static void a_body_under_way_holds_a_slot(void **state)
{
    (void)state;
    answer a;
    int fd = dial();
    send_all(fd, plim_bytes_of("POST " PROCEDURE "Describe HTTP/1.1\r\nHost: t\r\n" JSON_TYPE
                               "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
    char go[64] = {0};
    /* 100 Continue is sent when the body is first read, with the slot held. */
    assert_true(recv_on(fd, go, 25, MSG_WAITALL) == 25);
    assert_memory_equal(go, "HTTP/1.1 100", 12);
    post("Describe", "", "{}", &a);
    is_error(&a, 429, "resource_exhausted", "CAY");
    has_header(&a, "plimsoll-not-dispatched", "request");
    /* A method that is refused needs a slot first, as the order says. */
    post_bytes("Describe", "Content-Type: text/plain\r\n", PLIM_LIT("{}"), &a);
    is_error(&a, 429, "resource_exhausted", "CAY");
    send_all(fd, PLIM_LIT("{}"));
    receive(fd, &a);
    assert_int_equal(a.status, 200);
    close(fd);
    post("Describe", "", "{}", &a);
    assert_int_equal(a.status, 200);
}

static void a_run_under_way_holds_none(void **state)
{
    (void)state;
    answer a;
    fake.run = wait_for_test;
    run_entered = run_may_end = false;
    int fd = dial();
    send_all(fd, plim_bytes_of("POST " PROCEDURE "Run HTTP/1.1\r\nHost: t\r\n" JSON_TYPE
                               "Content-Length: 40\r\n\r\n" RUN_JSON("") ""));
    wait_for(&run_entered);
    post("Describe", "", "{}", &a);
    assert_int_equal(a.status, 200);
    run_may_end = true;
    receive(fd, &a);
    assert_int_equal(a.status, 200);
    close(fd);
}

static void slots_come_back_after_every_refusal(void **state)
{
    (void)state;
    answer a;
    for (int i = 0; i < 3; i++) {
        post("Run", "", "{", &a);
        is_error(&a, 400, "invalid_argument", "");
        post_bytes("Run", "Content-Type: text/plain\r\n", PLIM_LIT("{}"), &a);
        assert_int_equal(a.status, 415);
        post("Run", "Content-Encoding: br\r\n", "{}", &a);
        is_error(&a, 501, "unimplemented", "");
    }
    /* A client that leaves in the middle of its body gives its slot back too. */
    int fd = dial();
    send_all(fd, plim_bytes_of("POST " PROCEDURE "Run HTTP/1.1\r\nHost: t\r\n" JSON_TYPE
                               "Content-Length: 40\r\n\r\n{"));
    close(fd);
    do
        post("Describe", "", "{}", &a);
    while (a.status == 429);
    assert_int_equal(a.status, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(credentials_come_before_the_body, setup_auth, teardown),
        cmocka_unit_test_setup_teardown(unknown_names_are_denied, setup_auth, teardown),
        cmocka_unit_test_setup_teardown(unknown_names_are_unknown_in_open_mode, setup_open,
                                        teardown),
        cmocka_unit_test_setup_teardown(authentication_comes_before_everything, setup_auth,
                                        teardown),
        cmocka_unit_test_setup_teardown(lengths_are_refused_unread, setup_open, teardown),
        cmocka_unit_test_setup_teardown(methods_and_types_are_narrow, setup_open, teardown),
        cmocka_unit_test_setup_teardown(protocol_headers_are_checked, setup_open, teardown),
        cmocka_unit_test_setup_teardown(errors_have_the_protocol_of_the_type, setup_auth, teardown),
        cmocka_unit_test_setup_teardown(only_good_ids_are_echoed, setup_open, teardown),
        cmocka_unit_test_setup_teardown(every_answer_is_bound, setup_open, teardown),
        cmocka_unit_test_setup_teardown(bodies_reach_decoding_at_the_limit, setup_open, teardown),
        cmocka_unit_test_setup_teardown(chunked_bodies_have_the_same_limit, setup_open, teardown),
        cmocka_unit_test_setup_teardown(malformed_messages_are_marked_by_the_header, setup_open,
                                        teardown),
        cmocka_unit_test_setup_teardown(gzip_goes_both_ways, setup_open, teardown),
        cmocka_unit_test_setup_teardown(connections_are_reused, setup_open, teardown),
        cmocka_unit_test_setup_teardown(a_body_under_way_holds_a_slot, setup_one_slot, teardown),
        cmocka_unit_test_setup_teardown(a_run_under_way_holds_none, setup_one_slot, teardown),
        cmocka_unit_test_setup_teardown(slots_come_back_after_every_refusal, setup_one_slot,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
