/*
 * TLS over bytes: a context per listener, a session per connection. It does no I/O; ciphertext
 * comes in and goes out through buffers. TLS 1.2 or newer, ALPN h2 and http/1.1, no client
 * certificates, no renegotiation, no tickets.
 */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include "base/base.h"

typedef struct http_tls_context http_tls_context;
typedef struct http_tls http_tls;

http_tls_context *http_tls_context_new(const char *cert_file, const char *key_file,
                                       plim_error *err) PLIM_MUST_USE;
void http_tls_context_free(http_tls_context *context);

/* `wire` receives every byte to send; it is borrowed and must outlive the session. */
http_tls *http_tls_new(http_tls_context *context, base_buf *wire) PLIM_MUST_USE;
void http_tls_free(http_tls *tls);

/* Ciphertext from the client; borrowed until http_tls_read has returned false or 0 bytes. */
void http_tls_feed(http_tls *tls, plim_bytes ciphertext);

typedef enum {
    HTTP_TLS_OK,    /* go on */
    HTTP_TLS_EMPTY, /* nothing until more is fed */
    HTTP_TLS_EOF,   /* the client closed its side */
    HTTP_TLS_ERROR  /* the session is dead; an alert may be in `wire` */
} http_tls_result;

/* Advance the handshake. OK once it is done. */
http_tls_result http_tls_handshake(http_tls *tls);
bool http_tls_is_h2(const http_tls *tls);

/* Decrypt up to `*length` bytes. */
http_tls_result http_tls_read(http_tls *tls, char *out, size_t *length);

/* Encrypt all of it into `wire`. */
bool http_tls_write(http_tls *tls, plim_bytes plain);

/* Say in `wire` that no more comes. */
void http_tls_close(http_tls *tls);

#endif
