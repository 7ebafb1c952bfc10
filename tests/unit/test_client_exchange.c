/* Exchanges as bytes: digests and checks of binary messages, against published digests. */
#include "test_client_server.h"

#include <setjmp.h>

#include <cmocka.h>

static plim_bytes encode(base_buf *out, const void *message)
{
    base_buf_free(out);
    out->max = 1 << 20;
    assert_true(wire_encode(WIRE_PROTO, message, out));
    return base_buf_bytes(out);
}

static void expect_request(const wire_run_request *message, const char *digest)
{
    base_buf bytes = BASE_BUF_INIT(0);
    char out[PLIM_DIGEST_HEX_SIZE];
    assert_int_equal(plim_request_digest(encode(&bytes, message), out), PLIM_OK);
    assert_string_equal(out, digest);
    base_buf_free(&bytes);
}

/* The inputs are those of the published vectors of the same names. */
static void published_request_digests_are_reproduced(void **state)
{
    (void)state;
    wire_java_script_run snippet = {.base = WIRE_BASE(java_script_run),
                                    .code = PLIM_LIT("console.log(1+1)")};
    wire_run_request request = {.base = WIRE_BASE(run_request),
                                .protocol = 1,
                                .minimum_isolation = PLIM_LIT("container"),
                                .trace_id = PLIM_LIT("t-1"),
                                .timeout_ms = 5000,
                                .payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_JAVASCRIPT,
                                .javascript = &snippet};
    expect_request(&request, "585a1b46c55ebacc1dfdd4336e302328c32ed3e2e7e8a8b460d252d0454be8fc");
    request.protocol = 2;
    plim_bytes identities[] = {
        PLIM_LIT("oci-manifest:linux/amd64@sha256:"
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        PLIM_LIT("oci-manifest:linux/amd64@sha256:"
                 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")};
    wire_software_rule rule = {.base = WIRE_BASE(software_rule),
                               .mode = PLIM_LIT("approved"),
                               .n_identities = 2,
                               .identities = identities};
    request.software_rule = &rule;
    expect_request(&request, "0b662d4687a062429ab0be85c2445e6c0c9d402922ca223b74e3a1095da7d320");

    wire_project_file main_file = {.base = WIRE_BASE(project_file),
                                   .path = PLIM_LIT("main.js"),
                                   .content = PLIM_LIT("console.log(require('./lib.js'))")};
    wire_project_file lib_file = {.base = WIRE_BASE(project_file),
                                  .path = PLIM_LIT("lib.js"),
                                  .content = PLIM_LIT("module.exports = 42")};
    wire_project_file *files[] = {&main_file, &lib_file};
    plim_bytes steps[] = {PLIM_LIT("node main.js > out.txt"), PLIM_LIT("cat out.txt")};
    plim_bytes artifact = PLIM_LIT("out.txt");
    wire_project_run project = {.base = WIRE_BASE(project_run),
                                .n_files = 2,
                                .files = files,
                                .n_steps = 2,
                                .steps = steps,
                                .n_artifacts = 1,
                                .artifacts = &artifact};
    request = (wire_run_request){.base = WIRE_BASE(run_request),
                                 .protocol = 1,
                                 .timeout_ms = 30000,
                                 .payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_PROJECT,
                                 .project = &project};
    expect_request(&request, "894bec2baf1b52612c2f060ba2aa9080273294e737bae5f3a65ff661b50481d0");

    double rows[2][2] = {{1, 2}, {0.5, -3}};
    wire_module_row first = {.base = WIRE_BASE(module_row), .n_values = 2, .values = rows[0]};
    wire_module_row second = {.base = WIRE_BASE(module_row), .n_values = 2, .values = rows[1]};
    wire_module_row *table[] = {&first, &second};
    wire_module_run module = {.base = WIRE_BASE(module_run),
                              .model = PLIM_LIT("VanDerPol"),
                              .n_rows = 2,
                              .rows = table,
                              .end_time = 1,
                              .step = 0.1};
    request = (wire_run_request){.base = WIRE_BASE(run_request),
                                 .protocol = 1,
                                 .payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_MODULE,
                                 .module = &module};
    expect_request(&request, "3679bdba8fdaa503650e79c970728f869a4cf4882446fbc9742a402195d5b6c1");

    char out[PLIM_DIGEST_HEX_SIZE];
    base_buf bytes = BASE_BUF_INIT(0);
    second.n_values = 1;
    assert_int_equal(plim_request_digest(encode(&bytes, &request), out), PLIM_E_INVALID_REQUEST);
    base_buf_free(&bytes);
}

static void what_is_not_a_message_has_no_digest(void **state)
{
    (void)state;
    char out[PLIM_DIGEST_HEX_SIZE] = "x";
    assert_int_equal(plim_request_digest(PLIM_LIT("\x0A\x05x"), out), PLIM_E_MALFORMED);
    assert_string_equal(out, "");
    assert_int_equal(plim_result_digest(PLIM_LIT("\x0A\x05x"), out), PLIM_E_MALFORMED);
    assert_string_equal(out, "");
    /* An answer without a result has a digest of its own. */
    assert_int_equal(plim_result_digest(PLIM_LIT(""), out), PLIM_OK);
    assert_int_equal(strlen(out), 64);
}

static void spoil_output(wire_run_response *response)
{
    response->javascript->stdout = PLIM_LIT("other");
}

static void drop_result(wire_run_response *response)
{
    response->result_case = 0;
}

/* Check a good answer to a snippet, spoiled. */
static plim_status check(const server_spoiler *spoiler, const char *floor, plim_record **record,
                         plim_error *err)
{
    wire_java_script_run snippet = {.base = WIRE_BASE(java_script_run), .code = PLIM_LIT("1")};
    wire_run_request message = {.base = WIRE_BASE(run_request),
                                .protocol = 3,
                                .minimum_isolation = plim_bytes_of(floor),
                                .payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_JAVASCRIPT,
                                .javascript = &snippet};
    base_buf request = BASE_BUF_INIT(0), response;
    encode(&request, &message);
    server_request sent = {.body = request.data, .body_len = request.len};
    server_run_answer(&sent, spoiler, &response);
    plim_status status =
        plim_check_exchange(base_buf_bytes(&request), base_buf_bytes(&response), record, err);
    base_buf_free(&request);
    base_buf_free(&response);
    return status;
}

static void an_exchange_is_checked_as_a_client_does(void **state)
{
    (void)state;
    plim_error err = PLIM_ERROR_INIT;
    plim_record *record = NULL;
    char digest[PLIM_DIGEST_HEX_SIZE];
    assert_int_equal(check(NULL, "process", &record, &err), PLIM_OK);
    assert_string_equal(plim_record_provider(record), "wasm");
    assert_int_equal(plim_record_digest(record, digest), PLIM_OK);
    assert_string_equal(digest, plim_record_record_sha256(record));
    plim_record_free(record);

    static const server_spoiler output = {.message = spoil_output}, none = {.message = drop_result};
    assert_int_equal(check(&output, "", &record, &err), PLIM_E_RECORD_MISMATCH);
    assert_null(record);
    assert_int_equal(check(&none, "", &record, &err), PLIM_E_RESULT_KIND);
    assert_int_equal(check(NULL, "kernel", &record, &err), PLIM_E_ISOLATION_EVIDENCE);
    assert_true(plim_may_have_run(&err));
    assert_int_equal(plim_check_exchange(PLIM_LIT("\xFF"), PLIM_LIT(""), &record, &err),
                     PLIM_E_MALFORMED);
    assert_true(plim_may_have_run(&err));
    plim_error_clear(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_request_digests_are_reproduced),
        cmocka_unit_test(what_is_not_a_message_has_no_digest),
        cmocka_unit_test(an_exchange_is_checked_as_a_client_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
