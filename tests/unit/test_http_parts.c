/* The parts of the http layer that need no socket: what may be answered, copies of answers, floods,
 * numbers and reason phrases. */
#include "unit.h"

#include "http/flood.h"
#include "http/request.h"
#include "http/status.h"

static bool valid(http_answer answer)
{
    return http_answer_valid(&answer);
}

static bool valid_header(const char *name, plim_bytes value)
{
    const http_header header = {plim_bytes_of(name), value};
    return valid((http_answer){.status = 200, .headers = &header, .header_count = 1}) &&
           valid((http_answer){.status = 200, .trailers = &header, .trailer_count = 1});
}

static void test_answers_that_may_be_sent(void **state)
{
    (void)state;
    assert_true(valid((http_answer){.status = 200, .body = PLIM_LIT("x")}));
    assert_true(valid((http_answer){.status = 204}));
    assert_true(valid((http_answer){.status = 599}));
    assert_true(valid_header("x-a", PLIM_LIT("b c\t\xc3\xa9")));
    assert_true(valid_header("x-a", PLIM_LIT("")));
    assert_true(valid_header("allow", PLIM_LIT("POST")));
}

static void test_answers_that_may_not(void **state)
{
    (void)state;
    assert_false(valid((http_answer){.status = 199}));
    assert_false(valid((http_answer){.status = 600}));
    assert_false(valid((http_answer){.status = 0}));
    assert_false(valid((http_answer){.status = 204, .body = PLIM_LIT("x")}));
    assert_false(valid((http_answer){.status = 304, .body = PLIM_LIT("x")}));
    static const plim_bytes values[] = {
        {"a\r\nb: c", 7}, {"a\n", 2}, {"a\rb", 3}, {"a\0b", 3}, {"\x7f", 1}, {" a", 2}, {"a ", 2},
    };
    for (size_t i = 0; i < PLIM_COUNT(values); i++)
        assert_false(valid_header("x-a", values[i]));
    static const char *const names[] = {
        "",
        "X-A",
        "x a",
        "x:",
        "x\r\n",
        ":status",
        "x\x80",
        "date",
        "trailer",
        "connection",
        "content-length",
        "upgrade",
        "transfer-encoding",
        "keep-alive",
    };
    for (size_t i = 0; i < PLIM_COUNT(names); i++)
        assert_false(valid_header(names[i], PLIM_LIT("1")));
}

static void count_call(void *data)
{
    (*(int *)data)++;
}

static void test_reply_is_a_copy(void **state)
{
    (void)state;
    char name[] = "x-a", value[] = "b", body[] = "body", trailer[] = "t";
    const http_header headers[] = {{plim_bytes_of(name), plim_bytes_of(value)}};
    const http_header trailers[] = {{plim_bytes_of(trailer), plim_bytes_of(value)}};
    http_reply *reply = http_reply_copy(&(http_answer){.status = 201,
                                                       .headers = headers,
                                                       .header_count = 1,
                                                       .body = plim_bytes_of(body),
                                                       .trailers = trailers,
                                                       .trailer_count = 1});
    memset(name, '!', sizeof(name));
    memset(value, '!', sizeof(value));
    memset(body, '!', sizeof(body));
    memset(trailer, '!', sizeof(trailer));
    const http_answer *copy = http_reply_answer(reply);
    assert_int_equal(copy->status, 201);
    assert_bytes(copy->headers[0].name, "x-a");
    assert_bytes(copy->headers[0].value, "b");
    assert_bytes(copy->trailers[0].name, "t");
    assert_bytes(copy->body, "body");
    http_answer_drop_body(copy);
}

static void test_handed_over_body_is_freed_once(void **state)
{
    (void)state;
    int freed = 0;
    http_answer answer = {
        .status = 200, .body = PLIM_LIT("kept"), .body_free = count_call, .body_data = &freed};
    http_reply *reply = http_reply_copy(&answer);
    assert_int_equal(freed, 0);
    assert_ptr_equal(http_reply_answer(reply)->body.data, answer.body.data);
    http_answer_drop_body(http_reply_answer(reply));
    assert_int_equal(freed, 1);
}

static size_t take_all(http_flood *flood, http_flood_kind kind, int64_t now)
{
    size_t taken = 0;
    while (taken < 1000000 && http_flood_take(flood, kind, now))
        taken++;
    return taken;
}

static void test_flood_buckets(void **state)
{
    (void)state;
    static const struct {
        size_t burst, rate, earned;
    } expected[] = {
#define X(name, burst, rate, earned, why) {(burst), (rate), (earned)},
        HTTP_FLOODS(X)
#undef X
    };
    for (http_flood_kind kind = 0; kind < HTTP_FLOOD_KINDS; kind++) {
        http_flood flood;
        http_flood_init(&flood, 5000);
        assert_int_equal(take_all(&flood, kind, 5000), expected[kind].burst);
        assert_int_equal(take_all(&flood, kind, 5999), 0);
        assert_int_equal(take_all(&flood, kind, 6000), expected[kind].rate);
        assert_int_equal(take_all(&flood, kind, 4000), 0); /* a clock that steps back gives none */
        http_flood_earn(&flood);
        assert_int_equal(take_all(&flood, kind, 6000), expected[kind].earned);
        /* however long it waits, never more than the burst */
        assert_int_equal(take_all(&flood, kind, INT64_MAX / 2), expected[kind].burst);
        for (size_t i = 0; i < expected[kind].burst + 10; i++)
            http_flood_earn(&flood);
        assert_true(take_all(&flood, kind, INT64_MAX / 2) <= expected[kind].burst);
    }
}

static void test_status_texts(void **state)
{
    (void)state;
    assert_bytes(http_status_reason(200), "OK");
    assert_bytes(http_status_reason(431), "Request Header Fields Too Large");
    assert_int_equal(http_status_reason(499).len, 0);
    http_digits digits = http_digits_of(0);
    assert_bytes(http_digits_text(&digits), "0");
    digits = http_digits_of(18446744073709551615u);
    assert_bytes(http_digits_text(&digits), "18446744073709551615");
}

static void test_limits_are_the_contracts(void **state)
{
    (void)state;
    http_limits limits = http_limits_default();
    assert_int_equal(limits.header_bytes_max, 32 << 10);
    assert_int_equal(limits.header_ms, 5000);
    assert_int_equal(limits.request_ms, 30000);
    assert_int_equal(limits.answer_ms, 360000);
    assert_int_equal(limits.idle_ms, 120000);
    assert_int_equal(limits.discard_ms, 500);
    assert_int_equal(limits.h2_streams_max, 250);
    assert_int_equal(limits.connections_max, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_that_may_be_sent),
        cmocka_unit_test(test_answers_that_may_not),
        cmocka_unit_test(test_reply_is_a_copy),
        cmocka_unit_test(test_handed_over_body_is_freed_once),
        cmocka_unit_test(test_flood_buckets),
        cmocka_unit_test(test_status_texts),
        cmocka_unit_test(test_limits_are_the_contracts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
