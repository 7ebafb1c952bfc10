#include "http/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

struct http_tls_context {
    SSL_CTX *ssl;
    BIO_METHOD *bio;
};

struct http_tls {
    SSL *ssl;
    base_buf *wire;
    plim_bytes fed;
};

/* ---- a BIO over the two buffers ---- */

static int bio_read(BIO *bio, char *out, int size)
{
    http_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (size <= 0 || tls->fed.len == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t length = (size_t)size < tls->fed.len ? (size_t)size : tls->fed.len;
    memcpy(out, tls->fed.data, length);
    tls->fed = (plim_bytes){tls->fed.data + length, tls->fed.len - length};
    return (int)length;
}

static int bio_write(BIO *bio, const char *bytes, int size)
{
    http_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (size <= 0 || !base_buf_add(tls->wire, (plim_bytes){bytes, (size_t)size}))
        return -1;
    return size;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *bio_method_new(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "plimsoll");
    if (method && BIO_meth_set_read(method, bio_read) && BIO_meth_set_write(method, bio_write) &&
        BIO_meth_set_ctrl(method, bio_ctrl) && BIO_meth_set_create(method, bio_create))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ---- the context ---- */

/* Our order decides; a client that offers protocols but none of ours is refused (RFC 7301 3.2). */
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                           const unsigned char *offered, unsigned offered_length, void *arg)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    (void)ssl, (void)arg;
    unsigned char *choice = NULL;
    if (SSL_select_next_proto(&choice, out_length, ours, sizeof(ours) - 1, offered,
                              offered_length) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = choice;
    return SSL_TLSEXT_ERR_OK;
}

/* The oldest error of the queue is the cause; what libraries above it add says less. */
static const char *ssl_reason(void)
{
    unsigned long code = ERR_peek_error();
    if (ERR_SYSTEM_ERROR(code))
        return base_errno_text(ERR_GET_REASON(code));
    bool no_pem = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
    if (no_pem || ERR_GET_LIB(code) == ERR_LIB_OSSL_DECODER)
        return "the file holds none in PEM form";
    const char *reason = ERR_reason_error_string(code);
    return reason ? reason : "failed";
}

static bool fail_ssl(plim_error *err, const char *what, const char *file)
{
    plim_refuse(err, PLIM_E_INVALID_OPTION, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,
                "TLS: %s %s: %s", what, file, ssl_reason());
    ERR_clear_error();
    return false;
}

/* A key under a passphrase is refused, not asked about: there is nobody at a terminal. */
static int no_passphrase(char *out, int size, int for_writing, void *asked)
{
    (void)for_writing;
    *(bool *)asked = true;
    if (size > 0)
        out[0] = '\0';
    return -1;
}

static bool configure(SSL_CTX *ssl)
{
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_alpn_select_cb(ssl, select_protocol, NULL);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) && SSL_CTX_set_num_tickets(ssl, 0) &&
           /* what HTTP/2 allows over TLS 1.2 (RFC 9113 9.2.2): ephemeral keys, AEAD */
           SSL_CTX_set_cipher_list(ssl, "ECDHE+AESGCM:ECDHE+CHACHA20");
}

/* Load the pair and see that it is one. */
static bool load_pair(SSL_CTX *ssl, const char *cert_file, const char *key_file, plim_error *err)
{
    bool asked = false;
    SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ssl, &asked);
    if (SSL_CTX_use_certificate_chain_file(ssl, cert_file) != 1)
        return fail_ssl(err, "cannot load the certificate", cert_file);
    if (SSL_CTX_use_PrivateKey_file(ssl, key_file, SSL_FILETYPE_PEM) != 1)
        return fail_ssl(err,
                        asked ? "the key is under a passphrase, and there is nobody to ask for it:"
                              : "cannot load the key, or it does not match the certificate:",
                        key_file);
    if (SSL_CTX_check_private_key(ssl) != 1)
        return fail_ssl(err, "the certificate does not match the key", key_file);
    SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
    return true;
}

http_tls_context *http_tls_context_new(const char *cert_file, const char *key_file, plim_error *err)
{
    http_tls_context *context = base_new(http_tls_context);
    if (!context) {
        plim_refuse_nomem(err);
        return NULL;
    }
    context->bio = bio_method_new();
    context->ssl = SSL_CTX_new(TLS_server_method());
    bool ok = context->bio && context->ssl && configure(context->ssl);
    if (!ok)
        fail_ssl(err, "cannot set up", "the library");
    else
        ok = load_pair(context->ssl, cert_file, key_file, err);
    if (!ok) {
        http_tls_context_free(context);
        return NULL;
    }
    return context;
}

void http_tls_context_free(http_tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ssl);
    BIO_meth_free(context->bio);
    base_free(context);
}

/* ---- a session ---- */

http_tls *http_tls_new(http_tls_context *context, base_buf *wire)
{
    http_tls *tls = base_new(http_tls);
    BIO *bio = BIO_new(context->bio);
    if (tls)
        tls->ssl = SSL_new(context->ssl);
    if (!tls || !bio || !tls->ssl) {
        BIO_free(bio);
        http_tls_free(tls);
        return NULL;
    }
    tls->wire = wire;
    BIO_set_data(bio, tls);
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_accept_state(tls->ssl);
    return tls;
}

void http_tls_free(http_tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    base_free(tls);
}

void http_tls_feed(http_tls *tls, plim_bytes ciphertext)
{
    tls->fed = ciphertext;
}

/* What a call that returned `status` <= 0 means. The error queue is per thread: leave it empty. */
static http_tls_result result_of(http_tls *tls, int status)
{
    int error = SSL_get_error(tls->ssl, status);
    ERR_clear_error();
    switch (error) {
    case SSL_ERROR_WANT_READ:
        return HTTP_TLS_EMPTY;
    case SSL_ERROR_ZERO_RETURN:
        return HTTP_TLS_EOF;
    default:
        return HTTP_TLS_ERROR;
    }
}

http_tls_result http_tls_handshake(http_tls *tls)
{
    if (SSL_is_init_finished(tls->ssl))
        return HTTP_TLS_OK;
    int status = SSL_do_handshake(tls->ssl);
    return status == 1 ? HTTP_TLS_OK : result_of(tls, status);
}

bool http_tls_is_h2(const http_tls *tls)
{
    const unsigned char *name;
    unsigned length;
    SSL_get0_alpn_selected(tls->ssl, &name, &length);
    return length == 2 && memcmp(name, "h2", 2) == 0;
}

http_tls_result http_tls_read(http_tls *tls, char *out, size_t *length)
{
    size_t size = *length;
    *length = 0;
    int status = SSL_read_ex(tls->ssl, out, size, length);
    return status == 1 ? HTTP_TLS_OK : result_of(tls, status);
}

bool http_tls_write(http_tls *tls, plim_bytes plain)
{
    while (plain.len) {
        size_t done = 0;
        int status = SSL_write_ex(tls->ssl, plain.data, plain.len, &done);
        if (status != 1) {
            result_of(tls, status);
            return false;
        }
        plain = (plim_bytes){plain.data + done, plain.len - done};
    }
    return true;
}

void http_tls_close(http_tls *tls)
{
    if (SSL_is_init_finished(tls->ssl))
        SSL_shutdown(tls->ssl);
    ERR_clear_error();
}
