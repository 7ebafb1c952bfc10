#include "providers/docker/base64.h"

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four characters, of which the last `pad` are '='; false when they say more than their bytes. */
static bool decode_group(const char *at, int pad, unsigned char out[3])
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++) {
        int value = i < 4 - pad ? value_of(at[i]) : 0;
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
    }
    out[0] = (unsigned char)(bits >> 16);
    out[1] = (unsigned char)(bits >> 8);
    out[2] = (unsigned char)bits;
    return !(pad >= 1 && out[2]) && !(pad == 2 && out[1]);
}

bool docker_base64_decode(plim_bytes text, base_arena *arena, plim_bytes *out)
{
    if (text.len % 4)
        return false;
    char *bytes = base_arena_alloc(arena, text.len / 4 * 3 + 1, 1);
    if (!bytes)
        return false;
    size_t length = 0;
    for (size_t at = 0; at < text.len; at += 4) {
        bool is_last = at + 4 == text.len;
        int pad = !is_last || text.data[at + 3] != '=' ? 0 : text.data[at + 2] == '=' ? 2 : 1;
        unsigned char group[3];
        if (!decode_group(text.data + at, pad, group))
            return false;
        memcpy(bytes + length, group, (size_t)(3 - pad));
        length += (size_t)(3 - pad);
    }
    *out = (plim_bytes){bytes, length};
    return true;
}
