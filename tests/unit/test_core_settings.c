/* Settings: each kind good and bad, blank means default, and a refusal names its variable. */
#include "unit.h"

#include <math.h>

#include "core/core.h"

struct one {
    const char *name;
    plim_bytes value;
};

static plim_bytes look_up_one(void *ctx, const char *name)
{
    const struct one *one = ctx;
    return strcmp(one->name, name) == 0 ? one->value : (plim_bytes){NULL, 0};
}

static bool read_one(const char *name, plim_bytes value, core_settings *out, plim_error *err)
{
    struct one one = {name, value};
    return core_settings_read(look_up_one, &one, out, err);
}

static void assert_bad(const char *name, plim_bytes value)
{
    core_settings settings;
    plim_error err = PLIM_ERROR_INIT;
    if (read_one(name, value, &settings, &err))
        fail_msg("%s was read from \"%.*s\"", name, (int)value.len, value.data);
    assert_refused(&err, PLIM_E_INVALID_OPTION, "failed_precondition", PLIM_ND_ENVIRONMENT);
    assert_contains(plim_error_message(&err), name);
    assert_null(strchr(plim_error_message(&err), '\n'));
}

static void assert_defaults(const core_settings *settings)
{
    assert_string_equal(settings->provider, "");
    assert_int_equal(settings->min_isolation, PLIM_TIER_UNKNOWN);
    assert_int_equal(settings->memory_mb, 0);
    assert_true(settings->cpus == 0);
    assert_int_equal(settings->pids, 0);
    assert_int_equal(settings->disk_mb, 0);
    assert_false(settings->wasm_fresh_process);
    assert_string_equal(settings->docker_image, "");
    assert_string_equal(settings->docker_host, "");
    assert_int_equal(settings->docker_pool, 0);
    assert_int_equal(settings->guest_uid, CORE_SETTING_UNSET);
    assert_int_equal(settings->max_concurrent, 8);
    assert_int_equal(settings->per_key_concurrent, CORE_SETTING_UNSET);
    assert_int_equal(settings->rate_per_min, CORE_SETTING_UNSET);
    assert_int_equal(settings->rate_burst, 0);
    assert_int_equal(settings->total_memory_mb, 0);
}

static void unset_and_blank_are_defaults(void **state)
{
    (void)state;
    static const plim_bytes blanks[] = {{NULL, 0}, PLIM_LIT(""), PLIM_LIT("  \t\r\n")};
    for (size_t row = 0; row < core_setting_count; row++)
        for (size_t i = 0; i < PLIM_COUNT(blanks); i++) {
            core_settings settings;
            assert_true(read_one(core_setting_table[row].name, blanks[i], &settings, NULL));
            assert_defaults(&settings);
        }
}

/* The table as help and documents print it: complete, sorted into kinds, no name twice. */
static void the_table_is_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < core_setting_count; i++) {
        const core_setting *setting = &core_setting_table[i];
        bool ours = strncmp(setting->name, "PLIMSOLL_", 9) == 0;
        bool of_a_sandbox = strncmp(setting->name, "SANDBOX_", 8) == 0 ||
                            strcmp(setting->honoured_by, "docker") == 0;
        assert_true(of_a_sandbox != ours);
        assert_int_equal(of_a_sandbox, setting->scope == CORE_SCOPE_SANDBOX);
        assert_true(strlen(setting->default_text) && strlen(setting->range_text));
        assert_true(strlen(setting->honoured_by) && strlen(setting->help));
        static const size_t sizes[] = {[CORE_SCOPE_SANDBOX] = sizeof(core_settings),
                                       [CORE_SCOPE_DAEMON] = sizeof(core_daemon_settings),
                                       [CORE_SCOPE_TOOL] = sizeof(core_tool_settings)};
        assert_true(setting->offset + setting->size <= sizes[setting->scope]);
        if (setting->kind == CORE_SETTING_INT)
            assert_true(setting->least < setting->most);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(setting->name, core_setting_table[j].name);
            if (setting->scope == core_setting_table[j].scope)
                assert_int_not_equal(setting->offset, core_setting_table[j].offset);
        }
    }
}

static const struct integer {
    const char *name;
    int64_t least, most;
    size_t offset;
} integers[] = {
    {"SANDBOX_MEMORY_MB", 0, CORE_MIB_MAX, offsetof(core_settings, memory_mb)},
    {"SANDBOX_PIDS", 0, INT64_MAX, offsetof(core_settings, pids)},
    {"SANDBOX_DISK_MB", 0, CORE_MIB_MAX, offsetof(core_settings, disk_mb)},
    {"SANDBOX_MAX_CONCURRENT", 1, 1024, offsetof(core_settings, max_concurrent)},
    {"SANDBOX_PER_KEY_CONCURRENT", 0, 1024, offsetof(core_settings, per_key_concurrent)},
    {"SANDBOX_RATE_PER_MIN", 0, INT32_MAX, offsetof(core_settings, rate_per_min)},
    {"SANDBOX_RATE_BURST", 0, INT32_MAX, offsetof(core_settings, rate_burst)},
    {"SANDBOX_TOTAL_MEMORY_MB", 0, INT64_MAX, offsetof(core_settings, total_memory_mb)},
};

static void integers_hold_their_range(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLIM_COUNT(integers); i++) {
        const int64_t good[] = {integers[i].least, integers[i].least + 1, integers[i].most};
        for (size_t n = 0; n < PLIM_COUNT(good); n++) {
            char text[32];
            core_settings settings;
            snprintf(text, sizeof(text), " %" PRId64 "\n", good[n]);
            assert_true(read_one(integers[i].name, plim_bytes_of(text), &settings, NULL));
            assert_true(*(int64_t *)((char *)&settings + integers[i].offset) == good[n]);
            if (good[n] == integers[i].most && good[n] < INT64_MAX) {
                snprintf(text, sizeof(text), "%" PRId64, good[n] + 1);
                assert_bad(integers[i].name, plim_bytes_of(text));
            }
        }
        char below[32];
        snprintf(below, sizeof(below), "%" PRId64, integers[i].least - 1);
        assert_bad(integers[i].name, plim_bytes_of(below));
        static const plim_bytes bad[] = {
            PLIM_LIT("abc"), PLIM_LIT("1.5"), PLIM_LIT("-1"),
            PLIM_LIT("1e1"), PLIM_LIT("1 2"), PLIM_LIT("0x4"),
            PLIM_LIT("4M"),  PLIM_LIT("4\0"), PLIM_LIT("9223372036854775808"),
        };
        for (size_t n = 0; n < PLIM_COUNT(bad); n++)
            assert_bad(integers[i].name, bad[n]);
    }
}

/* Bytes of the most MiB still fit, so that a bound never wraps to none. */
static void mebibytes_have_a_number_of_bytes(void **state)
{
    (void)state;
    int64_t bytes;
    assert_false(__builtin_mul_overflow(CORE_MIB_MAX, INT64_C(1) << 20, &bytes));
    assert_true(__builtin_mul_overflow(CORE_MIB_MAX + 1, INT64_C(1) << 20, &bytes));
}

static void numbers_are_none_or_a_bound_that_counts(void **state)
{
    (void)state;
    static const struct {
        plim_bytes text;
        double value;
    } good[] = {{PLIM_LIT("0"), 0},
                {PLIM_LIT("0.5"), 0.5},
                {PLIM_LIT(" 2 "), 2},
                {PLIM_LIT("0.001"), 0.001},
                {PLIM_LIT("1e6"), 1e6}};
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        core_settings settings;
        assert_true(read_one("SANDBOX_CPUS", good[i].text, &settings, NULL));
        assert_true(settings.cpus == good[i].value);
    }
    static const plim_bytes bad[] = {PLIM_LIT("NaN"),     PLIM_LIT("inf"),   PLIM_LIT("-1"),
                                     PLIM_LIT("1,5"),     PLIM_LIT("1e999"), PLIM_LIT("two"),
                                     PLIM_LIT("0.00099"), PLIM_LIT("1e-10"), PLIM_LIT("1e7")};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        assert_bad("SANDBOX_CPUS", bad[i]);
}

static void switches_are_on_or_off(void **state)
{
    (void)state;
    static const struct {
        plim_bytes text;
        bool on;
    } good[] = {{PLIM_LIT("1"), true},
                {PLIM_LIT("TRUE "), true},
                {PLIM_LIT("0"), false},
                {PLIM_LIT("False"), false}};
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        core_settings settings;
        assert_true(read_one("SANDBOX_WASM_FRESH_PROCESS", good[i].text, &settings, NULL));
        assert_int_equal(settings.wasm_fresh_process, good[i].on);
    }
    static const plim_bytes bad[] = {PLIM_LIT("yes"), PLIM_LIT("on"), PLIM_LIT("2"),
                                     PLIM_LIT("true\0")};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        assert_bad("SANDBOX_WASM_FRESH_PROCESS", bad[i]);
}

static void tiers_are_walls(void **state)
{
    (void)state;
    static const struct {
        plim_bytes text;
        plim_tier tier;
    } good[] = {{PLIM_LIT("process"), PLIM_TIER_PROCESS},
                {PLIM_LIT(" Container\t"), PLIM_TIER_CONTAINER},
                {PLIM_LIT("KERNEL"), PLIM_TIER_KERNEL},
                {PLIM_LIT("vm"), PLIM_TIER_VM}};
    for (size_t i = 0; i < PLIM_COUNT(good); i++) {
        core_settings settings;
        assert_true(read_one("SANDBOX_MIN_ISOLATION", good[i].text, &settings, NULL));
        assert_int_equal(settings.min_isolation, good[i].tier);
    }
    static const plim_bytes bad[] = {PLIM_LIT("none"), PLIM_LIT("unknown"), PLIM_LIT("fortress"),
                                     PLIM_LIT("2"),    PLIM_LIT("v m"),     PLIM_LIT("vm\0")};
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        assert_bad("SANDBOX_MIN_ISOLATION", bad[i]);
}

static void names_are_trimmed_and_lowered(void **state)
{
    (void)state;
    core_settings settings;
    assert_true(read_one("SANDBOX_PROVIDER", PLIM_LIT("Wasm "), &settings, NULL));
    assert_string_equal(settings.provider, "wasm");
    assert_true(
        read_one("SANDBOX_PROVIDER", PLIM_LIT("0123456789012345678901234567890"), &settings, NULL));
    assert_int_equal(strlen(settings.provider), 31);
    assert_bad("SANDBOX_PROVIDER", PLIM_LIT("01234567890123456789012345678901"));
    /* A name ends where its bytes end: what follows a NUL is not dropped in silence. */
    assert_bad("SANDBOX_PROVIDER", PLIM_LIT("wasm\0evil"));
    assert_bad("SANDBOX_PROVIDER", PLIM_LIT("wasm\0"));
}

/* What a message shows of a value can neither forge a line nor drive a terminal, nor fill a log. */
static void shown_values_are_short_and_plain(void **state)
{
    (void)state;
    static const struct {
        plim_bytes value;
        const char *shown;
    } cases[] = {
        {{NULL, 0}, ""},
        {PLIM_LIT("abc"), "abc"},
        {PLIM_LIT("a\nb\x1B[31m\x7F\xC3\xA9\0"), "a?b?[31m????"},
        {PLIM_LIT("0123456789ab"), "0123456789ab"},
        {PLIM_LIT("0123456789abc"), "0123456789ab..."},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        char out[16];
        assert_ptr_equal(core_settings_shown(cases[i].value, out, sizeof(out)), out);
        assert_string_equal(out, cases[i].shown);
    }
}

static void the_environment_is_one_source(void **state)
{
    (void)state;
    setenv("SANDBOX_MEMORY_MB", "77", 1);
    setenv("SANDBOX_PROVIDER", "", 1);
    core_settings settings;
    assert_true(core_settings_read(core_lookup_environment, NULL, &settings, NULL));
    assert_int_equal(settings.memory_mb, 77);
    assert_string_equal(settings.provider, "");
    unsetenv("SANDBOX_MEMORY_MB");
    unsetenv("SANDBOX_PROVIDER");
    assert_null(core_lookup_environment(NULL, "SANDBOX_MEMORY_MB").data);
}

/* ---- limits made of settings ---- */

static const core_provider_ops on_host = {.name = "h", .on_host = true, .default_memory_mb = 256};
static const core_provider_ops off_host = {.name = "o", .default_memory_mb = 256};

static core_settings settings_with(int64_t max, int64_t total_memory_mb, int64_t memory_mb)
{
    core_settings settings;
    assert_true(core_settings_read(core_lookup_environment, NULL, &settings, NULL));
    settings.max_concurrent = max;
    settings.total_memory_mb = total_memory_mb;
    settings.memory_mb = memory_mb;
    return settings;
}

static void memory_bounds_the_runs_in_flight(void **state)
{
    (void)state;
    static const struct {
        int64_t max, total, each, effective; /* effective 0: refused */
    } cases[] = {
        {8, 0, 0, 8},         {8, 600, 256, 2},     {8, 600, 0, 2},   {8, 512, 256, 2},
        {8, 511, 256, 1},     {8, 256, 256, 1},     {8, 255, 256, 0}, {8, 200, 0, 0},
        {8, 2048, 256, 8},    {8, 1 << 30, 0, 8},   {8, 1, 1, 1},     {8, 1, 2, 0},
        {8, INT64_MAX, 1, 8}, {8, 1, INT64_MAX, 0},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        core_settings settings = settings_with(cases[i].max, cases[i].total, cases[i].each);
        core_limits limits;
        plim_error err = PLIM_ERROR_INIT;
        bool good = core_limits_from_settings(&settings, &on_host, &limits, &err);
        assert_int_equal(good, cases[i].effective > 0);
        if (good) {
            assert_int_equal(limits.max_concurrent, cases[i].effective);
        } else {
            assert_refused(&err, PLIM_E_INVALID_OPTION, "failed_precondition", PLIM_ND_ENVIRONMENT);
            assert_contains(plim_error_message(&err), "SANDBOX_TOTAL_MEMORY_MB");
        }
        /* Memory of another machine is not counted against this one's. */
        assert_true(core_limits_from_settings(&settings, &off_host, &limits, NULL));
        assert_int_equal(limits.max_concurrent, cases[i].max);
    }
}

static void callers_get_their_share(void **state)
{
    (void)state;
    static const struct {
        int64_t max, per_key, effective; /* effective -1: refused */
    } cases[] = {
        {8, CORE_SETTING_UNSET, 4},
        {9, CORE_SETTING_UNSET, 4},
        {2, CORE_SETTING_UNSET, 1},
        {1, CORE_SETTING_UNSET, 1},
        {8, 0, 0},
        {8, 8, 8},
        {8, 9, -1},
        {1, 1, 1},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        core_settings settings = settings_with(cases[i].max, 0, 0);
        settings.per_key_concurrent = cases[i].per_key;
        core_limits limits;
        plim_error err = PLIM_ERROR_INIT;
        bool good = core_limits_from_settings(&settings, &on_host, &limits, &err);
        assert_int_equal(good, cases[i].effective >= 0);
        if (good)
            assert_int_equal(limits.per_key_concurrent, cases[i].effective);
        else
            assert_contains(plim_error_message(&err), "SANDBOX_PER_KEY_CONCURRENT");
    }
    /* The cap of a caller is compared with what fits, and made of it. */
    core_settings settings = settings_with(8, 512, 256);
    core_limits limits;
    assert_true(core_limits_from_settings(&settings, &on_host, &limits, NULL));
    assert_int_equal(limits.per_key_concurrent, 1);
    settings.per_key_concurrent = 3;
    assert_false(core_limits_from_settings(&settings, &on_host, &limits, NULL));
}

static void rates_have_bursts(void **state)
{
    (void)state;
    static const struct {
        int64_t rate, burst, effective_rate, effective_burst;
    } cases[] = {
        {CORE_SETTING_UNSET, 0, 30, 30},
        {CORE_SETTING_UNSET, 2, 30, 2},
        {60, 0, 60, 60},
        {60, 2, 60, 2},
        {0, 0, 0, 0},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        core_settings settings = settings_with(8, 0, 0);
        settings.rate_per_min = cases[i].rate;
        settings.rate_burst = cases[i].burst;
        core_limits limits;
        assert_true(core_limits_from_settings(&settings, &on_host, &limits, NULL));
        assert_int_equal(limits.rate_per_min, cases[i].effective_rate);
        assert_int_equal(limits.rate_burst, cases[i].effective_burst);
    }
}

static int clean_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < core_setting_count; i++)
        unsetenv(core_setting_table[i].name);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unset_and_blank_are_defaults),
        cmocka_unit_test(the_table_is_complete),
        cmocka_unit_test(integers_hold_their_range),
        cmocka_unit_test(mebibytes_have_a_number_of_bytes),
        cmocka_unit_test(numbers_are_none_or_a_bound_that_counts),
        cmocka_unit_test(switches_are_on_or_off),
        cmocka_unit_test(tiers_are_walls),
        cmocka_unit_test(names_are_trimmed_and_lowered),
        cmocka_unit_test(shown_values_are_short_and_plain),
        cmocka_unit_test(the_environment_is_one_source),
        cmocka_unit_test(memory_bounds_the_runs_in_flight),
        cmocka_unit_test(callers_get_their_share),
        cmocka_unit_test(rates_have_bursts),
    };
    return cmocka_run_group_tests(tests, clean_environment, NULL);
}
