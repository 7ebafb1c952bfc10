#include "cli/output.h"

#include <langinfo.h>
#include <locale.h>
#include <openssl/evp.h>

/* Longest text the program makes of one stream: each byte of the longest result may become three.
 */
enum { TEXT_BYTES_MAX = 256 * 1024 * 1024 };

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

cli_terminal cli_terminal_of(int fd)
{
    if (!isatty(fd))
        return CLI_NO_TERMINAL;
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (locale == (locale_t)0)
        return CLI_TERMINAL_ASCII;
    const char *set = nl_langinfo_l(CODESET, locale);
    cli_terminal terminal = strcmp(set, "UTF-8") == 0            ? CLI_TERMINAL_UTF8
                            : strcmp(set, "ANSI_X3.4-1968") == 0 ? CLI_TERMINAL_ASCII
                                                                 : CLI_TERMINAL_8_BIT;
    freelocale(locale);
    return terminal;
}

static bool is_replaced(uint32_t point)
{
    return base_is_control(point) && point != '\t' && point != '\n';
}

/*
 * Append `bytes` as a terminal may see them: C0 but tab and newline, DEL, C1 and malformed UTF-8
 * are replaced, one for one, by U+FFFD or, if the terminal does not show that, by '?'.
 */
static bool add_visible(base_buf *out, cli_terminal terminal, plim_bytes bytes)
{
    const char *replacement = terminal == CLI_TERMINAL_UTF8 ? REPLACEMENT : "?";
    while (bytes.len) {
        uint32_t point;
        size_t length = base_utf8_decode(bytes, &point);
        bool shown =
            length && !is_replaced(point) && (terminal != CLI_TERMINAL_8_BIT || point < 0x80);
        if (length == 0)
            length = 1;
        if (shown)
            base_buf_add(out, (plim_bytes){bytes.data, length});
        else
            base_buf_add_text(out, replacement);
        bytes = (plim_bytes){bytes.data + length, bytes.len - length};
    }
    return !out->failed;
}

bool cli_write(int fd, plim_bytes bytes)
{
    cli_terminal terminal = bytes.len ? cli_terminal_of(fd) : CLI_NO_TERMINAL;
    if (terminal == CLI_NO_TERMINAL)
        return base_write_all(fd, bytes);
    _cleanup_buf_ base_buf visible = BASE_BUF_INIT(TEXT_BYTES_MAX);
    if (!add_visible(&visible, terminal, bytes)) {
        errno = ENOMEM;
        return false;
    }
    return base_write_all(fd, base_buf_bytes(&visible));
}

static int print_bytes(plim_bytes bytes)
{
    if (cli_write(STDOUT_FILENO, bytes))
        return 0;
    cli_say("cannot write to stdout: %s", base_errno_text(errno));
    return 1;
}

int cli_print(const base_buf *text)
{
    if (!text->failed)
        return print_bytes(base_buf_bytes(text));
    cli_say("out of memory");
    return 1;
}

int cli_print_json(json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(value);
    _cleanup_buf_ base_buf line = BASE_BUF_INIT(TEXT_BYTES_MAX);
    if (!text || !base_buf_add_text(&line, text))
        line.failed = true;
    free(text); /* jansson's allocation */
    base_buf_add_byte(&line, '\n');
    return cli_print(&line);
}

void cli_say(const char *format, ...)
{
    char text[2 * PLIM_ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    _cleanup_buf_ base_buf line = BASE_BUF_INIT(4 * sizeof(text));
    base_buf_printf(&line, "plimsoll: %s\n", text);
    bool written = cli_write(STDERR_FILENO, base_buf_bytes(&line));
    (void)written; /* there is no other place to say so */
}

json_t *cli_json_text(plim_bytes bytes)
{
    _cleanup_buf_ base_buf text = BASE_BUF_INIT(TEXT_BYTES_MAX);
    if (!base_buf_add_utf8(&text, bytes))
        return NULL;
    return json_stringn_nocheck(base_buf_text(&text), text.len);
}

static bool add_base64(base_buf *out, plim_bytes bytes)
{
    size_t length = (bytes.len + 2) / 3 * 4;
    char *to = bytes.len <= INT_MAX ? base_buf_reserve(out, length) : NULL;
    if (!to)
        return false;
    EVP_EncodeBlock((unsigned char *)to, (const unsigned char *)bytes.data, (int)bytes.len);
    out->len += length;
    return true;
}

bool cli_json_set_bytes(json_t *object, const char *name, plim_bytes bytes)
{
    if (json_object_set_new(object, name, cli_json_text(bytes)) != 0)
        return false;
    if (base_utf8_valid(bytes))
        return true;
    _cleanup_buf_ base_buf encoded = BASE_BUF_INIT(TEXT_BYTES_MAX);
    char key[32];
    if (!add_base64(&encoded, bytes) ||
        (size_t)snprintf(key, sizeof(key), "%s_base64", name) >= sizeof(key))
        return false;
    return json_object_set_new(object, key, json_stringn(base_buf_text(&encoded), encoded.len)) ==
           0;
}
