/*
 * The parser of HTTP/1.1 responses: bytes in, events out, no I/O. llhttp in strict mode does the
 * grammar; on top come bounds and the rule that a message has one length. One parser serves the
 * responses of one connection, one after another, until it reports UPGRADED or a fault.
 *
 * A remote daemon's answers have a reader of their own, client/answer.h, for its rules contradict
 * these: there, interim answers are skipped, a redirect ends the message, an upgrade is a fault,
 * the bound of the heads is one for all of them and their trailers, and a body is kept whole. What
 * the two have in common, net_head and llhttp, they share.
 */
#ifndef NET_RESPONSE_H
#define NET_RESPONSE_H

#include "llhttp.h"

#include "net/head.h"

typedef enum {
    NET_RESPONSE_MORE,     /* input used up */
    NET_RESPONSE_HEAD,     /* `status` and `head` are complete */
    NET_RESPONSE_BODY,     /* `*body` is the next piece, borrowed from the input */
    NET_RESPONSE_END,      /* the message is complete; the rest of the input is the next one */
    NET_RESPONSE_UPGRADED, /* 101: all further input belongs to another protocol. Final */
    NET_RESPONSE_BAD,      /* not a response that we understand; `reason` says why. Final */
} net_response_event;

typedef struct net_response {
    llhttp_t parser;
    net_head head;
    int status;         /* after HEAD */
    bool keep_alive;    /* after HEAD: may the connection serve another request? */
    const char *reason; /* static */

    /* private */
    size_t head_bytes, head_bytes_max, overhead_bytes, overhead_bytes_max;
    plim_bytes piece;
    bool in_body, is_over, field_ended;
    unsigned char pending;
} net_response;

/* The parser must not move after this: llhttp points to it. */
void net_response_init(net_response *response, size_t head_bytes_max);
void net_response_free(net_response *response);

/* Consume from the front of `*input` until there is something to report. `body` is set on BODY. */
net_response_event net_response_next(net_response *response, plim_bytes *input, plim_bytes *body);

/* The peer closed: END when that is how the message ends, BAD otherwise. */
net_response_event net_response_closed(net_response *response);

#endif
