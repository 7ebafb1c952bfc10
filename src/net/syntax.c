#include "net/net.h"

static bool is_lower_alnum(char c)
{
    return base_is_digit(c) || (c >= 'a' && c <= 'z');
}

bool net_lower_token_valid(plim_bytes name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!is_lower_alnum(name.data[i]) &&
            (name.data[i] == '\0' || !strchr("!#$%&'*+-.^_`|~", name.data[i])))
            return false;
    return name.len > 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

bool net_value_valid(plim_bytes value)
{
    if (value.len && (is_space(value.data[0]) || is_space(value.data[value.len - 1])))
        return false;
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.data[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

bool net_host_valid(plim_bytes host)
{
    for (size_t i = 0; i < host.len; i++) {
        char c = base_lower(host.data[i]);
        if (!is_lower_alnum(c) && (c == '\0' || !strchr("-._~%!$&'()*+,;=:[]", c)))
            return false;
    }
    return true;
}

/* The bytes after `scheme` when `target` begins with it, ignoring case. */
static bool after_scheme(plim_bytes target, const char *scheme, plim_bytes *rest)
{
    size_t length = strlen(scheme);
    if (target.len < length ||
        !base_ascii_equal_ignore_case((plim_bytes){target.data, length}, scheme))
        return false;
    *rest = (plim_bytes){target.data + length, target.len - length};
    return true;
}

/* What follows the authority of an absolute form; "/" when nothing does. */
static bool after_authority(plim_bytes rest, plim_bytes *origin)
{
    size_t at = 0;
    while (at < rest.len && rest.data[at] != '/' && rest.data[at] != '?')
        at++;
    if (at == 0)
        return false;
    *origin = (plim_bytes){rest.data + at, rest.len - at};
    if (origin->len == 0)
        *origin = PLIM_LIT("/");
    return true;
}

bool net_target_split(plim_bytes method, plim_bytes target, plim_bytes *path, plim_bytes *query)
{
    plim_bytes origin = target, rest;
    if (base_bytes_is(method, "CONNECT") || base_bytes_is(target, "*")) {
        *path = target;
        *query = (plim_bytes){NULL, 0};
        return target.len > 0;
    }
    if ((after_scheme(target, "http://", &rest) || after_scheme(target, "https://", &rest)) &&
        !after_authority(rest, &origin))
        return false;
    if (origin.len == 0 || (origin.data[0] != '/' && origin.data[0] != '?'))
        return false;
    const char *mark = memchr(origin.data, '?', origin.len);
    if (origin.data[0] == '?' && origin.data == target.data)
        return false;
    size_t length = mark ? (size_t)(mark - origin.data) : origin.len;
    *path = length ? (plim_bytes){origin.data, length} : PLIM_LIT("/");
    *query = mark ? (plim_bytes){mark + 1, origin.len - length - 1} : (plim_bytes){NULL, 0};
    return true;
}

bool net_length_parse(plim_bytes text, int64_t *out)
{
    for (size_t i = 0; i < text.len; i++)
        if (!base_is_digit(text.data[i]))
            return false;
    return base_parse_int(text, out);
}
