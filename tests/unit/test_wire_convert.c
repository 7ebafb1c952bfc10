/* Between messages and the core: limits at their boundaries, the order of checks, results both
 * ways. */
#include "wire_support.h"

#include <math.h>

/* ---- requests ---- */

/* A valid request of each kind, to be changed by a test. */
static struct {
    wire_run_request request;
    wire_java_script_run javascript;
    wire_project_run project;
    wire_project_file files[201], *file_list[201];
    plim_bytes steps[21], artifacts[101], identities[33];
    wire_module_run module;
    wire_module_row rows[2], *row_list[2];
    double values[65];
    wire_software_rule rule;
} r;

static void use_javascript(void)
{
    memset(&r, 0, sizeof(r));
    r.request = (wire_run_request){.base = WIRE_BASE(run_request), .protocol = 3};
    r.javascript =
        (wire_java_script_run){.base = WIRE_BASE(java_script_run), .code = PLIM_LIT("1")};
    r.request.payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_JAVASCRIPT;
    r.request.javascript = &r.javascript;
}

static void use_project(void)
{
    use_javascript();
    r.request.payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_PROJECT;
    r.request.project = &r.project;
    for (int i = 0; i < 201; i++) {
        r.files[i] = (wire_project_file){.base = WIRE_BASE(project_file)};
        r.files[i].path = plim_bytes_of(base_arena_printf(arena, "f%d", i));
        r.file_list[i] = &r.files[i];
    }
    for (int i = 0; i < 101; i++)
        r.artifacts[i] = plim_bytes_of(base_arena_printf(arena, "a%d", i));
    r.project = (wire_project_run){.base = WIRE_BASE(project_run),
                                   .n_files = 1,
                                   .files = r.file_list,
                                   .n_steps = 1,
                                   .steps = r.steps,
                                   .artifacts = r.artifacts};
}

static void use_module(void)
{
    use_javascript();
    r.request.payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_MODULE;
    r.request.module = &r.module;
    for (int i = 0; i < 2; i++) {
        r.rows[i] =
            (wire_module_row){.base = WIRE_BASE(module_row), .n_values = 1, .values = r.values};
        r.row_list[i] = &r.rows[i];
    }
    r.module = (wire_module_run){.base = WIRE_BASE(module_run),
                                 .model = PLIM_LIT("m"),
                                 .n_rows = 2,
                                 .rows = r.row_list,
                                 .end_time = 10,
                                 .step = 1};
}

static bool read_it(core_request *out)
{
    plim_error_clear(&error);
    return wire_read_request(arena, &r.request, out, &error);
}

static void accepted(void)
{
    core_request out;
    if (!read_it(&out))
        fail_msg("refused: %s", plim_error_message(&error));
}

static void not_accepted(void)
{
    core_request out;
    assert_false(read_it(&out));
    assert_string_equal(plim_error_code(&error), "invalid_argument");
    assert_int_equal(plim_error_not_dispatched(&error), PLIM_ND_REQUEST);
}

static plim_bytes many(char c, size_t count)
{
    char *text = base_arena_alloc(arena, count, 1);
    assert_non_null(text);
    memset(text, c, count);
    return (plim_bytes){text, count};
}

static void floors_are_exact_words(void **state)
{
    (void)state;
    static const char *const good[] = {"", "process", "container", "kernel", "vm"};
    static const char *const bad[] = {"fortress", "none", "unknown", "VM", " vm", "vm ", "vm\n"};
    use_javascript();
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        r.request.minimum_isolation = plim_bytes_of(good[i]);
        accepted();
    }
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        r.request.minimum_isolation = plim_bytes_of(bad[i]);
        not_accepted();
    }
    r.request.minimum_isolation = PLIM_LIT("vm\0");
    not_accepted();
}

static void rules_have_a_form(void **state)
{
    (void)state;
    use_javascript();
    for (int i = 0; i < 33; i++)
        r.identities[i] = plim_bytes_of(base_arena_printf(arena, "id:%d", i));
    r.rule = (wire_software_rule){.base = WIRE_BASE(software_rule), .identities = r.identities};
    r.request.software_rule = &r.rule;
    static const struct {
        const char *mode;
        size_t count;
        bool good;
    } cases[] = {
        {"", 0, true},          {"", 1, false},          {"exact", 1, true},
        {"exact", 0, false},    {"exact", 2, false},     {"approved", 1, true},
        {"approved", 32, true}, {"approved", 33, false}, {"approved", 0, false},
        {"Exact", 1, false},    {"any", 1, false},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        r.rule.mode = plim_bytes_of(cases[i].mode);
        r.rule.n_identities = cases[i].count;
        cases[i].good ? accepted() : not_accepted();
    }
    r.rule.mode = PLIM_LIT("exact");
    r.rule.n_identities = 1;
    r.identities[0] = many('a', 256);
    accepted();
    r.identities[0] = many('a', 257);
    not_accepted();
    r.identities[0] = PLIM_LIT("a b");
    not_accepted();
}

static void timeouts_are_clamped(void **state)
{
    (void)state;
    static const struct {
        int32_t sent;
        int64_t read;
    } cases[] = {{-5, 0},          {0, 0},           {1, 1},
                 {300000, 300000}, {300001, 300000}, {INT32_MAX, 300000},
                 {INT32_MIN, 0}};
    use_javascript();
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        core_request out;
        r.request.timeout_ms = cases[i].sent;
        assert_true(read_it(&out));
        assert_int_equal(out.options->timeout_ms, cases[i].read);
    }
}

static void malformed_trace_ids_are_dropped(void **state)
{
    (void)state;
    core_request out;
    use_javascript();
    r.request.trace_id = PLIM_LIT("req-1:2");
    assert_true(read_it(&out));
    is_text(out.options->trace_id, "req-1:2");
    r.request.trace_id = PLIM_LIT("a/b");
    assert_true(read_it(&out));
    is_text(out.options->trace_id, "");
    r.request.trace_id = many('a', 65);
    assert_true(read_it(&out));
    is_text(out.options->trace_id, "");
}

static void snippets_have_limits(void **state)
{
    (void)state;
    use_javascript();
    r.javascript.code = many('a', 262144);
    accepted();
    r.javascript.code = many('a', 262145);
    not_accepted();
    r.javascript.code = PLIM_LIT("");
    not_accepted();
    r.javascript.code = PLIM_LIT("a\0b");
    not_accepted();
    r.javascript.code = PLIM_LIT("a");
    r.javascript.grant_profile = many('g', 128);
    accepted();
    r.javascript.grant_profile = many('g', 129);
    not_accepted();
}

static void projects_have_limits(void **state)
{
    (void)state;
    use_project();
    r.project.n_steps = 0;
    not_accepted();
    r.project.n_steps = 20;
    accepted();
    r.project.n_steps = 21;
    not_accepted();
    r.project.n_steps = 1;
    r.steps[0] = many('a', 16384);
    accepted();
    r.steps[0] = many('a', 16385);
    not_accepted();
    r.steps[0] = PLIM_LIT("a\0");
    not_accepted();
    r.steps[0] = PLIM_LIT("");
    r.project.n_files = 200;
    accepted();
    r.project.n_files = 201;
    not_accepted();
    r.project.n_files = 2;
    r.files[0].content = many('c', 2097152);
    r.files[1].content = many('c', 2097152);
    accepted();
    r.files[1].content = many('c', 2097153);
    not_accepted();
    r.files[0].content = r.files[1].content = PLIM_LIT("a\0b");
    accepted();
    r.files[1].path = r.files[0].path;
    not_accepted();
    use_project();
    r.project.n_artifacts = 100;
    accepted();
    r.project.n_artifacts = 101;
    not_accepted();
    r.project.n_artifacts = 2;
    r.artifacts[1] = r.artifacts[0];
    not_accepted();
}

static void paths_have_a_rule(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      ".",   "..",     "/a",   "a/",
                                      "a//b",  "./a", "a/../b", "a\\b", "a\xC2\x85",
                                      "a\x7f", "a/.", "../a",   "a\nb"};
    static const char *const good[] = {"a", "a/b.c", "..a", "a b", "é", "...", "a/.b"};
    use_project();
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        r.files[0].path = plim_bytes_of(bad[i]);
        not_accepted();
    }
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        r.files[0].path = plim_bytes_of(good[i]);
        accepted();
    }
    r.files[0].path = many('p', 1024);
    accepted();
    r.files[0].path = many('p', 1025);
    not_accepted();
}

static void tables_have_limits(void **state)
{
    (void)state;
    use_module();
    accepted();
    r.module.n_rows = 0;
    not_accepted();
    use_module();
    r.rows[1].n_values = 2;
    not_accepted();
    use_module();
    r.rows[0].n_values = r.rows[1].n_values = 0;
    not_accepted();
    r.rows[0].n_values = r.rows[1].n_values = 64;
    accepted();
    r.rows[0].n_values = r.rows[1].n_values = 65;
    not_accepted();
    static const double bad_values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < PLIM_COUNT(bad_values); i++) {
        use_module();
        r.values[0] = bad_values[i];
        not_accepted();
        use_module();
        r.module.step = bad_values[i];
        not_accepted();
        use_module();
        r.module.end_time = bad_values[i];
        not_accepted();
    }
    use_module();
    r.module.end_time = 0;
    not_accepted();
    use_module();
    r.module.step = -1;
    not_accepted();
    use_module();
    r.module.n_rows = 1;
    r.module.end_time = 1000000;
    accepted();
    r.module.end_time = 1000001;
    not_accepted();
    /* 20 + 2 * (4 + 8 * (n + 2)) is the budget of 8,388,608 at n = 524,284. */
    use_module();
    r.module.end_time = 524284;
    accepted();
    r.module.end_time = 524285;
    not_accepted();
    use_module();
    r.module.model = many('m', 64);
    accepted();
    r.module.model = many('m', 65);
    not_accepted();
    r.module.model = PLIM_LIT("-m");
    not_accepted();
    r.module.model = PLIM_LIT("m\n");
    not_accepted();
}

static void tables_are_row_major(void **state)
{
    (void)state;
    core_request out;
    double first[] = {1, 2}, second[] = {3, 4};
    use_module();
    r.rows[0].values = first;
    r.rows[1].values = second;
    r.rows[0].n_values = r.rows[1].n_values = 2;
    assert_true(read_it(&out));
    assert_int_equal(out.module->width, 2);
    assert_true(out.module->values[2] == 3 && out.module->values[3] == 4);
}

static void payloads_must_be_there(void **state)
{
    (void)state;
    wire_cell_run cell = {.base = WIRE_BASE(cell_run), .code = PLIM_LIT("1")};
    use_javascript();
    r.request.payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_CELL;
    r.request.cell = &cell;
    not_accepted();
    r.request.payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD__NOT_SET;
    not_accepted();
    /* The floor comes first. */
    r.request.minimum_isolation = PLIM_LIT("fortress");
    not_accepted();
    assert_non_null(strstr(plim_error_message(&error), "floor"));
}

/* What a client writes is what the daemon reads. */
static void requests_round_trip(void **state)
{
    (void)state;
    void (*const uses[])(void) = {use_javascript, use_project, use_module};
    for (size_t i = 0; i < PLIM_COUNT(uses); i++) {
        core_request first, second;
        uses[i]();
        r.request.minimum_isolation = PLIM_LIT("process");
        r.request.trace_id = PLIM_LIT("t");
        r.request.timeout_ms = 1500;
        assert_true(read_it(&first));
        wire_run_request *written = wire_write_request(arena, &first);
        assert_non_null(written);
        plim_bytes bytes = encoded(WIRE_PROTO, &r.request);
        assert_true(base_bytes_equal(bytes, encoded(WIRE_PROTO, written)));
        wire_run_request *back = decoded(WIRE_PROTO, WIRE_TYPE(run_request), bytes);
        assert_true(wire_read_request(arena, back, &second, &error));
        record_request digested;
        assert_true(wire_record_request(back, &second, &digested));
        is_text(digested.minimum_isolation, "process");
        assert_int_equal(digested.timeout_ms, 1500);
    }
}

/* ---- results ---- */

static plim_result *sample(plim_kind kind)
{
    static const core_step_result steps[] = {
        {PLIM_LIT("make\xff"), PLIM_LIT("o\xff"), PLIM_LIT("e"), 2, true, true, false, 7, "pids"}};
    static const core_artifact artifacts[] = {{PLIM_LIT("a\xfe\xfe"
                                                        "b"),
                                               PLIM_LIT("\0\x01")}};
    static const double outputs[] = {1, 2};
    static const core_module_row rows[] = {{1, outputs, 2}, {-1, NULL, 0}};
    plim_result *result = core_result_new(kind);
    assert_non_null(result);
    result->provider = "wasm";
    result->isolation = "process";
    result->tier = PLIM_TIER_PROCESS;
    result->environment = "quickjs-wasm:sha256:00";
    result->software_identity = "id";
    result->duration_ms = 12;
    result->out = PLIM_LIT("out\xff");
    result->err = PLIM_LIT("err");
    result->exit_code = 3;
    result->timed_out = true;
    result->limit_reached = "memory";
    result->interpreter_started = true;
    result->outcome = PLIM_OUTCOME_TIMED_OUT;
    result->outcome_detail = PLIM_LIT("bad \xc3( text");
    result->steps = steps;
    result->step_count = 1;
    result->artifacts = artifacts;
    result->artifact_count = 1;
    result->rows = rows;
    result->row_count = 2;
    result->width = 2;
    return result;
}

static void results_round_trip(void **state)
{
    (void)state;
    for (plim_kind kind = PLIM_KIND_NONE; kind <= PLIM_KIND_CELL; kind++) {
        plim_result *result = sample(kind);
        assert_true(wire_repair_result(result));
        wire_run_response *response = wire_write_result(arena, result);
        assert_non_null(response);
        for (wire_codec codec = WIRE_PROTO; codec <= WIRE_JSON; codec++) {
            plim_bytes bytes = encoded(codec, response);
            wire_run_response *decoded_response = decoded(codec, WIRE_TYPE(run_response), bytes);
            assert_true(base_bytes_equal(bytes, encoded(codec, decoded_response)));
            plim_result *back = wire_read_result(decoded_response);
            assert_non_null(back);
            assert_int_equal(back->kind, kind);
            assert_int_equal(back->tier, PLIM_TIER_PROCESS);
            char before[BASE_SHA256_HEX + 1], after[BASE_SHA256_HEX + 1];
            assert_true(record_result_digest(result, before));
            assert_true(record_result_digest(back, after));
            assert_string_equal(before, after);
            plim_result_free(back);
        }
        plim_result_free(result);
    }
}

static void guest_text_becomes_utf8(void **state)
{
    (void)state;
    plim_result *result = sample(PLIM_KIND_PROJECT);
    assert_true(wire_repair_result(result));
    is_text(result->steps[0].command, "make\xef\xbf\xbd");
    is_text(result->artifacts[0].path, "a\xef\xbf\xbd"
                                       "b");
    is_text(result->outcome_detail, "bad \xef\xbf\xbd( text");
    is_text(result->steps[0].out, "o\xff");
    plim_result_free(result);
}

static void output_bytes_are_kept(void **state)
{
    (void)state;
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    plim_result *result = sample(PLIM_KIND_JAVASCRIPT);
    result->out = (plim_bytes){all, sizeof(all)};
    wire_run_response *response = wire_write_result(arena, result);
    for (wire_codec codec = WIRE_PROTO; codec <= WIRE_JSON; codec++) {
        wire_run_response *back = decoded(codec, WIRE_TYPE(run_response), encoded(codec, response));
        assert_true(base_bytes_equal(back->javascript->stdout, result->out));
        is_text(back->javascript->limit_reached, "memory");
    }
    plim_result_free(result);
}

static void descriptions_state_what_fits(void **state)
{
    (void)state;
    core_description now = {.provider = "wasm",
                            .tier = PLIM_TIER_PROCESS,
                            .supports = {[PLIM_KIND_JAVASCRIPT] = true},
                            .memory_mb = 256,
                            .pids = -1,
                            .disk_mb = INT64_MAX,
                            .cpus = -2};
    core_environment *environment = &now.environment[PLIM_KIND_JAVASCRIPT];
    snprintf(environment->identity, sizeof(environment->identity), "quickjs-wasm:sha256:00");
    environment->max_timeout_ms = 900000;
    environment->javascript = true;
    wire_describe_response *response = wire_write_description(arena, &now, 3);
    assert_non_null(response);
    is_text(encoded(WIRE_JSON, response),
            "{\"sandbox\":\"wasm\",\"isolation\":\"process\",\"protocol\":3,"
            "\"javascriptEnvironment\":{\"identity\":\"quickjs-wasm:sha256:00\",\"maxTimeoutMs\":"
            "300000,"
            "\"languages\":[\"javascript\"]},\"projectEnvironment\":{},\"moduleEnvironment\":{},"
            "\"resources\":{\"memoryMb\":256,\"diskMb\":4294967295}}");
}

static void records_round_trip(void **state)
{
    (void)state;
    plim_record record = RECORD_INIT;
    record.version = 2;
    record.request_sha256 = "r";
    record.provider = "wasm";
    record.started_unix_ms = 1791400000123;
    record.sequence = 7;
    record.unanswered = "unknown";
    wire_run_record *written = wire_write_record(arena, &record);
    assert_non_null(written);
    plim_record *back = wire_read_record(
        arena, decoded(WIRE_PROTO, WIRE_TYPE(run_record), encoded(WIRE_PROTO, written)));
    assert_non_null(back);
    char before[BASE_SHA256_HEX + 1], after[BASE_SHA256_HEX + 1];
    assert_true(record_digest(&record, before) && record_digest(back, after));
    assert_string_equal(before, after);
    assert_string_equal(back->unanswered, "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(floors_are_exact_words),
        WIRE_TEST(rules_have_a_form),
        WIRE_TEST(timeouts_are_clamped),
        WIRE_TEST(malformed_trace_ids_are_dropped),
        WIRE_TEST(snippets_have_limits),
        WIRE_TEST(projects_have_limits),
        WIRE_TEST(paths_have_a_rule),
        WIRE_TEST(tables_have_limits),
        WIRE_TEST(tables_are_row_major),
        WIRE_TEST(payloads_must_be_there),
        WIRE_TEST(requests_round_trip),
        WIRE_TEST(results_round_trip),
        WIRE_TEST(guest_text_becomes_utf8),
        WIRE_TEST(output_bytes_are_kept),
        WIRE_TEST(descriptions_state_what_fits),
        WIRE_TEST(records_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
