/* Log lines: one line and one write for each event, valid JSON or plain text, and no byte of a
 * value that could start another line or move a terminal's cursor. */
#include "unit.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/socket.h>

#include <jansson.h>

#include "base/base.h"

#define A_TIME INT64_C(1640995200007) /* 2022-01-01T00:00:00.007Z */

static void line_of(base_buf *buf, base_log_format format, const base_log_field *fields,
                    size_t count)
{
    base_buf_clear(buf);
    base_log_format_line(buf, format, A_TIME, BASE_LOG_WARN, "a b", fields, count);
    assert_false(buf->failed);
}

static void lines_state_time_level_and_message(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(4096);
    const base_log_field fields[] = {LOG_STR("s", "v"), LOG_INT("i", INT64_MIN),
                                     LOG_BOOL("yes", true), LOG_BOOL("no", false),
                                     LOG_NUM("n", 0.5)};
    line_of(&buf, BASE_LOG_JSON, fields, PLIM_COUNT(fields));
    assert_string_equal(base_buf_text(&buf),
                        "{\"time\":\"2022-01-01T00:00:00.007Z\",\"level\":\"WARN\",\"msg\":\"a b\","
                        "\"s\":\"v\",\"i\":-9223372036854775808,\"yes\":true,\"no\":false,"
                        "\"n\":0.5}\n");
    line_of(&buf, BASE_LOG_TEXT, fields, PLIM_COUNT(fields));
    assert_string_equal(base_buf_text(&buf),
                        "time=2022-01-01T00:00:00.007Z level=WARN msg=\"a b\" s=v "
                        "i=-9223372036854775808 yes=true no=false n=0.5\n");
    line_of(&buf, BASE_LOG_JSON, NULL, 0);
    assert_string_equal(
        base_buf_text(&buf),
        "{\"time\":\"2022-01-01T00:00:00.007Z\",\"level\":\"WARN\",\"msg\":\"a b\"}\n");
}

static void text_quotes_what_needs_it(void **state)
{
    (void)state;
    static const struct {
        plim_bytes in;
        const char *out;
    } cases[] = {
        {PLIM_LIT("plain-1.2/x"), "plain-1.2/x"},
        {PLIM_LIT(""), "\"\""},
        {{NULL, 0}, "\"\""},
        {PLIM_LIT("a b"), "\"a b\""},
        {PLIM_LIT("a=b"), "\"a=b\""},
        {PLIM_LIT("a\"b"), "\"a\\\"b\""},
        {PLIM_LIT("a\\b"), "\"a\\\\b\""},
        {PLIM_LIT("a\nlevel=ERROR"), "\"a\\nlevel=ERROR\""},
        {PLIM_LIT("\x1B[31m"), "\"\\u001b[31m\""},
        {PLIM_LIT("\xC3\xA9"), "\"\xC3\xA9\""},
        {PLIM_LIT("\xFF"), "\"\xEF\xBF\xBD\""},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        _cleanup_buf_ base_buf buf = BASE_BUF_INIT(4096);
        line_of(&buf, BASE_LOG_TEXT, &LOG_TEXT("k", cases[i].in), 1);
        char expected[256];
        snprintf(expected, sizeof(expected), " k=%s\n", cases[i].out);
        assert_contains(base_buf_text(&buf), expected);
    }
}

/* Is there a raw control character (C0 but the final newline, DEL, C1) or separator in a line? */
static bool has_control(plim_bytes line)
{
    for (size_t at = 0; at + 1 < line.len;) {
        uint32_t point;
        size_t length = base_utf8_decode((plim_bytes){line.data + at, line.len - at}, &point);
        if (length == 0 || point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x2028 ||
            point == 0x2029)
            return true;
        at += length;
    }
    return line.data[line.len - 1] != '\n';
}

/* Every byte, alone and in front of others, in both formats: a clean line, and JSON that reads back
 * as what went in. */
static void no_byte_breaks_a_line(void **state)
{
    (void)state;
    static const char *const tails[] = {"", "a", "\x80",
                                        ("\xC2\x9B"
                                         "1m"),
                                        "\xE2\x80\xA8"};
    for (int byte = 0; byte < 256; byte++)
        for (size_t t = 0; t < PLIM_COUNT(tails); t++) {
            char value[16] = {(char)byte};
            size_t length = 1 + strlen(tails[t]);
            memcpy(value + 1, tails[t], length - 1);
            _cleanup_buf_ base_buf buf = BASE_BUF_INIT(4096), repaired = BASE_BUF_INIT(64);
            plim_bytes in = {value, length};
            line_of(&buf, BASE_LOG_TEXT, &LOG_TEXT("k", in), 1);
            assert_false(has_control(base_buf_bytes(&buf)));
            line_of(&buf, BASE_LOG_JSON, &LOG_TEXT("k", in), 1);
            assert_false(has_control(base_buf_bytes(&buf)));
            json_t *parsed = json_loadb(buf.data, buf.len, JSON_ALLOW_NUL, NULL);
            assert_non_null(parsed);
            json_t *read = json_object_get(parsed, "k");
            assert_true(base_buf_add_utf8(&repaired, in));
            assert_true(
                base_bytes_equal((plim_bytes){json_string_value(read), json_string_length(read)},
                                 base_buf_bytes(&repaired)));
            json_decref(parsed);
        }
}

/* JSON has no word for them, and a reader of the log must be able to read the line. */
static void numbers_that_json_lacks_are_null(void **state)
{
    (void)state;
    const double odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < PLIM_COUNT(odd); i++) {
        _cleanup_buf_ base_buf buf = BASE_BUF_INIT(4096);
        line_of(&buf, BASE_LOG_JSON, &LOG_NUM("n", odd[i]), 1);
        assert_contains(base_buf_text(&buf), ",\"n\":null}\n");
    }
}

static void a_bounded_buffer_bounds_the_line(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(100);
    char value[200];
    memset(value, 'v', sizeof(value));
    base_log_format_line(&buf, BASE_LOG_JSON, A_TIME, BASE_LOG_INFO, "m",
                         &LOG_TEXT("k", ((plim_bytes){value, sizeof(value)})), 1);
    assert_true(buf.failed);
    assert_true(buf.len <= 100);
}

/* ---- the sink ---- */

/* Packets of a SOCK_DGRAM pair show how many writes a line took. */
static void a_line_is_one_write(void **state)
{
    (void)state;
    int ends[2];
    char packet[4096];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    base_log(BASE_LOG_INFO, "before it is open", LOG_INT("n", 1));
    base_log_open(ends[0], BASE_LOG_JSON);
    base_log(BASE_LOG_ERROR, "one", LOG_STR("k", "line\nbreak"));
    base_log(BASE_LOG_INFO, "two", LOG_INT("n", 2));
    base_log_open(-1, BASE_LOG_JSON);
    base_log(BASE_LOG_INFO, "after it is closed", LOG_INT("n", 3));
    ssize_t first = read(ends[1], packet, sizeof(packet) - 1);
    assert_true(first > 0);
    packet[first] = '\0';
    assert_contains(packet, "\"level\":\"ERROR\",\"msg\":\"one\",\"k\":\"line\\nbreak\"}\n");
    ssize_t second = read(ends[1], packet, sizeof(packet) - 1);
    assert_true(second > 0);
    packet[second] = '\0';
    assert_contains(packet, "\"level\":\"INFO\",\"msg\":\"two\",\"n\":2}\n");
    assert_int_equal(read(ends[1], packet, sizeof(packet)), -1);
    close(ends[0]);
    close(ends[1]);
}

static void a_line_too_long_is_dropped(void **state)
{
    (void)state;
    int ends[2];
    char byte;
    static char value[128 * 1024];
    memset(value, 'v', sizeof(value));
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    base_log_open(ends[1], BASE_LOG_JSON);
    base_log(BASE_LOG_INFO, "m", LOG_TEXT("k", ((plim_bytes){value, sizeof(value)})));
    base_log_open(-1, BASE_LOG_JSON);
    assert_int_equal(read(ends[0], &byte, 1), -1);
    close(ends[0]);
    close(ends[1]);
}

enum { LOG_THREADS = 4, LOG_LINES = 200 };

static void *log_many(void *argument)
{
    for (int i = 0; i < LOG_LINES; i++)
        base_log(BASE_LOG_INFO, "m", LOG_STR("who", argument), LOG_INT("n", i));
    return NULL;
}

static void threads_do_not_mix_lines(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fcntl(fileno(file), F_SETFL, O_APPEND), 0);
    base_log_open(fileno(file), BASE_LOG_JSON);
    pthread_t threads[LOG_THREADS];
    char name[] = "a-name-that-is-some-bytes-long";
    for (int i = 0; i < LOG_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, name), 0);
    for (int i = 0; i < LOG_THREADS; i++)
        pthread_join(threads[i], NULL);
    base_log_open(-1, BASE_LOG_JSON);
    rewind(file);
    char line[512];
    int lines = 0;
    for (; fgets(line, sizeof(line), file); lines++) {
        json_t *parsed = json_loads(line, 0, NULL);
        assert_non_null(parsed);
        assert_string_equal(json_string_value(json_object_get(parsed, "who")), name);
        json_decref(parsed);
    }
    assert_int_equal(lines, LOG_THREADS * LOG_LINES);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_state_time_level_and_message),
        cmocka_unit_test(text_quotes_what_needs_it),
        cmocka_unit_test(no_byte_breaks_a_line),
        cmocka_unit_test(numbers_that_json_lacks_are_null),
        cmocka_unit_test(a_bounded_buffer_bounds_the_line),
        cmocka_unit_test(a_line_is_one_write),
        cmocka_unit_test(a_line_too_long_is_dropped),
        cmocka_unit_test(threads_do_not_mix_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
