/*
 * The log sink: one line per event on one descriptor, JSON or key=value text, written with a single
 * write so that lines of concurrent threads never mix. Values are escaped; a control character
 * never reaches the log raw. The sink is the one process-wide state of the program: base_log_open
 * sets it once, before threads exist. Until then, and in the library, logging does nothing.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <plimsoll/types.h>

typedef enum { BASE_LOG_INFO, BASE_LOG_WARN, BASE_LOG_ERROR } base_log_level;
typedef enum { BASE_LOG_JSON, BASE_LOG_TEXT } base_log_format;

typedef struct base_log_field {
    const char *key;
    enum { BASE_LOG_STRING, BASE_LOG_INT, BASE_LOG_BOOL, BASE_LOG_NUMBER } type;
    plim_bytes text;
    int64_t integer;
    double number;
} base_log_field;

#define LOG_TEXT(key, bytes) ((base_log_field){(key), BASE_LOG_STRING, (bytes), 0, 0})
#define LOG_STR(key, cstring)                                                                      \
    ((base_log_field){(key), BASE_LOG_STRING, plim_bytes_of(cstring), 0, 0})
#define LOG_INT(key, value)  ((base_log_field){(key), BASE_LOG_INT, {NULL, 0}, (value), 0})
#define LOG_BOOL(key, value) ((base_log_field){(key), BASE_LOG_BOOL, {NULL, 0}, (value), 0})
#define LOG_NUM(key, value)  ((base_log_field){(key), BASE_LOG_NUMBER, {NULL, 0}, 0, (value)})

void base_log_open(int fd, base_log_format format);

/* Write one line. A line that cannot be built or written is dropped: logging never fails its
 * caller. */
void base_log_fields(base_log_level level, const char *message, const base_log_field *fields,
                     size_t count);

#define base_log(level, message, ...)                                                              \
    base_log_fields((level), (message), (const base_log_field[]){__VA_ARGS__},                     \
                    sizeof((const base_log_field[]){__VA_ARGS__}) / sizeof(base_log_field))

/* The line base_log_fields would write, newline included, for a given time. Pure; `buf` bounds it.
 */
void base_log_format_line(base_buf *buf, base_log_format format, int64_t unix_ms,
                          base_log_level level, const char *message, const base_log_field *fields,
                          size_t count);

#endif
