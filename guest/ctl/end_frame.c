#include "ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 8, HEAD = 1 + sizeof CTL_END_MARKER - 1 };

void ctl_end_text(const struct ctl_end *end, char out[CTL_END_SIGNED_BYTES])
{
    char text[CTL_END_SIGNED_BYTES + 1];
    snprintf(text, sizeof text, CTL_END_MARKER " %08x %08x %08x %08x ", (unsigned)end->status,
             (unsigned)end->memory, (unsigned)end->pids, (unsigned)end->disk);
    memcpy(out, text, CTL_END_SIGNED_BYTES);
}

static int digit(unsigned char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* SP and eight digits. */
static bool read_number(const unsigned char *at, uint32_t *out)
{
    *out = 0;
    for (size_t i = 1; i <= DIGITS; i++) {
        int value = digit(at[i]);
        if (value < 0)
            return false;
        *out = *out << 4 | (uint32_t)value;
    }
    return at[0] == ' ';
}

bool ctl_end_read(const unsigned char *bytes, struct ctl_end *end, const char **mac)
{
    uint32_t *const numbers[CTL_END_NUMBERS] = {&end->status, &end->memory, &end->pids, &end->disk};
    const unsigned char *text = bytes + 1 + CTL_END_SIGNED_BYTES;
    if (memcmp(bytes, "\n" CTL_END_MARKER, HEAD) != 0 || bytes[CTL_END_BYTES - 1] != '\n' ||
        text[-1] != ' ')
        return false;
    for (size_t i = 0; i < CTL_END_NUMBERS; i++) {
        if (!read_number(bytes + HEAD + i * (1 + DIGITS), numbers[i]))
            return false;
    }
    for (size_t i = 0; i < CTL_MAC_HEX; i++) {
        if (digit(text[i]) < 0)
            return false;
    }
    *mac = (const char *)text;
    return end->status <= 255;
}

uint32_t ctl_end_counter(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || line[length] != ' ' || line[length + 1] < '0' ||
            line[length + 1] > '9')
            continue;
        unsigned long long value = strtoull(line + length + 1, NULL, 10);
        return value < CTL_END_UNKNOWN ? (uint32_t)value : CTL_END_UNKNOWN - 1;
    }
    return CTL_END_UNKNOWN;
}
