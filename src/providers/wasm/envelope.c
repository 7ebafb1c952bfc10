#include "providers/wasm/envelope.h"

#include "providers/wasm/protocol.h"

/* Deeper nesting is refused: an API behind a broker would not read it either. */
enum { NESTING_MAX = 2048 };

/* The arrays and objects that are open around a place in the text, the innermost last. */
typedef struct nesting {
    base_json_kind ends[NESTING_MAX];
    size_t depth;
} nesting;

static bool take(base_json_lexer *in, base_json_kind kind)
{
    base_json_token token;
    return base_json_next(in, &token) == kind;
}

/* A name and its colon, where an object's member is due. */
static bool skip_name(base_json_lexer *in)
{
    return take(in, BASE_JSON_STRING) && take(in, BASE_JSON_COLON);
}

/* Take a value whole, or the bracket that opens one and what stands before its first element. */
static bool begin_value(base_json_lexer *in, nesting *open, bool *opened)
{
    base_json_token token;
    base_json_kind kind = base_json_next(in, &token);
    *opened = false;
    if (kind == BASE_JSON_OBJECT || kind == BASE_JSON_ARRAY) {
        base_json_kind end = kind == BASE_JSON_OBJECT ? BASE_JSON_OBJECT_END : BASE_JSON_ARRAY_END;
        if (base_json_peek(in) == end)
            return take(in, end);
        if (open->depth == NESTING_MAX)
            return false;
        open->ends[open->depth++] = end;
        *opened = true;
        return kind == BASE_JSON_ARRAY || skip_name(in);
    }
    return kind == BASE_JSON_STRING || kind == BASE_JSON_NUMBER || kind == BASE_JSON_TRUE ||
           kind == BASE_JSON_FALSE || kind == BASE_JSON_NULL;
}

/* After a value: close what ends here. `*more`: another value is due. */
static bool end_value(base_json_lexer *in, nesting *open, bool *more)
{
    *more = false;
    while (open->depth && !*more) {
        base_json_kind end = open->ends[open->depth - 1];
        base_json_token token;
        base_json_kind kind = base_json_next(in, &token);
        *more = kind == BASE_JSON_COMMA;
        if (!*more && kind != end)
            return false;
        if (!*more)
            open->depth--;
        else if (end == BASE_JSON_OBJECT_END && !skip_name(in))
            return false;
    }
    return true;
}

/*
 * Any value. Nothing is built of it: a guest may nest a million values in one envelope, and as
 * objects in this process they would cost a hundred times their text.
 */
static bool skip_value(base_json_lexer *in)
{
    nesting open = {.depth = 0};
    bool more = true, opened;
    while (more)
        if (!begin_value(in, &open, &opened) || (!opened && !end_value(in, &open, &more)))
            return false;
    return true;
}

enum { METHOD, PATH, BODY, MEMBERS };

/* Which member of an envelope the next name is; MEMBERS when it is none. */
static size_t take_member(base_json_lexer *in)
{
    static const char *const names[MEMBERS] = {"method", "path", "body"};
    enum { ESCAPED_BYTES_MAX = 6 * 6 }; /* every letter of the longest as \uXXXX */
    char text[ESCAPED_BYTES_MAX];
    base_json_token token;
    size_t member = 0;
    if (base_json_next(in, &token) != BASE_JSON_STRING || token.text.len > sizeof(text))
        return MEMBERS;
    plim_bytes name = {text, base_json_unescape(&token, text)};
    while (member < MEMBERS && !base_bytes_is(name, names[member]))
        member++;
    return take(in, BASE_JSON_COLON) ? member : MEMBERS;
}

/* One object with string members method and path, perhaps body, and nothing else; no member twice,
 * nothing after it. */
static bool well_formed(plim_bytes envelope)
{
    base_json_lexer in = {envelope.data, envelope.data, envelope.data + envelope.len, NULL};
    base_json_token token;
    bool seen[MEMBERS] = {false};
    if (!base_utf8_valid(envelope) || !take(&in, BASE_JSON_OBJECT))
        return false;
    do {
        size_t member = take_member(&in);
        if (member == MEMBERS || seen[member])
            return false;
        seen[member] = true;
        if (member == BODY ? !skip_value(&in) : !take(&in, BASE_JSON_STRING))
            return false;
        base_json_next(&in, &token);
    } while (token.kind == BASE_JSON_COMMA);
    return token.kind == BASE_JSON_OBJECT_END && base_json_peek(&in) == BASE_JSON_END &&
           seen[METHOD] && seen[PATH];
}

wasm_reply wasm_answer_without_broker(plim_bytes envelope)
{
    if (envelope.len == 0 || envelope.len > PLIM_WORKER_ENVELOPE_MAX)
        return (wasm_reply){413, PLIM_LIT("host api request envelope too large\n")};
    if (!well_formed(envelope))
        return (wasm_reply){400, PLIM_LIT("invalid host api request envelope\n")};
    return (wasm_reply){503, PLIM_LIT("host api broker unavailable\n")};
}
