#include "base/base.h"

static void skip_space(base_json_lexer *in)
{
    while (in->at < in->end &&
           (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t'))
        in->at++;
}

base_json_kind base_json_peek(base_json_lexer *in)
{
    skip_space(in);
    if (in->at == in->end)
        return BASE_JSON_END;
    switch (*in->at) {
    case '{':
        return BASE_JSON_OBJECT;
    case '}':
        return BASE_JSON_OBJECT_END;
    case '[':
        return BASE_JSON_ARRAY;
    case ']':
        return BASE_JSON_ARRAY_END;
    case ':':
        return BASE_JSON_COLON;
    case ',':
        return BASE_JSON_COMMA;
    case '"':
        return BASE_JSON_STRING;
    case 't':
        return BASE_JSON_TRUE;
    case 'f':
        return BASE_JSON_FALSE;
    case 'n':
        return BASE_JSON_NULL;
    default:
        return *in->at == '-' || base_is_digit(*in->at) ? BASE_JSON_NUMBER : BASE_JSON_BAD;
    }
}

static base_json_kind bad(base_json_lexer *in, const char *fault)
{
    in->fault = fault;
    return BASE_JSON_BAD;
}

static int hex_digit(char c)
{
    if (base_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four hex digits at `at`; negative when they are not there. */
static int32_t hex_unit(const char *at, const char *end)
{
    if (end - at < 4)
        return -1;
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

/*
 * The character of the escape after a backslash at `at`, and its length without the backslash; 0:
 * no escape of the grammar, or half a surrogate pair.
 */
static size_t read_escape(const char *at, const char *end, uint32_t *point)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (at == end)
        return 0;
    if (*at != 'u') {
        const char *name = memchr(names, *at, sizeof(names) - 1);
        *point = name ? (unsigned char)meanings[name - names] : 0;
        return name ? 1 : 0;
    }
    int32_t unit = hex_unit(at + 1, end);
    if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF))
        return 0;
    *point = (uint32_t)unit;
    if (unit < 0xD800 || unit > 0xDFFF)
        return 5;
    if (end - at < 7 || at[5] != '\\' || at[6] != 'u')
        return 0;
    int32_t low = hex_unit(at + 7, end);
    if (low < 0xDC00 || low > 0xDFFF)
        return 0;
    *point = 0x10000 + (((uint32_t)unit & 0x3FF) << 10) + ((uint32_t)low & 0x3FF);
    return 11;
}

static base_json_kind take_string(base_json_lexer *in, base_json_token *out)
{
    const char *start = ++in->at;
    while (in->at < in->end && *in->at != '"') {
        if ((unsigned char)*in->at < 0x20)
            return bad(in, "a string holds a control character");
        if (*in->at++ != '\\')
            continue;
        uint32_t point;
        size_t length = read_escape(in->at, in->end, &point);
        if (length == 0)
            return bad(in, "a string holds a malformed escape");
        in->at += length;
        out->escaped = true;
    }
    if (in->at == in->end)
        return bad(in, "a string does not end");
    out->text = (plim_bytes){start, (size_t)(in->at++ - start)};
    return BASE_JSON_STRING;
}

static size_t digits_at(plim_bytes text, size_t at)
{
    size_t end = at;
    while (end < text.len && base_is_digit(text.data[end]))
        end++;
    return end - at;
}

bool base_json_number_valid(plim_bytes text)
{
    size_t at = text.len && text.data[0] == '-' ? 1 : 0;
    size_t digits = digits_at(text, at);
    if (digits == 0 || (digits > 1 && text.data[at] == '0'))
        return false;
    at += digits;
    if (at < text.len && text.data[at] == '.') {
        digits = digits_at(text, at + 1);
        if (digits == 0)
            return false;
        at += 1 + digits;
    }
    if (at < text.len && (text.data[at] == 'e' || text.data[at] == 'E')) {
        at++;
        if (at < text.len && (text.data[at] == '+' || text.data[at] == '-'))
            at++;
        digits = digits_at(text, at);
        if (digits == 0)
            return false;
        at += digits;
    }
    return at == text.len;
}

static base_json_kind take_number(base_json_lexer *in, base_json_token *out)
{
    const char *start = in->at;
    while (in->at < in->end && (memchr("+-.eE", *in->at, 5) || base_is_digit(*in->at)))
        in->at++;
    out->text = (plim_bytes){start, (size_t)(in->at - start)};
    return base_json_number_valid(out->text) ? BASE_JSON_NUMBER : bad(in, "a number is malformed");
}

static base_json_kind take_word(base_json_lexer *in, const char *word, base_json_kind kind)
{
    size_t length = strlen(word);
    if ((size_t)(in->end - in->at) < length || memcmp(in->at, word, length) != 0)
        return bad(in, "a word is none of true, false and null");
    in->at += length;
    return kind;
}

base_json_kind base_json_next(base_json_lexer *in, base_json_token *out)
{
    *out = (base_json_token){.kind = base_json_peek(in)};
    switch (out->kind) {
    case BASE_JSON_STRING:
        out->kind = take_string(in, out);
        break;
    case BASE_JSON_NUMBER:
        out->kind = take_number(in, out);
        break;
    case BASE_JSON_TRUE:
        out->kind = take_word(in, "true", BASE_JSON_TRUE);
        break;
    case BASE_JSON_FALSE:
        out->kind = take_word(in, "false", BASE_JSON_FALSE);
        break;
    case BASE_JSON_NULL:
        out->kind = take_word(in, "null", BASE_JSON_NULL);
        break;
    case BASE_JSON_BAD:
        return bad(in, "no value of JSON begins like this");
    case BASE_JSON_END:
        break;
    default:
        in->at++;
    }
    return out->kind;
}

static size_t put_utf8(char *to, uint32_t point)
{
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--, point >>= 6)
        to[i] = (char)(0x80 | (point & 0x3F));
    to[0] = (char)(leads[length] | point);
    return length;
}

size_t base_json_unescape(const base_json_token *token, char *to)
{
    size_t made = 0;
    const char *end = token->text.data + token->text.len;
    for (const char *at = token->text.data; at < end;) {
        if (*at != '\\') {
            to[made++] = *at++;
            continue;
        }
        uint32_t point = 0;
        at += 1 + read_escape(at + 1, end, &point);
        made += put_utf8(to + made, point); /* no escape is shorter than what it stands for */
    }
    return made;
}
