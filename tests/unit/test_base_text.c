/* Reading integers, numbers, switches and durations: what is accepted, and that nothing else is. */
#include "unit.h"

#include <locale.h>
#include <sys/stat.h>

#include "base/base.h"

#define UNTOUCHED INT64_C(-77)

static void spaces_are_trimmed(void **state)
{
    (void)state;
    static const struct {
        plim_bytes in;
        const char *out;
    } cases[] = {
        {{NULL, 0}, ""},
        {PLIM_LIT(" \t\r\n\v\f"), ""},
        {PLIM_LIT("a"), "a"},
        {PLIM_LIT(" \ta b\r\n"), "a b"},
        {PLIM_LIT("\xC2\xA0x"), "\xC2\xA0x"}, /* only ASCII white space */
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++)
        assert_true(base_bytes_is(base_trim(cases[i].in), cases[i].out));
    assert_bytes(base_trim(PLIM_LIT("\0 ")), "\0");
}

static void ascii_case_is_ignored(void **state)
{
    (void)state;
    assert_true(base_ascii_equal_ignore_case(PLIM_LIT("ConTAINER"), "container"));
    assert_true(base_ascii_equal_ignore_case((plim_bytes){NULL, 0}, ""));
    assert_false(base_ascii_equal_ignore_case(PLIM_LIT("vm\0"), "vm"));
    assert_false(base_ascii_equal_ignore_case(PLIM_LIT("v"), "vm"));
    assert_false(base_ascii_equal_ignore_case(PLIM_LIT("[m"), "{m")); /* letters only */
    assert_false(base_ascii_equal_ignore_case(PLIM_LIT("\xC9"), "\xE9"));
}

static void integers_parse(void **state)
{
    (void)state;
    static const struct {
        plim_bytes text;
        int64_t value;
    } good[] = {
        {PLIM_LIT("0"), 0},
        {PLIM_LIT("-0"), 0},
        {PLIM_LIT("+7"), 7},
        {PLIM_LIT("007"), 7},
        {PLIM_LIT("-12"), -12},
        {PLIM_LIT("9223372036854775807"), INT64_MAX},
        {PLIM_LIT("-9223372036854775808"), INT64_MIN},
        {PLIM_LIT("00000000000000000000000000000000000001"), 1},
    };
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        int64_t value = UNTOUCHED;
        assert_true(base_parse_int(good[i].text, &value));
        assert_true(value == good[i].value);
    }
    static const plim_bytes bad[] = {
        {NULL, 0},
        PLIM_LIT("-"),
        PLIM_LIT("+"),
        PLIM_LIT("abc"),
        PLIM_LIT("1.5"),
        PLIM_LIT("1e3"),
        PLIM_LIT("0x10"),
        PLIM_LIT(" 1"),
        PLIM_LIT("1 "),
        PLIM_LIT("--1"),
        PLIM_LIT("+-1"),
        PLIM_LIT("1-"),
        PLIM_LIT("1\0"),
        PLIM_LIT("1,000"),
        PLIM_LIT("9223372036854775808"),
        PLIM_LIT("-9223372036854775809"),
        PLIM_LIT("99999999999999999999999999"),
        PLIM_LIT("\xD9\xA1"), /* a digit of another script */
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        int64_t value = UNTOUCHED;
        if (base_parse_int(bad[i], &value))
            fail_msg("\"%.*s\" was read as an integer", (int)bad[i].len, bad[i].data);
        assert_true(value == UNTOUCHED);
    }
}

static void numbers_parse(void **state)
{
    (void)state;
    static const struct {
        plim_bytes text;
        double value;
    } good[] = {
        {PLIM_LIT("0"), 0},      {PLIM_LIT("1.5"), 1.5},     {PLIM_LIT(".5"), 0.5},
        {PLIM_LIT("5."), 5},     {PLIM_LIT("-2.25"), -2.25}, {PLIM_LIT("+1"), 1},
        {PLIM_LIT("1e3"), 1000}, {PLIM_LIT("1E-2"), 0.01},   {PLIM_LIT("1e-400"), 0},
    };
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        double value = -77;
        assert_true(base_parse_number(good[i].text, &value));
        assert_true(value == good[i].value);
    }
    static const plim_bytes bad[] = {
        {NULL, 0},
        PLIM_LIT("."),
        PLIM_LIT("e3"),
        PLIM_LIT("1e"),
        PLIM_LIT("NaN"),
        PLIM_LIT("nan"),
        PLIM_LIT("inf"),
        PLIM_LIT("-Infinity"),
        PLIM_LIT("1e999"),
        PLIM_LIT("0x1p3"),
        PLIM_LIT("1,5"),
        PLIM_LIT(" 1"),
        PLIM_LIT("1 "),
        PLIM_LIT("1.2.3"),
        PLIM_LIT("--1"),
        PLIM_LIT("1e5e5"),
        PLIM_LIT("1\0"),
        PLIM_LIT("1f"),
        PLIM_LIT("+"),
        PLIM_LIT("0000000000000000000000000000000000000000000000000000000000000001"),
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        double value = -77;
        if (base_parse_number(bad[i], &value))
            fail_msg("\"%.*s\" was read as a number", (int)bad[i].len, bad[i].data);
        assert_true(value == -77);
    }
}

static void switches_parse(void **state)
{
    (void)state;
    static const struct {
        plim_bytes text;
        bool value;
    } good[] = {
        {{NULL, 0}, false},         {PLIM_LIT("0"), false}, {PLIM_LIT("false"), false},
        {PLIM_LIT("FALSE"), false}, {PLIM_LIT("1"), true},  {PLIM_LIT("true"), true},
        {PLIM_LIT("True"), true},
    };
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        bool value = !good[i].value;
        assert_true(base_parse_bool(good[i].text, &value));
        assert_int_equal(value, good[i].value);
    }
    static const plim_bytes bad[] = {
        PLIM_LIT("yes"), PLIM_LIT("no"), PLIM_LIT("on"),    PLIM_LIT("off"), PLIM_LIT("2"),
        PLIM_LIT("01"),  PLIM_LIT("t"),  PLIM_LIT("true "), PLIM_LIT("1\0"), PLIM_LIT("-1"),
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        bool value = true;
        if (base_parse_bool(bad[i], &value))
            fail_msg("\"%.*s\" was read as a switch", (int)bad[i].len, bad[i].data);
        assert_true(value);
    }
}

static void durations_parse(void **state)
{
    (void)state;
    static const struct {
        plim_bytes text;
        int64_t ns;
    } good[] = {
        {PLIM_LIT("0"), 0},
        {PLIM_LIT("0s"), 0},
        {PLIM_LIT("1ns"), 1},
        {PLIM_LIT("1us"), 1000},
        {PLIM_LIT("1\xC2\xB5s"), 1000},
        {PLIM_LIT("1\xCE\xBCs"), 1000},
        {PLIM_LIT("1ms"), 1000000},
        {PLIM_LIT("90s"), 90 * BASE_NS_PER_S},
        {PLIM_LIT("1m"), 60 * BASE_NS_PER_S},
        {PLIM_LIT("1h30m"), 5400 * BASE_NS_PER_S},
        {PLIM_LIT("1h1m1s1ms1us1ns"), INT64_C(3661001001001)},
        {PLIM_LIT("1.5s"), 1500000000},
        {PLIM_LIT("0.5ns"), 0},
        {PLIM_LIT(".25s"), 250000000},
        {PLIM_LIT("1s1s"), 2 * BASE_NS_PER_S},
        {PLIM_LIT("1ms1m"), INT64_C(60001000000)},
        {PLIM_LIT("9223372036s"), INT64_C(9223372036000000000)},
        {PLIM_LIT("100000h59m59.123456789s"), INT64_C(360003599123456789)},
    };
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        int64_t ns = UNTOUCHED;
        if (!base_parse_duration_ns(good[i].text, &ns) || ns != good[i].ns)
            fail_msg("\"%.*s\" was read as %" PRId64 " ns", (int)good[i].text.len,
                     good[i].text.data, ns);
    }
    static const plim_bytes bad[] = {
        {NULL, 0},
        PLIM_LIT("1"),
        PLIM_LIT("s"),
        PLIM_LIT("1d"),
        PLIM_LIT("1S"),
        PLIM_LIT("1 s"),
        PLIM_LIT("-1s"),
        PLIM_LIT("+1s"),
        PLIM_LIT("00"),
        PLIM_LIT("0.0"),
        PLIM_LIT("1s1"),
        PLIM_LIT("1s "),
        PLIM_LIT(".s"),
        PLIM_LIT("1.2.3s"),
        PLIM_LIT("1e3s"),
        PLIM_LIT("infs"),
        PLIM_LIT("1s-1s"),
        PLIM_LIT("2562048h"),
        PLIM_LIT("9223372037s"),
        PLIM_LIT("1\xC2s"),
        PLIM_LIT("1h\0"),
        PLIM_LIT("9223372036854775808ns"),
        PLIM_LIT("1mss"),
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        int64_t ns = UNTOUCHED;
        if (base_parse_duration_ns(bad[i], &ns))
            fail_msg("\"%.*s\" was read as %" PRId64 " ns", (int)bad[i].len, bad[i].data, ns);
        assert_true(ns == UNTOUCHED);
    }
}

/* Every tenth of a millisecond up to 10 s, written as decimal seconds, is exact. */
static void decimal_seconds_are_exact(void **state)
{
    (void)state;
    for (int64_t tenths = 0; tenths < 100000; tenths++) {
        char text[32];
        snprintf(text, sizeof(text), "%" PRId64 ".%04" PRId64 "s", tenths / 10000, tenths % 10000);
        int64_t ns = UNTOUCHED;
        if (!base_parse_duration_ns(plim_bytes_of(text), &ns) || ns != tenths * 100000)
            fail_msg("\"%s\" was read as %" PRId64 " ns", text, ns);
    }
}

/* Set a locale with a decimal comma, as glibc reads it from a file; false when this C library does
 * not. */
static bool set_comma_locale(const char *folder)
{
    static const struct {
        uint32_t magic, fields, offsets[6];
        char decimal_point[2], thousands[2], grouping[4];
        uint32_t wide_decimal_point, wide_thousands;
        char codeset[6];
    } numeric = {.magic = 0x20031115 ^ LC_NUMERIC,
                 .fields = 6,
                 .offsets = {32, 34, 36, 40, 44, 48},
                 .decimal_point = ",",
                 .thousands = ".",
                 .grouping = {3, 3},
                 .wide_decimal_point = ',',
                 .wide_thousands = '.',
                 .codeset = "UTF-8"};
    char path[256];
    snprintf(path, sizeof(path), "%s/comma", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/comma/LC_NUMERIC", folder);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(&numeric, 1, 54, file), 54);
    fclose(file);
    setenv("LOCPATH", folder, 1);
    bool set = setlocale(LC_NUMERIC, "comma") != NULL;
    unsetenv("LOCPATH");
    unlink(path);
    snprintf(path, sizeof(path), "%s/comma", folder);
    rmdir(path);
    return set;
}

/* A program in Berlin that calls setlocale must read the same settings. */
static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    char folder[] = "/tmp/plimsoll-test-XXXXXX", shown[16];
    assert_non_null(mkdtemp(folder));
    bool set = set_comma_locale(folder);
    rmdir(folder);
    if (!set) {
        puts("skip: this C library reads no locale of ours");
        skip();
    }
    snprintf(shown, sizeof(shown), "%.1f", 1.5);
    double value = 0;
    int64_t ns = 0;
    bool good = base_parse_number(PLIM_LIT("1.5"), &value);
    bool duration = base_parse_duration_ns(PLIM_LIT("1.5s"), &ns);
    bool comma_read = base_parse_number(PLIM_LIT("1,5"), &(double){0});
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(shown, "1,5");
    assert_true(good);
    assert_true(value == 1.5);
    assert_true(duration);
    assert_int_equal(ns, 1500000000);
    assert_false(comma_read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_are_trimmed),
        cmocka_unit_test(ascii_case_is_ignored),
        cmocka_unit_test(integers_parse),
        cmocka_unit_test(numbers_parse),
        cmocka_unit_test(switches_parse),
        cmocka_unit_test(durations_parse),
        cmocka_unit_test(decimal_seconds_are_exact),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
