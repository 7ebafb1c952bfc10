/*
 * JSON tokens over a buffer, strictly by the grammar. Nothing is allocated, so a reader decides
 * what a document may cost. The buffer must be valid UTF-8; a lexer belongs to one thread.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

typedef enum {
    BASE_JSON_BAD, /* not a token: `in->fault` says why */
    BASE_JSON_END,
    BASE_JSON_OBJECT,     /* { */
    BASE_JSON_OBJECT_END, /* } */
    BASE_JSON_ARRAY,      /* [ */
    BASE_JSON_ARRAY_END,  /* ] */
    BASE_JSON_COLON,
    BASE_JSON_COMMA,
    BASE_JSON_STRING,
    BASE_JSON_NUMBER,
    BASE_JSON_TRUE,
    BASE_JSON_FALSE,
    BASE_JSON_NULL
} base_json_kind;

typedef struct base_json_token {
    base_json_kind kind;
    plim_bytes text; /* of a number; of a string without its quotes, escapes not yet undone */
    bool escaped;    /* the string has escapes */
} base_json_token;

typedef struct base_json_lexer {
    const char *start, *at, *end;
    const char *fault;
} base_json_lexer;

/* Take the next token; the strings taken have valid escapes. */
base_json_kind base_json_next(base_json_lexer *in, base_json_token *out);

/* What the next token begins as, without taking it: BAD for anything that is none. */
base_json_kind base_json_peek(base_json_lexer *in);

/* Undo the escapes of a string token into `to`, which has room for `token->text.len` bytes; the
 * length of what was made, which is never more. */
size_t base_json_unescape(const base_json_token *token, char *to);

/* Is the text one number of JSON's grammar? */
bool base_json_number_valid(plim_bytes text);

#endif
