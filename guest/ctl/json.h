/*
 * JSON for a known shape. The reader walks one document in a buffer that it may change: a string is
 * decoded where it stands and gets a terminator, so reading allocates nothing. It is strict (RFC
 * 8259, UTF-8, no lone surrogate) and knows no nesting but the caller's. The writers append to a
 * buffer. Pure functions.
 */
#ifndef GUEST_CTL_JSON_H
#define GUEST_CTL_JSON_H

#include "common.h"

struct ctl_json {
    char *at, *end;
    const char *fault; /* what was wrong first, a literal; NULL while all is well */
};

/* Start reading `len` bytes of valid UTF-8. */
struct ctl_json ctl_json_of(char *document, size_t len);

/* Record a fault unless there is one already. Always false. */
bool ctl_json_fail(struct ctl_json *json, const char *fault);

/*
 * Walk an object or an array: call with `*first` true, then until false. The member's name is in
 * `*name`, and the caller must read its value before the next call. False at the end, or on a
 * fault: look at `fault`.
 */
bool ctl_json_member(struct ctl_json *json, bool *first, plim_bytes *name);
bool ctl_json_item(struct ctl_json *json, bool *first);

/* Values. False on a fault. A string is in the document's buffer with a terminator after it, which
 * it may also contain; an integer is plain: no fraction, no exponent. */
bool ctl_json_string(struct ctl_json *json, plim_bytes *out);
bool ctl_json_integer(struct ctl_json *json, int64_t *out);

/* Only white space is left. */
bool ctl_json_ends(struct ctl_json *json);

/* A string with its quotes; what is not UTF-8 becomes U+FFFD. */
bool ctl_json_add_string(base_buf *buf, plim_bytes text);

/* The base64 of bytes, with padding, without quotes. */
bool ctl_json_add_base64(base_buf *buf, plim_bytes bytes);

/* How long that is. */
static inline size_t ctl_base64_len(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

#endif
