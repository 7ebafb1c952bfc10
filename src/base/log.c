#include "base/base.h"

#include <math.h>

enum { LOG_LINE_BYTES_MAX = 64 * 1024 };

static struct {
    int fd;
    base_log_format format;
} sink = {.fd = -1, .format = BASE_LOG_JSON};

static const char *level_name(base_log_level level)
{
    static const char *const names[] = {"INFO", "WARN", "ERROR"};
    return names[level];
}

static void add_time(base_buf *buf, int64_t unix_ms)
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    base_buf_printf(buf, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                    parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                    (int)(unix_ms % 1000));
}

/* A quoted JSON string: valid UTF-8 whatever came in, control characters (C1 and line separators
 * too) escaped. */
static void add_quoted(base_buf *buf, plim_bytes text)
{
    bool in_bad_run = false;
    base_buf_add_byte(buf, '"');
    while (text.len) {
        uint32_t point = 0xFFFD;
        size_t length = base_utf8_decode(text, &point);
        bool bad = length == 0;
        plim_bytes one = bad ? PLIM_LIT("\xEF\xBF\xBD") : (plim_bytes){text.data, length};
        if (point == '"' || point == '\\')
            base_buf_printf(buf, "\\%c", (int)point);
        else if (point == '\n')
            base_buf_add_text(buf, "\\n");
        else if (point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x2028 ||
                 point == 0x2029)
            base_buf_printf(buf, "\\u%04x", (unsigned)point);
        else if (!bad || !in_bad_run)
            base_buf_add(buf, one);
        in_bad_run = bad;
        size_t step = bad ? 1 : length;
        text = (plim_bytes){text.data + step, text.len - step};
    }
    base_buf_add_byte(buf, '"');
}

static bool needs_quotes(plim_bytes text)
{
    if (text.len == 0)
        return true;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7F)
            return true;
    }
    return false;
}

static void add_string(base_buf *buf, base_log_format format, plim_bytes text)
{
    if (format == BASE_LOG_JSON || needs_quotes(text))
        add_quoted(buf, text);
    else
        base_buf_add(buf, text);
}

static void add_value(base_buf *buf, base_log_format format, const base_log_field *field)
{
    switch (field->type) {
    case BASE_LOG_STRING:
        add_string(buf, format, field->text);
        break;
    case BASE_LOG_INT:
        base_buf_printf(buf, "%" PRId64, field->integer);
        break;
    case BASE_LOG_BOOL:
        base_buf_add_text(buf, field->integer ? "true" : "false");
        break;
    case BASE_LOG_NUMBER:
        /* JSON has no other number, and a line that does not parse is a line lost. */
        if (isfinite(field->number))
            base_buf_printf(buf, "%.17g", field->number);
        else
            base_buf_add_text(buf, "null");
        break;
    }
}

static void add_pair(base_buf *buf, base_log_format format, const base_log_field *field)
{
    bool first = buf->len == 0;
    if (format == BASE_LOG_JSON)
        base_buf_printf(buf, "%c\"%s\":", first ? '{' : ',', field->key);
    else
        base_buf_printf(buf, "%s%s=", first ? "" : " ", field->key);
    add_value(buf, format, field);
}

void base_log_format_line(base_buf *buf, base_log_format format, int64_t unix_ms,
                          base_log_level level, const char *message, const base_log_field *fields,
                          size_t count)
{
    base_buf time_text = BASE_BUF_INIT(64);
    add_time(&time_text, unix_ms);
    add_pair(buf, format, &LOG_STR("time", base_buf_text(&time_text)));
    add_pair(buf, format, &LOG_STR("level", level_name(level)));
    add_pair(buf, format, &LOG_STR("msg", message));
    for (size_t i = 0; i < count; i++)
        add_pair(buf, format, &fields[i]);
    base_buf_add_text(buf, format == BASE_LOG_JSON ? "}\n" : "\n");
    base_buf_free(&time_text);
}

void base_log_open(int fd, base_log_format format)
{
    sink.fd = fd;
    sink.format = format;
}

void base_log_fields(base_log_level level, const char *message, const base_log_field *fields,
                     size_t count)
{
    if (sink.fd < 0)
        return;
    _cleanup_buf_ base_buf line = BASE_BUF_INIT(LOG_LINE_BYTES_MAX);
    base_log_format_line(&line, sink.format, base_wall_unix_ms(), level, message, fields, count);
    if (!line.failed && base_write_all(sink.fd, base_buf_bytes(&line)))
        return;
}
