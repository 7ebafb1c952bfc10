/* Small texts of a status line: reason phrases and decimal numbers. Pure. */
#ifndef HTTP_STATUS_H
#define HTTP_STATUS_H

#include "base/base.h"

/* The reason phrase of a status; empty for one without (as 499). */
plim_bytes http_status_reason(int status);

/* A number in decimal, without printf's cost on the path of every answer. */
typedef struct http_digits {
    unsigned char from;
    char text[20];
} http_digits;

http_digits http_digits_of(size_t number);

static inline plim_bytes http_digits_text(const http_digits *digits)
{
    return (plim_bytes){digits->text + digits->from, sizeof(digits->text) - digits->from};
}

#endif
