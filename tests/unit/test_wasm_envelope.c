/* A guest's host call without a grant: 413, 400 or 503, and which. */
#include "unit.h"

#include <stdlib.h>

#include "providers/wasm/envelope.h"
#include "providers/wasm/protocol.h"

static const struct envelope {
    plim_bytes text;
    uint32_t status;
} envelopes[] = {
    /* well formed: nobody to ask */
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\"}"), 503},
    {PLIM_LIT(" {\t\"path\" : \"/a\" ,\r\n\"method\":\"GET\" } "), 503},
    {PLIM_LIT("{\"method\":\"\",\"path\":\"\"}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"\\u0000\\u001b\"}"), 503},
    {PLIM_LIT("{\"m\\u0065thod\":\"GET\",\"path\":\"/a\"}"), 503},
    /* any JSON value is a body */
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":null}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":false}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":0}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":-1.5e-7}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":\"\"}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":[]}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":{\"a\":[1,{\"b\":2}]}}"), 503},
    {PLIM_LIT("{\"body\":1,\"method\":\"GET\",\"path\":\"/a\"}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":12345678901234567000}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":-9223372036854775809}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":1e308}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":-1e999}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":[[],{},[{}],\"]\",{\"}\":[]}]}"), 503},
    {PLIM_LIT("{\"body\":[[1],2,{\"a\":{},\"b\":[0]}],\"path\":\"/a\",\"method\":\"GET\"}"), 503},
    /* the keys inside a body are the API's affair */
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":{\"x\":1,\"x\":2}}"), 503},
    {PLIM_LIT("{\"\\u006d\\u0065\\u0074\\u0068\\u006f\\u0064\":\"GET\",\"path\":\"/a\"}"), 503},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":{\"x\":1,\"method\":2}}"), 503},
    /* not exactly one such object */
    {PLIM_LIT("\"GET\""), 400},
    {PLIM_LIT("null"), 400},
    {PLIM_LIT("[]"), 400},
    {PLIM_LIT("[{\"method\":\"GET\",\"path\":\"/a\"}]"), 400},
    {PLIM_LIT("{}"), 400},
    {PLIM_LIT(" "), 400},
    {PLIM_LIT("\0"), 400},
    {PLIM_LIT("{"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\""), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\"}{}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\"} x"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\"}\0"), 400},
    {PLIM_LIT("\xEF\xBB\xBF{\"method\":\"GET\",\"path\":\"/a\"}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",}"), 400},
    {PLIM_LIT("{'method':'GET','path':'/a'}"), 400},
    {PLIM_LIT("{\"method\":\"GET\"}"), 400},
    {PLIM_LIT("{\"path\":\"/a\"}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"body\":1}"), 400},
    {PLIM_LIT("{\"method\":1,\"path\":\"/a\"}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":null}"), 400},
    {PLIM_LIT("{\"method\":[\"GET\"],\"path\":\"/a\"}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"x\":1}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":1,\"x\":1}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"Body\":1}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"\":1}"), 400},
    {PLIM_LIT("{\"METHOD\":\"GET\",\"path\":\"/a\"}"), 400},
    /* a body that is not one value */
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":[}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":[1,]}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":[1}}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":[1 2]}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":[1]]}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":{1:2}}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":{\"x\"}}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":{\"x\":1,}}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":{\"x\":1]}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":\"\\ud800\"}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":1,}"), 400},
    /* a key twice, whatever it says */
    {PLIM_LIT("{\"method\":\"GET\",\"method\":\"GET\",\"path\":\"/a\"}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"path\":\"/b\"}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":1,\"body\":1}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"p\\u0061th\":\"/b\"}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":undefined}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":NaN}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\":01}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"\xFF\"}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"\n\"}"), 400},
    /* keys that only begin like ours */
    {PLIM_LIT("{\"method\\u0000\":\"GET\",\"path\":\"/a\"}"), 400},
    {PLIM_LIT("{\"method\":\"GET\",\"path\":\"/a\",\"body\\u0000\":1}"), 400},
};

static const char *body_of(uint32_t status)
{
    return status == 413   ? "host api request envelope too large\n"
           : status == 400 ? "invalid host api request envelope\n"
                           : "host api broker unavailable\n";
}

static void envelopes_are_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLIM_COUNT(envelopes); i++) {
        wasm_reply reply = wasm_answer_without_broker(envelopes[i].text);
        if (reply.status != envelopes[i].status)
            fail_msg("%.*s gave %u", (int)envelopes[i].text.len, envelopes[i].text.data,
                     reply.status);
        assert_true(base_bytes_is(reply.body, body_of(reply.status)));
    }
}

static void lengths_are_judged_first(void **state)
{
    (void)state;
    static char text[PLIM_WORKER_ENVELOPE_MAX + 1];
    memset(text, ' ', sizeof(text));
    static const char envelope[] = "{\"method\":\"GET\",\"path\":\"/a\"}";
    memcpy(text, envelope, sizeof(envelope) - 1);
    assert_int_equal(wasm_answer_without_broker((plim_bytes){NULL, 0}).status, 413);
    assert_int_equal(wasm_answer_without_broker((plim_bytes){text, sizeof(text)}).status, 413);
    assert_int_equal(wasm_answer_without_broker((plim_bytes){text, sizeof(text) - 1}).status, 503);
    memset(text, 'x', sizeof(text));
    assert_int_equal(wasm_answer_without_broker((plim_bytes){text, sizeof(text)}).status, 413);
    assert_int_equal(wasm_answer_without_broker((plim_bytes){text, sizeof(text) - 1}).status, 400);
}

static const char front[] = "{\"method\":\"GET\",\"path\":\"/a\",\"body\":";

/* Brackets without end: a stack that follows them must not be the process's. */
static void nesting_is_bounded(void **state)
{
    (void)state;
    static char text[PLIM_WORKER_ENVELOPE_MAX];
    static const char kinds[] = {'[', '{'};
    for (size_t i = 0; i < PLIM_COUNT(kinds); i++) {
        memset(text, kinds[i], sizeof(text));
        memcpy(text, front, sizeof(front) - 1);
        assert_int_equal(wasm_answer_without_broker((plim_bytes){text, sizeof(text)}).status, 400);
    }
}

/* `depth` brackets around a number. */
static uint32_t status_of_depth(size_t depth)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(65536);
    base_buf_add_text(&text, front);
    for (size_t i = 0; i < depth; i++)
        base_buf_add_byte(&text, '[');
    base_buf_add_byte(&text, '0');
    for (size_t i = 0; i < depth; i++)
        base_buf_add_byte(&text, ']');
    base_buf_add_byte(&text, '}');
    return wasm_answer_without_broker(base_buf_bytes(&text)).status;
}

static void nesting_up_to_the_bound_is_a_value(void **state)
{
    (void)state;
    assert_int_equal(status_of_depth(1), 503);
    assert_int_equal(status_of_depth(2048), 503);
    assert_int_equal(status_of_depth(2049), 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(envelopes_are_judged),
        cmocka_unit_test(lengths_are_judged_first),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(nesting_up_to_the_bound_is_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
