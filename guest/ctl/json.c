#include "json.h"

#include <string.h>

struct ctl_json ctl_json_of(char *document, size_t len)
{
    return (struct ctl_json){document, document + len, NULL};
}

bool ctl_json_fail(struct ctl_json *json, const char *fault)
{
    if (!json->fault)
        json->fault = fault;
    return false;
}

static void skip_space(struct ctl_json *json)
{
    while (json->at < json->end && memchr(" \t\r\n", *json->at, 4))
        json->at++;
}

/* Take `byte` when it is next. */
static bool take(struct ctl_json *json, char byte)
{
    skip_space(json);
    if (json->at == json->end || *json->at != byte)
        return false;
    json->at++;
    return true;
}

static bool must_take(struct ctl_json *json, char byte, const char *fault)
{
    return take(json, byte) || ctl_json_fail(json, fault);
}

/* One step of walking what is between `open` and `close`: true when something follows. */
static bool step(struct ctl_json *json, bool *first, char open, char close)
{
    if (json->fault)
        return false;
    if (*first) {
        *first = false;
        return must_take(json, open, "another kind of value was expected") && !take(json, close);
    }
    if (take(json, close))
        return false;
    return must_take(json, ',', "a comma was expected");
}

bool ctl_json_item(struct ctl_json *json, bool *first)
{
    return step(json, first, '[', ']');
}

bool ctl_json_member(struct ctl_json *json, bool *first, plim_bytes *name)
{
    return step(json, first, '{', '}') && ctl_json_string(json, name) &&
           must_take(json, ':', "a colon was expected");
}

bool ctl_json_ends(struct ctl_json *json)
{
    skip_space(json);
    return !json->fault &&
           (json->at == json->end || ctl_json_fail(json, "something follows the document"));
}

bool ctl_json_integer(struct ctl_json *json, int64_t *out)
{
    bool negative = take(json, '-');
    const char *start = json->at;
    int64_t value = 0;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *json->at - '0', &value))
            return ctl_json_fail(json, "a number is too large");
    }
    if (json->at == start || (*start == '0' && json->at - start > 1))
        return ctl_json_fail(json, "an integer was expected");
    if (json->at < json->end && memchr(".eE", *json->at, 3))
        return ctl_json_fail(json, "an integer was expected");
    *out = negative ? -value : value;
    return true;
}

/* Four hex digits. */
static bool read_unit(struct ctl_json *json, uint32_t *out)
{
    *out = 0;
    if (json->end - json->at < 4)
        return ctl_json_fail(json, "a string does not end");
    for (unsigned i = 0; i < 4; i++) {
        char c = *json->at++;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return ctl_json_fail(json, "an escape in a string is malformed");
        *out = *out << 4 | digit;
    }
    return true;
}

/* Write a character as UTF-8: never longer than the escape it came from. */
static char *put_character(char *to, uint32_t point)
{
    if (point < 0x80) {
        *to++ = (char)point;
        return to;
    }
    if (point >= 0x10000) {
        *to++ = (char)(0xF0 | point >> 18);
        *to++ = (char)(0x80 | (point >> 12 & 0x3F));
    } else if (point >= 0x800) {
        *to++ = (char)(0xE0 | point >> 12);
    } else {
        *to++ = (char)(0xC0 | point >> 6);
        *to++ = (char)(0x80 | (point & 0x3F));
        return to;
    }
    *to++ = (char)(0x80 | (point >> 6 & 0x3F));
    *to++ = (char)(0x80 | (point & 0x3F));
    return to;
}

/* The character of an escape, whose backslash and `u` were read. */
static bool read_character(struct ctl_json *json, uint32_t *out)
{
    uint32_t low;
    if (!read_unit(json, out))
        return false;
    if (*out < 0xD800 || *out > 0xDFFF)
        return true;
    if (*out > 0xDBFF || json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
        return ctl_json_fail(json, "a string holds half a surrogate pair");
    json->at += 2;
    if (!read_unit(json, &low))
        return false;
    if (low < 0xDC00 || low > 0xDFFF)
        return ctl_json_fail(json, "a string holds half a surrogate pair");
    *out = 0x10000 + ((*out - 0xD800) << 10 | (low - 0xDC00));
    return true;
}

static bool read_escape(struct ctl_json *json, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end)
        return ctl_json_fail(json, "a string does not end");
    char c = *json->at++;
    if (c == 'u') {
        uint32_t point;
        if (!read_character(json, &point))
            return false;
        *to = put_character(*to, point);
        return true;
    }
    const char *name = memchr(names, c, sizeof names - 1);
    if (!name)
        return ctl_json_fail(json, "an escape in a string is malformed");
    *(*to)++ = values[name - names];
    return true;
}

bool ctl_json_string(struct ctl_json *json, plim_bytes *out)
{
    if (json->fault || !must_take(json, '"', "a string was expected"))
        return false;
    char *start = json->at, *to = start;
    while (json->at < json->end && *json->at != '"') {
        if ((unsigned char)*json->at < 0x20)
            return ctl_json_fail(json, "a string holds a control character");
        if (*json->at != '\\') {
            *to++ = *json->at++;
            continue;
        }
        json->at++;
        if (!read_escape(json, &to))
            return false;
    }
    if (json->at == json->end)
        return ctl_json_fail(json, "a string does not end");
    json->at++;
    *to = '\0'; /* where the closing quote stood, or before it */
    *out = (plim_bytes){start, (size_t)(to - start)};
    return true;
}

/* How a string writes one byte: as itself, or as an escape of two or six characters. */
static size_t escape(unsigned char byte, char out[6])
{
    static const char hex[] = "0123456789abcdef";
    if (byte >= 0x20 && byte != '"' && byte != '\\') {
        out[0] = (char)byte;
        return 1;
    }
    out[0] = '\\';
    if (byte == '"' || byte == '\\' || byte == '\n') {
        out[1] = (char)(byte == '\n' ? 'n' : byte);
        return 2;
    }
    memcpy(out + 1, "u00", 3);
    out[4] = hex[byte >> 4];
    out[5] = hex[byte & 15];
    return 6;
}

bool ctl_json_add_string(base_buf *buf, plim_bytes text)
{
    base_buf_add_byte(buf, '"');
    while (text.len && !buf->failed) {
        size_t plain = 0;
        while (plain < text.len && (unsigned char)text.data[plain] >= 0x20 &&
               !memchr("\"\\", text.data[plain], 2))
            plain++;
        base_buf_add_utf8(buf, (plim_bytes){text.data, plain});
        if (plain < text.len) {
            char escaped[6];
            size_t length = escape((unsigned char)text.data[plain++], escaped);
            base_buf_add(buf, (plim_bytes){escaped, length});
        }
        text = (plim_bytes){text.data + plain, text.len - plain};
    }
    return base_buf_add_byte(buf, '"');
}

bool ctl_json_add_base64(base_buf *buf, plim_bytes bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = (const unsigned char *)bytes.data;
    char *out = base_buf_reserve(buf, ctl_base64_len(bytes.len));
    if (!out)
        return false;
    for (size_t i = 0; i < bytes.len; i += 3, out += 4) {
        size_t have = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t group = (uint32_t)in[i] << 16;
        group |= have > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        group |= have > 2 ? in[i + 2] : 0;
        out[0] = digits[group >> 18];
        out[1] = digits[group >> 12 & 63];
        out[2] = '=';
        out[3] = '=';
        if (have > 1)
            out[2] = digits[group >> 6 & 63];
        if (have > 2)
            out[3] = digits[group & 63];
    }
    buf->len += ctl_base64_len(bytes.len);
    return true;
}
