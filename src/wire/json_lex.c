#include "wire/internal.h"

#include "wire/json_lex.h"

static void skip_space(wire_json_lexer *in)
{
    while (in->at < in->end &&
           (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t'))
        in->at++;
}

wire_json_kind wire_json_peek(wire_json_lexer *in)
{
    skip_space(in);
    if (in->at == in->end)
        return WIRE_JSON_END;
    switch (*in->at) {
    case '{':
        return WIRE_JSON_OBJECT;
    case '}':
        return WIRE_JSON_OBJECT_END;
    case '[':
        return WIRE_JSON_ARRAY;
    case ']':
        return WIRE_JSON_ARRAY_END;
    case ':':
        return WIRE_JSON_COLON;
    case ',':
        return WIRE_JSON_COMMA;
    case '"':
        return WIRE_JSON_STRING;
    case 't':
        return WIRE_JSON_TRUE;
    case 'f':
        return WIRE_JSON_FALSE;
    case 'n':
        return WIRE_JSON_NULL;
    default:
        return *in->at == '-' || base_is_digit(*in->at) ? WIRE_JSON_NUMBER : WIRE_JSON_BAD;
    }
}

static wire_json_kind bad(wire_json_lexer *in, const char *fault)
{
    in->fault = fault;
    return WIRE_JSON_BAD;
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

static wire_json_kind take_string(wire_json_lexer *in, wire_json_token *out)
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
    return WIRE_JSON_STRING;
}

static wire_json_kind take_number(wire_json_lexer *in, wire_json_token *out)
{
    const char *start = in->at;
    while (in->at < in->end && (memchr("+-.eE", *in->at, 5) || base_is_digit(*in->at)))
        in->at++;
    out->text = (plim_bytes){start, (size_t)(in->at - start)};
    return wire_number_valid(out->text) ? WIRE_JSON_NUMBER : bad(in, "a number is malformed");
}

static wire_json_kind take_word(wire_json_lexer *in, const char *word, wire_json_kind kind)
{
    size_t length = strlen(word);
    if ((size_t)(in->end - in->at) < length || memcmp(in->at, word, length) != 0)
        return bad(in, "a word is none of true, false and null");
    in->at += length;
    return kind;
}

wire_json_kind wire_json_next(wire_json_lexer *in, wire_json_token *out)
{
    *out = (wire_json_token){.kind = wire_json_peek(in)};
    switch (out->kind) {
    case WIRE_JSON_STRING:
        out->kind = take_string(in, out);
        break;
    case WIRE_JSON_NUMBER:
        out->kind = take_number(in, out);
        break;
    case WIRE_JSON_TRUE:
        out->kind = take_word(in, "true", WIRE_JSON_TRUE);
        break;
    case WIRE_JSON_FALSE:
        out->kind = take_word(in, "false", WIRE_JSON_FALSE);
        break;
    case WIRE_JSON_NULL:
        out->kind = take_word(in, "null", WIRE_JSON_NULL);
        break;
    case WIRE_JSON_BAD:
        return bad(in, "no value of JSON begins like this");
    case WIRE_JSON_END:
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

bool wire_json_text(base_arena *arena, const wire_json_token *token, plim_bytes *out)
{
    if (!token->escaped) {
        *out = token->text;
        return true;
    }
    /* No escape is shorter than what it stands for. */
    char *to = base_arena_alloc(arena, token->text.len, 1);
    if (!to)
        return false;
    size_t made = 0;
    const char *end = token->text.data + token->text.len;
    for (const char *at = token->text.data; at < end;) {
        if (*at != '\\') {
            to[made++] = *at++;
            continue;
        }
        uint32_t point = 0;
        at += 1 + read_escape(at + 1, end, &point);
        made += put_utf8(to + made, point);
    }
    *out = (plim_bytes){to, made};
    return true;
}
