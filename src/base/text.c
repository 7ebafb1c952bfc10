#include "base/base.h"

#include <locale.h>
#include <math.h>

plim_bytes base_trim(plim_bytes text)
{
    while (text.len && base_is_space(text.data[0]))
        text = (plim_bytes){text.data + 1, text.len - 1};
    while (text.len && base_is_space(text.data[text.len - 1]))
        text.len--;
    return text;
}

bool base_ascii_equal_ignore_case(plim_bytes a, const char *b)
{
    if (a.len != strlen(b))
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (base_lower(a.data[i]) != base_lower(b[i]))
            return false;
    return true;
}

bool base_parse_int(plim_bytes text, int64_t *out)
{
    bool negative = text.len && text.data[0] == '-';
    size_t at = negative || (text.len && text.data[0] == '+') ? 1 : 0;
    if (at == text.len)
        return false;
    int64_t value = 0;
    for (; at < text.len; at++) {
        if (!base_is_digit(text.data[at]))
            return false;
        /* Built from below, so that INT64_MIN fits. */
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, text.data[at] - '0', &value))
            return false;
    }
    if (!negative && __builtin_mul_overflow(value, -1, &value))
        return false;
    *out = value;
    return true;
}

bool base_parse_number(plim_bytes text, double *out)
{
    char copy[64];
    if (text.len == 0 || text.len >= sizeof(copy))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (!base_is_digit(c) && c != '.' && c != '+' && c != '-' && c != 'e' && c != 'E')
            return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    char *end;
    /* The program that holds this library may have set a locale with a decimal comma. */
    double value = strtod_l(copy, &end, newlocale(LC_ALL_MASK, "C", NULL));
    if (end != copy + text.len || !isfinite(value))
        return false;
    *out = value;
    return true;
}

bool base_parse_bool(plim_bytes text, bool *out)
{
    bool on = base_ascii_equal_ignore_case(text, "1") || base_ascii_equal_ignore_case(text, "true");
    if (!on && text.len && !base_ascii_equal_ignore_case(text, "0") &&
        !base_ascii_equal_ignore_case(text, "false"))
        return false;
    *out = on;
    return true;
}

static const struct duration_unit {
    const char *name;
    int64_t ns;
} duration_units[] = {
    {"ns", 1},
    {"us", 1000},
    {"\xC2\xB5s", 1000}, /* micro sign */
    {"\xCE\xBCs", 1000}, /* Greek mu */
    {"ms", BASE_NS_PER_MS},
    {"s", BASE_NS_PER_S},
    {"m", 60 * BASE_NS_PER_S},
    {"h", 3600 * BASE_NS_PER_S},
};

/* The unit at the front of `text`, the longest that matches: "ms" before "m". */
static const struct duration_unit *unit_at(plim_bytes text)
{
    const struct duration_unit *best = NULL;
    for (size_t i = 0; i < PLIM_COUNT(duration_units); i++) {
        size_t length = strlen(duration_units[i].name);
        if (length <= text.len && memcmp(text.data, duration_units[i].name, length) == 0 &&
            (!best || length > strlen(best->name)))
            best = &duration_units[i];
    }
    return best;
}

/*
 * The decimal at the front of `*text`, exactly: its whole part, and its fraction as a number of
 * parts of `*scale`, a power of ten. Digits past the 18th after the point are below any unit here.
 */
static bool take_decimal(plim_bytes *text, int64_t *whole, int64_t *fraction, int64_t *scale)
{
    size_t at = 0, digits = 0;
    *whole = *fraction = 0;
    *scale = 1;
    for (; at < text->len && base_is_digit(text->data[at]); at++, digits++)
        if (__builtin_mul_overflow(*whole, 10, whole) ||
            __builtin_add_overflow(*whole, text->data[at] - '0', whole))
            return false;
    if (at < text->len && text->data[at] == '.')
        for (at++; at < text->len && base_is_digit(text->data[at]); at++, digits++)
            if (*scale < INT64_C(1000000000000000000)) {
                *fraction = *fraction * 10 + (text->data[at] - '0');
                *scale *= 10;
            }
    *text = (plim_bytes){text->data + at, text->len - at};
    return digits > 0;
}

bool base_parse_duration_ns(plim_bytes text, int64_t *out)
{
    int64_t total = 0;
    bool zero = base_bytes_is(text, "0");
    if (text.len == 0)
        return false;
    while (text.len && !zero) {
        int64_t whole, fraction, scale, ns;
        if (!take_decimal(&text, &whole, &fraction, &scale))
            return false;
        const struct duration_unit *unit = unit_at(text);
        if (!unit || __builtin_mul_overflow(whole, unit->ns, &ns) ||
            __builtin_add_overflow(total, ns, &total))
            return false;
        ns = (int64_t)((__int128)fraction * unit->ns / scale);
        if (__builtin_add_overflow(total, ns, &total))
            return false;
        text = (plim_bytes){text.data + strlen(unit->name), text.len - strlen(unit->name)};
    }
    *out = total;
    return true;
}
