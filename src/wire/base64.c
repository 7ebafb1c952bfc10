#include "wire/internal.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool wire_base64_add(base_buf *out, plim_bytes bytes, bool padded)
{
    const unsigned char *in = (const unsigned char *)bytes.data;
    size_t whole = bytes.len / 3, rest = bytes.len % 3;
    size_t length = whole * 4 + (rest ? (padded ? 4 : rest + 1) : 0);
    char *to = base_buf_reserve(out, length);
    if (!to)
        return false;
    for (size_t i = 0; i < whole; i++, in += 3, to += 4) {
        uint32_t three = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        for (int j = 0; j < 4; j++)
            to[j] = alphabet[three >> (18 - 6 * j) & 0x3F];
    }
    if (rest) {
        uint32_t three = (uint32_t)in[0] << 16 | (rest == 2 ? (uint32_t)in[1] << 8 : 0);
        for (size_t j = 0; j < rest + 1; j++)
            to[j] = alphabet[three >> (18 - 6 * j) & 0x3F];
        for (size_t j = rest + 1; padded && j < 4; j++)
            to[j] = '=';
    }
    out->len += length;
    return true;
}

/* The six bits of a character of either alphabet; negative for any other. */
static int sextet(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

bool wire_base64_decode(plim_bytes text, char *out, size_t *length)
{
    size_t digits = text.len;
    while (digits && text.len - digits < 2 && text.data[digits - 1] == '=')
        digits--;
    /* Padding, when there is any, fills the last four; and one digit alone holds no byte. */
    if ((digits != text.len && text.len % 4) || digits % 4 == 1)
        return false;
    uint32_t held = 0;
    size_t made = 0;
    for (size_t i = 0; i < digits; i++) {
        int six = sextet((unsigned char)text.data[i]);
        if (six < 0)
            return false;
        held = held << 6 | (uint32_t)six;
        if (i % 4 == 3) {
            out[made++] = (char)(held >> 16);
            out[made++] = (char)(held >> 8);
            out[made++] = (char)held;
        }
    }
    if (digits % 4 == 2) {
        out[made++] = (char)(held >> 4);
    } else if (digits % 4 == 3) {
        out[made++] = (char)(held >> 10);
        out[made++] = (char)(held >> 2);
    }
    *length = made;
    return true;
}
