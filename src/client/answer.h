/*
 * A daemon's answer as bytes: the HTTP/1.1 response parser, over llhttp. Bytes in, one message out,
 * no I/O; pure, bounded in memory, and hostile input is its daily bread. Interim answers (1xx) are
 * skipped. One thread at a time. Not net_response, and net/response.h says why.
 */
#ifndef CLIENT_ANSWER_H
#define CLIENT_ANSWER_H

#include "net/net.h"

enum {
    CLIENT_HEAD_BYTES_MAX = 65536, /* of all heads of one answer together; ours has a few hundred */
    CLIENT_BODY_BYTES_MAX = 32 * 1024 * 1024 /* the contract's limit on an answer */
};

typedef enum {
    CLIENT_ANSWER_MORE,      /* feed more, or say that there is none */
    CLIENT_ANSWER_COMPLETE,  /* the message is whole, or is a redirect, whose body nobody reads */
    CLIENT_ANSWER_TOO_LARGE, /* the body is, or says that it is, past the limit */
    CLIENT_ANSWER_CUT,       /* it ended before its stated length */
    CLIENT_ANSWER_BAD,       /* not HTTP/1.x */
    CLIENT_ANSWER_NOMEM
} client_answer_state;

typedef struct client_answer {
    llhttp_t parser;
    net_head head;
    base_buf body;
    size_t head_bytes;
    int status;
    bool keep_alive;  /* COMPLETE, and the connection may carry another request */
    bool field_ended; /* private */
    client_answer_state state;
} client_answer;

/* It must not move after this: llhttp points to it. */
void client_answer_init(client_answer *answer);
void client_answer_free(client_answer *answer);

/* Consume bytes that arrived. Once the state is not MORE, it stays. */
client_answer_state client_answer_feed(client_answer *answer, plim_bytes in);

/* Nothing more will arrive. */
client_answer_state client_answer_end(client_answer *answer);

/* The value of a header that occurs exactly once; false when it is absent or repeated. */
bool client_answer_header(const client_answer *answer, const char *name, plim_bytes *value);

#endif
