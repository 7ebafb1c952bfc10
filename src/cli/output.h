/*
 * Everything that leaves the program: guest output, our own lines, JSON. Nothing a guest or a
 * caller wrote reaches a terminal with a control character in it. One thread.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "base/base.h"

#include <jansson.h>

/* What a terminal on `fd` is known to show; a file or a pipe is CLI_NO_TERMINAL. */
typedef enum {
    CLI_NO_TERMINAL,
    CLI_TERMINAL_ASCII, /* the locale names no character set: UTF-8 is passed on, ours is ASCII */
    CLI_TERMINAL_8_BIT, /* the locale names another set than UTF-8: a UTF-8 tail may be a control */
    CLI_TERMINAL_UTF8
} cli_terminal;

cli_terminal cli_terminal_of(int fd);

/* Write bytes to stdout or stderr: as they are, or made visible when it is a terminal. False: errno
 * says why. */
bool cli_write(int fd, plim_bytes bytes) PLIM_MUST_USE;

/* Write our own text to stdout. The exit status: 0, or 1 when it could not be written. */
int cli_print(const base_buf *text);

/* Write a JSON value and a newline to stdout, and release it; NULL counts as out of memory. The
 * exit status as above. */
int cli_print_json(json_t *value);

/* One line on stderr: "plimsoll: " and the text. Failure to write it changes nothing. */
void cli_say(const char *format, ...) PLIM_PRINTF(1, 2);

/* A JSON string of any bytes: malformed UTF-8 becomes U+FFFD. */
json_t *cli_json_text(plim_bytes bytes);

/* The bytes as `name` of `object`, and when they are not UTF-8 also, exactly, as `name`_base64. */
bool cli_json_set_bytes(json_t *object, const char *name, plim_bytes bytes) PLIM_MUST_USE;

#endif
