/* What a client refuses when it is opened, and what it refuses to send. */
#include "client/url.h"

#include "test_client_server.h"

#include <setjmp.h>

#include <cmocka.h>

static plim_status open_status(plim_client_options options)
{
    plim_error err = PLIM_ERROR_INIT;
    client *made = NULL;
    options.size = sizeof(options);
    bool opened = client_new(&options, &made, &err);
    plim_status status = plim_error_status(&err);
    if (!opened) {
        assert_null(made);
        assert_string_equal(plim_error_code(&err), "invalid_argument");
        assert_false(plim_may_have_run(&err));
    }
    client_free(made);
    plim_error_clear(&err);
    return status;
}

static void expect_url(const char *url, plim_status status)
{
    plim_status got = open_status((plim_client_options){.base_url = plim_bytes_of(url)});
    if (got != status)
        fail_msg("%s: %s, expected %s", url, plim_status_name(got), plim_status_name(status));
}

static const char *const invalid_urls[] = {
    "",
    " http://localhost",
    "http://localhost ",
    "http://localhost\n",
    "localhost:80",
    "http:localhost",
    "http:/localhost",
    "//localhost",
    "ftp://localhost",
    "http://u@localhost",
    "http://u:p@localhost",
    "http://localhost?",
    "http://localhost#",
    "http://localhost/x?y",
    "http://localhost?/@",
    "http:///p",
    "http://",
    "http://:80",
    "http://localhost:x",
    "http://localhost:",
    "http://localhost:0",
    "http://localhost:65536",
    "http://localhost:+1",
    "http://localhost:-1",
    "http://[::1",
    "http://[::1]x",
    "http://[::1]:",
    "http://[1.2.3.4]",
    "http://[::g]",
    "http://[]",
    "http://local host",
    "http://local\thost",
    "http://\xC3\xB6host",
    "http://localhost/a b",
    "http://localhost/\x7F",
    "http://a..b",
    "http://.a",
    "http://a.",
    "http://a%41",
    "https://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example",
    "://localhost",
    "http//localhost",
    "1http://localhost",
    "http:\\\\localhost",
};

static const char *const insecure_urls[] = {
    "http://10.0.0.1",
    "http://127.evil.example",
    "http://localhost.evil",
    "http://127.1",
    "http://0.0.0.0",
    "http://[::ffff:127.0.0.1]",
    "http://[::2]",
    "http://2130706433",
    "http://0x7f.0.0.1",
    "http://128.0.0.1",
    "http://localhost.localdomain",
};

static const char *const good_urls[] = {
    "http://localhost:1", "HTTP://127.9.9.9",      "http://[::1]:8080",           "https://h/base/",
    "http://LocalHost",   "https://10.0.0.1:8443", "https://a-b_c.example/x/y//",
};

static void urls_are_refused_or_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLIM_COUNT(invalid_urls); i++)
        expect_url(invalid_urls[i], PLIM_E_INVALID_BASE_URL);
    for (size_t i = 0; i < PLIM_COUNT(insecure_urls); i++)
        expect_url(insecure_urls[i], PLIM_E_INSECURE_HTTP);
    for (size_t i = 0; i < PLIM_COUNT(good_urls); i++)
        expect_url(good_urls[i], PLIM_OK);
    assert_int_equal(open_status((plim_client_options){.base_url = PLIM_LIT("http://10.0.0.1"),
                                                       .insecure_http = true}),
                     PLIM_OK);
    assert_int_equal(open_status((plim_client_options){.base_url = PLIM_LIT("http://a\0b")}),
                     PLIM_E_INVALID_BASE_URL);
}

static void a_url_is_taken_apart(void **state)
{
    (void)state;
    base_arena *arena = base_arena_new(4096);
    client_url url;
    assert_true(client_url_parse(arena, PLIM_LIT("HTTPS://h:8443/base/x//"), false, &url, NULL));
    assert_string_equal(url.origin, "https://h:8443/");
    assert_string_equal(url.authority, "h:8443");
    assert_string_equal(url.path, "/base/x");
    assert_true(url.tls);
    assert_true(client_url_parse(arena, PLIM_LIT("http://[::1]"), false, &url, NULL));
    assert_string_equal(url.origin, "http://[::1]/");
    assert_string_equal(url.path, "");
    assert_false(url.tls);
    base_arena_free(arena);
}

static void options_are_checked(void **state)
{
    (void)state;
    plim_client_options options = {.base_url = PLIM_LIT("http://localhost")};
    static const plim_bytes bad[] = {PLIM_LIT("se cret"),
                                     PLIM_LIT("secret\n"),
                                     PLIM_LIT("secret\0"),
                                     PLIM_LIT("s\xC3\xA9"
                                              "cret"),
                                     PLIM_LIT(" secret"),
                                     PLIM_LIT("secret\x7F")};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        plim_error err = PLIM_ERROR_INIT;
        client *made = NULL;
        options.token = bad[i];
        assert_false(client_new(&options, &made, &err));
        assert_int_equal(plim_error_status(&err), PLIM_E_INVALID_OPTION);
        assert_null(strstr(plim_error_message(&err), "cret"));
    }
    options.token = PLIM_LIT("good~!token");
    assert_int_equal(open_status(options), PLIM_OK);
    options.request_timeout_ms = -1;
    assert_int_equal(open_status(options), PLIM_E_INVALID_OPTION);
    options.request_timeout_ms = 1;
    options.ca_file = PLIM_LIT("a\0b");
    assert_int_equal(open_status(options), PLIM_E_INVALID_OPTION);
}

/* ---- what is not sent ---- */

typedef struct fixture {
    server server;
    client *client;
} fixture;

static int set_up(void **state)
{
    fixture *it = base_new(fixture);
    server_start(&it->server, server_good, NULL, NULL);
    it->client = server_client(&it->server, 20000, NULL);
    *state = it;
    return 0;
}

static int tear_down(void **state)
{
    fixture *it = *state;
    client_free(it->client);
    server_stop(&it->server);
    base_free(it);
    return 0;
}

static void expect_sent(fixture *it, const core_request *request, bool sent)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result = NULL;
    run_ctx ctx = RUN_CTX_NONE;
    int before = atomic_load(&it->server.requests),
        connections = atomic_load(&it->server.connections);
    bool good = client_run(it->client, request, &ctx, &result, &err);
    if (good != sent)
        fail_msg("%s", plim_error_message(&err));
    assert_int_equal(atomic_load(&it->server.requests), before + sent);
    if (!sent) {
        assert_null(result);
        assert_int_equal(atomic_load(&it->server.connections), connections);
        assert_int_equal(plim_error_status(&err), PLIM_E_INVALID_REQUEST);
        assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_REQUEST);
        assert_string_equal(plim_error_code(&err), "invalid_argument");
    }
    plim_result_free(result);
    plim_error_clear(&err);
}

static void expect_snippet(fixture *it, plim_javascript_request snippet, bool sent)
{
    core_request request = {
        .kind = PLIM_KIND_JAVASCRIPT, .options = &snippet.options, .javascript = &snippet};
    expect_sent(it, &request, sent);
}

static void expect_project(fixture *it, plim_project_request project, bool sent)
{
    core_request request = {
        .kind = PLIM_KIND_PROJECT, .options = &project.options, .project = &project};
    expect_sent(it, &request, sent);
}

static void expect_module(fixture *it, plim_module_request module, bool sent)
{
    core_request request = {
        .kind = PLIM_KIND_MODULE, .options = &module.options, .module = &module};
    expect_sent(it, &request, sent);
}

static char big[PLIM_FILE_CONTENT_BYTES_MAX + 1];

static void a_snippet_past_a_limit_is_not_sent(void **state)
{
    fixture *it = *state;
    memset(big, 'a', sizeof(big));
    plim_bytes identities[33];
    char names[33][8];
    for (size_t i = 0; i < PLIM_COUNT(identities); i++) {
        snprintf(names[i], sizeof(names[i]), "id:%zu", i);
        identities[i] = plim_bytes_of(names[i]);
    }
    identities[0] = PLIM_LIT("oci-manifest:linux/amd64@sha256:aa"); /* what the daemon states */
    plim_javascript_request good = {.code = PLIM_LIT("1")}, it_is;
    expect_snippet(it, good, true);
    it_is = good, it_is.code = (plim_bytes){big, PLIM_CODE_BYTES_MAX};
    expect_snippet(it, it_is, true);
    it_is.code.len++;
    expect_snippet(it, it_is, false);
    it_is.code = PLIM_LIT("");
    expect_snippet(it, it_is, false);
    it_is.code = PLIM_LIT("a\0b");
    expect_snippet(it, it_is, false);
    it_is.code = PLIM_LIT("\xED\xA0\x80");
    expect_snippet(it, it_is, false);
    it_is = good, it_is.options.trace_id = (plim_bytes){big, 64};
    expect_snippet(it, it_is, true);
    it_is.options.trace_id.len++;
    expect_snippet(it, it_is, false);
    it_is.options.trace_id = PLIM_LIT("a b");
    expect_snippet(it, it_is, false);
    it_is = good, it_is.options.minimum_isolation = PLIM_TIER_NONE;
    expect_snippet(it, it_is, false);
    it_is = good, it_is.options.software = (plim_software_rule){PLIM_RULE_APPROVED, identities, 32};
    expect_snippet(it, it_is, true);
    it_is.options.software.count++;
    expect_snippet(it, it_is, false);
    it_is.options.software = (plim_software_rule){PLIM_RULE_EXACT, identities, 2};
    expect_snippet(it, it_is, false);
    identities[1] = identities[0];
    it_is.options.software = (plim_software_rule){PLIM_RULE_APPROVED, identities, 2};
    expect_snippet(it, it_is, false);
    identities[0] = (plim_bytes){big, 257};
    it_is.options.software = (plim_software_rule){PLIM_RULE_EXACT, identities, 1};
    expect_snippet(it, it_is, false);
}

static void a_project_past_a_limit_is_not_sent(void **state)
{
    fixture *it = *state;
    memset(big, 'a', sizeof(big));
    static plim_file files[PLIM_FILES_MAX + 1];
    static char names[PLIM_FILES_MAX + 1][8];
    static plim_bytes paths[PLIM_FILES_MAX + 1];
    for (size_t i = 0; i < PLIM_COUNT(files); i++) {
        snprintf(names[i], sizeof(names[i]), "f%zu", i);
        files[i] = (plim_file){plim_bytes_of(names[i]), PLIM_LIT("x")};
        paths[i] = files[i].path;
    }
    plim_bytes steps[PLIM_STEPS_MAX + 1];
    for (size_t i = 0; i < PLIM_COUNT(steps); i++)
        steps[i] = PLIM_LIT("true");
    plim_project_request good = {.steps = steps, .step_count = 1}, it_is = good;
    it_is.files = files, it_is.file_count = PLIM_FILES_MAX;
    it_is.step_count = PLIM_STEPS_MAX;
    it_is.artifacts = paths, it_is.artifact_count = PLIM_ARTIFACTS_MAX;
    expect_project(it, it_is, true);
    it_is.file_count++;
    expect_project(it, it_is, false);
    it_is = good, it_is.step_count = 0;
    expect_project(it, it_is, false);
    it_is.step_count = PLIM_STEPS_MAX + 1;
    expect_project(it, it_is, false);
    it_is = good, it_is.artifacts = paths, it_is.artifact_count = PLIM_ARTIFACTS_MAX + 1;
    expect_project(it, it_is, false);
    it_is = good, steps[0] = (plim_bytes){big, PLIM_STEP_BYTES_MAX};
    expect_project(it, it_is, true);
    steps[0].len++;
    expect_project(it, it_is, false);
    steps[0] = PLIM_LIT("true");
    files[0].content = (plim_bytes){big, PLIM_FILE_CONTENT_BYTES_MAX};
    it_is = good, it_is.files = files, it_is.file_count = 1;
    expect_project(it, it_is, true);
    files[0].content.len++;
    expect_project(it, it_is, false);
    files[0].content = PLIM_LIT("x");
    static const plim_bytes bad[] = {PLIM_LIT(""),     PLIM_LIT("/a"),   PLIM_LIT("a//b"),
                                     PLIM_LIT("../a"), PLIM_LIT("a/."),  PLIM_LIT("a/"),
                                     PLIM_LIT("a\\b"), PLIM_LIT("a\nb"), PLIM_LIT("a\xC2\x85"),
                                     PLIM_LIT("a\0b")};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        files[0].path = bad[i];
        expect_project(it, it_is, false);
    }
    files[0].path = files[1].path;
    it_is.file_count = 2;
    expect_project(it, it_is, false);
}

static void a_module_past_a_limit_is_not_sent(void **state)
{
    fixture *it = *state;
    static double values[PLIM_MODULE_ROWS_MAX + 1];
    plim_module_request good = {.model = PLIM_LIT("VanDerPol"),
                                .values = values,
                                .rows = 2,
                                .width = 3,
                                .end_time = 1,
                                .step = 0.5},
                        it_is;
    expect_module(it, good, true);
    it_is = good, it_is.width = PLIM_MODULE_ROW_VALUES_MAX;
    expect_module(it, it_is, true);
    it_is.width++;
    expect_module(it, it_is, false);
    it_is = good, it_is.rows = PLIM_MODULE_ROWS_MAX, it_is.width = 1, it_is.step = 1;
    expect_module(it, it_is, true);
    it_is.rows++;
    expect_module(it, it_is, false);
    it_is = good, it_is.end_time = 0;
    expect_module(it, it_is, false);
    it_is = good, it_is.model = PLIM_LIT(".x");
    expect_module(it, it_is, false);
    it_is = good, it_is.rows = 1, it_is.width = 1, it_is.end_time = PLIM_MODULE_STEPS_MAX,
    it_is.step = 1;
    expect_module(it, it_is, true);
    it_is.end_time += 1;
    expect_module(it, it_is, false);
    values[4] = 1.0 / 0.0;
    expect_module(it, good, false);
    values[4] = 0;
}

/* ---- what is sent ---- */

static bool keep_timeout(server_conn *conn, server_request *request)
{
    base_arena *arena = base_arena_new(1 << 16);
    const wire_run_request *message =
        wire_decode(arena, WIRE_PROTO, WIRE_TYPE(run_request),
                    (plim_bytes){request->body, request->body_len}, NULL);
    atomic_store((atomic_int *)conn->server->arg, message->timeout_ms);
    base_arena_free(arena);
    return server_good(conn, request);
}

static void a_timeout_is_clamped_and_never_wraps(void **state)
{
    (void)state;
    static const struct {
        int64_t asked;
        int32_t sent;
    } rows[] = {{-1, 0},
                {0, 0},
                {1, 1},
                {INT64_C(2592000000), INT32_MAX},
                {INT64_MAX, INT32_MAX},
                {INT32_MAX, INT32_MAX},
                {INT64_MIN, 0}};
    atomic_int seen = 0;
    fixture it;
    server_start(&it.server, keep_timeout, &seen, NULL);
    it.client = server_client(&it.server, 20000, NULL);
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        plim_javascript_request snippet = {.code = PLIM_LIT("1"),
                                           .options = {.timeout_ms = rows[i].asked}};
        expect_snippet(&it, snippet, true);
        assert_int_equal(atomic_load(&seen), rows[i].sent);
    }
    client_free(it.client);
    server_stop(&it.server);
}

typedef struct heads {
    server_request seen[8];
    atomic_int count;
} heads;

static bool keep_head(server_conn *conn, server_request *request)
{
    heads *all = (heads *)conn->server->arg;
    all->seen[atomic_fetch_add(&all->count, 1)] = *request;
    return server_good(conn, request);
}

static void every_request_carries_its_headers(void **state)
{
    (void)state;
    heads *all = base_new(heads);
    server served;
    server_start(&served, keep_head, all, NULL);
    char url[128];
    snprintf(url, sizeof(url), "%s/base/", served.url);
    plim_client_options options = {.base_url = plim_bytes_of(url), .token = PLIM_LIT("tok-en")};
    client *made = NULL;
    assert_true(client_new(&options, &made, NULL));
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    core_description about;
    run_ctx ctx = RUN_CTX_NONE;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_snippet(made, "1", &result, &err), PLIM_OK);
        plim_result_free(result);
    }
    assert_true(client_describe(made, &ctx, &about, &err));
    assert_int_equal(atomic_load(&all->count), 3);
    for (int i = 0; i < 3; i++) {
        const server_request *seen = &all->seen[i];
        assert_true(server_has_line(seen, "Content-Type: application/proto"));
        assert_true(server_has_line(seen, "Connect-Protocol-Version: 1"));
        assert_true(server_has_line(seen, "Accept-Encoding: identity"));
        assert_true(server_has_line(seen, "Authorization: Bearer tok-en"));
        assert_non_null(strstr(seen->head, "User-Agent: plimsoll-client-c/"));
        assert_int_equal(strspn(seen->id, "0123456789abcdef"), 32);
        assert_int_equal(strlen(seen->id), 32);
        assert_string_not_equal(seen->id, all->seen[(i + 1) % 3].id);
        assert_string_equal(seen->path, i < 2 ? "/base/plimsoll.v1.SandboxService/Run"
                                              : "/base/plimsoll.v1.SandboxService/Describe");
    }
    client_free(made);
    server_stop(&served);
    base_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_refused_or_taken),
        cmocka_unit_test(a_url_is_taken_apart),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test_setup_teardown(a_snippet_past_a_limit_is_not_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_project_past_a_limit_is_not_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_module_past_a_limit_is_not_sent, set_up, tear_down),
        cmocka_unit_test(a_timeout_is_clamped_and_never_wraps),
        cmocka_unit_test(every_request_carries_its_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
