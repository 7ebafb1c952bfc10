#include "http/status.h"

/* X(status, reason): RFC 9110 15 and RFC 6585, what this program answers with. */
#define HTTP_STATUSES(X)                                                                           \
    X(200, "OK")                                                                                   \
    X(201, "Created")                                                                              \
    X(202, "Accepted")                                                                             \
    X(204, "No Content")                                                                           \
    X(400, "Bad Request")                                                                          \
    X(401, "Unauthorized")                                                                         \
    X(403, "Forbidden")                                                                            \
    X(404, "Not Found")                                                                            \
    X(405, "Method Not Allowed")                                                                   \
    X(408, "Request Timeout")                                                                      \
    X(409, "Conflict")                                                                             \
    X(413, "Content Too Large")                                                                    \
    X(415, "Unsupported Media Type")                                                               \
    X(429, "Too Many Requests")                                                                    \
    X(431, "Request Header Fields Too Large")                                                      \
    X(500, "Internal Server Error")                                                                \
    X(501, "Not Implemented")                                                                      \
    X(502, "Bad Gateway")                                                                          \
    X(503, "Service Unavailable")                                                                  \
    X(504, "Gateway Timeout")                                                                      \
    X(505, "HTTP Version Not Supported")

plim_bytes http_status_reason(int status)
{
    switch (status) {
#define X(number, reason)                                                                          \
    case number:                                                                                   \
        return PLIM_LIT(reason);
        HTTP_STATUSES(X)
#undef X
    default:
        return (plim_bytes){NULL, 0};
    }
}

http_digits http_digits_of(size_t number)
{
    http_digits digits = {.from = sizeof(digits.text)};
    do {
        digits.text[--digits.from] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    return digits;
}
