/* Binary messages: the decoding rules of the contract, one by one, and the published encodings. */
#include "wire_support.h"

#include <math.h>

static void unknown_fields_are_skipped(void **state)
{
    (void)state;
    /* Numbers 900 as varint, fixed64, bytes, a group with a group in it, fixed32; around field 1.
     */
    wire_run_request *request = PROTO(run_request, "\xa0\x38\x05"
                                                   "\xa1\x38"
                                                   "12345678"
                                                   "\xa2\x38\x03"
                                                   "abc"
                                                   "\x08\x03"
                                                   "\xa3\x38\x0b\x08\x01\x0c\xa4\x38"
                                                   "\xa5\x38"
                                                   "1234");
    assert_int_equal(request->protocol, 3);
    /* The same inside a payload. */
    request = PROTO(run_request, "\x52\x09\x0a\x01"
                                 "a"
                                 "\xa3\x38\x0a\x00\xa4\x38");
    is_text(request->javascript->code, "a");
    /* A known number with a form it cannot have is an unknown field. */
    request = PROTO(run_request, "\x0a\x02"
                                 "ab"
                                 "\x08\x02");
    assert_int_equal(request->protocol, 2);
}

static void last_scalar_wins(void **state)
{
    (void)state;
    wire_run_request *request = PROTO(run_request, "\x08\x02\x08\x03\x1a\x01"
                                                   "a"
                                                   "\x1a\x01"
                                                   "b");
    assert_int_equal(request->protocol, 3);
    is_text(request->trace_id, "b");
}

static void messages_merge(void **state)
{
    (void)state;
    wire_run_request *request = PROTO(run_request, "\x2a\x0a\x0a\x05"
                                                   "exact"
                                                   "\x12\x01"
                                                   "a"
                                                   "\x2a\x03\x12\x01"
                                                   "b");
    is_text(request->software_rule->mode, "exact");
    assert_int_equal(request->software_rule->n_identities, 2);
    is_text(request->software_rule->identities[1], "b");
    /* A oneof's member that comes twice in a row is one message too. */
    request = PROTO(run_request, "\x52\x03\x0a\x01"
                                 "a"
                                 "\x52\x03\x12\x01"
                                 "g");
    is_text(request->javascript->code, "a");
    is_text(request->javascript->grant_profile, "g");
}

static void last_member_wins(void **state)
{
    (void)state;
    wire_run_request *request = PROTO(run_request, "\x52\x03\x0a\x01"
                                                   "a"
                                                   "\x62\x03\x0a\x01"
                                                   "m");
    assert_int_equal(request->payload_case, PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_MODULE);
    is_text(request->module->model, "m");
    /* Back to the first: what it had before is gone. */
    request = PROTO(run_request, "\x52\x03\x0a\x01"
                                 "a"
                                 "\x62\x03\x0a\x01"
                                 "m"
                                 "\x52\x03\x12\x01"
                                 "g");
    assert_int_equal(request->payload_case, PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_JAVASCRIPT);
    is_text(request->javascript->code, "");
    is_text(request->javascript->grant_profile, "g");
    /* What was replaced must still have been well formed. */
    PROTO_REFUSED(run_request, "\x52\x03\x0a\x01\xff\x62\x03\x0a\x01"
                               "m");
}

static void numbers_are_packed_or_not(void **state)
{
    (void)state;
    wire_module_row *row = PROTO(module_row, "\x09\0\0\0\0\0\0\xf0\x3f"
                                             "\x0a\x10\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\x08\x40"
                                             "\x09\0\0\0\0\0\0\x10\x40");
    assert_int_equal(row->n_values, 4);
    for (int i = 0; i < 4; i++)
        assert_true(row->values[i] == i + 1);
    is_text((plim_bytes){encoded(WIRE_PROTO, row).data, 2}, "\x0a\x20");
    PROTO_REFUSED(module_row, "\x0a\x07"
                              "1234567");
}

static void enums_are_open(void **state)
{
    (void)state;
    wire_session_ended *ended = PROTO(session_ended, "\x08\x4d");
    assert_int_equal(ended->reason, 77);
    ended = PROTO(session_ended, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    assert_true((int)ended->reason == -1);
}

static void malformed_bytes_are_refused(void **state)
{
    (void)state;
    PROTO_REFUSED(run_request, "\x08");       /* value missing */
    PROTO_REFUSED(run_request, "\x80");       /* tag cut */
    PROTO_REFUSED(run_request, "\x12\x05vm"); /* bytes cut */
    PROTO_REFUSED(run_request, "\x52\x03\x0a\x05"
                               "a"); /* cut inside */
    PROTO_REFUSED(run_request, "\xa1\x38"
                               "1234567"); /* fixed64 cut */
    PROTO_REFUSED(run_request, "\xa5\x38"
                               "123");                                          /* fixed32 cut */
    PROTO_REFUSED(run_request, "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"); /* length */
    PROTO_REFUSED(run_request, "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"); /* 11 bytes */
    PROTO_REFUSED(run_request, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");     /* 65 bits */
    PROTO_REFUSED(run_request, "\x00\x01");                                         /* number 0 */
    PROTO_REFUSED(run_request, "\x80\x80\x80\x80\x10\x01"); /* number 2^29 */
    PROTO_REFUSED(run_request, "\x0e\x01");                 /* wire type 6 */
    PROTO_REFUSED(run_request, "\x0f\x01");                 /* wire type 7 */
    PROTO_REFUSED(run_request, "\xa4\x38");                 /* end of no group */
    PROTO_REFUSED(run_request, "\xa3\x38");                 /* group unended */
    PROTO_REFUSED(run_request, "\xa3\x38\xac\x38");         /* other number */
    PROTO_REFUSED(run_request, "\x12\x01\xff");             /* not UTF-8 */
    PROTO_REFUSED(run_request, "\x12\x03\xed\xa0\x80");     /* surrogate */
    PROTO_REFUSED(run_request, "\x52\x04\x0a\x02\xc3(");
}

static plim_bytes groups(unsigned depth)
{
    base_buf buf = BASE_BUF_INIT(1024);
    for (unsigned i = 0; i < depth; i++)
        base_buf_add(&buf, PLIM_LIT("\xa3\x38"));
    for (unsigned i = 0; i < depth; i++)
        base_buf_add(&buf, PLIM_LIT("\xa4\x38"));
    plim_bytes kept;
    assert_true(base_arena_dup(arena, base_buf_bytes(&buf), &kept));
    base_buf_free(&buf);
    return kept;
}

static void depth_is_bounded(void **state)
{
    (void)state;
    decoded(WIRE_PROTO, WIRE_TYPE(run_request), groups(100));
    refused(WIRE_PROTO, WIRE_TYPE(run_request), groups(101));
}

/* Every limited list at its limit and one past it, as separate elements. */
static void lists_stop_at_their_limit(void **state)
{
    (void)state;
    static const struct {
        const wire_type *type;
        const char *element;
        size_t size, most;
    } lists[] = {
        {WIRE_TYPE(module_run), "\x12\x00", 2, 100000},
        {WIRE_TYPE(module_row), "\x09\0\0\0\0\0\0\0\0", 9, 64},
        {WIRE_TYPE(project_run), "\x0a\x00", 2, 200},
        {WIRE_TYPE(project_run), "\x12\x00", 2, 20},
        {WIRE_TYPE(project_run), "\x22\x00", 2, 100},
        {WIRE_TYPE(cell_run), "\x1a\x00", 2, 200},
        {WIRE_TYPE(software_rule), "\x12\x00", 2, 32},
        {WIRE_TYPE(open_session_request), "\x3a\x00", 2, 16},
    };
    for (size_t i = 0; i < PLIM_COUNT(lists); i++) {
        base_buf buf = BASE_BUF_INIT(1 << 20);
        for (size_t n = 0; n < lists[i].most; n++)
            base_buf_add(&buf, (plim_bytes){lists[i].element, lists[i].size});
        decoded(WIRE_PROTO, lists[i].type, base_buf_bytes(&buf));
        base_buf_add(&buf, (plim_bytes){lists[i].element, lists[i].size});
        assert_null(decode(WIRE_PROTO, lists[i].type, base_buf_bytes(&buf)));
        assert_int_equal(plim_error_not_dispatched(&error), PLIM_ND_REQUEST);
        assert_string_equal(plim_error_code(&error), "invalid_argument");
        base_buf_free(&buf);
    }
    char packed[3 + 65 * 8] = "\x0a\x80\x04";
    decoded(WIRE_PROTO, WIRE_TYPE(module_row), (plim_bytes){packed, 3 + 64 * 8});
    packed[1] = (char)0x88;
    assert_null(decode(WIRE_PROTO, WIRE_TYPE(module_row), (plim_bytes){packed, 3 + 65 * 8}));
}

/* A list that is within its limit in each of two messages that merge, and past it together. */
static void merged_lists_have_one_limit(void **state)
{
    (void)state;
    base_buf rule = BASE_BUF_INIT(1024), request = BASE_BUF_INIT(4096);
    for (int i = 0; i < 20; i++)
        base_buf_add(&rule, PLIM_LIT("\x12\x00"));
    for (int i = 0; i < 2; i++) {
        base_buf_add(&request, PLIM_LIT("\x2a\x28"));
        base_buf_add(&request, base_buf_bytes(&rule));
    }
    assert_null(decode(WIRE_PROTO, WIRE_TYPE(run_request), base_buf_bytes(&request)));
    assert_int_equal(plim_error_not_dispatched(&error), PLIM_ND_REQUEST);
    base_buf_free(&rule);
    base_buf_free(&request);
}

/* The worst that 8 MiB can hold stays within the arena, and what does not is refused, not served.
 */
static void memory_is_bounded(void **state)
{
    (void)state;
    base_buf json = BASE_BUF_INIT(8 << 20);
    base_buf_add_text(&json, "{\"rows\":[");
    for (int row = 0; row < 100000 && json.len < json.max - 200; row++) {
        base_buf_add_text(&json, row ? ",{\"values\":[0" : "{\"values\":[0");
        for (int i = 1; i < 33; i++)
            base_buf_add_text(&json, ",0");
        base_buf_add_text(&json, "]}");
    }
    base_buf_add_text(&json, "]}");
    assert_false(json.failed);
    wire_module_run *run =
        wire_decode(arena, WIRE_JSON, WIRE_TYPE(module_run), base_buf_bytes(&json), &error);
    assert_non_null(run);
    base_buf_free(&json);
}

static void published_encodings(void **state)
{
    (void)state;
    wire_java_script_run run = {.base = WIRE_BASE(java_script_run),
                                .code = PLIM_LIT("console.log(6*7)")};
    wire_run_request request = {.base = WIRE_BASE(run_request),
                                .protocol = 3,
                                .minimum_isolation = PLIM_LIT("kernel"),
                                .timeout_ms = 2000,
                                .payload_case = PLIMSOLL__V1__RUN_REQUEST__PAYLOAD_JAVASCRIPT,
                                .javascript = &run};
    plim_bytes bytes = encoded(WIRE_PROTO, &request);
    char hex[128];
    assert_int_equal(bytes.len, 33);
    base_hex((const unsigned char *)bytes.data, bytes.len, hex);
    assert_string_equal(hex, "080312066b65726e656c20d00f52120a10636f6e736f6c652e6c6f6728362a3729");
    wire_run_request *back = decoded(WIRE_PROTO, WIRE_TYPE(run_request), bytes);
    is_text(encoded(WIRE_JSON, back), "{\"protocol\":3,\"minimumIsolation\":\"kernel\","
                                      "\"timeoutMs\":2000,\"javascript\":{\"code\":"
                                      "\"console.log(6*7)\"}}");
}

static void details_have_their_published_base64(void **state)
{
    (void)state;
    static const char *const marks[] = {"CAE", "CAI", "CAM", "CAQ", "CAU", "CAY", "CAc"};
    base_buf buf = BASE_BUF_INIT(256);
    for (unsigned i = 0; i < PLIM_COUNT(marks); i++) {
        wire_not_dispatched mark = {.base = WIRE_BASE(not_dispatched),
                                    .reason = (Plimsoll__V1__NotDispatchedReason)(i + 1)};
        base_buf_clear(&buf);
        assert_true(wire_base64_add(&buf, encoded(WIRE_PROTO, &mark), false));
        assert_string_equal(base_buf_text(&buf), marks[i]);
    }
    wire_session_ended ended = {.base = WIRE_BASE(session_ended),
                                .reason = PLIMSOLL__V1__SESSION_END__SESSION_END_NOT_FOUND,
                                .detail = PLIM_LIT("session unknown to this caller")};
    base_buf_clear(&buf);
    assert_true(wire_base64_add(&buf, encoded(WIRE_PROTO, &ended), false));
    assert_string_equal(base_buf_text(&buf), "CAkSHnNlc3Npb24gdW5rbm93biB0byB0aGlzIGNhbGxlcg");
    base_buf_free(&buf);
}

static void negative_and_large_numbers(void **state)
{
    (void)state;
    wire_run_record record = {.base = WIRE_BASE(run_record),
                              .started_unix_ms = INT64_MIN,
                              .sequence = UINT64_MAX,
                              .version = UINT32_MAX};
    wire_run_record *back =
        decoded(WIRE_PROTO, WIRE_TYPE(run_record), encoded(WIRE_PROTO, &record));
    assert_true(back->started_unix_ms == INT64_MIN && back->sequence == UINT64_MAX);
    assert_int_equal(back->version, UINT32_MAX);
    wire_module_row_result row = {.base = WIRE_BASE(module_row_result), .status = -1};
    assert_int_equal(encoded(WIRE_PROTO, &row).len, 11);
    wire_module_run run = {.base = WIRE_BASE(module_run), .step = -0.0};
    assert_int_equal(encoded(WIRE_PROTO, &run).len, 9);
}

static void zeros_are_left_out(void **state)
{
    (void)state;
    wire_run_response response = {.base = WIRE_BASE(run_response)};
    assert_int_equal(encoded(WIRE_PROTO, &response).len, 0);
    wire_cell_result cell = {.base = WIRE_BASE(cell_result)};
    response.result_case = PLIMSOLL__V1__RUN_RESPONSE__RESULT_CELL;
    response.cell = &cell;
    assert_true(base_bytes_equal(encoded(WIRE_PROTO, &response), PLIM_LIT("\x6a\0")));
    decoded(WIRE_PROTO, WIRE_TYPE(run_response), (plim_bytes){NULL, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(unknown_fields_are_skipped),
        WIRE_TEST(last_scalar_wins),
        WIRE_TEST(messages_merge),
        WIRE_TEST(last_member_wins),
        WIRE_TEST(numbers_are_packed_or_not),
        WIRE_TEST(enums_are_open),
        WIRE_TEST(malformed_bytes_are_refused),
        WIRE_TEST(depth_is_bounded),
        WIRE_TEST(lists_stop_at_their_limit),
        WIRE_TEST(merged_lists_have_one_limit),
        WIRE_TEST(memory_is_bounded),
        WIRE_TEST(published_encodings),
        WIRE_TEST(details_have_their_published_base64),
        WIRE_TEST(negative_and_large_numbers),
        WIRE_TEST(zeros_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
