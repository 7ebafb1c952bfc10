/* JSON tokens over a buffer, strictly by the grammar. Nothing is allocated but the text of strings
 * that have escapes. The buffer must be valid UTF-8. */
#ifndef WIRE_JSON_LEX_H
#define WIRE_JSON_LEX_H

typedef enum {
    WIRE_JSON_BAD, /* not a token: `in->fault` says why */
    WIRE_JSON_END,
    WIRE_JSON_OBJECT,     /* { */
    WIRE_JSON_OBJECT_END, /* } */
    WIRE_JSON_ARRAY,      /* [ */
    WIRE_JSON_ARRAY_END,  /* ] */
    WIRE_JSON_COLON,
    WIRE_JSON_COMMA,
    WIRE_JSON_STRING,
    WIRE_JSON_NUMBER,
    WIRE_JSON_TRUE,
    WIRE_JSON_FALSE,
    WIRE_JSON_NULL
} wire_json_kind;

typedef struct wire_json_token {
    wire_json_kind kind;
    plim_bytes text; /* of a number; of a string without its quotes, escapes not yet undone */
    bool escaped;    /* the string has escapes */
} wire_json_token;

typedef struct wire_json_lexer {
    const char *start, *at, *end;
    const char *fault;
} wire_json_lexer;

/* Take the next token; the strings taken have valid escapes. */
wire_json_kind wire_json_next(wire_json_lexer *in, wire_json_token *out);

/* What the next token begins as, without taking it: BAD for anything that is none. */
wire_json_kind wire_json_peek(wire_json_lexer *in);

/* The characters of a string token: itself, or a copy in the arena. False when memory is out. */
bool wire_json_text(base_arena *arena, const wire_json_token *token, plim_bytes *out);

#endif
