/* Opening a client. */
#include "client/client.h"

#include "client/call.h"
#include "client/conn.h"
#include "client/url.h"

enum { CLIENT_BYTES_MAX = 1 << 16, CA_FILE_BYTES_MAX = 4096, TOKEN_BYTES_MAX = 8192 };

/* ---- opening ---- */

static bool invalid_option(plim_error *err, const char *what)
{
    return plim_refuse(err, PLIM_E_INVALID_OPTION, PLIM_CODE_INVALID_ARGUMENT, PLIM_ND_REQUEST,
                       "%s", what);
}

static bool token_valid(plim_bytes token)
{
    for (size_t i = 0; i < token.len; i++)
        if (token.data[i] < 0x21 || token.data[i] > 0x7E)
            return false;
    return token.len <= TOKEN_BYTES_MAX;
}

static bool check_options(const plim_client_options *options, plim_error *err)
{
    if (!token_valid(options->token))
        return invalid_option(err,
                              "the token holds something else than visible ASCII, or is longer "
                              "than 8192 characters");
    if (options->request_timeout_ms < 0)
        return invalid_option(err, "the request timeout is not positive");
    if (options->ca_file.len > CA_FILE_BYTES_MAX ||
        (options->ca_file.len && memchr(options->ca_file.data, '\0', options->ca_file.len)))
        return invalid_option(err, "the name of the CA file is not a path");
    return true;
}

static bool copy_recorder(client *self, const plim_recorder *recorder, plim_error *err)
{
    if (!recorder)
        return true;
    if (!core_read_sized(&self->recorder, sizeof(self->recorder), recorder, err))
        return false;
    return self->recorder.record || invalid_option(err, "the recorder has no `record` callback");
}

static bool copy_token(client *self, plim_bytes token)
{
    if (token.len == 0)
        return true;
    self->token_size = token.len + 1;
    self->token = base_alloc(self->token_size, 1);
    if (self->token)
        memcpy(self->token, token.data, token.len);
    return self->token;
}

static bool fill(client *self, const plim_client_options *options, plim_error *err)
{
    client_url url;
    const char *ca_file = NULL;
    if (!client_url_parse(self->arena, options->base_url, options->insecure_http, &url, err) ||
        !check_options(options, err) || !copy_recorder(self, options->recorder, err))
        return false;
    if (options->ca_file.len && !(ca_file = base_arena_text(self->arena, options->ca_file)))
        return plim_refuse_nomem(err);
    self->log = options->log;
    self->log_ctx = options->log_ctx;
    self->authority = url.authority;
    self->path = url.path;
    self->timeout_ms =
        options->request_timeout_ms ? options->request_timeout_ms : PLIM_REQUEST_TIMEOUT_MS;
    self->transport = client_transport_new(&url, ca_file);
    return (self->transport && copy_token(self, options->token)) || plim_refuse_nomem(err);
}

bool client_new(const plim_client_options *options, client **out, plim_error *err)
{
    if (!client_conn_init())
        return plim_refuse(err, PLIM_E_TRANSPORT, PLIM_CODE_UNAVAILABLE, PLIM_ND_ENVIRONMENT,
                           "the network library does not start");
    base_arena *arena = base_arena_new(CLIENT_BYTES_MAX);
    client *made = arena ? base_arena_alloc(arena, 1, sizeof(*made)) : NULL;
    if (!made) {
        base_arena_free(arena);
        return plim_refuse_nomem(err);
    }
    made->arena = arena;
    if (!fill(made, options, err)) {
        client_free(made);
        return false;
    }
    *out = made;
    return true;
}

void client_free(client *self)
{
    if (!self)
        return;
    client_transport_free(self->transport);
    base_free_secret(self->token, self->token_size);
    base_arena_free(self->arena);
}
