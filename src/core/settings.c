#include "core/core.h"

typedef core_settings settings_of_SANDBOX;
typedef core_daemon_settings settings_of_DAEMON;
typedef core_tool_settings settings_of_TOOL;

const core_setting core_setting_table[] = {
#define X(scope, field, name, kind, least, most, default_text, range_text, honoured_by, help)      \
    {name,                                                                                         \
     CORE_SCOPE_##scope,                                                                           \
     CORE_SETTING_##kind,                                                                          \
     least,                                                                                        \
     most,                                                                                         \
     offsetof(settings_of_##scope, field),                                                         \
     sizeof(((settings_of_##scope *)0)->field),                                                    \
     default_text,                                                                                 \
     range_text,                                                                                   \
     honoured_by,                                                                                  \
     help},
    CORE_SETTINGS(X)
#undef X
};

const size_t core_setting_count = PLIM_COUNT(core_setting_table);

const core_setting *core_setting_find(plim_bytes name)
{
    for (size_t i = 0; i < core_setting_count; i++)
        if (base_bytes_is(name, core_setting_table[i].name))
            return &core_setting_table[i];
    return NULL;
}

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

/* A bound of processors that is none in a provider's units is refused, not rounded to none. */
static bool read_number(const core_setting *setting, plim_bytes value, double *out, plim_error *err)
{
    static const double least = 0.001, most = 1e6;
    if (!base_parse_number(value, out))
        return refuse_value(err, setting, value, "a finite number");
    return *out == 0 || (*out >= least && *out <= most) ||
           refuse_value(err, setting, value, setting->range_text);
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

/* Text that fits its member and holds no NUL, which would end it early: "wasm\0x" is not "wasm". */
static bool copy_text(const core_setting *setting, plim_bytes value, char *out)
{
    if (value.len >= setting->size || memchr(value.data, '\0', value.len))
        return false;
    memcpy(out, value.data, value.len);
    out[value.len] = '\0';
    return true;
}

static bool read_name(const core_setting *setting, plim_bytes value, char *out, plim_error *err)
{
    if (!copy_text(setting, value, out))
        return refuse_value(err, setting, value, setting->range_text);
    for (char *at = out; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at + ('a' - 'A') : *at);
    return true;
}

static bool read_address(const core_setting *setting, plim_bytes value, char *out, plim_error *err)
{
    if (setting->kind == CORE_SETTING_ADDRESS_OR && base_ascii_equal_ignore_case(value, "off"))
        value = PLIM_LIT("off");
    else if (!core_address_valid(value))
        return refuse_value(err, setting, value, setting->range_text);
    return copy_text(setting, value, out) || refuse_value(err, setting, value, setting->range_text);
}

/* Its length is all that is ever said of a secret. */
static bool read_secret(const core_setting *setting, plim_bytes value, char *out, plim_error *err)
{
    if ((int64_t)value.len < setting->least || (int64_t)value.len > setting->most ||
        !copy_text(setting, value, out))
        return core_refuse_configuration(err, "%s is %zu bytes long; it must be %s", setting->name,
                                         value.len, setting->range_text);
    return true;
}

static void read_acknowledgement(plim_bytes value, core_acknowledgement *out)
{
    if (base_bytes_is(value, "1"))
        *out = CORE_ACK_GIVEN;
    else if (base_trim(value).len)
        *out = CORE_ACK_OTHER;
}

/* A value that is not blank; `given` is the same before it was trimmed. */
static bool read_value(const core_setting *setting, plim_bytes value, plim_bytes given,
                       void *member, plim_error *err)
{
    switch (setting->kind) {
    case CORE_SETTING_INT:
        return read_int(setting, value, member, err);
    case CORE_SETTING_NUMBER:
        return read_number(setting, value, member, err);
    case CORE_SETTING_BOOL:
        return base_parse_bool(value, member) ||
               refuse_value(err, setting, value, "0 or 1, false or true");
    case CORE_SETTING_TIER:
        return read_tier(setting, value, member, err);
    case CORE_SETTING_NAME:
        return read_name(setting, value, member, err);
    case CORE_SETTING_ADDRESS:
    case CORE_SETTING_ADDRESS_OR:
        return read_address(setting, value, member, err);
    case CORE_SETTING_PATH:
        return copy_text(setting, value, member) ||
               refuse_value(err, setting, value, "a path that the system can open");
    case CORE_SETTING_TEXT:
        return copy_text(setting, given, member) ||
               refuse_value(err, setting, value, setting->range_text);
    case CORE_SETTING_SECRET:
        return read_secret(setting, given, member, err);
    case CORE_SETTING_WORD:
        *(bool *)member = base_ascii_equal_ignore_case(value, setting->range_text);
        return true;
    case CORE_SETTING_ACK:
        read_acknowledgement(given, member);
        return true;
    }
    return false;
}

static bool has_default(const core_setting *setting)
{
    return setting->kind == CORE_SETTING_ADDRESS || setting->kind == CORE_SETTING_ADDRESS_OR;
}

/* A secret of white space is a short secret, not an unset one. */
static bool is_unset(const core_setting *setting, plim_bytes value)
{
    return (setting->kind == CORE_SETTING_SECRET ? value : base_trim(value)).len == 0;
}

static bool read_scope(core_setting_scope scope, core_lookup *lookup, void *ctx, void *out,
                       plim_error *err)
{
    for (size_t i = 0; i < core_setting_count; i++) {
        const core_setting *setting = &core_setting_table[i];
        if (setting->scope != scope)
            continue;
        plim_bytes value = lookup(ctx, setting->name);
        if (is_unset(setting, value) && !has_default(setting))
            continue;
        if (is_unset(setting, value))
            value = plim_bytes_of(setting->default_text);
        if (!read_value(setting, base_trim(value), value, (char *)out + setting->offset, err))
            return false;
    }
    return true;
}

bool core_settings_read(core_lookup *lookup, void *ctx, core_settings *out, plim_error *err)
{
    *out = (core_settings){
        .max_concurrent = 8,
        .per_key_concurrent = CORE_SETTING_UNSET,
        .rate_per_min = CORE_SETTING_UNSET,
        .guest_uid = CORE_SETTING_UNSET,
    };
    return read_scope(CORE_SCOPE_SANDBOX, lookup, ctx, out, err);
}

bool core_daemon_settings_read(core_lookup *lookup, void *ctx, core_daemon_settings *out,
                               plim_error *err)
{
    memset(out, 0, sizeof(*out));
    return read_scope(CORE_SCOPE_DAEMON, lookup, ctx, out, err);
}

bool core_tool_settings_read(core_lookup *lookup, void *ctx, core_tool_settings *out,
                             plim_error *err)
{
    memset(out, 0, sizeof(*out));
    return read_scope(CORE_SCOPE_TOOL, lookup, ctx, out, err);
}
