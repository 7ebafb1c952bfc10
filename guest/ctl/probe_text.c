#include "probe.h"

#include "ctl.h"
#include "json.h"

#include <string.h>

/* One byte of a mount point: a backslash and three octal digits stand for a space and its like. */
static size_t unescape(plim_bytes text, char *out)
{
    unsigned value = 0;
    *out = text.data[0];
    if (text.data[0] != '\\' || text.len < 4)
        return 1;
    for (size_t i = 1; i < 4; i++) {
        if (text.data[i] < '0' || text.data[i] > '7')
            return 1;
        value = value * 8 + (unsigned)(text.data[i] - '0');
    }
    *out = (char)value;
    return 4;
}

/* Copy a mount point; false when it does not fit or holds a NUL. */
static bool copy_mount(plim_bytes text, char *out, size_t size)
{
    size_t len = 0;
    while (text.len) {
        char byte;
        size_t used = unescape(text, &byte);
        if (len + 1 >= size || !byte)
            return false;
        out[len++] = byte;
        text = (plim_bytes){text.data + used, text.len - used};
    }
    out[len] = '\0';
    return len > 0;
}

bool ctl_probe_next_mount(plim_bytes *table, char *out, size_t size)
{
    while (table->len) {
        const char *end = memchr(table->data, '\n', table->len);
        plim_bytes line = {table->data, end ? (size_t)(end - table->data) : table->len};
        size_t used = end ? line.len + 1 : line.len;
        *table = (plim_bytes){table->data + used, table->len - used};
        const char *point = line.len ? memchr(line.data, ' ', line.len) : NULL;
        if (!point)
            continue;
        point++;
        size_t left = (size_t)(line.data + line.len - point);
        const char *after = memchr(point, ' ', left);
        if (copy_mount((plim_bytes){point, after ? (size_t)(after - point) : left}, out, size))
            return true;
    }
    return false;
}

static void add_item(base_buf *json, bool *first, plim_bytes text)
{
    if (!*first)
        base_buf_add_byte(json, ',');
    *first = false;
    ctl_json_add_string(json, text);
}

bool ctl_probe_add_ids(base_buf *json, const char *status, const char *label)
{
    const char *at = status;
    size_t label_len = strlen(label);
    while (at && strncmp(at, label, label_len) != 0) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (!at)
        return base_buf_add_text(json, "null");
    bool first = true;
    at += label_len;
    base_buf_add_byte(json, '[');
    for (size_t count = 0; count < CTL_PROBE_IDS_MAX; count++) {
        at += strspn(at, " \t");
        size_t len = strcspn(at, " \t\n");
        if (!len)
            break;
        add_item(json, &first, (plim_bytes){at, len});
        at += len;
    }
    return base_buf_add_byte(json, ']');
}

bool ctl_probe_add_interfaces(base_buf *json, const char *table)
{
    bool first = true;
    size_t count = 0;
    base_buf_add_byte(json, '[');
    for (const char *line = table; *line && count < CTL_PROBE_INTERFACES_MAX;) {
        const char *name = line + strspn(line, " \t");
        size_t len = strcspn(name, ":|\n");
        if (len && name[len] == ':') { /* the two lines of headings have a bar first */
            add_item(json, &first,
                     (plim_bytes){name, len < CTL_PROBE_NAME_MAX ? len : CTL_PROBE_NAME_MAX});
            count++;
        }
        line += strcspn(line, "\n");
        line += *line ? 1 : 0;
    }
    return base_buf_add_byte(json, ']');
}
