/*
 * The base URL of a daemon, checked and taken apart: a pure function over bytes, no resolution. One
 * parse decides both where to connect and whether cleartext may go there, so the two cannot differ.
 */
#ifndef CLIENT_URL_H
#define CLIENT_URL_H

#include "base/base.h"

typedef struct client_url {
    const char *origin;    /* scheme, host and port, as the connection is made; no path */
    const char *authority; /* the Host header: host and port as given */
    const char *path;      /* "" or "/base", without a trailing slash */
    bool tls, loopback;
} client_url;

/*
 * Parse into `arena`. False: PLIM_E_INVALID_BASE_URL, or PLIM_E_INSECURE_HTTP for cleartext to a
 * host that is not loopback unless `insecure_http`; marked `request`. The message does not repeat
 * the URL, which may hold a password.
 */
bool client_url_parse(base_arena *arena, plim_bytes text, bool insecure_http, client_url *out,
                      plim_error *err);

#endif
