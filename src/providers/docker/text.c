#include "providers/docker/text.h"

const char *docker_printable(plim_bytes bytes, char *out, size_t size)
{
    size_t length = bytes.len < size - 1 ? bytes.len : size - 1;
    for (size_t i = 0; i < length; i++)
        out[i] = (char)(bytes.data[i] >= ' ' && bytes.data[i] < 0x7F ? bytes.data[i] : '?');
    out[length] = '\0';
    return out;
}

bool docker_hex_valid(plim_bytes text, size_t digits)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return text.len == digits;
}

bool docker_content_id_valid(plim_bytes text)
{
    static const size_t prefix = sizeof("sha256:") - 1;
    return text.len > prefix && memcmp(text.data, "sha256:", prefix) == 0 &&
           docker_hex_valid((plim_bytes){text.data + prefix, text.len - prefix}, BASE_SHA256_HEX);
}

const char *docker_short_id(const char *id, char out[13])
{
    const char *hex = strchr(id, ':');
    snprintf(out, 13, "%.12s", hex ? hex + 1 : id);
    return out;
}

bool docker_random_name(const char *prefix, char *out, size_t size)
{
    unsigned char bytes[8];
    char hex[2 * sizeof(bytes) + 1];
    if (!base_random(bytes, sizeof(bytes)))
        return false;
    base_hex(bytes, sizeof(bytes), hex);
    return (size_t)snprintf(out, size, "%s%s", prefix, hex) < size;
}

void docker_url_encode(base_buf *out, plim_bytes text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/:@";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c && strchr(plain, c))
            base_buf_add_byte(out, (char)c);
        else
            base_buf_printf(out, "%%%02X", c);
    }
}

int64_t docker_expiry(int64_t now_unix_ms, int64_t left_ms)
{
    return (now_unix_ms + left_ms + 999) / 1000;
}

bool docker_expiry_parse(plim_bytes text, int64_t *out)
{
    return text.len && text.data[0] >= '0' && text.data[0] <= '9' && base_parse_int(text, out);
}

/* ---- platforms ---- */

enum { PART_MAX = 32 };

struct platform {
    char os[PART_MAX], arch[PART_MAX], variant[PART_MAX];
};

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static void become(struct platform *p, const char *arch, const char *variant)
{
    snprintf(p->arch, sizeof(p->arch), "%s", arch);
    snprintf(p->variant, sizeof(p->variant), "%s", variant);
}

static void normalise_arm64(struct platform *p)
{
    const char *v = p->variant;
    if (is(v, "8") || is(v, "v8") || is(v, "v8.0"))
        v = "";
    else if (is(v, "9") || is(v, "9.0") || is(v, "v9.0"))
        v = "v9";
    if (v != p->variant)
        snprintf(p->variant, sizeof(p->variant), "%s", v);
    snprintf(p->arch, sizeof(p->arch), "arm64");
}

static void normalise_amd64(struct platform *p)
{
    if (is(p->variant, "v1"))
        p->variant[0] = '\0';
    snprintf(p->arch, sizeof(p->arch), "amd64");
}

static void normalise(struct platform *p)
{
    if (is(p->arch, "aarch64") || is(p->arch, "arm64"))
        normalise_arm64(p);
    else if (is(p->arch, "x86_64") || is(p->arch, "x86-64") || is(p->arch, "amd64"))
        normalise_amd64(p);
    else if (is(p->arch, "i386"))
        become(p, "386", "");
    else if (is(p->arch, "armhf") ||
             (is(p->arch, "arm") && (is(p->variant, "") || is(p->variant, "7"))))
        become(p, "arm", "v7");
    else if (is(p->arch, "armel") || (is(p->arch, "arm") && is(p->variant, "6")))
        become(p, "arm", "v6");
    else if (is(p->arch, "arm") && is(p->variant, "5"))
        become(p, "arm", "v5");
    else if (is(p->arch, "arm") && is(p->variant, "8"))
        become(p, "arm", "v8");
}

/* Split at slashes; false when it is not two or three parts that fit. */
static bool split(const char *text, struct platform *p)
{
    char *parts[] = {p->os, p->arch, p->variant};
    size_t part = 0, length = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '/') {
            part++;
            length = 0;
        } else if (part < PLIM_COUNT(parts) && length + 1 < PART_MAX) {
            parts[part][length++] = *at;
        } else {
            return false;
        }
    }
    return part >= 1 && part < PLIM_COUNT(parts);
}

bool docker_platform_normalise(plim_bytes platform, char *out, size_t size)
{
    char lower[3 * PART_MAX];
    if (platform.len >= sizeof(lower) || platform.len >= size)
        return false;
    for (size_t i = 0; i < platform.len; i++) {
        char c = platform.data[i];
        lower[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
    lower[platform.len] = '\0';
    struct platform p = {"", "", ""};
    if (!split(lower, &p))
        return (size_t)snprintf(out, size, "%s", lower) < size;
    normalise(&p);
    int length = snprintf(out, size, "%s/%s%s%s", p.os, p.arch, p.variant[0] ? "/" : "", p.variant);
    return (size_t)length < size;
}
