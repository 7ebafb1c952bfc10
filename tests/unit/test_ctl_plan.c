/* The plan's reader: what it takes, each way to be wrong with the words for it, and what becomes of
 * the key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "json.h"
#include "plan.h"

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define REST                                                                                       \
    "\"steps\":[],\"artifacts\":[],\"env\":[],\"stepTimeoutMs\":1000,\"reportKey\":\"" KEY "\""

static struct ctl_plan plan;
static char document[64 << 10];

/* Read a plan; NULL, or what is wrong with it. */
static const char *fault_of(const char *text, size_t len, bool *has_key)
{
    const char *fault;
    assert_true(len < sizeof document);
    memcpy(document, text, len);
    document[len] = '\0';
    bool good = ctl_plan_read(document, len, &plan, has_key, &fault);
    assert_int_equal(good, fault == NULL);
    return fault;
}

static void a_whole_plan_is_read(void **state)
{
    (void)state;
    static const char text[] =
        " { \"files\" : [ {\"path\":\"a/b\",\"content\":\"x\\u0000\\n\\ud83d\\ude00\\/\"},"
        "{\"content\":\"\",\"path\":\"\\u00fc\"} ] , \"steps\":[\"echo \\\"1\\\"\",\"\"],"
        "\"artifacts\":[\"o\"],\"env\":[\"A=1\",\"B=\"],\"hostSDK\":\"import\","
        "\"stepTimeoutMs\":30000,\"reportKey\":\"" KEY "\"}\n";
    bool has_key;
    assert_null(fault_of(text, sizeof text - 1, &has_key));
    assert_true(has_key);
    assert_int_equal(plan.file_count, 2);
    assert_string_equal(plan.files[0].path.data, "a/b");
    assert_int_equal(plan.files[0].content.len, 8);
    assert_memory_equal(plan.files[0].content.data, "x\0\n\xF0\x9F\x98\x80/", 8);
    assert_string_equal(plan.files[1].path.data, "\xC3\xBC");
    assert_int_equal(plan.files[1].content.len, 0);
    assert_int_equal(plan.step_count, 2);
    assert_string_equal(plan.steps[0].data, "echo \"1\"");
    assert_int_equal(plan.artifact_count, 1);
    assert_int_equal(plan.env_count, 2);
    assert_string_equal(plan.env[1].data, "B=");
    assert_true(base_bytes_is(plan.host_sdk, "import"));
    assert_int_equal(plan.step_timeout_ms, 30000);
    for (unsigned i = 0; i < CTL_KEY_BYTES; i++)
        assert_int_equal(plan.key[i], i);
}

static void the_digits_of_the_key_are_wiped(void **state)
{
    (void)state;
    static const char text[] = "{\"files\":[]," REST "}";
    bool has_key;
    assert_null(fault_of(text, sizeof text - 1, &has_key));
    assert_null(memmem(document, sizeof text, KEY, 8));
    assert_null(memmem(document, sizeof text, &KEY[40], 8));
}

static void each_fault_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *fault;
        bool has_key;
    } rows[] = {
        {"", "another kind of value was expected", false},
        {"[]", "another kind of value was expected", false},
        {"{}", "it lacks a member", false},
        {"{" REST "}", "it lacks a member", true},
        {"{\"files\":[]," REST ",\"more\":1}", "it has a member that is unknown or repeated", true},
        {"{\"files\":[],\"files\":[]," REST "}", "it has a member that is unknown or repeated",
         false},
        {"{\"files\":[]," REST "} {", "something follows the document", true},
        {"{\"files\":[]," REST ",}", "a string was expected", true},
        {"{\"files\":[{}]," REST "}", "a file lacks a member", false},
        {"{\"files\":[{\"path\":\"a\"}]," REST "}", "a file lacks a member", false},
        {"{\"files\":[{\"path\":\"a\",\"path\":\"a\"}]," REST "}",
         "a file has a member that is unknown or repeated", false},
        {"{\"files\":[{\"path\":\"a\\u0000b\",\"content\":\"\"}]," REST "}", "a text holds a NUL",
         false},
        {"{\"files\":[1]," REST "}", "another kind of value was expected", false},
        {"{\"files\":{}," REST "}", "another kind of value was expected", false},
        {"{\"files\":[]\"steps\"", "a comma was expected", false},
        {"{\"files\" []", "a colon was expected", false},
        {"{\"steps\":[\"\\ud800\"]", "a string holds half a surrogate pair", false},
        {"{\"steps\":[\"\\ud800\\u0041\"]", "a string holds half a surrogate pair", false},
        {"{\"steps\":[\"\\udc00\"]", "a string holds half a surrogate pair", false},
        {"{\"steps\":[\"\\x\"]", "an escape in a string is malformed", false},
        {"{\"steps\":[\"\\u12g4\"]", "an escape in a string is malformed", false},
        {"{\"steps\":[\"\\u12", "a string does not end", false},
        {"{\"steps\":[\"a", "a string does not end", false},
        {"{\"steps\":[\"a\\", "a string does not end", false},
        {"{\"steps\":[\"a\nb\"]", "a string holds a control character", false},
        {"{\"steps\":[\"\xff\"]", "it is not UTF-8", false},
        {"{\"stepTimeoutMs\":0", "stepTimeoutMs is out of range", false},
        {"{\"stepTimeoutMs\":-1", "stepTimeoutMs is out of range", false},
        {"{\"stepTimeoutMs\":86400001", "stepTimeoutMs is out of range", false},
        {"{\"stepTimeoutMs\":01", "an integer was expected", false},
        {"{\"stepTimeoutMs\":1.0", "an integer was expected", false},
        {"{\"stepTimeoutMs\":1e3", "an integer was expected", false},
        {"{\"stepTimeoutMs\":\"1\"", "an integer was expected", false},
        {"{\"stepTimeoutMs\":99999999999999999999", "a number is too large", false},
        {"{\"reportKey\":\"00\"", "reportKey is not 64 hex digits", false},
        {"{\"reportKey\":\"" KEY "00\"", "reportKey is not 64 hex digits", false},
        {"{\"reportKey\":\"ABCD02030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\"",
         "reportKey is not 64 hex digits", false},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        bool has_key;
        const char *fault = fault_of(rows[i].text, strlen(rows[i].text), &has_key);
        assert_string_equal(fault ? fault : "none", rows[i].fault);
        assert_int_equal(has_key, rows[i].has_key);
    }
}

static void every_prefix_is_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"files\":[{\"path\":\"a\",\"content\":\"\\u00e4\"}]," REST "}";
    bool has_key;
    for (size_t len = 0; len < sizeof text - 1; len++)
        assert_non_null(fault_of(text, len, &has_key));
    assert_null(fault_of(text, sizeof text - 1, &has_key));
}

static void lists_have_an_end(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(sizeof document - 1);
    base_buf_add_text(&text, "{\"env\":[\"A=1\"");
    for (size_t i = 0; i < CTL_PLAN_ENV_MAX; i++)
        base_buf_add_text(&text, ",\"A=1\"");
    base_buf_add_text(&text, "]}");
    bool has_key;
    assert_string_equal(fault_of(text.data, text.len, &has_key), "a list is too long");
}

static void strings_and_base64_are_written(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text, *base64;
    } rows[] = {
        {"", "\"\"", ""},
        {"f", "\"f\"", "Zg=="},
        {"fo", "\"fo\"", "Zm8="},
        {"foo", "\"foo\"", "Zm9v"},
        {"a\"\\\n\t\x01/", "\"a\\\"\\\\\\n\\u0009\\u0001/\"", "YSJcCgkBLw=="},
        {"\xC3\xA4\xFFz", "\"\xC3\xA4\xEF\xBF\xBDz\"", "w6T/eg=="},
    };
    for (size_t i = 0; i < PLIM_COUNT(rows); i++) {
        _cleanup_buf_ base_buf text = BASE_BUF_INIT(256), base64 = BASE_BUF_INIT(256);
        assert_true(ctl_json_add_string(&text, plim_bytes_of(rows[i].bytes)));
        assert_true(ctl_json_add_base64(&base64, plim_bytes_of(rows[i].bytes)));
        assert_string_equal(base_buf_text(&text), rows[i].text);
        assert_string_equal(base_buf_text(&base64), rows[i].base64);
        assert_int_equal(base64.len, ctl_base64_len(strlen(rows[i].bytes)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_plan_is_read), cmocka_unit_test(the_digits_of_the_key_are_wiped),
        cmocka_unit_test(each_fault_is_named),  cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(lists_have_an_end),    cmocka_unit_test(strings_and_base64_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
