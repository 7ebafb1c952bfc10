/* The character rules of HTTP (RFC 9110 5.5, 5.6.2; RFC 9112 3.2): pure functions over bytes. */
#ifndef NET_SYNTAX_H
#define NET_SYNTAX_H

#include <plimsoll/types.h>

/* A header name as HTTP/2 wants it and as we send it everywhere: a token without upper case. */
bool net_lower_token_valid(plim_bytes name);

/* A header value: no control character but tab, no white space at either end. */
bool net_value_valid(plim_bytes value);

/* A Host header or :authority: empty, or the characters that a host and port are made of. */
bool net_host_valid(plim_bytes host);

/*
 * Split a request target into path and query. Accepts origin form (/path?query), the asterisk,
 * absolute form with http or https (its path, "/" if empty) and, for CONNECT, anything. False for
 * the rest.
 */
bool net_target_split(plim_bytes method, plim_bytes target, plim_bytes *path, plim_bytes *query);

/* Decimal digits only, at least one, fitting int64. */
bool net_length_parse(plim_bytes text, int64_t *out);

#endif
