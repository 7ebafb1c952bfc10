/* The pure parts of the transport: tokens, content types, timeouts, envelopes, gzip, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rpc/call.h"
#include "rpc/procedures.h"

static void is(plim_bytes bytes, const char *expected)
{
    if (!base_bytes_is(bytes, expected))
        fail_msg("\"%.*s\" is not \"%s\"", (int)bytes.len, bytes.data, expected);
}

static void tokens(void **state)
{
    (void)state;
    static const char *const good[] = {"Bearer abc", "bearer abc", "BEARER abc", " Bearer \t abc "};
    static const char *const bad[] = {"",        "abc",        "Basic abc", "Bearer",
                                      "Bearer ", "Bearer a b", "Bear abc",  "Bearerabc"};
    for (size_t i = 0; i < PLIM_COUNT(good); i++)
        is(rpc_bearer_token(plim_bytes_of(good[i])), "abc");
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        is(rpc_bearer_token(plim_bytes_of(bad[i])), "");
    is(rpc_bearer_token((plim_bytes){NULL, 0}), "");
}

static void content_types(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        rpc_protocol protocol;
        wire_codec codec;
    } good[] = {
        {"application/proto", RPC_CONNECT, WIRE_PROTO},
        {"Application/JSON", RPC_CONNECT, WIRE_JSON},
        {"application/json; charset=utf-8", RPC_CONNECT, WIRE_JSON},
        {"application/json;charset=UTF-8", RPC_CONNECT, WIRE_JSON},
        {"application/grpc", RPC_GRPC, WIRE_PROTO},
        {"application/grpc+proto", RPC_GRPC, WIRE_PROTO},
        {"application/grpc+json", RPC_GRPC, WIRE_JSON},
        {"application/grpc+json; charset=utf-8", RPC_GRPC, WIRE_JSON},
        {"application/grpc-web", RPC_GRPC_WEB, WIRE_PROTO},
        {"application/grpc-web+proto", RPC_GRPC_WEB, WIRE_PROTO},
        {"application/grpc-web+json", RPC_GRPC_WEB, WIRE_JSON},
    };
    static const char *const bad[] = {
        "",
        "text/plain",
        "application/connect+proto",
        "application/connect+json",
        "application/grpc-web-text",
        "application/grpc-web-text+proto",
        "application/protobuf",
        "application/json; charset=latin1",
        "application/json;",
        "application/proto; charset=utf-8",
        "application/jsonx",
        "application/json, application/proto",
    };
    rpc_framing framing;
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        if (!rpc_read_content_type(plim_bytes_of(good[i].value), &framing))
            fail_msg("%s is not served", good[i].value);
        assert_int_equal(framing.protocol, good[i].protocol);
        assert_int_equal(framing.codec, good[i].codec);
    }
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        if (rpc_read_content_type(plim_bytes_of(bad[i]), &framing))
            fail_msg("%s is served", bad[i]);
    assert_false(rpc_read_content_type((plim_bytes){NULL, 0}, &framing));
}

static void connect_timeouts(void **state)
{
    (void)state;
    int64_t deadline;
    assert_true(rpc_connect_timeout(PLIM_LIT("1500"), 7, &deadline));
    assert_int_equal(deadline, 7 + 1500 * BASE_NS_PER_MS);
    assert_true(rpc_connect_timeout(PLIM_LIT("0"), 7, &deadline) && deadline == 7);
    assert_true(rpc_connect_timeout(PLIM_LIT("-5"), 7, &deadline) && deadline == 7);
    assert_true(rpc_connect_timeout(PLIM_LIT("9999999999"), 7, &deadline));
    static const char *const bad[] = {"12345678901", "1.5", "1s", "abc", " 1", "-"};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        assert_false(rpc_connect_timeout(plim_bytes_of(bad[i]), 7, &deadline));
}

static void grpc_timeouts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"1H", 3600 * BASE_NS_PER_S},
                {"2M", 120 * BASE_NS_PER_S},
                {"3S", 3 * BASE_NS_PER_S},
                {"4m", 4 * BASE_NS_PER_MS},
                {"5u", 5000},
                {"6n", 6},
                {"0S", 0},
                {"99999999n", 99999999}};
    int64_t deadline;
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        assert_true(rpc_grpc_timeout(plim_bytes_of(good[i].text), 7, &deadline));
        assert_int_equal(deadline, 7 + good[i].ns);
    }
    assert_true(rpc_grpc_timeout(PLIM_LIT("99999999H"), 7, &deadline));
    assert_int_equal(deadline, BASE_NEVER);
    static const char *const bad[] = {"",    "S",   "1",    "123456789S", "1s",
                                      "-1S", "+1S", "1.5S", " 1S"};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        assert_false(rpc_grpc_timeout(plim_bytes_of(bad[i]), 7, &deadline));
}

/* ---- bodies ---- */

static bool unwrap(rpc_framing framing, plim_bytes body, size_t most, base_buf *inflated,
                   plim_bytes *message, plim_error *err)
{
    plim_error_clear(err);
    return rpc_unwrap(&framing, body, most, inflated, message, err);
}

static void envelopes(void **state)
{
    (void)state;
    static const rpc_framing grpc = {.protocol = RPC_GRPC};
    static const struct {
        plim_bytes body;
        const char *code;
    } bad[] = {
        {PLIM_LIT(""), "unimplemented"},
        {PLIM_LIT("\0\0\0"), "invalid_argument"},
        {PLIM_LIT("\0\0\0\0\2a"), "invalid_argument"},
        {PLIM_LIT("\0\0\0\0\0\0\0\0\0\0"), "unimplemented"},
        {PLIM_LIT("\0\0\0\0\1ab"), "unimplemented"},
        {PLIM_LIT("\0\0\0\0\x0b"), "resource_exhausted"},
        {PLIM_LIT("\0\xff\xff\xff\xff"), "resource_exhausted"},
        {PLIM_LIT("\1\0\0\0\1a"), "internal"},
        {PLIM_LIT("\2\0\0\0\1a"), "internal"},
        {PLIM_LIT("\x80\0\0\0\1a"), "internal"},
    };
    plim_error err = PLIM_ERROR_INIT;
    base_buf inflated = BASE_BUF_INIT(0);
    plim_bytes message;
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        assert_false(unwrap(grpc, bad[i].body, 10, &inflated, &message, &err));
        assert_string_equal(plim_error_code(&err), bad[i].code);
        assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_NONE);
    }
    assert_true(unwrap(grpc, PLIM_LIT("\0\0\0\0\2ab"), 10, &inflated, &message, &err));
    is(message, "ab");
    assert_true(unwrap(grpc, PLIM_LIT("\0\0\0\0\0"), 10, &inflated, &message, &err));
    is(message, "");
    assert_true(unwrap((rpc_framing){0}, PLIM_LIT("ab"), 10, &inflated, &message, &err));
    is(message, "ab");
}

static void gzip_of(plim_bytes plain, base_buf *out)
{
    *out = BASE_BUF_INIT(1 << 20);
    assert_true(rpc_deflate(plain, out));
}

static void gzip_messages(void **state)
{
    (void)state;
    static const rpc_framing gzip = {.protocol = RPC_CONNECT, .request_gzip = true};
    plim_error err = PLIM_ERROR_INIT;
    base_buf packed, inflated = BASE_BUF_INIT(0);
    plim_bytes message;
    gzip_of(PLIM_LIT("hello"), &packed);
    plim_bytes body = base_buf_bytes(&packed);
    assert_true(unwrap(gzip, body, 5, &inflated, &message, &err));
    is(message, "hello");
    base_buf_free(&inflated);
    assert_false(unwrap(gzip, body, 4, &inflated, &message, &err));
    assert_string_equal(plim_error_code(&err), "resource_exhausted");
    base_buf_free(&inflated);
    for (size_t cut = 1; cut < body.len; cut++) {
        assert_false(unwrap(gzip, (plim_bytes){body.data, cut}, 5, &inflated, &message, &err));
        assert_string_equal(plim_error_code(&err), "invalid_argument");
        base_buf_free(&inflated);
    }
    /* A second member is more of the same stream; anything else after it is not. */
    base_buf two = BASE_BUF_INIT(1024);
    base_buf_add(&two, body);
    base_buf_add(&two, body);
    assert_true(unwrap(gzip, base_buf_bytes(&two), 10, &inflated, &message, &err));
    is(message, "hellohello");
    base_buf_free(&inflated);
    assert_false(unwrap(gzip, base_buf_bytes(&two), 9, &inflated, &message, &err));
    assert_string_equal(plim_error_code(&err), "resource_exhausted");
    base_buf_free(&inflated);
    base_buf_add_text(&packed, "x");
    assert_false(unwrap(gzip, base_buf_bytes(&packed), 10, &inflated, &message, &err));
    assert_string_equal(plim_error_code(&err), "invalid_argument");
    base_buf_free(&inflated);
    assert_false(unwrap(gzip, PLIM_LIT("hello"), 10, &inflated, &message, &err));
    base_buf_free(&inflated);
    assert_true(unwrap(gzip, PLIM_LIT(""), 10, &inflated, &message, &err));
    is(message, "");
    base_buf_free(&packed);
    base_buf_free(&two);
}

/* 1 GiB of zeros in a body of about 1 MiB: given up at 8 MiB. */
static void gzip_bombs(void **state)
{
    (void)state;
    base_buf zeros = BASE_BUF_INIT(1 << 20), packed, bomb = BASE_BUF_INIT(8 << 20), out;
    char *room = base_buf_reserve(&zeros, 1 << 20);
    assert_non_null(room);
    memset(room, 0, 1 << 20);
    zeros.len = 1 << 20;
    gzip_of(base_buf_bytes(&zeros), &packed);
    for (int i = 0; i < 1024; i++)
        base_buf_add(&bomb, base_buf_bytes(&packed));
    assert_false(bomb.failed);
    out = BASE_BUF_INIT(8 << 20);
    assert_int_equal(rpc_inflate(base_buf_bytes(&bomb), &out), RPC_GZIP_TOO_LARGE);
    assert_true(out.capacity <= (8 << 20) + 1);
    base_buf_free(&out);
    base_buf_free(&zeros);
    base_buf_free(&packed);
    base_buf_free(&bomb);
}

static void compressed_envelopes(void **state)
{
    (void)state;
    static const rpc_framing grpc = {.protocol = RPC_GRPC, .request_gzip = true};
    plim_error err = PLIM_ERROR_INIT;
    base_buf packed, body = BASE_BUF_INIT(1024), inflated = BASE_BUF_INIT(0);
    plim_bytes message;
    gzip_of(PLIM_LIT("hello"), &packed);
    base_buf_add(&body, PLIM_LIT("\1\0\0\0"));
    base_buf_add_byte(&body, (char)packed.len);
    base_buf_add(&body, base_buf_bytes(&packed));
    assert_true(unwrap(grpc, base_buf_bytes(&body), 100, &inflated, &message, &err));
    is(message, "hello");
    base_buf_free(&inflated);
    /* The encoding is named, the message does not use it. */
    assert_true(unwrap(grpc, PLIM_LIT("\0\0\0\0\2ab"), 10, &inflated, &message, &err));
    is(message, "ab");
    base_buf_free(&packed);
    base_buf_free(&body);
}

/* ---- errors ---- */

#define MARK "plimsoll.v1.NotDispatched"

static void errors_as_json(void **state)
{
    (void)state;
    base_buf out = BASE_BUF_INIT(4096);
    plim_error err = PLIM_ERROR_INIT;
    static const char *const marks[] = {"", "CAE", "CAI", "CAM", "CAQ", "CAU", "CAY", "CAc"};
    plim_fail(&err, PLIM_E_REMOTE, PLIM_CODE_UNAVAILABLE, "%s", "");
    assert_true(rpc_error_json(&err, NULL, MARK, &out));
    assert_string_equal(base_buf_text(&out), "{\"code\":\"unavailable\"}");
    plim_fail(&err, PLIM_E_REMOTE, PLIM_CODE_NOT_FOUND, "a \"b\"\n\xff");
    base_buf_clear(&out);
    assert_true(rpc_error_json(&err, NULL, MARK, &out));
    assert_string_equal(base_buf_text(&out),
                        "{\"code\":\"not_found\",\"message\":\"a \\\"b\\\"\\n\xef\xbf\xbd\"}");
    for (int reason = PLIM_ND_REQUEST; reason <= PLIM_ND_ENVIRONMENT; reason++) {
        char want[256];
        plim_refuse(&err, PLIM_E_REMOTE, PLIM_CODE_RESOURCE_EXHAUSTED, (plim_not_dispatched)reason,
                    "rate");
        base_buf_clear(&out);
        assert_true(rpc_error_json(&err, NULL, MARK, &out));
        snprintf(want, sizeof(want),
                 "{\"code\":\"resource_exhausted\",\"message\":\"rate\",\"details\":[{\"type\":"
                 "\"plimsoll.v1.NotDispatched\",\"value\":\"%s\"}]}",
                 marks[reason]);
        assert_string_equal(base_buf_text(&out), want);
    }
    base_buf_free(&out);
}

static void details_come_before_the_mark(void **state)
{
    (void)state;
    base_buf out = BASE_BUF_INIT(4096);
    plim_error err = PLIM_ERROR_INIT;
    rpc_extras extras = {.detail_count = 1,
                         .details = {{PLIM_LIT("plimsoll.v1.SessionEnded"), PLIM_LIT("\x08\x02")}}};
    core_refuse_request(&err, "%s", "");
    assert_true(rpc_error_json(&err, &extras, MARK, &out));
    assert_string_equal(
        base_buf_text(&out),
        "{\"code\":\"invalid_argument\",\"details\":[{\"type\":\"plimsoll.v1.SessionEnded\","
        "\"value\":\"CAI\"},{\"type\":\"plimsoll.v1.NotDispatched\",\"value\":\"CAE\"}]}");
    base_buf_free(&out);
}

static void errors_as_trailers(void **state)
{
    (void)state;
    base_buf message = BASE_BUF_INIT(4096), details = BASE_BUF_INIT(4096);
    plim_error err = PLIM_ERROR_INIT;
    plim_fail(&err, PLIM_E_REMOTE, PLIM_CODE_ABORTED, "100%% é\n ~");
    assert_true(rpc_error_grpc(&err, NULL, MARK, &message, &details));
    assert_string_equal(base_buf_text(&message), "100%25 %C3%A9%0A ~");
    assert_int_equal(details.len, 0);
    base_buf_clear(&message);
    /* No header's value begins or ends with a space, so such an answer could not be sent. */
    plim_fail(&err, PLIM_E_REMOTE, PLIM_CODE_ABORTED, " a b ");
    assert_true(rpc_error_grpc(&err, NULL, MARK, &message, &details));
    assert_string_equal(base_buf_text(&message), "%20a b%20");
    base_buf_clear(&message);
    core_refuse_request(&err, "no");
    assert_true(rpc_error_grpc(&err, NULL, MARK, &message, &details));
    char bytes[256];
    size_t length;
    assert_true(wire_base64_decode(base_buf_bytes(&details), bytes, &length));
    static const char want[] = "\x08\x03\x12\x02no\x1a\x33\x0a\x2dtype.googleapis.com/"
                               "plimsoll.v1.NotDispatched\x12\x02\x08\x01";
    assert_int_equal(length, sizeof(want) - 1);
    assert_memory_equal(bytes, want, length);
    assert_null(strchr(base_buf_text(&details), '='));
    base_buf_free(&message);
    base_buf_free(&details);
}

static void internal_errors_are_concealed(void **state)
{
    (void)state;
    plim_error err = PLIM_ERROR_INIT, shown = PLIM_ERROR_INIT;
    static const int hidden[] = {PLIM_CODE_OK,        PLIM_CODE_UNKNOWN, PLIM_CODE_INTERNAL,
                                 PLIM_CODE_DATA_LOSS, PLIM_CODE_ABORTED, PLIM_CODE_UNAVAILABLE};
    for (size_t i = 0; i < PLIM_COUNT(hidden); i++) {
        plim_fail(&err, PLIM_E_REMOTE, (plim_code)hidden[i], "secret path");
        rpc_conceal(&err, &shown);
        assert_string_equal(plim_error_code(&shown), "internal");
        assert_null(strstr(plim_error_message(&shown), "secret"));
        assert_int_equal(plim_error_not_dispatched(&shown), PLIM_ND_NONE);
    }
    /* The mark of a failed preflight stays. */
    core_refuse_environment(&err, "secret path");
    rpc_conceal(&err, &shown);
    assert_string_equal(plim_error_code(&shown), "internal");
    assert_int_equal(plim_error_not_dispatched(&shown), PLIM_ND_ENVIRONMENT);
    core_refuse_capacity(&err, "told");
    rpc_conceal(&err, &shown);
    assert_string_equal(plim_error_message(&shown), "told");
}

/* ---- slots ---- */

static void slots_have_shares(void **state)
{
    (void)state;
    rpc_slots slots;
    plim_error err = PLIM_ERROR_INIT;
    assert_true(rpc_slots_init(&slots, 4));
    plim_bytes a = PLIM_LIT("a"), b = PLIM_LIT("b"), c = PLIM_LIT("c");
    assert_true(rpc_slots_take(&slots, a, &err) && rpc_slots_take(&slots, a, &err));
    assert_false(rpc_slots_take(&slots, a, &err));
    assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_CAPACITY);
    assert_true(rpc_slots_take(&slots, b, &err) && rpc_slots_take(&slots, b, &err));
    assert_false(rpc_slots_take(&slots, c, &err));
    rpc_slots_release(&slots, a);
    assert_true(rpc_slots_take(&slots, c, &err));
    rpc_slots_release(&slots, a);
    assert_false(rpc_slots_take(&slots, b, &err));
    assert_true(rpc_slots_take(&slots, a, &err));
    rpc_slots_release(&slots, c);
    rpc_slots_release(&slots, b);
    rpc_slots_release(&slots, b);
    rpc_slots_release(&slots, a);
    assert_int_equal(slots.holder_count, 0);
    rpc_slots_destroy(&slots);
    assert_true(rpc_slots_init(&slots, 1));
    assert_true(rpc_slots_take(&slots, a, &err));
    rpc_slots_release(&slots, a);
    rpc_slots_destroy(&slots);
}

/* A procedure without a scope would be denied to everybody. */
static void every_procedure_has_a_scope(void **state)
{
    (void)state;
    for (size_t i = 0; i < RPC_SANDBOX_METHODS; i++) {
        assert_string_equal(rpc_sandbox_methods[i].scope, RPC_SCOPE_RUN);
        assert_int_equal(
            strncmp(rpc_sandbox_methods[i].path, rpc_sandbox_prefix, strlen(rpc_sandbox_prefix)),
            0);
        assert_non_null(rpc_sandbox_methods[i].request);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens),
        cmocka_unit_test(content_types),
        cmocka_unit_test(connect_timeouts),
        cmocka_unit_test(grpc_timeouts),
        cmocka_unit_test(envelopes),
        cmocka_unit_test(gzip_messages),
        cmocka_unit_test(gzip_bombs),
        cmocka_unit_test(compressed_envelopes),
        cmocka_unit_test(errors_as_json),
        cmocka_unit_test(details_come_before_the_mark),
        cmocka_unit_test(errors_as_trailers),
        cmocka_unit_test(internal_errors_are_concealed),
        cmocka_unit_test(slots_have_shares),
        cmocka_unit_test(every_procedure_has_a_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
