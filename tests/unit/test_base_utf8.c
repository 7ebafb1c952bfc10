/* UTF-8: every well-formed length at its bounds, every class of malformed byte sequence. */
#include "unit.h"

#include "base/base.h"

struct character {
    plim_bytes bytes;
    uint32_t point;
};

static const struct character characters[] = {
    {PLIM_LIT("\x00"), 0x0},
    {PLIM_LIT("\x7F"), 0x7F},
    {PLIM_LIT("\xC2\x80"), 0x80},
    {PLIM_LIT("\xDF\xBF"), 0x7FF},
    {PLIM_LIT("\xE0\xA0\x80"), 0x800},
    {PLIM_LIT("\xED\x9F\xBF"), 0xD7FF},
    {PLIM_LIT("\xEE\x80\x80"), 0xE000},
    {PLIM_LIT("\xEF\xBF\xBF"), 0xFFFF},
    {PLIM_LIT("\xF0\x90\x80\x80"), 0x10000},
    {PLIM_LIT("\xF4\x8F\xBF\xBF"), 0x10FFFF},
};

static const struct malformed {
    const char *what;
    plim_bytes bytes;
} malformed[] = {
    {"a continuation byte alone", PLIM_LIT("\x80")},
    {"the last continuation byte alone", PLIM_LIT("\xBF")},
    {"overlong NUL, 2 bytes", PLIM_LIT("\xC0\x80")},
    {"overlong ASCII, 2 bytes", PLIM_LIT("\xC1\xBF")},
    {"overlong slash, 2 bytes", PLIM_LIT("\xC0\xAF")},
    {"overlong, 3 bytes", PLIM_LIT("\xE0\x80\x80")},
    {"overlong U+07FF, 3 bytes", PLIM_LIT("\xE0\x9F\xBF")},
    {"overlong, 4 bytes", PLIM_LIT("\xF0\x80\x80\x80")},
    {"overlong U+FFFF, 4 bytes", PLIM_LIT("\xF0\x8F\xBF\xBF")},
    {"first high surrogate", PLIM_LIT("\xED\xA0\x80")},
    {"last low surrogate", PLIM_LIT("\xED\xBF\xBF")},
    {"a surrogate pair", PLIM_LIT("\xED\xA0\xBD\xED\xB8\x80")},
    {"above U+10FFFF", PLIM_LIT("\xF4\x90\x80\x80")},
    {"far above U+10FFFF", PLIM_LIT("\xF7\xBF\xBF\xBF")},
    {"lead byte F5", PLIM_LIT("\xF5\x80\x80\x80")},
    {"a 5-byte form", PLIM_LIT("\xF8\x88\x80\x80\x80")},
    {"a 6-byte form", PLIM_LIT("\xFC\x84\x80\x80\x80\x80")},
    {"FE", PLIM_LIT("\xFE")},
    {"FF", PLIM_LIT("\xFF")},
    {"2 bytes cut", PLIM_LIT("\xC3")},
    {"3 bytes cut after 1", PLIM_LIT("\xE2")},
    {"3 bytes cut after 2", PLIM_LIT("\xE2\x82")},
    {"4 bytes cut after 1", PLIM_LIT("\xF0")},
    {"4 bytes cut after 2", PLIM_LIT("\xF0\x9F")},
    {"4 bytes cut after 3", PLIM_LIT("\xF0\x9F\x98")},
    {"2 bytes, then ASCII", PLIM_LIT("\xC3"
                                     "A")},
    {"3 bytes, then ASCII", PLIM_LIT("\xE2\x82"
                                     "A")},
    {"4 bytes, then ASCII", PLIM_LIT("\xF0\x9F\x98"
                                     "A")},
    {"2 bytes, then a lead byte", PLIM_LIT("\xC3\xC3\xA9")},
};

static void characters_decode(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLIM_COUNT(characters); i++) {
        uint32_t point = 1;
        size_t length = base_utf8_decode(characters[i].bytes, &point);
        assert_int_equal(length, characters[i].bytes.len);
        assert_int_equal(point, characters[i].point);
        assert_true(base_utf8_valid(characters[i].bytes));
    }
    uint32_t point;
    assert_int_equal(base_utf8_decode((plim_bytes){NULL, 0}, &point), 0);
    assert_true(base_utf8_valid((plim_bytes){NULL, 0}));
}

/* At the front, and behind 0 to 16 bytes of ASCII: the check skips ASCII eight bytes at a time. */
static void malformed_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLIM_COUNT(malformed); i++) {
        uint32_t point = 7;
        if (base_utf8_decode(malformed[i].bytes, &point) != 0)
            fail_msg("%s was decoded", malformed[i].what);
        assert_int_equal(point, 7);
        for (size_t before = 0; before <= 16; before++) {
            char text[64];
            memset(text, 'a', sizeof(text));
            memcpy(text + before, malformed[i].bytes.data, malformed[i].bytes.len);
            size_t end = before + malformed[i].bytes.len;
            if (base_utf8_valid((plim_bytes){text, end}) ||
                base_utf8_valid((plim_bytes){text, sizeof(text)}))
                fail_msg("%s behind %zu bytes was accepted", malformed[i].what, before);
        }
    }
}

/* Every code point there is encodes to what decodes to it, and no surrogate does. */
static void every_point_decodes(void **state)
{
    (void)state;
    for (uint32_t point = 0x80; point <= 0x10FFFF; point++) {
        char text[4];
        size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        for (size_t i = length; i-- > 1;)
            text[i] = (char)(0x80 | ((point >> 6 * (length - 1 - i)) & 0x3F));
        static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
        text[0] = (char)(lead[length] | point >> 6 * (length - 1));
        uint32_t found = 0;
        size_t used = base_utf8_decode((plim_bytes){text, length}, &found);
        bool surrogate = point >= 0xD800 && point <= 0xDFFF;
        if (used != (surrogate ? 0 : length) || (!surrogate && found != point))
            fail_msg("U+%04X decodes to U+%04X, %zu bytes", point, found, used);
    }
}

/* A malformed run becomes one replacement character, and what is well formed stays. */
static void repair_replaces_runs(void **state)
{
    (void)state;
    static const struct {
        plim_bytes in;
        const char *out;
    } cases[] = {
        {PLIM_LIT(""), ""},
        {PLIM_LIT("plain"), "plain"},
        {PLIM_LIT("\xC3\xA9\xE2\x82\xAC"), "\xC3\xA9\xE2\x82\xAC"},
        {PLIM_LIT("a\xFF\xFE\x80z"), "a\xEF\xBF\xBDz"},
        {PLIM_LIT("\xFF"
                  "a\xFF"),
         "\xEF\xBF\xBD"
         "a\xEF\xBF\xBD"},
        {PLIM_LIT("\xED\xA0\x80"), "\xEF\xBF\xBD"},
        {PLIM_LIT("end\xE2\x82"), "end\xEF\xBF\xBD"},
        {PLIM_LIT("\xEF\xBF\xBD\xFF"), "\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        _cleanup_buf_ base_buf buf = BASE_BUF_INIT(64);
        assert_true(base_buf_add_utf8(&buf, cases[i].in));
        assert_string_equal(base_buf_text(&buf), cases[i].out);
        assert_true(base_utf8_valid(base_buf_bytes(&buf)));
    }
}

static void repair_stops_at_the_maximum(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf buf = BASE_BUF_INIT(4);
    assert_false(base_buf_add_utf8(&buf, PLIM_LIT("ab\xFFzz")));
    assert_true(buf.failed);
    assert_bytes(base_buf_bytes(&buf), "ab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_decode),           cmocka_unit_test(malformed_is_refused),
        cmocka_unit_test(every_point_decodes),         cmocka_unit_test(repair_replaces_runs),
        cmocka_unit_test(repair_stops_at_the_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
