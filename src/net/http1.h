/*
 * The HTTP/1.x request parser: bytes in, events out, no I/O. llhttp in strict mode does the
 * grammar; on top come the rules that it leaves open, so that no two parties can ever disagree
 * about where a message ends (RFC 9112 11.2). Memory: one head, bounded by the header limit.
 */
#ifndef NET_HTTP1_H
#define NET_HTTP1_H

#include "llhttp.h"

#include "net/head.h"

typedef enum {
    NET_HTTP1_MORE,      /* input used up */
    NET_HTTP1_HEAD,      /* `head` and the framing below are complete */
    NET_HTTP1_BODY,      /* `*body` is the next piece, borrowed from the input */
    NET_HTTP1_END,       /* the message is complete; what is left of the input is the next one */
    NET_HTTP1_BAD,       /* not HTTP/1.x, or ambiguous; `reason` says why. Final */
    NET_HTTP1_TOO_LARGE, /* the header block is past its limit. Final */
    NET_HTTP1_VERSION,   /* well-formed, but neither HTTP/1.0 nor 1.1. Final */
    NET_HTTP1_NOMEM      /* Final */
} net_http1_event;

typedef struct net_http1 {
    llhttp_t parser;
    net_head head;
    plim_bytes path, query; /* of the target; after HEAD, into the head's text or static */
    int64_t content_length; /* after HEAD: 0 none, -1 chunked */
    bool keep_alive;        /* after HEAD: may the connection serve another request? */
    bool head_complete;     /* `head` is whole, perhaps refused all the same */
    bool unknown_method;    /* BAD because the first word is not a method we know */
    const char *reason;     /* static */

    /* private */
    size_t head_bytes, head_bytes_max, overhead_bytes, overhead_bytes_max;
    plim_bytes piece;
    unsigned char phase, pending, protocol_bytes;
    bool field_ended, ended;
} net_http1;

/* The parser must not move after this: llhttp points to it. */
void net_http1_init(net_http1 *http1, size_t head_bytes_max);
void net_http1_free(net_http1 *http1);

/* Consume from the front of `*input` until there is something to report. `body` is set on BODY. */
net_http1_event net_http1_next(net_http1 *http1, plim_bytes *input, plim_bytes *body);

/* Has a message begun that is not complete? */
bool net_http1_in_message(const net_http1 *http1);

/* After HEAD: is it HTTP/1.1 (else 1.0)? Does the client wait for "100 Continue"? */
bool net_http1_is_1_1(const net_http1 *http1);
bool net_http1_expects_continue(const net_http1 *http1);

/* Give the head away, for a request that outlives the connection's interest in it. */
net_head net_http1_take_head(net_http1 *http1);
/* Give a head back once nobody reads it, so that the next message need not allocate. Leaves `head`
 * empty. */
void net_http1_return_head(net_http1 *http1, net_head *head);

#endif
