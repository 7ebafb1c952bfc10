/*
 * The head of a message: method, target and header fields in order, in one growing piece of memory.
 * Names are kept in lower case, values without white space around them. Filled by a parser piece by
 * piece; reused for the next message with net_head_reset.
 */
#ifndef NET_HEAD_H
#define NET_HEAD_H

#include "base/base.h"

/* A run of bytes inside net_head.text: offsets, because the text moves while it grows. */
typedef struct net_span {
    uint32_t at, len;
} net_span;

typedef struct net_field {
    net_span name, value;
} net_field;

typedef struct net_head {
    base_buf text;
    net_field *fields;
    size_t count, capacity;
    net_span method, target;
} net_head;

void net_head_init(net_head *head, size_t text_bytes_max);
void net_head_reset(net_head *head);
void net_head_free(net_head *head);

/* Append to the span that is the last thing in the text (or is empty and starts now). */
bool net_head_extend(net_head *head, net_span *span, plim_bytes bytes);

/* Begin a field, then append to its name (lower-cased) and its value, then end it (trims the
 * value). False when out of memory or past the maximum. */
bool net_head_field_begin(net_head *head);
bool net_head_field_name(net_head *head, plim_bytes bytes);
bool net_head_field_value(net_head *head, plim_bytes bytes);
void net_head_field_end(net_head *head);

/* Bytes of a span, valid until the next append. */
static inline plim_bytes net_head_bytes(const net_head *head, net_span span)
{
    if (!head->text.data)
        return (plim_bytes){NULL, 0};
    return (plim_bytes){head->text.data + span.at, span.len};
}

/* First value of `name` (lower case); false and empty bytes when there is none. `count` (may be
 * NULL) is how often it occurs. */
bool net_head_find(const net_head *head, const char *name, plim_bytes *value, size_t *count);

#endif
