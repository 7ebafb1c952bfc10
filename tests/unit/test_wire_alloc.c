/*
 * Every allocation of a decode, a conversion and an answer fails once. Nothing crashes or leaks,
 * and what fails says so: a request that was not decoded is marked, as nothing ran. The program is
 * linked so that malloc, calloc and realloc come here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"

#include "rpc/call.h"

static long countdown = -1; /* allocations until one fails; below 0: none does */
static bool failed;

static bool alloc_fails(void)
{
    if (countdown < 0 || countdown-- > 0)
        return false;
    failed = true;
    return true;
}

/* Run `work` with each of its allocations failing in turn, until it gets through without. */
static long fail_each(bool (*work)(plim_error *err))
{
    for (long nth = 0; nth < 100000; nth++) {
        plim_error err = PLIM_ERROR_INIT;
        failed = false;
        countdown = nth;
        bool worked = work(&err);
        countdown = -1;
        if (!failed) {
            assert_true(worked);
            return nth;
        }
        if (!worked && err.status == PLIM_E_NOMEM)
            assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_REQUEST);
        plim_error_clear(&err);
    }
    fail_msg("allocations without end");
    return 0;
}

/* ---- requests ---- */

static const char *json;

static bool read_json(plim_error *err)
{
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(WIRE_DECODE_BYTES_MAX);
    if (!arena)
        return plim_refuse_nomem(err);
    core_request request;
    wire_run_request *in =
        wire_decode(arena, WIRE_JSON, WIRE_TYPE(run_request), plim_bytes_of(json), err);
    if (!in || !wire_read_request(arena, in, &request, err))
        return false;
    wire_run_request *back = wire_write_request(arena, &request);
    _cleanup_buf_ base_buf bytes = BASE_BUF_INIT(1 << 20), text = BASE_BUF_INIT(1 << 20);
    if (!back || !wire_encode(WIRE_PROTO, back, &bytes) || !wire_encode(WIRE_JSON, back, &text))
        return false;
    return wire_decode(arena, WIRE_PROTO, WIRE_TYPE(run_request), base_buf_bytes(&bytes), err) !=
           NULL;
}

static void requests(void **state)
{
    (void)state;
    static const char *const all[] = {
        "{\"protocol\":3,\"javascript\":{\"code\":\"\\u0031\",\"\\u0067rantProfile\":\"\"}}",
        "{\"protocol\":3,\"softwareRule\":{\"mode\":\"approved\",\"identities\":[\"a\",\"\\u0062\"]"
        "},"
        "\"project\":{\"files\":[{\"path\":\"a\",\"content\":\"\\n\"},{\"path\":\"b\"}],"
        "\"steps\":[\"make\"],\"artifacts\":[\"o\"]}}",
        "{\"protocol\":3,\"module\":{\"model\":\"m\",\"rows\":[{\"values\":[1,2]},{\"values\":[3,4]"
        "}],"
        "\"endTime\":10,\"step\":0.12345678901234567890123456789012345678901234567890123456789012}"
        "}",
    };
    for (size_t i = 0; i < PLIM_COUNT(all); i++) {
        json = all[i];
        assert_true(fail_each(read_json) > 3);
    }
}

/* A merge needs memory of its own. */
static bool merge(plim_error *err)
{
    static const plim_bytes in = PLIM_LIT("\x2a\x0a\x0a\x05"
                                          "exact\x12\x01"
                                          "a\x2a\x03\x12\x01"
                                          "b");
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(1 << 20);
    if (!arena)
        return plim_refuse_nomem(err);
    return wire_decode(arena, WIRE_PROTO, WIRE_TYPE(run_request), in, err) != NULL;
}

static void merges(void **state)
{
    (void)state;
    assert_true(fail_each(merge) > 1);
}

/* ---- answers ---- */

static plim_kind kind;

static plim_result *make_result(void)
{
    static const core_step_result steps[] = {
        {PLIM_LIT("\xff"), PLIM_LIT("o"), PLIM_LIT("e"), 0, false, false, false, 1, ""}};
    static const core_artifact artifacts[] = {{PLIM_LIT("\xfe"), PLIM_LIT("c")}};
    static const double outputs[] = {0.1, 1e300};
    static const core_module_row rows[] = {{1, outputs, 2}};
    plim_result *result = core_result_new(kind);
    if (!result)
        return NULL;
    result->out = PLIM_LIT("out");
    result->outcome_detail = PLIM_LIT("\xff");
    result->steps = steps;
    result->step_count = 1;
    result->artifacts = artifacts;
    result->artifact_count = 1;
    result->rows = rows;
    result->row_count = 1;
    result->width = 2;
    return result;
}

static bool answer(plim_error *err)
{
    (void)err;
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(1 << 20);
    _cleanup_(core_result_freep)
    plim_result *result = make_result();
    if (!arena || !result || !wire_repair_result(result))
        return false;
    plim_record record = RECORD_INIT;
    wire_run_response *response = wire_write_result(arena, result);
    if (!response || !(response->record = wire_write_record(arena, &record)))
        return false;
    _cleanup_(core_result_freep)
    plim_result *back = wire_read_result(response);
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(1 << 20), packed = BASE_BUF_INIT(1 << 20);
    _cleanup_buf_ base_buf plain = BASE_BUF_INIT(1 << 20);
    return back && wire_read_record(arena, response->record) &&
           wire_encode(WIRE_JSON, response, &text) && rpc_deflate(base_buf_bytes(&text), &packed) &&
           rpc_inflate(base_buf_bytes(&packed), &plain) == RPC_GZIP_OK;
}

static void answers(void **state)
{
    (void)state;
    for (kind = PLIM_KIND_NONE; kind <= PLIM_KIND_CELL; kind++)
        assert_true(fail_each(answer) > 3);
}

static bool describe(plim_error *err)
{
    (void)err;
    static const core_description now = {
        .provider = "p",
        .environment = {[PLIM_KIND_PROJECT] = {.javascript = true, .python = true}}};
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(1 << 20);
    return arena && wire_write_description(arena, &now, 3);
}

static bool write_error(plim_error *err)
{
    plim_error refusal = PLIM_ERROR_INIT;
    (void)err;
    core_refuse_request(&refusal, "no\xff");
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(4096), message = BASE_BUF_INIT(4096);
    _cleanup_buf_ base_buf details = BASE_BUF_INIT(4096);
    return rpc_error_json(&refusal, NULL, "a.B", &text) &&
           rpc_error_grpc(&refusal, NULL, "a.B", &message, &details);
}

static void descriptions_and_errors(void **state)
{
    (void)state;
    assert_true(fail_each(describe) >= 2);
    assert_true(fail_each(write_error) >= 3);
}

static bool make_server(plim_error *err)
{
    rpc_config config;
    rpc_sandbox_config(NULL, 4, &config);
    _cleanup_(rpc_server_freep)
    rpc_server *server = rpc_server_new(&config, err);
    return server != NULL;
}

static void servers(void **state)
{
    (void)state;
    assert_int_equal(fail_each(make_server), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests), cmocka_unit_test(merges),
        cmocka_unit_test(answers),  cmocka_unit_test(descriptions_and_errors),
        cmocka_unit_test(servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
