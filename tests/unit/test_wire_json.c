/* Protobuf JSON by the contract's table: every row, reading and writing. */
#include "wire_support.h"

#include <locale.h>
#include <math.h>

static void names_have_two_spellings(void **state)
{
    (void)state;
    wire_run_request *request =
        JSON(run_request, "{\"minimumIsolation\":\"vm\",\"trace_id\":\"t\"}");
    is_text(request->minimum_isolation, "vm");
    is_text(request->trace_id, "t");
    request = JSON(run_request, "{\"MinimumIsolation\":\"vm\",\"minimumisolation\":1}");
    is_text(request->minimum_isolation, "");
    request = JSON(run_request, "{\"proto\\u0063ol\":3}");
    assert_int_equal(request->protocol, 3);
}

static void unknown_members_are_ignored(void **state)
{
    (void)state;
    wire_run_request *request =
        JSON(run_request, " {\"x\":{\"y\":[1,{\"z\":null}],\"w\":\"\\uD83D\\ude00\"},\"n\":1e999,"
                          "\"big\":123456789012345678901234567890,\"protocol\":3,\"\":[]} \r\n\t");
    assert_int_equal(request->protocol, 3);
    wire_run_request *deep = JSON(run_request, "{\"javascript\":{\"code\":\"a\",\"b\":[[[]]]}}");
    is_text(deep->javascript->code, "a");
}

static void members_come_once(void **state)
{
    (void)state;
    JSON_REFUSED(run_request, "{\"protocol\":3,\"protocol\":3}");
    JSON_REFUSED(run_request, "{\"traceId\":\"a\",\"trace_id\":\"a\"}");
    JSON_REFUSED(run_request, "{\"javascript\":{},\"module\":{}}");
    JSON_REFUSED(run_request, "{\"traceId\":null,\"traceId\":\"a\"}");
    JSON_REFUSED(run_request, "{\"x\":1,\"y\":2,\"\\u0078\":1}");
    JSON_REFUSED(run_request, "{\"x\":[{\"y\":1,\"z\":{},\"y\":1}]}");
    JSON(run_request, "{\"x\":{\"x\":{\"x\":1}},\"y\":[{\"x\":1},{\"x\":1}]}");
    wire_run_request *request = JSON(run_request, "{\"javascript\":null,\"module\":{}}");
    assert_int_equal(request->payload_case, PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_MODULE);
}

static void null_is_absent(void **state)
{
    (void)state;
    wire_run_request *request =
        JSON(run_request, "{\"protocol\":null,\"softwareRule\":null,\"javascript\":{\"code\":null},"
                          "\"traceId\":null}");
    assert_int_equal(request->protocol, 0);
    assert_null(request->software_rule);
    is_text(request->javascript->code, "");
    wire_project_run *project = JSON(project_run, "{\"steps\":null}");
    assert_int_equal(project->n_steps, 0);
    JSON_REFUSED(project_run, "{\"steps\":[null]}");
    JSON_REFUSED(module_row, "{\"values\":[null]}");
}

static void int64_reads_numbers_and_strings(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int64_t value;
    } good[] = {
        {"12", 12},
        {"\"12\"", 12},
        {"\"-9223372036854775808\"", INT64_MIN},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"1e3", 1000},
        {"\"1.50e1\"", 15},
        {"-0", 0},
        {"0e99999999999999", 0},
    };
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        char *text = base_arena_printf(arena, "{\"durationMs\":%s}", good[i].json);
        wire_run_response *response = JSON(run_response, text);
        assert_int_equal(response->duration_ms, good[i].value);
    }
    static const char *const bad[] = {"9223372036854775808",
                                      "-9223372036854775809",
                                      "1.5",
                                      "1e-1",
                                      "1e99999999999999999999",
                                      "\"\"",
                                      "\" 1\"",
                                      "\"1 \"",
                                      "\"0x1\"",
                                      "\"01\"",
                                      "\"+1\"",
                                      "true",
                                      "[]",
                                      "{}"};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        JSON_REFUSED(run_response, base_arena_printf(arena, "{\"durationMs\":%s}", bad[i]));
    wire_run_record *record = JSON(run_record, "{\"sequence\":18446744073709551615}");
    assert_int_equal(record->sequence, UINT64_MAX);
    JSON_REFUSED(run_record, "{\"sequence\":18446744073709551616}");
    JSON_REFUSED(run_record, "{\"sequence\":\"-1\"}");
}

static void int32_has_a_range(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int32_t value;
    } good[] = {{"2.0", 2},
                {"2e0", 2},
                {"\"7\"", 7},
                {"-2147483648", INT32_MIN},
                {"2147483647", INT32_MAX},
                {"20e-1", 2}};
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        char *text = base_arena_printf(arena, "{\"timeoutMs\":%s}", good[i].json);
        wire_run_request *request = JSON(run_request, text);
        assert_int_equal(request->timeout_ms, good[i].value);
    }
    static const char *const bad[] = {"2147483648", "-2147483649", "2.5", "1e10", "\"x\"", "true"};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        JSON_REFUSED(run_request, base_arena_printf(arena, "{\"timeoutMs\":%s}", bad[i]));
    JSON_REFUSED(run_request, "{\"protocol\":-1}");
    JSON_REFUSED(run_request, "{\"protocol\":4294967296}");
    wire_run_request *request = JSON(run_request, "{\"protocol\":4294967295}");
    assert_int_equal(request->protocol, UINT32_MAX);
}

static void doubles_read_numbers_and_names(void **state)
{
    (void)state;
    wire_module_row *row =
        JSON(module_row, "{\"values\":[1,-0,0.1,1e-400,\"2.5\",\"NaN\",\"Infinity\",\"-Infinity\","
                         "123456789012345678901234567890,4.9e-324,1.7976931348623157e308,-0.0]}");
    assert_int_equal(row->n_values, 12);
    assert_true(row->values[0] == 1 && row->values[2] == 0.1 && row->values[4] == 2.5);
    assert_true(row->values[1] == 0 && signbit(row->values[1]));
    assert_true(row->values[3] == 0);
    assert_true(isnan(row->values[5]));
    assert_true(row->values[6] == INFINITY && row->values[7] == -INFINITY);
    assert_true(row->values[8] == 123456789012345678901234567890.0);
    assert_true(row->values[9] == 4.9e-324 && row->values[10] == 1.7976931348623157e308);
    assert_true(row->values[11] == 0 && signbit(row->values[11]));
    static const char *const bad[] = {
        "NaN", "Infinity", "\"nan\"", "\"inf\"", "1e400", "-1e400", "true", "\"\"",     "\"1x\"",
        "01",  "1.",       ".5",      "+1",      "0x1",   "1e",     "-",    "\"1e400\""};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        JSON_REFUSED(module_row, base_arena_printf(arena, "{\"values\":[%s]}", bad[i]));
}

static void bytes_read_every_base64(void **state)
{
    (void)state;
    static const char *const good[] = {"-_-_", "+/+/"};
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        char *text = base_arena_printf(arena, "{\"content\":\"%s\"}", good[i]);
        wire_artifact *artifact = JSON(artifact, text);
        is_text(artifact->content, "\xfb\xff\xbf");
    }
    static const char *const same[] = {"b2s", "b2s=", "b\\u0032s"};
    for (size_t i = 0; i < PLIM_COUNT(same); i++) {
        char *text = base_arena_printf(arena, "{\"content\":\"%s\"}", same[i]);
        wire_artifact *artifact = JSON(artifact, text);
        is_text(artifact->content, "ok");
    }
    wire_artifact *one = JSON(artifact, "{\"content\":\"YQ==\"}");
    is_text(one->content, "a");
    static const char *const bad[] = {"a", "a===", "YQ=", "YQ===", "Y Q=", "YQ==YQ==", "=", "é"};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        JSON_REFUSED(artifact, base_arena_printf(arena, "{\"content\":\"%s\"}", bad[i]));
}

static void enums_read_names_and_numbers(void **state)
{
    (void)state;
    wire_session_ended *ended = JSON(session_ended, "{\"reason\":\"SESSION_END_EXPIRED\"}");
    assert_int_equal(ended->reason, 2);
    ended = JSON(session_ended, "{\"reason\":77}");
    assert_int_equal(ended->reason, 77);
    JSON_REFUSED(session_ended, "{\"reason\":\"EXPIRED\"}");
    JSON_REFUSED(session_ended, "{\"reason\":1.5}");
    JSON_REFUSED(session_ended, "{\"reason\":true}");
}

static void bools_are_literals(void **state)
{
    (void)state;
    wire_cell_result *cell = JSON(cell_result, "{\"timedOut\":true,\"stdoutTruncated\":false}");
    assert_true(cell->timed_out && !cell->stdout_truncated);
    JSON_REFUSED(cell_result, "{\"timedOut\":\"true\"}");
    JSON_REFUSED(cell_result, "{\"timedOut\":1}");
}

static void strings_are_utf8(void **state)
{
    (void)state;
    wire_java_script_run *run = JSON(
        java_script_run, "{\"code\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u00e9\\uD83D\\uDE00é\"}");
    assert_true(base_bytes_equal(run->code, PLIM_LIT("\"\\/\b\f\n\r\t\0\u00e9\U0001F600\u00e9")));
    static const char *const bad[] = {
        "\\ud800", "\\udc00", "\\ud800x", "\\ud800\\u0041", "\\udc00\\ud800", "\\x", "\\u12",
        "\\u12g4", "\x01",    "\n",       "\xff",           "\xed\xa0\x80",
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        JSON_REFUSED(java_script_run, base_arena_printf(arena, "{\"code\":\"%s\"}", bad[i]));
        JSON_REFUSED(java_script_run, base_arena_printf(arena, "{\"ignored\":\"%s\"}", bad[i]));
    }
    JSON_REFUSED(java_script_run, "{\"code\":1}");
    JSON_REFUSED(java_script_run, "{\"code\":\"a");
    JSON_REFUSED(java_script_run, "{\"code\":\"a\\");
}

static void documents_are_one_object(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "null",
        "[]",
        "\"a\"",
        "{} {}",
        "{}x",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{,}",
        "{\"a\" 1}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
        "{\"a\":]",
        "{\"a\":[}",
        "{/**/}",
        "{}//",
        "{\"a\":tru}",
        "{\"a\":nul}",
        "\xef\xbb\xbf{}",
        "{\"a\":undefined}",
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        JSON_REFUSED(run_request, bad[i]);
    refused(WIRE_JSON, WIRE_TYPE(run_request), PLIM_LIT("{}\0"));
    JSON(run_request, "{}");
}

static char *nested(unsigned depth)
{
    base_buf buf = BASE_BUF_INIT(1024);
    base_buf_add_text(&buf, "{\"x\":");
    for (unsigned i = 1; i < depth; i++)
        base_buf_add_byte(&buf, '[');
    for (unsigned i = 1; i < depth; i++)
        base_buf_add_byte(&buf, ']');
    base_buf_add_byte(&buf, '}');
    char *text = base_arena_text(arena, base_buf_bytes(&buf));
    base_buf_free(&buf);
    return text;
}

static void depth_is_bounded(void **state)
{
    (void)state;
    JSON(run_request, nested(100));
    JSON_REFUSED(run_request, nested(101));
}

static void writes_what_clients_read(void **state)
{
    (void)state;
    wire_run_record record = {.base = WIRE_BASE(run_record),
                              .version = 2,
                              .started_unix_ms = -5,
                              .sequence = UINT64_MAX,
                              .provider = PLIM_LIT("a\"\\\n\x01/é")};
    is_text(encoded(WIRE_JSON, &record),
            "{\"version\":2,\"provider\":\"a\\\"\\\\\\n\\u0001/é\","
            "\"startedUnixMs\":\"-5\",\"sequence\":\"18446744073709551615\"}");
    wire_run_response response = {.base = WIRE_BASE(run_response)};
    wire_java_script_result result = {.base = WIRE_BASE(java_script_result)};
    is_text(encoded(WIRE_JSON, &response), "{}");
    response.result_case = PLIMSOLL__V1__RUN_RESPONSE__RESULT_JAVASCRIPT;
    response.javascript = &result;
    is_text(encoded(WIRE_JSON, &response), "{\"javascript\":{}}");
    result.stdout = PLIM_LIT("\xfb\xff\xbf\x00");
    result.timed_out = true;
    result.exit_code = -124;
    is_text(encoded(WIRE_JSON, &response),
            "{\"javascript\":{\"stdout\":\"+/+/AA==\",\"exitCode\":-124,\"timedOut\":true}}");
    wire_session_ended ended = {.base = WIRE_BASE(session_ended), .reason = 2};
    is_text(encoded(WIRE_JSON, &ended), "{\"reason\":\"SESSION_END_EXPIRED\"}");
    ended.reason = (Plimsoll__V1__SessionEnd)99;
    is_text(encoded(WIRE_JSON, &ended), "{\"reason\":99}");
}

static void writes_doubles_that_read_back(void **state)
{
    (void)state;
    double values[] = {0,         -0.0,    0.1,  -1.5,   1e21, NAN,        INFINITY,
                       -INFINITY, 1.0 / 3, 1e-7, 5e-324, 100,  123456.789, 9007199254740993.0};
    wire_module_row row = {
        .base = WIRE_BASE(module_row), .n_values = PLIM_COUNT(values), .values = values};
    plim_bytes json = encoded(WIRE_JSON, &row);
    is_text(json,
            "{\"values\":[0,-0,0.1,-1.5,1e+21,\"NaN\",\"Infinity\",\"-Infinity\","
            "0.3333333333333333,1e-07,4.94065645841247e-324,100,123456.789,9007199254740992]}");
    wire_module_row *back = decoded(WIRE_JSON, WIRE_TYPE(module_row), json);
    for (size_t i = 0; i < PLIM_COUNT(values); i++)
        if (isnan(values[i]))
            assert_true(isnan(back->values[i]));
        else
            assert_memory_equal(&values[i], &back->values[i], sizeof(double));
    wire_module_run run = {.base = WIRE_BASE(module_run), .end_time = -0.0};
    is_text(encoded(WIRE_JSON, &run), "{\"endTime\":-0}");
}

/* Numbers by their bits: what is written reads back, and 17 digits were not needed where fewer do.
 */
static void random_doubles_round_trip(void **state)
{
    (void)state;
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        double value;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        wire_module_run run = {.base = WIRE_BASE(module_run), .step = value};
        plim_bytes json = encoded(WIRE_JSON, &run);
        wire_module_run *back = decoded(WIRE_JSON, WIRE_TYPE(module_run), json);
        assert_memory_equal(&value, &back->step, sizeof(value));
        assert_in_range(json.len, 10, 10 + 24);
    }
}

static void numbers_ignore_the_locale(void **state)
{
    (void)state;
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"};
    for (size_t i = 0; i < PLIM_COUNT(commas); i++)
        setlocale(LC_ALL, commas[i]);
    wire_module_run *run = JSON(module_run, "{\"step\":1.2345678901234567890123}");
    assert_true(run->step == 1.2345678901234567890123);
    is_text(encoded(WIRE_JSON, run), "{\"step\":1.2345678901234567}");
    setlocale(LC_ALL, "C");
}

static void lists_stop_at_their_limit(void **state)
{
    (void)state;
    base_buf buf = BASE_BUF_INIT(1 << 20);
    for (int extra = 0; extra < 2; extra++) {
        base_buf_clear(&buf);
        base_buf_add_text(&buf, "{\"rows\":[");
        for (int i = 0; i < 100000 + extra; i++)
            base_buf_add_text(&buf, i ? ",{}" : "{}");
        base_buf_add_text(&buf, "]}");
        bool read = decode(WIRE_JSON, WIRE_TYPE(module_run), base_buf_bytes(&buf));
        assert_true(read == !extra);
    }
    assert_string_equal(plim_error_code(&error), "invalid_argument");
    assert_int_equal(plim_error_not_dispatched(&error), PLIM_ND_REQUEST);
    base_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(names_have_two_spellings),
        WIRE_TEST(unknown_members_are_ignored),
        WIRE_TEST(members_come_once),
        WIRE_TEST(null_is_absent),
        WIRE_TEST(int64_reads_numbers_and_strings),
        WIRE_TEST(int32_has_a_range),
        WIRE_TEST(doubles_read_numbers_and_names),
        WIRE_TEST(bytes_read_every_base64),
        WIRE_TEST(enums_read_names_and_numbers),
        WIRE_TEST(bools_are_literals),
        WIRE_TEST(strings_are_utf8),
        WIRE_TEST(documents_are_one_object),
        WIRE_TEST(depth_is_bounded),
        WIRE_TEST(writes_what_clients_read),
        WIRE_TEST(writes_doubles_that_read_back),
        WIRE_TEST(random_doubles_round_trip),
        WIRE_TEST(numbers_ignore_the_locale),
        WIRE_TEST(lists_stop_at_their_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
