/* The procedures: the order of checks of a run, what an answer states, and what an error may say.
 */
#include "rpc_server.h"

/* Run must refuse this, and the provider must not have been asked. */
static void refused_unasked(const char *json, int status, const char *code, const char *mark)
{
    answer a;
    int before = fake.runs, events = server.events;
    post("Run", "", json, &a);
    is_error(&a, status, code, mark);
    has_header(&a, "plimsoll-not-dispatched", NULL);
    assert_int_equal(fake.runs, before);
    assert_int_equal(server.events, events);
}

static void protocol_comes_first(void **state)
{
    (void)state;
    static const struct {
        const char *number;
        int status;
        const char *code;
    } bad[] = {{"0", 400, "invalid_argument"},
               {"null", 400, "invalid_argument"},
               {"1", 501, "unimplemented"},
               {"4", 501, "unimplemented"},
               {"999", 501, "unimplemented"}};
    answer a;
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        char json[256];
        /* Wrong in every other respect too. */
        snprintf(json, sizeof(json),
                 "{\"protocol\":%s,\"minimumIsolation\":\"fortress\",\"cell\":{}}", bad[i].number);
        refused_unasked(json, bad[i].status, bad[i].code, "CAM");
        static const char *const others[] = {"OpenSession", "SessionRun", "CloseSession"};
        for (size_t j = 0; j < PLIM_COUNT(others); j++) {
            post(others[j], "", json, &a);
            is_error(&a, bad[i].status, bad[i].code, "CAM");
        }
    }
    refused_unasked("{}", 400, "invalid_argument", "CAM");
    for (int number = 2; number <= 3; number++) {
        char json[128];
        snprintf(json, sizeof(json), "{\"protocol\":%d,\"javascript\":{\"code\":\"1\"}}", number);
        post("Run", "", json, &a);
        assert_int_equal(a.status, 200);
    }
}

static void requests_are_validated_in_order(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } bad[] = {
        {"{\"protocol\":3,\"minimumIsolation\":\"none\",\"softwareRule\":{\"mode\":\"x\"}}",
         "floor"},
        {"{\"protocol\":3,\"softwareRule\":{\"mode\":\"x\"}}", "software rule"},
        {"{\"protocol\":3}", "payload"},
        {"{\"protocol\":3,\"cell\":{\"language\":\"python\",\"code\":\"1\"}}", "cell"},
        {"{\"protocol\":3,\"javascript\":{\"grantProfile\":\"p\"}}", "code"},
    };
    answer a;
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        refused_unasked(bad[i].json, 400, "invalid_argument", "CAE");
        post("Run", "", bad[i].json, &a);
        if (!strstr(a.body, bad[i].text))
            fail_msg("no \"%s\" in %s", bad[i].text, a.body);
    }
    /* Two payloads are no message, so the transport refuses them. */
    post("Run", "", "{\"protocol\":3,\"javascript\":{},\"project\":{}}", &a);
    is_error(&a, 400, "invalid_argument", "");
    has_header(&a, "plimsoll-not-dispatched", "request");
    assert_int_equal(fake.runs, 0);
}

static void grants_are_refused_alike(void **state)
{
    (void)state;
    answer first, second;
    static const char json[] = "{\"protocol\":3,\"minimumIsolation\":\"vm\",\"javascript\":{"
                               "\"code\":\"1\",\"grantProfile\":\"%s\"}}";
    char one[256], two[256];
    snprintf(one, sizeof(one), json, "orders");
    snprintf(two, sizeof(two), json, "other");
    post("Run", "", one, &first);
    post("Run", "", two, &second);
    is_error(&first, 403, "permission_denied", "CAI");
    assert_string_equal(first.body, second.body);
    char name[130] = {0};
    memset(name, 'g', sizeof(name) - 1);
    base_buf request = BASE_BUF_INIT(1024);
    base_buf_printf(&request, json, name);
    refused_unasked(base_buf_text(&request), 400, "invalid_argument", "CAE");
    base_buf_free(&request);
}

static int setup_rate(void **state)
{
    (void)state;
    start_server(
        (server_options){.limits = {.max_concurrent = 2, .rate_per_min = 1, .rate_burst = 1}});
    return 0;
}

static void floors_and_rules_cost_nothing(void **state)
{
    (void)state;
    answer a;
    snprintf(fake.software_identity, sizeof(fake.software_identity), "id:1");
    for (int i = 0; i < 3; i++) {
        refused_unasked(RUN_JSON(",\"minimumIsolation\":\"vm\""), 400, "failed_precondition",
                        "CAU");
        refused_unasked(
            RUN_JSON(",\"softwareRule\":{\"mode\":\"exact\",\"identities\":[\"id:2\"]}"), 400,
            "failed_precondition", "CAc");
    }
    fake.tier = PLIM_TIER_UNKNOWN;
    refused_unasked(RUN_JSON(",\"minimumIsolation\":\"process\""), 400, "failed_precondition",
                    "CAU");
    fake.tier = PLIM_TIER_PROCESS;
    /* No token was spent: this one is admitted, and its successor is the first that is not. */
    post("Run", "", RUN_JSON(",\"softwareRule\":{\"mode\":\"exact\",\"identities\":[\"id:1\"]}"),
         &a);
    assert_int_equal(a.status, 200);
    refused_unasked(RUN_JSON(""), 429, "resource_exhausted", "CAY");
    /* Below the floor and out of tokens: the floor is said. */
    refused_unasked(RUN_JSON(",\"minimumIsolation\":\"vm\""), 400, "failed_precondition", "CAU");
}

static void an_answer_states_its_record(void **state)
{
    (void)state;
    answer a;
    post_bytes("Run", "Content-Type: application/proto\r\n",
               PLIM_LIT("\x08\x03\x12\x07process\x20\xdc\x0b\x52\x03\x0a\x01"
                        "1"),
               &a);
    assert_int_equal(a.status, 200);
    has_header(&a, "content-type", "application/proto");
    base_arena *arena = base_arena_new(1 << 20);
    plim_error err = PLIM_ERROR_INIT;
    wire_run_response *response = wire_decode(arena, WIRE_PROTO, WIRE_TYPE(run_response),
                                              (plim_bytes){a.body, a.body_len}, &err);
    assert_non_null(response);
    assert_true(base_bytes_is(response->javascript->stdout, "ok\n"));
    assert_true(base_bytes_is(response->environment, "fake:sha256:00"));
    assert_int_equal(response->duration_ms, 12);
    /* What a client does: recompute the digests from its own copy of the request. */
    plim_result *result = wire_read_result(response);
    plim_record *record = wire_read_record(arena, response->record);
    plim_javascript_request code = {.size = sizeof(code), .code = PLIM_LIT("1")};
    record_request request = {.protocol = 3,
                              .minimum_isolation = PLIM_LIT("process"),
                              .timeout_ms = 1500,
                              .kind = PLIM_KIND_JAVASCRIPT,
                              .javascript = &code};
    char digest[BASE_SHA256_HEX + 1];
    assert_true(record_request_digest(&request, digest));
    if (!record_check(&request, digest, result, record, NULL, &err))
        fail_msg("%s", plim_error_message(&err));
    assert_true(record->ended_unix_ms >= record->started_unix_ms);
    plim_result_free(result);
    base_arena_free(arena);
    assert_int_equal(fake.last_options.timeout_ms, 1500);
}

static bool answer_nan(const core_request *request, const run_ctx *ctx, plim_result **out,
                       plim_error *err)
{
    (void)request, (void)ctx, (void)err;
    static const uint64_t odd_nan = UINT64_C(0xfff8000000000001);
    static double outputs[2];
    static core_module_row row = {1, outputs, 2};
    memcpy(&outputs[0], &odd_nan, sizeof(odd_nan));
    outputs[1] = -0.0;
    *out = fake_result(PLIM_KIND_MODULE);
    (*out)->rows = &row;
    (*out)->row_count = 1;
    (*out)->width = 2;
    (*out)->outcome = PLIM_OUTCOME_COMPLETED;
    (*out)->outcome_detail = PLIM_LIT("worker said \xff");
    return true;
}

static void nan_has_one_form(void **state)
{
    (void)state;
    answer a;
    fake.run = answer_nan;
    post("Run", "",
         "{\"protocol\":3,\"module\":{\"model\":\"m\",\"rows\":[{\"values\":[1]}],\"endTime\":1,"
         "\"step\":1}}",
         &a);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body, "\"outputs\":[\"NaN\",-0]"));
    assert_non_null(strstr(a.body, "worker said \xef\xbf\xbd"));
    base_arena *arena = base_arena_new(1 << 20);
    wire_run_response *response = wire_decode(arena, WIRE_JSON, WIRE_TYPE(run_response),
                                              (plim_bytes){a.body, a.body_len}, NULL);
    assert_non_null(response);
    plim_result *result = wire_read_result(response);
    assert_true(record_canonical_nan(result));
    char digest[BASE_SHA256_HEX + 1];
    assert_true(record_result_digest(result, digest));
    assert_true(base_bytes_is(response->record->result_sha256, digest));
    plim_result_free(result);
    base_arena_free(arena);
}

/* ---- errors of the provider ---- */

static bool (*failing)(plim_error *err);

static bool run_failing(const core_request *request, const run_ctx *ctx, plim_result **out,
                        plim_error *err)
{
    (void)request, (void)ctx, (void)out;
    return failing(err);
}

static bool fail_unmarked(plim_error *err)
{
    return plim_fail(err, PLIM_E_AT_CAPACITY, PLIM_CODE_RESOURCE_EXHAUSTED, "lost it");
}

static bool fail_secretly(plim_error *err)
{
    return core_fail_internal(err, "/secret/path: vendor said no");
}

static bool refuse_environment(plim_error *err)
{
    return plim_refuse(err, PLIM_E_UNSUPPORTED, PLIM_CODE_UNIMPLEMENTED, PLIM_ND_ENVIRONMENT,
                       "the interpreter could not start");
}

static bool refuse_secretly(plim_error *err)
{
    return core_refuse_environment(err, "/secret/preflight");
}

static void errors_of_the_provider_keep_their_mark(void **state)
{
    (void)state;
    static const struct {
        bool (*fail)(plim_error *);
        int status;
        const char *code, *mark;
    } cases[] = {
        {fail_unmarked, 429, "resource_exhausted", ""},
        {fail_secretly, 500, "internal", ""},
        {refuse_environment, 501, "unimplemented", "CAc"},
        {refuse_secretly, 500, "internal", "CAc"},
    };
    answer a;
    fake.run = run_failing;
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        failing = cases[i].fail;
        post("Run", "", RUN_JSON(""), &a);
        is_error(&a, cases[i].status, cases[i].code, cases[i].mark);
        assert_null(strstr(a.body, "secret"));
        has_header(&a, "plimsoll-not-dispatched", NULL);
        /* The provider was asked, so there is an event, with the words that the caller does not
         * get. */
        assert_int_equal(server.events, (int)i + 1);
    }
    assert_string_equal(server.event_error, "/secret/preflight");
}

static void events_name_the_call(void **state)
{
    (void)state;
    answer a;
    post("Run", "Authorization: Bearer bot\r\n", RUN_JSON(",\"traceId\":\"req-1:2\""), &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(server.event_caller, "bot");
    assert_string_equal(server.event_trace, "req-1:2");
    assert_false(server.event_trace_rejected);
    post("Run", "Authorization: Bearer bot\r\n", RUN_JSON(",\"traceId\":\"a/b\""), &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(server.event_trace, "");
    assert_true(server.event_trace_rejected);
    assert_int_equal(server.events, 2);
}

/* ---- deadlines and callers that leave ---- */

static _Atomic bool entered;
static _Atomic int ended_by;

static bool run_until_ended(const core_request *request, const run_ctx *ctx, plim_result **out,
                            plim_error *err)
{
    (void)request, (void)out;
    entered = true;
    struct pollfd none;
    run_wait why = run_ctx_poll(ctx, &none, 0);
    ended_by = why;
    return core_fail_gone(err, why);
}

static void deadlines_end_a_run(void **state)
{
    (void)state;
    answer a;
    fake.run = run_until_ended;
    post("Run", "Connect-Timeout-Ms: 50\r\n", RUN_JSON(""), &a);
    is_error(&a, 504, "deadline_exceeded", "");
    assert_int_equal(ended_by, RUN_DEADLINE);
    assert_int_equal(fake.runs, 1);
    /* Spent on arrival: nothing runs, and that is promised. */
    static const char *const spent[] = {"Connect-Timeout-Ms: 0\r\n", "Connect-Timeout-Ms: -5\r\n"};
    for (size_t i = 0; i < PLIM_COUNT(spent); i++) {
        post("Run", spent[i], RUN_JSON(""), &a);
        is_error(&a, 504, "deadline_exceeded", "CAY");
        assert_int_equal(fake.runs, 1);
    }
}

static void dispatched_calls_have_a_hard_deadline(void **state)
{
    (void)state;
    answer a;
    int64_t before = base_monotonic_ns();
    post("Run", "", RUN_JSON(",\"timeoutMs\":2147483647"), &a);
    assert_int_equal(a.status, 200);
    assert_true(fake.last_deadline_ns >= before + 300 * BASE_NS_PER_S);
    assert_true(fake.last_deadline_ns <= base_monotonic_ns() + 300 * BASE_NS_PER_S);
    assert_int_equal(fake.last_options.timeout_ms, 300000);
}

static void a_caller_that_leaves_ends_its_run(void **state)
{
    (void)state;
    fake.run = run_until_ended;
    entered = false;
    ended_by = -1;
    int fd = dial();
    send_all(fd, plim_bytes_of("POST " PROCEDURE "Run HTTP/1.1\r\nHost: t\r\n" JSON_TYPE
                               "Content-Length: 40\r\n\r\n" RUN_JSON("")));
    while (!entered)
        usleep(1000);
    close(fd);
    while (ended_by == -1)
        usleep(1000);
    assert_int_equal(ended_by, RUN_CANCELED);
}

/* ---- the others ---- */

static void describe_states_the_provider(void **state)
{
    (void)state;
    answer a;
    post("Describe", "", "{\"anything\":1}", &a);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "{\"sandbox\":\"fake\",\"isolation\":\"process\",\"protocol\":2,"
                                "\"javascriptEnvironment\":{\"identity\":\"fake:sha256:00\","
                                "\"maxTimeoutMs\":30000},\"projectEnvironment\":{},"
                                "\"moduleEnvironment\":{},\"resources\":{}}");
    assert_int_equal(fake.runs, 0);
}

static void sessions_are_unsupported(void **state)
{
    (void)state;
    answer a;
    static const char *const names[] = {"OpenSession", "SessionRun", "CloseSession"};
    for (size_t i = 0; i < PLIM_COUNT(names); i++) {
        post(names[i], "", "{\"protocol\":3}", &a);
        is_error(&a, 501, "unimplemented", "CAQ");
        has_header(&a, "plimsoll-not-dispatched", NULL);
    }
    for (size_t i = 0; i < 2; i++) {
        post(names[i], "", "{\"protocol\":3,\"minimumIsolation\":\"fortress\"}", &a);
        is_error(&a, 400, "invalid_argument", "CAE");
        post(names[i], "", "{\"protocol\":3,\"softwareRule\":{\"mode\":\"x\"}}", &a);
        is_error(&a, 400, "invalid_argument", "CAE");
    }
}

static void grpc_web_answers(void **state)
{
    (void)state;
    answer a;
    post_bytes("Describe", "Content-Type: application/grpc-web+json\r\n", PLIM_LIT("\0\0\0\0\2{}"),
               &a);
    assert_int_equal(a.status, 200);
    has_header(&a, "content-type", "application/grpc-web+json");
    assert_int_equal(a.body[0], 0);
    size_t length = (unsigned char)a.body[3] << 8 | (unsigned char)a.body[4];
    assert_memory_equal(a.body + 5, "{\"sandbox\":\"fake\"", 17);
    static const char trailers[] = "\x80\0\0\0\x10"
                                   "grpc-status: 0\r\n";
    assert_int_equal(a.body_len, 5 + length + sizeof(trailers) - 1);
    assert_memory_equal(a.body + 5 + length, trailers, sizeof(trailers) - 1);
    post_bytes("Run", "Content-Type: application/grpc-web+proto\r\n", PLIM_LIT("\0\0\0\0\0"), &a);
    assert_non_null(strstr(a.body + 5, "grpc-status: 3\r\ngrpc-message: the request states"));
    has_header(&a, "plimsoll-not-dispatched", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(protocol_comes_first, setup_open, teardown),
        cmocka_unit_test_setup_teardown(requests_are_validated_in_order, setup_open, teardown),
        cmocka_unit_test_setup_teardown(grants_are_refused_alike, setup_open, teardown),
        cmocka_unit_test_setup_teardown(floors_and_rules_cost_nothing, setup_rate, teardown),
        cmocka_unit_test_setup_teardown(an_answer_states_its_record, setup_open, teardown),
        cmocka_unit_test_setup_teardown(nan_has_one_form, setup_open, teardown),
        cmocka_unit_test_setup_teardown(errors_of_the_provider_keep_their_mark, setup_open,
                                        teardown),
        cmocka_unit_test_setup_teardown(events_name_the_call, setup_auth, teardown),
        cmocka_unit_test_setup_teardown(deadlines_end_a_run, setup_open, teardown),
        cmocka_unit_test_setup_teardown(dispatched_calls_have_a_hard_deadline, setup_open,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_caller_that_leaves_ends_its_run, setup_open, teardown),
        cmocka_unit_test_setup_teardown(describe_states_the_provider, setup_open, teardown),
        cmocka_unit_test_setup_teardown(sessions_are_unsupported, setup_open, teardown),
        cmocka_unit_test_setup_teardown(grpc_web_answers, setup_open, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
