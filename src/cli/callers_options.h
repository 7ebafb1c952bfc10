/*
 * The commands and flags of `plimsoll callers` as two tables, what a command line says by them, and
 * what is printed from them. All pure: nothing here opens a file.
 */
#ifndef CLI_CALLERS_OPTIONS_H
#define CLI_CALLERS_OPTIONS_H

#include "registry/registry.h"

/* X(bit name, flag, form of its value or "" for a switch, help) */
#define CALLERS_FLAGS(X)                                                                           \
    X(FILE, "file", "PATH", "the registry file")                                                   \
    X(ID, "id", "NAME", "the caller")                                                              \
    X(SCOPE, "scope", "SCOPE", "what the caller may do; may be repeated; code:run when not given") \
    X(PAID, "paid-seconds-per-day", "N",                                                           \
      "seconds of billed sandboxes a day (UTC); 0 is no allowance of its own")                     \
    X(TOKEN_STDOUT, "token-stdout", "", "make a token and print it, once, on stdout")              \
    X(TOKEN_STDIN, "token-stdin", "", "read the token from stdin")                                 \
    X(JSON, "json", "", "print JSON")

enum {
#define X(bit, ...) CALLERS_INDEX_##bit,
    CALLERS_FLAGS(X) CALLERS_FLAG_COUNT
#undef X
};

enum {
#define X(bit, ...) CALLERS_##bit = 1 << CALLERS_INDEX_##bit,
    CALLERS_FLAGS(X)
#undef X
};

/* X(name, flags allowed, flags required, help) */
#define CALLERS_COMMANDS(X)                                                                        \
    X(create, CALLERS_FILE | CALLERS_ID | CALLERS_TOKEN_STDOUT | CALLERS_SCOPE | CALLERS_PAID,     \
      CALLERS_FILE | CALLERS_ID,                                                                   \
      "add a caller with a new token, which goes to stdout (needs --token-stdout)")                \
    X(import, CALLERS_FILE | CALLERS_ID | CALLERS_SCOPE | CALLERS_PAID, CALLERS_FILE | CALLERS_ID, \
      "add a caller with the token that stdin holds")                                              \
    X(limit, CALLERS_FILE | CALLERS_ID | CALLERS_PAID, CALLERS_FILE | CALLERS_ID | CALLERS_PAID,   \
      "set a caller's allowance of paid seconds")                                                  \
    X(list, CALLERS_FILE | CALLERS_JSON, CALLERS_FILE, "print the callers, without fingerprints")  \
    X(rotate, CALLERS_FILE | CALLERS_ID | CALLERS_TOKEN_STDOUT | CALLERS_TOKEN_STDIN,              \
      CALLERS_FILE | CALLERS_ID,                                                                   \
      "replace a caller's token: --token-stdout makes one, --token-stdin reads one")               \
    X(revoke, CALLERS_FILE | CALLERS_ID, CALLERS_FILE | CALLERS_ID, "remove a caller")

typedef enum {
#define X(name, ...) CALLERS_COMMAND_##name,
    CALLERS_COMMANDS(X)
#undef X
} callers_command;

enum { CALLERS_SCOPES_MAX = 64 };

/* Borrows from the command line. */
struct callers_options {
    callers_command command;
    unsigned given; /* CALLERS_... bits of the flags that were there */
    bool help;
    const char *file;
    plim_bytes id;
    plim_bytes scopes[CALLERS_SCOPES_MAX];
    size_t scope_count;
    int64_t paid_seconds;
    bool token_stdout, token_stdin, json;
};

/* Read `argv`, whose first element is the command. False: the error says what is wrong. */
bool callers_parse(int argc, char **argv, struct callers_options *out, plim_error *err);

void callers_usage(base_buf *out);

/* The callers sorted by id, as a table or as JSON, without fingerprints. False when memory is out.
 */
bool callers_list(const registry *reg, bool json, base_buf *out);

#endif
