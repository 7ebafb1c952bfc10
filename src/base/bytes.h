/*
 * Byte slices and growable buffers. A buffer is born with its maximum and never grows past it; once
 * an append has failed the buffer remembers it, so that a run of appends needs one check at the
 * end. Its bytes always have a terminator after them (not counted), so text built in one can be
 * printed.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <plimsoll/types.h>

static inline bool base_bytes_equal(plim_bytes a, plim_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool base_bytes_is(plim_bytes a, const char *text)
{
    return base_bytes_equal(a, plim_bytes_of(text));
}

/* Bytewise order, shorter first among equals: negative, zero or positive. */
int base_bytes_compare(plim_bytes a, plim_bytes b);

/* Is `bytes` well-formed UTF-8 (no overlong form, no surrogate, nothing above U+10FFFF)? */
bool base_utf8_valid(plim_bytes bytes);

/*
 * Decode one character at the front of `bytes` into `*out`: its length 1-4, or 0 when the front is
 * not well formed or `bytes` is empty.
 */
size_t base_utf8_decode(plim_bytes bytes, uint32_t *out);

typedef struct base_buf {
    char *data; /* NULL until something was appended */
    size_t len, capacity, max;
    bool failed; /* an append did not fit `max` or memory: the content is a prefix */
} base_buf;

#define BASE_BUF_INIT(bytes_max) ((base_buf){NULL, 0, 0, (bytes_max), false})

void base_buf_free(base_buf *buf);
#define _cleanup_buf_ _cleanup_(base_buf_free)

/* Append; false when the buffer has failed now or before. A failed append changes nothing but
 * `failed`. */
bool base_buf_add(base_buf *buf, plim_bytes bytes);
bool base_buf_add_text(base_buf *buf, const char *text);
bool base_buf_add_byte(base_buf *buf, char byte);
bool base_buf_printf(base_buf *buf, const char *format, ...) PLIM_PRINTF(2, 3);

/* Append with every malformed run replaced by one U+FFFD, so that the result is valid UTF-8. */
bool base_buf_add_utf8(base_buf *buf, plim_bytes bytes);

/* Make room for `bytes` more and return where they go (add them to `len` afterwards); NULL as a
 * failed append. */
char *base_buf_reserve(base_buf *buf, size_t bytes);

/* Forget the content, keep the memory. */
static inline void base_buf_clear(base_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

static inline plim_bytes base_buf_bytes(const base_buf *buf)
{
    return (plim_bytes){buf->data, buf->len};
}

/* The content as a C string; "" when empty. Valid until the next append. */
static inline const char *base_buf_text(const base_buf *buf)
{
    return buf->data ? buf->data : "";
}

#endif
