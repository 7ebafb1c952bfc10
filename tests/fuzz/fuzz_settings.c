/*
 * Settings from anywhere: the first byte chooses a variable, the rest is its value. A value is read
 * or refused; a refusal names the variable, is plain text and promises that nothing ran; what was
 * read is within its range and reads the same again.
 */
#include "core/core.h"

#include "fuzz.h"

struct one {
    const core_setting *setting;
    plim_bytes value;
};

static plim_bytes look_up(void *ctx, const char *name)
{
    const struct one *one = ctx;
    return name == one->setting->name ? one->value : (plim_bytes){NULL, 0};
}

static void check_refusal(const struct one *one, const plim_error *err)
{
    CHECK(plim_error_status(err) == PLIM_E_INVALID_OPTION && !plim_may_have_run(err));
    CHECK(strstr(plim_error_message(err), one->setting->name));
    for (const char *at = plim_error_message(err); *at; at++)
        CHECK(*at >= ' ' && *at < 0x7F);
}

/* Of a secret a message tells its length: any other of that length is refused in the same words. */
static void check_secret(const struct one *one, const plim_error *err)
{
    static char other[8192];
    static core_daemon_settings settings;
    plim_error again = PLIM_ERROR_INIT;
    if (one->setting->kind != CORE_SETTING_SECRET || one->value.len > sizeof(other))
        return;
    memset(other, 'x', sizeof(other));
    struct one twin = {one->setting, {other, one->value.len}};
    if (!core_daemon_settings_read(look_up, &twin, &settings, &again))
        CHECK(strcmp(plim_error_message(&again), plim_error_message(err)) == 0);
}

/* An integer that was read is in range, and its decimal form reads back as itself. */
static void check_integer(struct one *one, const core_settings *settings)
{
    int64_t value, again;
    memcpy(&value, (const char *)settings + one->setting->offset, sizeof(value));
    if (base_trim(one->value).len == 0)
        return;
    CHECK(value >= one->setting->least && value <= one->setting->most);
    char text[32];
    snprintf(text, sizeof(text), "%" PRId64, value);
    CHECK(base_parse_int(plim_bytes_of(text), &again) && again == value);
}

/* The parsers that no setting of this table uses yet. */
static void check_durations(plim_bytes text)
{
    int64_t ns, again;
    double number;
    if (base_parse_duration_ns(text, &ns)) {
        char shown[48];
        CHECK(ns >= 0);
        snprintf(shown, sizeof(shown), "%" PRId64 "ns", ns);
        CHECK(base_parse_duration_ns(plim_bytes_of(shown), &again) && again == ns);
    }
    if (base_parse_number(text, &number))
        CHECK(number - number == 0); /* finite */
}

static void check_sandbox(struct one *one)
{
    core_settings settings;
    plim_error err = PLIM_ERROR_INIT;
    if (!core_settings_read(look_up, one, &settings, &err)) {
        check_refusal(one, &err);
        return;
    }
    if (one->setting->kind == CORE_SETTING_INT)
        check_integer(one, &settings);
    CHECK(settings.cpus >= 0 && settings.cpus - settings.cpus == 0);
    CHECK(settings.min_isolation == PLIM_TIER_UNKNOWN ||
          settings.min_isolation >= PLIM_TIER_PROCESS);
    CHECK(memchr(settings.provider, '\0', sizeof(settings.provider)));
}

static void check_daemon(struct one *one)
{
    static core_daemon_settings settings;
    plim_error err = PLIM_ERROR_INIT;
    if (!core_daemon_settings_read(look_up, one, &settings, &err)) {
        check_refusal(one, &err);
        check_secret(one, &err);
        return;
    }
    CHECK(settings.addr[0] && strlen(settings.addr) < sizeof(settings.addr));
    CHECK(settings.token[0] == '\0' || strlen(settings.token) >= 32);
    CHECK((settings.insecure == CORE_ACK_GIVEN) ==
          (one->setting->kind == CORE_SETTING_ACK && base_bytes_is(one->value, "1")));
}

static void check_tool(struct one *one)
{
    static core_tool_settings settings;
    plim_error err = PLIM_ERROR_INIT;
    if (!core_tool_settings_read(look_up, one, &settings, &err))
        check_refusal(one, &err);
    else
        CHECK(strlen(settings.caller_token) == one->value.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct one one = {&core_setting_table[data[0] % core_setting_count],
                      {(const char *)data + 1, size - 1}};
    check_durations(one.value);
    switch (one.setting->scope) {
    case CORE_SCOPE_SANDBOX:
        check_sandbox(&one);
        break;
    case CORE_SCOPE_DAEMON:
        check_daemon(&one);
        break;
    case CORE_SCOPE_TOOL:
        check_tool(&one);
        break;
    }
    return 0;
}
