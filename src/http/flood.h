/*
 * Bounds on what an HTTP/2 client may make us do without asking for anything: a table of the cheap
 * frames, each with a bucket of tokens that refills with time and with answers it has waited for.
 * Saturating arithmetic, no clock of its own; one per connection.
 */
#ifndef HTTP_FLOOD_H
#define HTTP_FLOOD_H

#include "base/base.h"

/*
 * X(name, burst, tokens a second, tokens an answered request, why). The figures for resets are
 * nghttp2's own; pings allow for clients that measure bandwidth with one ping per answer.
 */
#define HTTP_FLOODS(X)                                                                             \
    X(PING, 1000, 50, 4, "every one is answered")                                                  \
    X(SETTINGS, 100, 5, 0, "every one is answered")                                                \
    X(RESET, 1000, 33, 0, "a stream opened and reset costs a request (Rapid Reset)")               \
    X(EMPTY_DATA, 100, 10, 1, "a DATA frame without bytes or end moves nothing")                   \
    X(CONTINUATION, 64, 16, 8, "a header block in many pieces")                                    \
    X(PRIORITY, 1000, 100, 4, "nothing is done with them")                                         \
    X(WINDOW_UPDATE, 10000, 5000, 64, "honest ones follow what we send")                           \
    X(INVALID, 100, 10, 0, "frames that break a rule of their stream")

typedef enum {
#define X(name, burst, rate, earned, why) HTTP_FLOOD_##name,
    HTTP_FLOODS(X)
#undef X
        HTTP_FLOOD_KINDS
} http_flood_kind;

/* A header block may come in this many CONTINUATION frames (as nghttp2 has it). */
enum { HTTP_CONTINUATIONS_MAX = 8 };

typedef struct http_flood {
    uint32_t tokens[HTTP_FLOOD_KINDS];
    int64_t filled_ms; /* up to when time was turned into tokens */
} http_flood;

void http_flood_init(http_flood *flood, int64_t now_ms);

/* One more of `kind`; false when it is one too many. */
bool http_flood_take(http_flood *flood, http_flood_kind kind, int64_t now_ms);

/* A request was answered: its client has earned some patience. */
void http_flood_earn(http_flood *flood);

#endif
