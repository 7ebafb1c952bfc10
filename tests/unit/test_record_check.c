/* Filling a record, and each line of the checks: an exchange altered in one way fails on that line.
 */
#include "record/record.h"

#include <math.h>
#include <setjmp.h>

#include <cmocka.h>

#define SOFTWARE "oci-manifest:linux/amd64@sha256:aa"

/* A snippet with an exact rule and a floor, and its good answer. */
typedef struct exchange {
    base_arena *arena;
    plim_bytes identity;
    plim_javascript_request snippet;
    record_request request;
    char request_sha256[BASE_SHA256_HEX + 1];
    plim_result *response;
    plim_record record;
    record_chain chain;
    bool in_session;
} exchange;

static void exchange_start(exchange *it)
{
    *it = (exchange){.arena = base_arena_new(1 << 16), .identity = PLIM_LIT(SOFTWARE)};
    it->snippet = (plim_javascript_request){.code = PLIM_LIT("console.log(1)")};
    it->request = (record_request){.protocol = 3,
                                   .minimum_isolation = PLIM_LIT("container"),
                                   .timeout_ms = 1500,
                                   .software = {PLIM_RULE_EXACT, &it->identity, 1},
                                   .kind = PLIM_KIND_JAVASCRIPT,
                                   .javascript = &it->snippet};
    assert_true(record_request_digest(&it->request, it->request_sha256));
    it->response = core_result_new(PLIM_KIND_JAVASCRIPT);
    it->response->provider = "docker";
    it->response->isolation = "kernel";
    it->response->environment = "oci:1";
    it->response->software_identity = SOFTWARE;
    it->response->policy = "policy:1";
    it->response->out = PLIM_LIT("1\n");
    it->chain = (record_chain){"fingerprint", 4, "0123"};
}

static const record_chain *chain_of(const exchange *it)
{
    return it->in_session ? &it->chain : NULL;
}

static void exchange_fill(exchange *it)
{
    record_facts facts = {it->request_sha256, &it->request.software, 1000, 1010, chain_of(it)};
    assert_true(record_fill(&it->record, it->arena, it->response, &facts));
}

static void exchange_end(exchange *it)
{
    plim_result_free(it->response);
    base_arena_free(it->arena);
}

/* State the digest that the record's fields have now, so that only the altered line can fail. */
static void reseal(exchange *it)
{
    char digest[BASE_SHA256_HEX + 1];
    assert_true(record_digest(&it->record, digest));
    it->record.record_sha256 = base_arena_text(it->arena, plim_bytes_of(digest));
}

static void expect(exchange *it, plim_status status)
{
    plim_error err = PLIM_ERROR_INIT;
    bool good = record_check(&it->request, it->request_sha256, it->response, &it->record,
                             chain_of(it), &err);
    if (plim_error_status(&err) != status)
        fail_msg("expected %s, got %s: %s", plim_status_name(status),
                 plim_status_name(plim_error_status(&err)), plim_error_message(&err));
    assert_int_equal(good, status == PLIM_OK);
    assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_NONE);
    if (!good)
        assert_string_equal(plim_error_code(&err), "data_loss");
}

#define ALTERED(it, status, ...)                                                                   \
    do {                                                                                           \
        exchange it##_ex, *it = &it##_ex;                                                          \
        exchange_start(it);                                                                        \
        exchange_fill(it);                                                                         \
        __VA_ARGS__;                                                                               \
        reseal(it);                                                                                \
        expect(it, status);                                                                        \
        exchange_end(it);                                                                          \
    } while (0)

static void a_good_exchange_checks(void **state)
{
    (void)state;
    exchange it;
    exchange_start(&it);
    exchange_fill(&it);
    expect(&it, PLIM_OK);
    assert_int_equal(plim_record_version(&it.record), 2);
    assert_string_equal(plim_record_provider(&it.record), "docker");
    assert_string_equal(plim_record_isolation(&it.record), "kernel");
    assert_string_equal(plim_record_environment(&it.record), "oci:1");
    assert_string_equal(plim_record_policy(&it.record), "policy:1");
    assert_string_equal(plim_record_software_identity(&it.record), SOFTWARE);
    assert_string_equal(plim_record_software_rule_id(&it.record), "exact:" SOFTWARE);
    assert_string_equal(plim_record_request_sha256(&it.record), it.request_sha256);
    assert_int_equal(plim_record_started_unix_ms(&it.record), 1000);
    assert_int_equal(plim_record_ended_unix_ms(&it.record), 1010);
    assert_string_equal(plim_record_session(&it.record), "");
    assert_int_equal(plim_record_sequence(&it.record), 0);
    assert_string_equal(plim_record_previous_sha256(&it.record), "");
    assert_string_equal(plim_record_unanswered(&it.record), "");
    exchange_end(&it);
}

static void each_line_of_the_check_decides(void **state)
{
    (void)state;
    static const plim_bytes bad_identity = {"a b", 3};
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->request.software.identities = &bad_identity);
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->request.software.mode = (plim_rule_mode)9);
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->request.minimum_isolation = PLIM_LIT("none"));
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->request.minimum_isolation = PLIM_LIT("Container"));
    ALTERED(it, PLIM_E_RECORD_VERSION, it->record.version = 0);
    ALTERED(it, PLIM_E_RECORD_VERSION, it->record.version = 3; it->record.unanswered = "internal");
    ALTERED(it, PLIM_E_RECORD_VERSION, it->record.version = 4);
    ALTERED(it, PLIM_E_RECORD_VERSION, it->record.version = 1);
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.unanswered = "internal");
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.request_sha256 = it->record.result_sha256);
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.result_sha256 = it->record.request_sha256);
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->response->out = PLIM_LIT("2\n"));
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->response->kind = PLIM_KIND_CELL);
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.provider = "wasm");
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.isolation = "vm");
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.environment = "oci:2");
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.software_identity = "");
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.software_rule_id = "");
    ALTERED(it, PLIM_E_RECORD_MISMATCH,
            it->record.software_identity = it->response->software_identity = "other:1");
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.session = "s");
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.sequence = 1);
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.previous_sha256 = "0");
    static const char *const weak[] = {"process", "none", "unknown", "", "KERNEL", "container "};
    for (size_t i = 0; i < PLIM_COUNT(weak); i++)
        ALTERED(it, PLIM_E_ISOLATION_EVIDENCE,
                it->record.isolation = it->response->isolation = weak[i]);
    /* The order: a broken rule is met before a missing record, a wrong digest before the floor. */
    ALTERED(it, PLIM_E_RECORD_MISMATCH, it->record.result_sha256 = "",
            it->record.isolation = it->response->isolation = "none");
}

static void no_field_changes_without_its_digest(void **state)
{
    (void)state;
    exchange it;
    exchange_start(&it);
    exchange_fill(&it);
    plim_record good = it.record;
    it.record.policy = "policy:2";
    expect(&it, PLIM_E_RECORD_MISMATCH);
    it.record = good;
    it.record.started_unix_ms++;
    expect(&it, PLIM_E_RECORD_MISMATCH);
    it.record = good;
    it.record.record_sha256 = "";
    expect(&it, PLIM_E_RECORD_MISMATCH);
    it.record = good;
    plim_error err = PLIM_ERROR_INIT;
    assert_false(record_check(&it.request, it.request_sha256, it.response, NULL, NULL, &err));
    assert_int_equal(plim_error_status(&err), PLIM_E_NO_RECORD);
    exchange_end(&it);
}

static void a_protocol_1_request_may_have_a_version_1_record(void **state)
{
    (void)state;
    exchange it;
    exchange_start(&it);
    it.request.protocol = 1;
    it.request.software = (plim_software_rule){PLIM_RULE_NONE, NULL, 0};
    assert_true(record_request_digest(&it.request, it.request_sha256));
    exchange_fill(&it);
    it.record.version = 1;
    it.record.software_identity = "";
    reseal(&it);
    expect(&it, PLIM_OK);
    it.record.software_identity = SOFTWARE;
    reseal(&it);
    expect(&it, PLIM_E_RECORD_MISMATCH);
    exchange_end(&it);
}

static void a_session_call_continues_its_chain(void **state)
{
    (void)state;
    exchange it;
    exchange_start(&it);
    it.in_session = true;
    exchange_fill(&it);
    assert_int_equal(plim_record_sequence(&it.record), 5);
    expect(&it, PLIM_OK);
    plim_record good = it.record;
    it.record.sequence = 6;
    reseal(&it);
    expect(&it, PLIM_E_CHAIN);
    it.record = good;
    it.record.session = "another";
    reseal(&it);
    expect(&it, PLIM_E_CHAIN);
    it.record = good;
    it.record.previous_sha256 = "";
    reseal(&it);
    expect(&it, PLIM_E_CHAIN);
    exchange_end(&it);
}

static void expect_unanswered(exchange *it, plim_status status)
{
    plim_error err = PLIM_ERROR_INIT;
    record_check_unanswered(&it->request, it->request_sha256, &it->record, &it->chain, &err);
    if (plim_error_status(&err) != status)
        fail_msg("expected %s, got %s: %s", plim_status_name(status),
                 plim_status_name(plim_error_status(&err)), plim_error_message(&err));
    assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_NONE);
}

#define UNANSWERED(status, ...)                                                                    \
    do {                                                                                           \
        exchange it_ex, *it = &it_ex;                                                              \
        exchange_start(it);                                                                        \
        record_facts facts = {it->request_sha256, &it->request.software, 1, 2, &it->chain};        \
        assert_true(record_fill_unanswered(&it->record, it->arena, it->response, &facts,           \
                                           "deadline_exceeded"));                                  \
        __VA_ARGS__;                                                                               \
        reseal(it);                                                                                \
        expect_unanswered(it, status);                                                             \
        exchange_end(it);                                                                          \
    } while (0)

static void each_line_of_the_unanswered_check_decides(void **state)
{
    (void)state;
    UNANSWERED(PLIM_OK, (void)0);
    UNANSWERED(PLIM_E_RECORD_VERSION, it->record.version = 2);
    UNANSWERED(PLIM_E_RECORD_MISMATCH, it->record.result_sha256 = it->record.request_sha256);
    UNANSWERED(PLIM_E_RECORD_MISMATCH, it->record.unanswered = "");
    UNANSWERED(PLIM_E_RECORD_MISMATCH, it->record.unanswered = "ok");
    UNANSWERED(PLIM_E_RECORD_MISMATCH, it->record.unanswered = "it broke");
    UNANSWERED(PLIM_E_RECORD_MISMATCH, it->record.request_sha256 = "");
    UNANSWERED(PLIM_E_RECORD_MISMATCH, it->record.software_rule_id = "");
    UNANSWERED(PLIM_E_RECORD_MISMATCH, it->record.software_identity = "other:1");
    UNANSWERED(PLIM_E_ISOLATION_EVIDENCE, it->record.isolation = "process");
    UNANSWERED(PLIM_E_CHAIN, it->record.sequence = 4);
    plim_error err = PLIM_ERROR_INIT;
    exchange it;
    exchange_start(&it);
    assert_false(record_check_unanswered(&it.request, it.request_sha256, NULL, &it.chain, &err));
    assert_int_equal(plim_error_status(&err), PLIM_E_NO_RECORD);
    exchange_end(&it);
}

static void a_copy_holds_its_own_text(void **state)
{
    (void)state;
    exchange it;
    exchange_start(&it);
    exchange_fill(&it);
    base_arena *arena = base_arena_new(1 << 16);
    plim_record *copy = record_dup(arena, &it.record);
    assert_non_null(copy);
    char expected[BASE_SHA256_HEX + 1], digest[BASE_SHA256_HEX + 1];
    assert_true(record_digest(&it.record, expected));
    exchange_end(&it);
    assert_true(record_digest(copy, digest));
    assert_string_equal(digest, expected);
    copy->arena = arena;
    plim_record_free(copy);
    plim_record_free(NULL);
}

/* ---- what a request digest covers ---- */

static const plim_file files[] = {{PLIM_LIT("a"), PLIM_LIT("bc")}, {PLIM_LIT("d"), PLIM_LIT("e")}};
static const plim_bytes steps[] = {PLIM_LIT("one"), PLIM_LIT("two")};
static const plim_bytes paths[] = {PLIM_LIT("out")};

static void digest_of_project(const plim_project_request *project, char *out)
{
    record_request request = {
        .protocol = 3, .timeout_ms = 5, .kind = PLIM_KIND_PROJECT, .project = project};
    assert_true(record_request_digest(&request, out));
}

static void a_project_digest_covers_order_and_boundaries(void **state)
{
    (void)state;
    plim_project_request project = {.files = files,
                                    .file_count = 2,
                                    .steps = steps,
                                    .step_count = 2,
                                    .artifacts = paths,
                                    .artifact_count = 1};
    char base[BASE_SHA256_HEX + 1], other[BASE_SHA256_HEX + 1];
    digest_of_project(&project, base);
    project.options.trace_id = PLIM_LIT("t-1");
    digest_of_project(&project, other);
    assert_string_equal(base, other);

    const plim_file moved[] = {{PLIM_LIT("ab"), PLIM_LIT("c")}, files[1]};
    const plim_file swapped[] = {files[1], files[0]};
    const plim_bytes joined[] = {PLIM_LIT("onetwo")};
    plim_project_request changed[] = {project, project, project, project, project};
    changed[0].files = moved;
    changed[1].files = swapped;
    changed[2].steps = joined, changed[2].step_count = 1;
    changed[3].artifact_count = 0;
    changed[4].grant_profile = PLIM_LIT("g");
    for (size_t i = 0; i < PLIM_COUNT(changed); i++) {
        digest_of_project(&changed[i], other);
        assert_string_not_equal(base, other);
    }
}

static void digest_of_module(const plim_module_request *module, char *out)
{
    record_request request = {.protocol = 3, .kind = PLIM_KIND_MODULE, .module = module};
    assert_true(record_request_digest(&request, out));
}

static void a_module_digest_covers_grouping_and_the_last_bit(void **state)
{
    (void)state;
    double values[] = {1, 2, 3, 4}, last_bit[] = {1, 2, 3, nextafter(4, 5)};
    plim_module_request module = {.model = PLIM_LIT("m"),
                                  .values = values,
                                  .rows = 2,
                                  .width = 2,
                                  .end_time = 1,
                                  .step = 0.5};
    plim_module_request changed[] = {module, module, module, module};
    changed[0].rows = 1, changed[0].width = 4;
    changed[1].values = last_bit;
    changed[2].end_time = 2;
    changed[3].step = 0.25;
    char base[BASE_SHA256_HEX + 1], other[BASE_SHA256_HEX + 1];
    digest_of_module(&module, base);
    for (size_t i = 0; i < PLIM_COUNT(changed); i++) {
        digest_of_module(&changed[i], other);
        assert_string_not_equal(base, other);
    }
}

/* Every double of a wide row reaches the digest, past the writer's block. */
/* Each kind empty, and none: five requests, five digests. */
static void an_empty_payload_is_of_its_kind(void **state)
{
    (void)state;
    plim_javascript_request javascript = {.size = 0};
    plim_project_request project = {.size = 0};
    plim_module_request module = {.size = 0};
    record_cell cell = {.file_count = 0};
    const record_request requests[] = {
        {.protocol = 3},
        {.protocol = 3, .kind = PLIM_KIND_JAVASCRIPT, .javascript = &javascript},
        {.protocol = 3, .kind = PLIM_KIND_PROJECT, .project = &project},
        {.protocol = 3, .kind = PLIM_KIND_MODULE, .module = &module},
        {.protocol = 3, .kind = PLIM_KIND_CELL, .cell = &cell},
    };
    char digests[PLIM_COUNT(requests)][BASE_SHA256_HEX + 1];
    for (size_t i = 0; i < PLIM_COUNT(requests); i++) {
        assert_true(record_request_digest(&requests[i], digests[i]));
        for (size_t before = 0; before < i; before++)
            assert_string_not_equal(digests[before], digests[i]);
    }
}

static void a_request_digest_covers_what_was_asked(void **state)
{
    (void)state;
    const plim_bytes ab[] = {PLIM_LIT("a"), PLIM_LIT("b")}, ba[] = {PLIM_LIT("b"), PLIM_LIT("a")};
    plim_javascript_request snippet = {.code = PLIM_LIT("1")}, code = snippet, grant = snippet;
    code.code = PLIM_LIT("2");
    grant.grant_profile = PLIM_LIT("g");
    record_request good = {.protocol = 3,
                           .timeout_ms = 5,
                           .software = {PLIM_RULE_APPROVED, ab, 2},
                           .kind = PLIM_KIND_JAVASCRIPT,
                           .javascript = &snippet};
    record_request changed[] = {good, good, good, good, good, good, good, good};
    changed[0].protocol = 2;
    changed[1].minimum_isolation = PLIM_LIT("vm");
    changed[2].timeout_ms = 0;
    changed[3].software.mode = PLIM_RULE_EXACT;
    changed[4].software.count = 1;
    changed[5].software.identities = ba;
    changed[6].javascript = &code;
    changed[7].javascript = &grant;
    char base[BASE_SHA256_HEX + 1], other[BASE_SHA256_HEX + 1];
    assert_true(record_request_digest(&good, base));
    for (size_t i = 0; i < PLIM_COUNT(changed); i++) {
        assert_true(record_request_digest(&changed[i], other));
        assert_string_not_equal(base, other);
    }
    snippet.options.trace_id = PLIM_LIT("t");
    snippet.options.timeout_ms = 9;
    assert_true(record_request_digest(&good, other));
    assert_string_equal(base, other);
}

/* ---- what a result's digest covers ---- */

static core_step_result step;
static core_artifact artifact;
static core_module_row row;

static plim_result base_result(plim_kind kind)
{
    static const double outputs[] = {1, 2};
    step = (core_step_result){.command = PLIM_LIT("c"), .limit_reached = ""};
    artifact = (core_artifact){PLIM_LIT("p"), PLIM_LIT("content")};
    row = (core_module_row){1, outputs, 2};
    return (plim_result){.kind = kind,
                         .provider = "p",
                         .isolation = "vm",
                         .limit_reached = "",
                         .steps = &step,
                         .step_count = kind == PLIM_KIND_PROJECT,
                         .artifacts = &artifact,
                         .artifact_count = kind == PLIM_KIND_PROJECT,
                         .rows = &row,
                         .row_count = kind == PLIM_KIND_MODULE};
}

#define CHANGE(name, ...)                                                                          \
    static void name(plim_result *r)                                                               \
    {                                                                                              \
        (void)r;                                                                                   \
        __VA_ARGS__;                                                                               \
    }
CHANGE(out, r->out = PLIM_LIT("x"))
CHANGE(err, r->err = PLIM_LIT("x"))
CHANGE(exit_code, r->exit_code = -1)
CHANGE(timed_out, r->timed_out = true)
CHANGE(out_truncated, r->out_truncated = true)
CHANGE(err_truncated, r->err_truncated = true)
CHANGE(started, r->interpreter_started = true)
CHANGE(ended, r->interpreter_ended = true)
CHANGE(outcome, r->outcome = PLIM_OUTCOME_TIMED_OUT)
CHANGE(detail, r->outcome_detail = PLIM_LIT("x"))
CHANGE(artifacts_truncated, r->artifacts_truncated = true)
CHANGE(no_steps, r->step_count = 0)
CHANGE(no_artifacts, r->artifact_count = 0)
CHANGE(step_command, step.command = PLIM_LIT("x"))
CHANGE(step_exit, step.exit_code = 1)
CHANGE(step_timed_out, step.timed_out = true)
CHANGE(step_out, step.out = PLIM_LIT("x"))
CHANGE(step_err, step.err = PLIM_LIT("x"))
CHANGE(step_out_truncated, step.out_truncated = true)
CHANGE(step_err_truncated, step.err_truncated = true)
CHANGE(artifact_path, artifact.path = PLIM_LIT("x"))
CHANGE(artifact_content, artifact.content = PLIM_LIT("x"))
CHANGE(width, r->width = 2)
CHANGE(row_status, row.status = 0)
CHANGE(row_fewer, row.count = 1)
CHANGE(duration, r->duration_ms = 9; step.duration_ms = 9)
CHANGE(evidence, r->provider = "q"; r->isolation = "none"; r->limit_reached = "memory")

static void a_result_digest_covers_what_came_back(void **state)
{
    (void)state;
    static const struct {
        void (*change)(plim_result *result);
        plim_kind kind;
        bool is_covered;
    } rows[] = {
        {out, PLIM_KIND_JAVASCRIPT, true},
        {err, PLIM_KIND_JAVASCRIPT, true},
        {exit_code, PLIM_KIND_JAVASCRIPT, true},
        {timed_out, PLIM_KIND_JAVASCRIPT, true},
        {out_truncated, PLIM_KIND_JAVASCRIPT, true},
        {err_truncated, PLIM_KIND_JAVASCRIPT, true},
        {duration, PLIM_KIND_JAVASCRIPT, false},
        {evidence, PLIM_KIND_JAVASCRIPT, false},
        {started, PLIM_KIND_CELL, true},
        {ended, PLIM_KIND_CELL, true},
        {outcome, PLIM_KIND_PROJECT, true},
        {detail, PLIM_KIND_PROJECT, true},
        {artifacts_truncated, PLIM_KIND_PROJECT, true},
        {no_steps, PLIM_KIND_PROJECT, true},
        {no_artifacts, PLIM_KIND_PROJECT, true},
        {step_command, PLIM_KIND_PROJECT, true},
        {step_exit, PLIM_KIND_PROJECT, true},
        {step_timed_out, PLIM_KIND_PROJECT, true},
        {step_out, PLIM_KIND_PROJECT, true},
        {step_err, PLIM_KIND_PROJECT, true},
        {step_out_truncated, PLIM_KIND_PROJECT, true},
        {step_err_truncated, PLIM_KIND_PROJECT, true},
        {artifact_path, PLIM_KIND_PROJECT, true},
        {artifact_content, PLIM_KIND_PROJECT, true},
        {duration, PLIM_KIND_PROJECT, false},
        {evidence, PLIM_KIND_PROJECT, false},
        {outcome, PLIM_KIND_MODULE, true},
        {detail, PLIM_KIND_MODULE, true},
        {width, PLIM_KIND_MODULE, true},
        {out, PLIM_KIND_MODULE, true},
        {err, PLIM_KIND_MODULE, true},
        {row_status, PLIM_KIND_MODULE, true},
        {row_fewer, PLIM_KIND_MODULE, true},
        {duration, PLIM_KIND_MODULE, false},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        char before[BASE_SHA256_HEX + 1], after[BASE_SHA256_HEX + 1];
        plim_result result = base_result(rows[i].kind);
        assert_true(record_result_digest(&result, before));
        rows[i].change(&result);
        assert_true(record_result_digest(&result, after));
        if ((strcmp(before, after) != 0) != rows[i].is_covered)
            fail_msg("row %zu", i);
    }
}

static void a_long_row_is_digested_whole(void **state)
{
    (void)state;
    double values[300] = {0};
    core_module_row wide = {1, values, PLIM_COUNT(values)};
    _cleanup_(core_result_freep)
    plim_result *result = core_result_new(PLIM_KIND_MODULE);
    result->rows = &wide;
    result->row_count = 1;
    char base[BASE_SHA256_HEX + 1], other[BASE_SHA256_HEX + 1];
    assert_true(record_result_digest(result, base));
    for (size_t i = 0; i < PLIM_COUNT(values); i++) {
        values[i] = -0.0;
        assert_true(record_result_digest(result, other));
        assert_string_not_equal(base, other);
        values[i] = 0;
    }
}

static double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void every_nan_becomes_the_one(void **state)
{
    (void)state;
    const double odd[] = {1, from_bits(UINT64_C(0xfff8000000000001)), -0.0, INFINITY,
                          from_bits(UINT64_C(0x7ff0000000000001))};
    const double plain[] = {2};
    const core_module_row rows[] = {{1, plain, 1}, {5, odd, PLIM_COUNT(odd)}, {-1, NULL, 0}};
    _cleanup_(core_result_freep)
    plim_result *result = core_result_new(PLIM_KIND_MODULE);
    result->rows = rows;
    result->row_count = PLIM_COUNT(rows);
    assert_true(record_canonical_nan(result));
    assert_ptr_equal(result->rows[0].outputs, plain);
    const double *outputs = result->rows[1].outputs;
    assert_int_equal(bits_of(outputs[0]), bits_of(1));
    assert_int_equal(bits_of(outputs[1]), UINT64_C(0x7ff8000000000000));
    assert_int_equal(bits_of(outputs[2]), UINT64_C(0x8000000000000000));
    assert_int_equal(bits_of(outputs[3]), UINT64_C(0x7ff0000000000000));
    assert_int_equal(bits_of(outputs[4]), UINT64_C(0x7ff8000000000000));
    /* What held the odd bits is not written to: it may be a provider's. */
    assert_int_equal(bits_of(odd[1]), UINT64_C(0xfff8000000000001));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_exchange_checks),
        cmocka_unit_test(each_line_of_the_check_decides),
        cmocka_unit_test(no_field_changes_without_its_digest),
        cmocka_unit_test(a_protocol_1_request_may_have_a_version_1_record),
        cmocka_unit_test(a_session_call_continues_its_chain),
        cmocka_unit_test(each_line_of_the_unanswered_check_decides),
        cmocka_unit_test(a_copy_holds_its_own_text),
        cmocka_unit_test(a_project_digest_covers_order_and_boundaries),
        cmocka_unit_test(a_module_digest_covers_grouping_and_the_last_bit),
        cmocka_unit_test(an_empty_payload_is_of_its_kind),
        cmocka_unit_test(a_request_digest_covers_what_was_asked),
        cmocka_unit_test(a_result_digest_covers_what_came_back),
        cmocka_unit_test(a_long_row_is_digested_whole),
        cmocka_unit_test(every_nan_becomes_the_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
