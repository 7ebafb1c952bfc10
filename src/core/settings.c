#include "core/core.h"

const core_setting core_setting_table[] = {
#define X(field, name, kind, least, most, default_text, range_text, honoured_by, help)             \
    {name,         CORE_SETTING_##kind, least,       most, offsetof(core_settings, field),         \
     default_text, range_text,          honoured_by, help},
    CORE_SETTINGS(X)
#undef X
};

const size_t core_setting_count = PLIM_COUNT(core_setting_table);

plim_bytes core_lookup_environment(void *ctx, const char *name)
{
    (void)ctx;
    return plim_bytes_of(getenv(name));
}

const char *core_settings_shown(plim_bytes value, char *out, size_t size)
{
    size_t room = size - sizeof("...");
    size_t length = value.len < room ? value.len : room;
    for (size_t i = 0; i < length; i++)
        out[i] = (char)(value.data[i] >= ' ' && value.data[i] < 0x7F ? value.data[i] : '?');
    snprintf(out + length, size - length, "%s", value.len > length ? "..." : "");
    return out;
}

static bool refuse_value(plim_error *err, const core_setting *setting, plim_bytes value,
                         const char *what)
{
    char text[64];
    return core_refuse_configuration(err, "%s is \"%s\"; it must be %s", setting->name,
                                     core_settings_shown(value, text, sizeof(text)), what);
}

static bool read_int(const core_setting *setting, plim_bytes value, int64_t *out, plim_error *err)
{
    int64_t number;
    if (!base_parse_int(value, &number))
        return refuse_value(err, setting, value, "a whole number");
    if (number < setting->least || number > setting->most)
        return refuse_value(err, setting, value, setting->range_text);
    *out = number;
    return true;
}

static bool read_tier(const core_setting *setting, plim_bytes value, plim_tier *out,
                      plim_error *err)
{
    for (plim_tier tier = PLIM_TIER_PROCESS; tier <= PLIM_TIER_VM; tier++) {
        if (!base_ascii_equal_ignore_case(value, plim_tier_name(tier)))
            continue;
        *out = tier;
        return true;
    }
    return refuse_value(err, setting, value, setting->range_text);
}

static bool read_name(const core_setting *setting, plim_bytes value, char out[32], plim_error *err)
{
    /* A NUL would end the name early, and "wasm\0x" is not "wasm". */
    if (value.len >= 32 || memchr(value.data, '\0', value.len))
        return refuse_value(err, setting, value, setting->range_text);
    for (size_t i = 0; i < value.len; i++)
        out[i] = value.data[i] >= 'A' && value.data[i] <= 'Z' ? (char)(value.data[i] + 32)
                                                              : value.data[i];
    out[value.len] = '\0';
    return true;
}

static bool read_one(const core_setting *setting, plim_bytes value, core_settings *out,
                     plim_error *err)
{
    void *member = (char *)out + setting->offset;
    value = base_trim(value);
    if (value.len == 0)
        return true;
    switch (setting->kind) {
    case CORE_SETTING_INT:
        return read_int(setting, value, member, err);
    case CORE_SETTING_NUMBER:
        return (base_parse_number(value, member) && *(double *)member >= 0) ||
               refuse_value(err, setting, value, "a finite number of 0 or more");
    case CORE_SETTING_BOOL:
        return base_parse_bool(value, member) ||
               refuse_value(err, setting, value, "0 or 1, false or true");
    case CORE_SETTING_TIER:
        return read_tier(setting, value, member, err);
    case CORE_SETTING_NAME:
        return read_name(setting, value, member, err);
    }
    return false;
}

bool core_settings_read(core_lookup *lookup, void *ctx, core_settings *out, plim_error *err)
{
    *out = (core_settings){
        .max_concurrent = 8,
        .per_key_concurrent = CORE_SETTING_UNSET,
        .rate_per_min = CORE_SETTING_UNSET,
    };
    for (size_t i = 0; i < core_setting_count; i++)
        if (!read_one(&core_setting_table[i], lookup(ctx, core_setting_table[i].name), out, err))
            return false;
    return true;
}
