#include "base/base.h"

int base_bytes_compare(plim_bytes a, plim_bytes b)
{
    size_t shared = a.len < b.len ? a.len : b.len;
    int order = shared ? memcmp(a.data, b.data, shared) : 0;
    if (order)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

size_t base_utf8_decode(plim_bytes bytes, uint32_t *out)
{
    if (bytes.len == 0)
        return 0;
    const unsigned char *in = (const unsigned char *)bytes.data;
    if (in[0] < 0x80) {
        *out = in[0];
        return 1;
    }
    size_t length = in[0] >= 0xF0 ? 4 : in[0] >= 0xE0 ? 3 : 2;
    if (in[0] < 0xC2 || in[0] > 0xF4 || length > bytes.len)
        return 0;
    uint32_t point = in[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((in[i] & 0xC0) != 0x80)
            return 0;
        point = point << 6 | (in[i] & 0x3Fu);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < smallest[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        return 0;
    *out = point;
    return length;
}

bool base_utf8_valid(plim_bytes bytes)
{
    const char *at = bytes.data, *end = bytes.len ? bytes.data + bytes.len : bytes.data;
    while (at < end) {
        /* Source code is mostly ASCII: eight bytes at a step. */
        uint64_t word;
        while (end - at >= 8 && (memcpy(&word, at, 8), (word & UINT64_C(0x8080808080808080)) == 0))
            at += 8;
        if (at == end)
            break;
        uint32_t point;
        size_t length = base_utf8_decode((plim_bytes){at, (size_t)(end - at)}, &point);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

void base_buf_free(base_buf *buf)
{
    base_free(buf->data);
    *buf = BASE_BUF_INIT(buf->max);
}

char *base_buf_reserve(base_buf *buf, size_t bytes)
{
    size_t need;
    if (buf->failed || !base_size_add(buf->len, bytes, &need) || need > buf->max ||
        need == SIZE_MAX)
        goto failed;
    if (need >= buf->capacity) {
        /* At least doubled, so that appending is linear; never more than the maximum can use. */
        size_t most = buf->max < SIZE_MAX ? buf->max + 1 : SIZE_MAX;
        size_t capacity = buf->capacity ? buf->capacity : 32;
        capacity = capacity <= most / 2 ? capacity * 2 : most;
        if (capacity <= need)
            capacity = need + 1;
        char *data = base_realloc(buf->data, capacity, 1);
        if (!data)
            goto failed;
        buf->data = data;
        buf->capacity = capacity;
    }
    buf->data[need] = '\0';
    return buf->data + buf->len;
failed:
    buf->failed = true;
    return NULL;
}

bool base_buf_add(base_buf *buf, plim_bytes bytes)
{
    char *room = base_buf_reserve(buf, bytes.len);
    if (!room)
        return false;
    if (bytes.len)
        memcpy(room, bytes.data, bytes.len);
    buf->len += bytes.len;
    return true;
}

bool base_buf_add_text(base_buf *buf, const char *text)
{
    return base_buf_add(buf, plim_bytes_of(text));
}

bool base_buf_add_byte(base_buf *buf, char byte)
{
    return base_buf_add(buf, (plim_bytes){&byte, 1});
}

bool base_buf_printf(base_buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *room = length < 0 ? NULL : base_buf_reserve(buf, (size_t)length);
    if (room) {
        vsnprintf(room, (size_t)length + 1, format, again);
        buf->len += (size_t)length;
    } else {
        buf->failed = true;
    }
    va_end(again);
    va_end(args);
    return room != NULL;
}

bool base_buf_add_utf8(base_buf *buf, plim_bytes bytes)
{
    bool in_bad_run = false;
    while (bytes.len && !buf->failed) {
        uint32_t point;
        size_t length = base_utf8_decode(bytes, &point);
        if (length)
            base_buf_add(buf, (plim_bytes){bytes.data, length});
        else if (!in_bad_run)
            base_buf_add_text(buf, "\xEF\xBF\xBD");
        in_bad_run = length == 0;
        size_t step = length ? length : 1;
        bytes = (plim_bytes){bytes.data + step, bytes.len - step};
    }
    return !buf->failed;
}
