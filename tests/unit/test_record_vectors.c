/* Every vector of record-vectors.json, rebuilt from its fields through the layer's own structs. */
#include "record/record.h"

#include <jansson.h>

#include <setjmp.h>

#include <cmocka.h>

/* The fields of one vector, read in order; repeated names follow one another. */
typedef struct fields {
    base_arena *arena;
    json_t *list;
    size_t at;
} fields;

static plim_bytes content_of(base_arena *arena, json_t *field)
{
    json_t *text = json_object_get(field, "text"), *hex = json_object_get(field, "hex");
    plim_bytes out = {NULL, 0};
    if (text) {
        plim_bytes value = {json_string_value(text), json_string_length(text)};
        assert_true(base_arena_dup(arena, value, &out));
        return out;
    }
    assert_non_null(hex);
    size_t length = json_string_length(hex) / 2;
    char *bytes = base_arena_alloc(arena, length + 1, 1);
    for (size_t i = 0; i < length; i++) {
        unsigned value;
        assert_int_equal(sscanf(json_string_value(hex) + 2 * i, "%2x", &value), 1);
        bytes[i] = (char)value;
    }
    return (plim_bytes){bytes, length};
}

static bool next_is(fields *in, const char *name)
{
    json_t *field = json_array_get(in->list, in->at);
    return field && strcmp(json_string_value(json_object_get(field, "name")), name) == 0;
}

static plim_bytes take(fields *in, const char *name)
{
    if (!next_is(in, name))
        fail_msg("field %zu is not %s", in->at, name);
    return content_of(in->arena, json_array_get(in->list, in->at++));
}

static const char *take_text(fields *in, const char *name)
{
    return take(in, name).data;
}

static int64_t take_int(fields *in, const char *name)
{
    int64_t value = 0;
    assert_true(base_parse_int(take(in, name), &value));
    return value;
}

static uint64_t take_uint(fields *in, const char *name)
{
    return strtoull(take_text(in, name), NULL, 10);
}

static bool take_bool(fields *in, const char *name)
{
    return base_bytes_is(take(in, name), "true");
}

static double *doubles_of(fields *in, plim_bytes bits, size_t *count)
{
    *count = bits.len / 8;
    double *out = base_arena_alloc(in->arena, *count, sizeof(*out));
    for (size_t i = 0; i < *count; i++) {
        uint64_t word = 0;
        for (size_t j = 0; j < 8; j++)
            word = word << 8 | (unsigned char)bits.data[8 * i + j];
        memcpy(&out[i], &word, sizeof(word));
    }
    return out;
}

static double take_double(fields *in, const char *name)
{
    size_t count;
    double *values = doubles_of(in, take(in, name), &count);
    assert_int_equal(count, 1);
    return values[0];
}

static plim_bytes *take_list(fields *in, const char *count_name, const char *name, size_t *count)
{
    *count = take_uint(in, count_name);
    plim_bytes *out = base_arena_alloc(in->arena, *count, sizeof(*out));
    for (size_t i = 0; i < *count; i++)
        out[i] = take(in, name);
    return out;
}

static plim_file *take_files(fields *in, size_t *count)
{
    *count = take_uint(in, "files");
    plim_file *out = base_arena_alloc(in->arena, *count, sizeof(*out));
    for (size_t i = 0; i < *count; i++) {
        out[i].path = take(in, "file_path");
        out[i].content = take(in, "file_content");
    }
    return out;
}

static plim_kind take_kind(fields *in)
{
    plim_bytes name = take(in, "kind");
    for (plim_kind kind = PLIM_KIND_NONE; kind <= PLIM_KIND_CELL; kind++)
        if (base_bytes_is(name, plim_kind_name(kind)))
            return kind;
    fail_msg("unknown kind");
    return PLIM_KIND_NONE;
}

static plim_project_request *take_project(fields *in)
{
    plim_project_request *project = base_arena_alloc(in->arena, 1, sizeof(*project));
    project->grant_profile = take(in, "grant_profile");
    project->files = take_files(in, &project->file_count);
    project->steps = take_list(in, "steps", "step_command", &project->step_count);
    project->artifacts = take_list(in, "artifacts", "artifact_path", &project->artifact_count);
    return project;
}

static plim_module_request *take_module(fields *in)
{
    plim_module_request *module = base_arena_alloc(in->arena, 1, sizeof(*module));
    module->model = take(in, "model");
    module->end_time = take_double(in, "end_time");
    module->step = take_double(in, "step");
    module->rows = take_uint(in, "rows");
    double *all = NULL;
    for (size_t i = 0; i < module->rows; i++) {
        double *row = doubles_of(in, take(in, "row_values"), &module->width);
        if (!all)
            all = base_arena_alloc(in->arena, module->rows * module->width, sizeof(*all));
        memcpy(all + i * module->width, row, module->width * sizeof(*row));
    }
    module->values = all;
    return module;
}

static record_request take_request(fields *in, bool has_software)
{
    record_request request = {.protocol = (uint32_t)take_uint(in, "protocol"),
                              .minimum_isolation = take(in, "minimum_isolation"),
                              .timeout_ms = (int32_t)take_int(in, "timeout_ms")};
    if (has_software) {
        plim_bytes mode = take(in, "software_mode");
        request.software.mode = base_bytes_is(mode, "exact")      ? PLIM_RULE_EXACT
                                : base_bytes_is(mode, "approved") ? PLIM_RULE_APPROVED
                                                                  : PLIM_RULE_NONE;
        request.software.identities =
            take_list(in, "software_identities", "software_identity", &request.software.count);
    }
    request.kind = take_kind(in);
    if (request.kind == PLIM_KIND_JAVASCRIPT) {
        plim_javascript_request *snippet = base_arena_alloc(in->arena, 1, sizeof(*snippet));
        snippet->code = take(in, "code");
        snippet->grant_profile = take(in, "grant_profile");
        request.javascript = snippet;
    } else if (request.kind == PLIM_KIND_PROJECT) {
        request.project = take_project(in);
    } else if (request.kind == PLIM_KIND_MODULE) {
        request.module = take_module(in);
    } else if (request.kind == PLIM_KIND_CELL) {
        record_cell *cell = base_arena_alloc(in->arena, 1, sizeof(*cell));
        cell->language = take(in, "language");
        cell->code = take(in, "code");
        cell->files = take_files(in, &cell->file_count);
        request.cell = cell;
    }
    return request;
}

static void take_run_result(fields *in, plim_result *result)
{
    result->exit_code = (int32_t)take_int(in, "exit_code");
    result->timed_out = take_bool(in, "timed_out");
    result->out = take(in, "stdout");
    result->err = take(in, "stderr");
    result->out_truncated = take_bool(in, "stdout_truncated");
    result->err_truncated = take_bool(in, "stderr_truncated");
}

static void take_project_result(fields *in, plim_result *result)
{
    result->outcome = (plim_outcome)take_int(in, "outcome");
    result->outcome_detail = take(in, "outcome_detail");
    result->artifacts_truncated = take_bool(in, "artifacts_truncated");
    result->step_count = take_uint(in, "steps");
    core_step_result *steps = base_arena_alloc(in->arena, result->step_count, sizeof(*steps));
    for (size_t i = 0; i < result->step_count; i++) {
        steps[i].command = take(in, "step_command");
        steps[i].exit_code = (int32_t)take_int(in, "step_exit_code");
        steps[i].timed_out = take_bool(in, "step_timed_out");
        steps[i].out = take(in, "step_stdout");
        steps[i].err = take(in, "step_stderr");
        steps[i].out_truncated = take_bool(in, "step_stdout_truncated");
        steps[i].err_truncated = take_bool(in, "step_stderr_truncated");
        steps[i].duration_ms = 12345; /* in no digest */
    }
    result->steps = steps;
    result->artifact_count = take_uint(in, "artifacts");
    core_artifact *artifacts =
        base_arena_alloc(in->arena, result->artifact_count, sizeof(*artifacts));
    for (size_t i = 0; i < result->artifact_count; i++) {
        artifacts[i].path = take(in, "artifact_path");
        artifacts[i].content = take(in, "artifact_content");
    }
    result->artifacts = artifacts;
}

static void take_module_result(fields *in, plim_result *result)
{
    result->outcome = (plim_outcome)take_int(in, "outcome");
    result->outcome_detail = take(in, "outcome_detail");
    result->width = (int32_t)take_int(in, "width");
    result->out = take(in, "stdout");
    result->err = take(in, "stderr");
    result->row_count = take_uint(in, "runs");
    core_module_row *rows = base_arena_alloc(in->arena, result->row_count, sizeof(*rows));
    for (size_t i = 0; i < result->row_count; i++) {
        rows[i].status = (int32_t)take_int(in, "run_status");
        rows[i].outputs = doubles_of(in, take(in, "run_outputs"), &rows[i].count);
    }
    result->rows = rows;
}

static void digest_result(fields *in, char out[BASE_SHA256_HEX + 1])
{
    _cleanup_(core_result_freep)
    plim_result *result = core_result_new(take_kind(in));
    result->provider = "another"; /* evidence and durations are in no result digest */
    result->duration_ms = 77;
    if (result->kind == PLIM_KIND_PROJECT) {
        take_project_result(in, result);
    } else if (result->kind == PLIM_KIND_MODULE) {
        take_module_result(in, result);
    } else if (result->kind != PLIM_KIND_NONE) {
        take_run_result(in, result);
    }
    if (result->kind == PLIM_KIND_CELL) {
        result->interpreter_started = take_bool(in, "interpreter_started");
        result->interpreter_ended = take_bool(in, "interpreter_ended");
    }
    assert_true(record_canonical_nan(result));
    assert_true(record_result_digest(result, out));
}

static plim_record take_record(fields *in, uint32_t version)
{
    plim_record record = RECORD_INIT;
    record.version = version;
    record.request_sha256 = take_text(in, "request_sha256");
    record.result_sha256 = take_text(in, "result_sha256");
    if (version == 3)
        record.unanswered = take_text(in, "unanswered");
    record.provider = take_text(in, "provider");
    record.isolation = take_text(in, "isolation");
    record.environment = take_text(in, "environment");
    record.policy = take_text(in, "policy");
    if (version >= 2) {
        record.software_identity = take_text(in, "software_identity");
        record.software_rule_id = take_text(in, "software_rule_id");
    }
    record.started_unix_ms = take_int(in, "started_unix_ms");
    record.ended_unix_ms = take_int(in, "ended_unix_ms");
    record.session = take_text(in, "session");
    record.sequence = take_uint(in, "sequence");
    record.previous_sha256 = take_text(in, "previous_sha256");
    return record;
}

static void digest_fields(fields *in, const char *domain, char out[BASE_SHA256_HEX + 1])
{
    uint32_t version = (uint32_t)(domain[strlen(domain) - 1] - '0');
    if (strncmp(domain, "plimsoll.run-request.", 21) == 0) {
        record_request request = take_request(in, version == 2);
        assert_true(record_request_digest(&request, out));
    } else if (strncmp(domain, "plimsoll.run-result.", 20) == 0) {
        digest_result(in, out);
    } else if (strncmp(domain, "plimsoll.run-record.", 20) == 0) {
        plim_record record = take_record(in, version);
        assert_int_equal(plim_record_digest(&record, out), PLIM_OK);
    } else {
        fail_msg("unknown domain %s", domain);
    }
    assert_int_equal(in->at, json_array_size(in->list));
}

static void digest_plain(base_arena *arena, json_t *vector, char out[BASE_SHA256_HEX + 1])
{
    const char *name = json_string_value(json_object_get(vector, "name"));
    plim_bytes content = content_of(arena, json_object_get(vector, "input"));
    if (strcmp(name, "session fingerprint") == 0)
        assert_int_equal(plim_session_fingerprint_of(content, out), PLIM_OK);
    else
        assert_true(base_sha256_hex_of(content, out));
}

static void digest_owner(json_t *vector, char out[BASE_SHA256_HEX + 1])
{
    json_t *input = json_object_get(vector, "input");
    plim_bytes token = plim_bytes_of(json_string_value(json_object_get(input, "token")));
    plim_bytes owner = plim_bytes_of(json_string_value(json_object_get(input, "owner")));
    assert_int_equal(plim_owner_digest(token, owner, out), PLIM_OK);
}

static void every_vector_is_reproduced(void **state)
{
    (void)state;
    json_error_t error;
    json_t *file = json_load_file(RECORD_VECTORS, 0, &error);
    if (!file)
        fail_msg("%s: %s", RECORD_VECTORS, error.text);
    json_t *vectors = json_object_get(file, "vectors"), *vector;
    size_t index;
    assert_int_equal(json_array_size(vectors), 42);
    json_array_foreach(vectors, index, vector)
    {
        base_arena *arena = base_arena_new(1 << 20);
        char digest[BASE_SHA256_HEX + 1] = "";
        const char *encoding = json_string_value(json_object_get(vector, "encoding"));
        if (strcmp(encoding, "fields") == 0) {
            fields in = {arena, json_object_get(vector, "input"), 0};
            digest_fields(&in, json_string_value(json_object_get(vector, "domain")), digest);
        } else if (strcmp(encoding, "owner") == 0) {
            digest_owner(vector, digest);
        } else {
            digest_plain(arena, vector, digest);
        }
        if (strcmp(digest, json_string_value(json_object_get(vector, "sha256"))) != 0)
            fail_msg("%s: got %s", json_string_value(json_object_get(vector, "name")), digest);
        base_arena_free(arena);
    }
    json_decref(file);
}

/* The rule ID vector is the bytes under the digest; here is the ID built from them. */
static void a_rule_id_does_not_depend_on_order(void **state)
{
    (void)state;
    plim_bytes ab[] = {PLIM_LIT("a:1"), PLIM_LIT("b:2")}, ba[] = {ab[1], ab[0]};
    char first[PLIM_RULE_ID_SIZE], second[PLIM_RULE_ID_SIZE], hash[PLIM_DIGEST_HEX_SIZE];
    plim_software_rule rule = {PLIM_RULE_APPROVED, ab, 2};
    assert_int_equal(plim_rule_id(&rule, first), PLIM_OK);
    rule.identities = ba;
    assert_int_equal(plim_rule_id(&rule, second), PLIM_OK);
    assert_string_equal(first, second);
    assert_true(base_sha256_hex_of(PLIM_LIT("a:1\0b:2"), hash));
    assert_string_equal(first + strlen("approved:sha256:"), hash);

    rule.count = 1;
    assert_int_equal(plim_rule_id(&rule, first), PLIM_OK);
    assert_string_equal(first, "exact:b:2");
    rule = (plim_software_rule){PLIM_RULE_NONE, NULL, 0};
    assert_int_equal(plim_rule_id(&rule, first), PLIM_OK);
    assert_string_equal(first, "");
    rule = (plim_software_rule){PLIM_RULE_EXACT, ab, 2};
    assert_int_equal(plim_rule_id(&rule, first), PLIM_E_INVALID_REQUEST);
    assert_string_equal(first, "");
}

static void an_empty_owner_is_refused(void **state)
{
    (void)state;
    char out[PLIM_DIGEST_HEX_SIZE];
    assert_int_equal(plim_owner_digest(PLIM_LIT("token"), PLIM_LIT(""), out),
                     PLIM_E_INVALID_REQUEST);
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_is_reproduced),
        cmocka_unit_test(a_rule_id_does_not_depend_on_order),
        cmocka_unit_test(an_empty_owner_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
