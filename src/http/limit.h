/*
 * Every limit of the server in one table: name, default, unit, why. A listener starts from
 * http_limits_default() and changes what it must. Times are milliseconds; 0 means "no such limit"
 * only where the table says so.
 */
#ifndef HTTP_LIMIT_H
#define HTTP_LIMIT_H

#include <stdint.h>

/* X(name, default, unit, why) */
#define HTTP_LIMITS(X)                                                                             \
    X(connections_max, 0, "connections",                                                           \
      "open connections of this listener; past it the listener stops accepting. 0 = no cap")       \
    X(header_bytes_max, 32768, "bytes",                                                            \
      "request line and header block as sent; in HTTP/2 as decoded, 32 more per field")            \
    X(header_ms, 5000, "ms", "first byte to end of the header block; also the TLS handshake")      \
    X(request_ms, 30000, "ms", "first byte to end of the body")                                    \
    X(answer_ms, 360000, "ms", "end of the header block to last byte of the answer handed over")   \
    X(idle_ms, 120000, "ms", "a connection with no request")                                       \
    X(discard_ms, 500, "ms", "reading and dropping what a refused client still sends")             \
    X(h2_streams_max, 250, "streams", "concurrent streams of one HTTP/2 connection")

typedef struct http_limits {
#define X(name, value, unit, why) int64_t name;
    HTTP_LIMITS(X)
#undef X
} http_limits;

static inline http_limits http_limits_default(void)
{
    return (http_limits){
#define X(name, value, unit, why) .name = (value),
        HTTP_LIMITS(X)
#undef X
    };
}

#endif
