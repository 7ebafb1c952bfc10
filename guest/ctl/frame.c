#include "ctl.h"

#include <string.h>

/* A number as a frame writes it: plain decimal without a sign or leading zeros, followed by `stop`.
 * The number of bytes read, `stop` included, or 0. */
static size_t read_length(const unsigned char *at, size_t len, size_t *out)
{
    size_t value = 0, used = 0;
    while (used < len && at[used] >= '0' && at[used] <= '9') {
        value = value * 10 + (size_t)(at[used] - '0');
        used++;
        if (value > CTL_BODY_BYTES_READ || (used > 1 && at[0] == '0'))
            return 0;
    }
    if (used == 0 || used == len || at[used] != ' ')
        return 0;
    *out = value;
    return used + 1;
}

static bool is_mac(const unsigned char *at)
{
    for (size_t i = 0; i < CTL_MAC_HEX; i++) {
        if (!((at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f')))
            return false;
    }
    return true;
}

/* Reads what follows a marker: SP length SP mac LF body. */
static bool read_frame(const unsigned char *at, size_t len, struct ctl_frame *frame)
{
    size_t line_max = len < CTL_HEADER_BYTES_MAX + 1 ? len : CTL_HEADER_BYTES_MAX + 1;
    const unsigned char *newline = memchr(at, '\n', line_max);
    if (!newline || at[0] != ' ')
        return false;
    size_t line = (size_t)(newline - at), body_len;
    size_t used = read_length(at + 1, line - 1, &body_len);
    if (used == 0 || line - 1 - used != CTL_MAC_HEX || !is_mac(at + 1 + used))
        return false;
    if (body_len > len - line - 1)
        return false;
    *frame = (struct ctl_frame){(const char *)at + 1 + used, newline + 1, body_len};
    return true;
}

bool ctl_frame_next(const unsigned char *bytes, size_t len, size_t *offset, struct ctl_frame *frame,
                    bool *marker_seen)
{
    const size_t marker_len = sizeof CTL_REPORT_MARKER - 1;
    while (*offset < len) {
        const unsigned char *found =
            memmem(bytes + *offset, len - *offset, CTL_REPORT_MARKER, marker_len);
        if (!found)
            break;
        *marker_seen = true;
        *offset = (size_t)(found - bytes) + marker_len;
        if (read_frame(found + marker_len, len - *offset, frame))
            return true;
    }
    *offset = len;
    return false;
}
