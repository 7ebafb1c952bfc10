/*
 * Settings from anywhere: the first byte chooses a variable, the rest is its value. A value is read
 * or refused; a refusal names the variable, is plain text and promises that nothing ran; what was
 * read is within its range and reads the same again.
 */
#include "core/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct one one = {&core_setting_table[data[0] % core_setting_count],
                      {(const char *)data + 1, size - 1}};
    core_settings settings;
    plim_error err = PLIM_ERROR_INIT;
    check_durations(one.value);
    if (!core_settings_read(look_up, &one, &settings, &err)) {
        check_refusal(&one, &err);
        return 0;
    }
    if (one.setting->kind == CORE_SETTING_INT)
        check_integer(&one, &settings);
    CHECK(settings.cpus >= 0 && settings.cpus - settings.cpus == 0);
    CHECK(settings.min_isolation == PLIM_TIER_UNKNOWN ||
          settings.min_isolation >= PLIM_TIER_PROCESS);
    CHECK(memchr(settings.provider, '\0', sizeof(settings.provider)));
    return 0;
}
