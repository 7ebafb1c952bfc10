/* Opening a client, and the run: validate, send, check. */
#include "client/client.h"

#include "client/call.h"
#include "client/conn.h"
#include "client/details.h"
#include "client/url.h"

enum {
    CLIENT_BYTES_MAX = 1 << 16,
    /* A request as a message: every limit of the contract together, with room to spare. */
    REQUEST_BYTES_MAX = 96 * 1024 * 1024,
    CA_FILE_BYTES_MAX = 4096,
    TOKEN_BYTES_MAX = 8192
};

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
        !check_options(options, err))
        return false;
    if (options->ca_file.len && !(ca_file = base_arena_text(self->arena, options->ca_file)))
        return plim_refuse_nomem(err);
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

/* ---- a run ---- */

/* What was sent: kept until the answer is checked against it. */
typedef struct sent_request {
    record_request facts;
    char sha256[BASE_SHA256_HEX + 1];
} sent_request;

static bool validate(const core_request *request, plim_error *err)
{
    if (!core_validate(request, err))
        return false;
    /* A daemon would drop a bad one without a word. */
    plim_bytes trace_id = request->options->trace_id;
    return trace_id.len == 0 || core_validate_trace_id(trace_id, err);
}

/* The message, and the digest of what it asks for: both before anything is sent. */
static bool prepare(base_arena *arena, const core_request *request, base_buf *message,
                    sent_request *sent, plim_error *err)
{
    wire_run_request *written = wire_write_request(arena, request);
    return (written && wire_record_request(written, request, &sent->facts) &&
            record_request_digest(&sent->facts, sent->sha256) &&
            wire_encode(WIRE_PROTO, written, message)) ||
           plim_refuse_nomem(err);
}

static bool fail_nomem(plim_error *err)
{
    return plim_fail(err, PLIM_E_NOMEM, PLIM_CODE_RESOURCE_EXHAUSTED,
                     "out of memory while the answer was checked; the code may have run");
}

/* The body as a message, or NULL with an unmarked error: what a decoder would mark on a request
 * means nothing on an answer. */
static void *decode(base_arena *arena, const wire_type *type, const client_answer *answer,
                    plim_error *err)
{
    plim_error inner = PLIM_ERROR_INIT;
    void *message = wire_decode(arena, WIRE_PROTO, type, base_buf_bytes(&answer->body), &inner);
    if (message)
        return message;
    if (plim_error_status(&inner) == PLIM_E_NOMEM)
        fail_nomem(err);
    else
        plim_fail(err, PLIM_E_MALFORMED, PLIM_CODE_INTERNAL, "the answer cannot be decoded: %s",
                  plim_error_message(&inner));
    plim_error_clear(&inner);
    return NULL;
}

/* Kind first, then the record: of an answer of another kind there is no result to give. */
static bool check(const sent_request *sent, const wire_run_response *response, plim_result *result,
                  plim_error *err)
{
    if (result->kind != sent->facts.kind)
        return plim_fail(err, PLIM_E_RESULT_KIND, PLIM_CODE_DATA_LOSS,
                         "the answer holds %s%s instead of a %s result",
                         result->kind ? "a result of kind " : "no result",
                         plim_kind_name(result->kind), plim_kind_name(sent->facts.kind));
    plim_record *record = NULL;
    if (response->record && !(record = wire_read_record(result->arena, response->record)))
        return fail_nomem(err);
    if (!record_check(&sent->facts, sent->sha256, result, record, NULL, err) || !record)
        return false;
    result->policy = record->policy;
    result->record = record;
    return true;
}

static bool is_data_loss(const plim_error *err)
{
    return err->code == PLIM_CODE_DATA_LOSS && err->status != PLIM_E_RESULT_KIND;
}

/*
 * The result of an answer, checked. On data loss `*out` is what came back all the same, without a
 * record. `unbound`: `err` is set already, and nothing of the answer is believed.
 */
static bool read_result(base_arena *arena, const sent_request *sent, const client_answer *answer,
                        bool unbound, plim_result **out, plim_error *err)
{
    plim_error unread = PLIM_ERROR_INIT;
    wire_run_response *response =
        decode(arena, WIRE_TYPE(run_response), answer, unbound ? &unread : err);
    _cleanup_(core_result_freep)
    plim_result *result = NULL;
    if (response)
        result = wire_read_result(response);
    if (unbound) {
        if (result && result->kind == sent->facts.kind)
            *out = TAKE_PTR(result);
        return false;
    }
    if (!response)
        return false;
    if (!result)
        return fail_nomem(err);
    bool good = check(sent, response, result, err);
    if (good || is_data_loss(err))
        *out = TAKE_PTR(result);
    return good;
}

static bool run(client *self, const core_request *request, const run_ctx *ctx, plim_result **out,
                plim_error *err)
{
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(REQUEST_BYTES_MAX);
    _cleanup_buf_ base_buf message = BASE_BUF_INIT(REQUEST_BYTES_MAX);
    sent_request sent = {.sha256 = ""};
    if (!arena)
        return plim_refuse_nomem(err);
    if (!validate(request, err) || !prepare(arena, request, &message, &sent, err))
        return false;
    _cleanup_(client_answer_free)
    client_answer answer;
    client_answer_init(&answer);
    client_call_outcome outcome =
        client_call(self, "Run", base_buf_bytes(&message), ctx, &answer, err);
    return outcome != CLIENT_CALL_FAILED &&
           read_result(arena, &sent, &answer, outcome == CLIENT_CALL_UNBOUND, out, err);
}

bool client_run(client *self, const core_request *request, const run_ctx *ctx, plim_result **out,
                plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    bool good = run(self, request, ctx, out, &local);
    plim_error_move(err, &local);
    return good;
}
