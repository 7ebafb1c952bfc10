/* The settings table: what each kind of row takes and refuses, in both scopes, and the reference.
 */
#include "core/core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct pair {
    const char *name, *value;
};

static plim_bytes lookup(void *ctx, const char *name)
{
    for (const struct pair *pair = ctx; pair->name; pair++)
        if (strcmp(pair->name, name) == 0)
            return plim_bytes_of(pair->value);
    return (plim_bytes){NULL, 0};
}

#define PAIRS(...) ((struct pair[]){__VA_ARGS__, {NULL, NULL}})
#define NOTHING    ((struct pair[]){{NULL, NULL}})

static void read_daemon(struct pair *pairs, core_daemon_settings *out)
{
    plim_error err = PLIM_ERROR_INIT;
    if (!core_daemon_settings_read(lookup, pairs, out, &err))
        fail_msg("%s", plim_error_message(&err));
}

static void daemon_defaults(void **state)
{
    (void)state;
    core_daemon_settings settings;
    read_daemon(NOTHING, &settings);
    assert_string_equal(settings.addr, ":8746");
    assert_string_equal(settings.metrics_addr, "127.0.0.1:9464");
    assert_false(settings.log_text || settings.hardened);
    assert_int_equal(settings.insecure, CORE_ACK_ABSENT);
    assert_string_equal(settings.clients_file, "");
    assert_string_equal(settings.token, "");
}

static void every_row_takes_a_blank_for_its_default(void **state)
{
    (void)state;
    core_settings sandbox, sandbox_default;
    core_daemon_settings daemon, daemon_default;
    assert_true(core_settings_read(lookup, NOTHING, &sandbox_default, NULL));
    read_daemon(NOTHING, &daemon_default);
    for (size_t i = 0; i < core_setting_count; i++) {
        bool secret = core_setting_table[i].kind == CORE_SETTING_SECRET;
        struct pair blank[] = {{core_setting_table[i].name, secret ? "" : " \t\n"}, {NULL, NULL}};
        memset(&sandbox, 0xAA, sizeof(sandbox));
        assert_true(core_settings_read(lookup, blank, &sandbox, NULL));
        read_daemon(blank, &daemon);
        assert_string_equal(sandbox.provider, sandbox_default.provider);
        assert_int_equal(sandbox.max_concurrent, sandbox_default.max_concurrent);
        assert_int_equal(sandbox.rate_per_min, sandbox_default.rate_per_min);
        assert_memory_equal(&daemon, &daemon_default, sizeof(daemon));
    }
}

static void words_and_acknowledgements(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool text;
    } formats[] = {
        {"text", true}, {" TEXT ", true}, {"json", false}, {"yaml", false}, {"texts", false}};
    static const struct {
        const char *value;
        core_acknowledgement means;
    } acknowledgements[] = {{"1", CORE_ACK_GIVEN}, {"true", CORE_ACK_OTHER}, {" 1", CORE_ACK_OTHER},
                            {"0", CORE_ACK_OTHER}, {"  ", CORE_ACK_ABSENT},  {"", CORE_ACK_ABSENT},
                            {"11", CORE_ACK_OTHER}};
    core_daemon_settings settings;
    for (size_t i = 0; i < PLIM_COUNT(formats); i++) {
        read_daemon(PAIRS({"PLIMSOLL_LOG_FORMAT", formats[i].value}), &settings);
        assert_int_equal(settings.log_text, formats[i].text);
    }
    for (size_t i = 0; i < PLIM_COUNT(acknowledgements); i++) {
        read_daemon(PAIRS({"PLIMSOLL_INSECURE", acknowledgements[i].value}), &settings);
        assert_int_equal(settings.insecure, acknowledgements[i].means);
    }
}

static void addresses_are_trimmed_and_off_is_a_word(void **state)
{
    (void)state;
    core_daemon_settings settings;
    read_daemon(PAIRS({"PLIMSOLL_ADDR", " [::1]:0 "}, {"PLIMSOLL_METRICS_ADDR", " OFF "}),
                &settings);
    assert_string_equal(settings.addr, "[::1]:0");
    assert_string_equal(settings.metrics_addr, "off");
}

static void daemon_values_are_refused_by_name(void **state)
{
    (void)state;
    static char long_path[PATH_MAX + 1];
    memset(long_path, 'a', PATH_MAX);
    const struct pair bad[] = {
        {"PLIMSOLL_ADDR", "off"},          {"PLIMSOLL_ADDR", "8746"},
        {"PLIMSOLL_ADDR", "localhost"},    {"PLIMSOLL_METRICS_ADDR", "9464"},
        {"PLIMSOLL_METRICS_ADDR", "offf"}, {"PLIMSOLL_HARDENED", "yes"},
        {"PLIMSOLL_HARDENED", "2"},        {"PLIMSOLL_TOKEN", "0123456789012345678901234567890"},
        {"PLIMSOLL_TOKEN", "   "},         {"PLIMSOLL_CLIENTS_FILE", long_path},
    };
    for (size_t i = 0; i < PLIM_COUNT(bad); i++) {
        struct pair one[] = {bad[i], {NULL, NULL}};
        core_daemon_settings settings;
        plim_error err = PLIM_ERROR_INIT;
        assert_false(core_daemon_settings_read(lookup, one, &settings, &err));
        assert_int_equal(plim_error_status(&err), PLIM_E_INVALID_OPTION);
        assert_non_null(strstr(plim_error_message(&err), bad[i].name));
        assert_null(strstr(plim_error_message(&err), "0123456789"));
    }
}

static void the_log_format_is_read_whatever_else_is_wrong(void **state)
{
    (void)state;
    core_daemon_settings settings;
    assert_false(core_daemon_settings_read(
        lookup, PAIRS({"PLIMSOLL_HARDENED", "yes"}, {"PLIMSOLL_LOG_FORMAT", "text"}), &settings,
        NULL));
    assert_true(settings.log_text);
}

static void integers_are_strict(void **state)
{
    (void)state;
    static const char *const names[] = {
        "SANDBOX_MEMORY_MB",          "SANDBOX_PIDS",           "SANDBOX_DISK_MB",
        "SANDBOX_MAX_CONCURRENT",     "SANDBOX_RATE_PER_MIN",   "SANDBOX_RATE_BURST",
        "SANDBOX_PER_KEY_CONCURRENT", "SANDBOX_TOTAL_MEMORY_MB"};
    static const char *const bad[] = {"abc", "1.5", "-1", "0x10", "1 2", "99999999999999999999",
                                      "--1", "+"};
    for (size_t i = 0; i < PLIM_COUNT(names); i++)
        for (size_t j = 0; j < PLIM_COUNT(bad); j++) {
            core_settings settings;
            plim_error err = PLIM_ERROR_INIT;
            struct pair one[] = {{names[i], bad[j]}, {NULL, NULL}};
            assert_false(core_settings_read(lookup, one, &settings, &err));
            assert_non_null(strstr(plim_error_message(&err), names[i]));
            assert_non_null(strstr(plim_error_message(&err), bad[j]));
        }
}

static void the_range_of_concurrent_runs(void **state)
{
    (void)state;
    core_settings settings;
    assert_false(
        core_settings_read(lookup, PAIRS({"SANDBOX_MAX_CONCURRENT", "0"}), &settings, NULL));
    assert_false(
        core_settings_read(lookup, PAIRS({"SANDBOX_MAX_CONCURRENT", "1025"}), &settings, NULL));
    assert_true(
        core_settings_read(lookup, PAIRS({"SANDBOX_MAX_CONCURRENT", " +1024 "}), &settings, NULL));
    assert_int_equal(settings.max_concurrent, 1024);
}

static void addresses(void **state)
{
    (void)state;
    static const char *const good[] = {":0",       ":8746",  "localhost:1", "127.0.0.1:65535",
                                       "[::1]:80", "[::]:1", "a-b.c_d:2",   "0.0.0.0:00080"};
    static const char *const bad[] = {
        "",      ":",     "1",      "a:",    "a:b",   "a:65536",    "a:-1",
        "a:+1",  "a: 1",  "::1:80", "[::1]", "[a]:1", "[::1:1",     "a b:1",
        "a/b:1", "a@b:1", "[]:1",   "a:1:2", "a:0x1", "http://a:1", "a:000080"};
    static const char *const loopback[] = {"localhost:1",   "LocalHost:1", "127.0.0.1:1",
                                           "127.255.1.2:0", "[::1]:9",     "[0:0:0:0:0:0:0:1]:9"};
    static const char *const elsewhere[] = {
        ":1",      "0.0.0.0:1", "[::]:1",  "128.0.0.1:1",         "localhost.:1",
        "127.1:1", "example:1", "[::2]:1", "127.0.0.1.example:1", "[::ffff:127.0.0.1]:1",
        "off"};
    for (size_t i = 0; i < PLIM_COUNT(good); i++)
        assert_true(core_address_valid(plim_bytes_of(good[i])));
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        if (core_address_valid(plim_bytes_of(bad[i])))
            fail_msg("accepted: %s", bad[i]);
    for (size_t i = 0; i < PLIM_COUNT(loopback); i++)
        assert_true(core_address_is_loopback(plim_bytes_of(loopback[i])));
    for (size_t i = 0; i < PLIM_COUNT(elsewhere); i++)
        assert_false(core_address_is_loopback(plim_bytes_of(elsewhere[i])));
}

static void the_reference_names_what_the_daemon_reads(void **state)
{
    (void)state;
    _cleanup_buf_ base_buf help = BASE_BUF_INIT(65536);
    core_settings_help(&help);
    assert_false(help.failed);
    for (size_t i = 0; i < core_setting_count; i++) {
        bool is_read = core_setting_table[i].scope != CORE_SCOPE_TOOL;
        assert_int_equal(is_read, strstr(base_buf_text(&help), core_setting_table[i].name) != NULL);
        assert_ptr_equal(core_setting_find(plim_bytes_of(core_setting_table[i].name)),
                         &core_setting_table[i]);
    }
    for (size_t i = 0; i < core_absent_count; i++) {
        assert_non_null(strstr(base_buf_text(&help), core_absent_table[i].name));
        assert_null(core_setting_find(plim_bytes_of(core_absent_table[i].name)));
    }
    assert_null(core_setting_find(PLIM_LIT("SANDBOX_MAX_CONCURENT")));
    size_t column = 0;
    for (const char *at = base_buf_text(&help); *at; at++) {
        column = *at == '\n' ? 0 : column + 1;
        assert_true(column <= 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(daemon_defaults),
        cmocka_unit_test(every_row_takes_a_blank_for_its_default),
        cmocka_unit_test(words_and_acknowledgements),
        cmocka_unit_test(addresses_are_trimmed_and_off_is_a_word),
        cmocka_unit_test(daemon_values_are_refused_by_name),
        cmocka_unit_test(the_log_format_is_read_whatever_else_is_wrong),
        cmocka_unit_test(integers_are_strict),
        cmocka_unit_test(the_range_of_concurrent_runs),
        cmocka_unit_test(addresses),
        cmocka_unit_test(the_reference_names_what_the_daemon_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
