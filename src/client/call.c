#include "client/call.h"

#include "client/refusal.h"

#include <plimsoll/version.h>

enum {
    REQUEST_ID_BYTES = 16,
    HEAD_ROOM = 1024 /* the request's head without authority, path and token */
};

/* A cryptographic source: an answer that names the ID can only be to this request. */
static bool make_request_id(char out[2 * REQUEST_ID_BYTES + 1], plim_error *err)
{
    unsigned char random[REQUEST_ID_BYTES];
    if (!base_random(random, sizeof(random)))
        return plim_refuse(err, PLIM_E_TRANSPORT, PLIM_CODE_UNAVAILABLE, PLIM_ND_ENVIRONMENT,
                           "the system gives no random bytes");
    base_hex(random, sizeof(random), out);
    return true;
}

/* The whole request in one piece of memory, reserved at once: growing would leave copies of the
 * token behind. */
static bool write_request(const client *self, const char *procedure, plim_bytes message,
                          const char *request_id, base_buf *out, plim_error *err)
{
    size_t room =
        HEAD_ROOM + strlen(self->authority) + strlen(self->path) + self->token_size + message.len;
    out->max = room;
    if (base_buf_reserve(out, room)) {
        base_buf_printf(out,
                        "POST %s/plimsoll.v1.SandboxService/%s HTTP/1.1\r\n"
                        "Host: %s\r\n"
                        "Content-Type: application/proto\r\n"
                        "Connect-Protocol-Version: 1\r\n"
                        "Accept-Encoding: identity\r\n"
                        "Plimsoll-Request-Id: %s\r\n"
                        "User-Agent: plimsoll-client-c/" PLIM_VERSION "\r\n"
                        "Content-Length: %zu\r\n",
                        self->path, procedure, self->authority, request_id, message.len);
        if (self->token)
            base_buf_printf(out, "Authorization: Bearer %s\r\n", self->token);
        base_buf_add_text(out, "\r\n");
        base_buf_add(out, message);
    }
    return !out->failed || plim_refuse_nomem(err);
}

static void free_request(base_buf *request)
{
    base_wipe(request->data, request->len);
    base_buf_free(request);
}

static bool is_media_type(plim_bytes value, const char *type)
{
    const char *parameters = value.len ? memchr(value.data, ';', value.len) : NULL;
    if (parameters)
        value.len = (size_t)(parameters - value.data);
    return base_ascii_equal_ignore_case(base_trim(value), type);
}

static client_call_outcome judge(const client *self, const client_answer *answer,
                                 const char *request_id, plim_error *err)
{
    plim_bytes stated;
    bool bound = client_answer_header(answer, "plimsoll-request-id", &stated) &&
                 base_bytes_is(stated, request_id);
    if (answer->status != 200) {
        client_read_refusal(answer, bound, plim_bytes_of(self->token), err);
        return CLIENT_CALL_FAILED;
    }
    if (!bound) {
        plim_fail(err, PLIM_E_ANSWER_NOT_BOUND, PLIM_CODE_DATA_LOSS,
                  "an answer came that does not carry this request's ID");
        return CLIENT_CALL_UNBOUND;
    }
    if (client_answer_header(answer, "content-type", &stated) &&
        is_media_type(stated, "application/proto"))
        return CLIENT_CALL_ANSWERED;
    plim_fail(err, PLIM_E_MALFORMED, PLIM_CODE_INTERNAL,
              "the answer is not of the content type asked for");
    return CLIENT_CALL_FAILED;
}

client_call_outcome client_call(client *self, const char *procedure, plim_bytes message,
                                const run_ctx *ctx, client_answer *answer, plim_error *err)
{
    char request_id[2 * REQUEST_ID_BYTES + 1];
    _cleanup_(free_request)
    base_buf request = BASE_BUF_INIT(0);
    run_ctx within = run_ctx_until(ctx, base_deadline_after_ms(self->timeout_ms));
    if (!make_request_id(request_id, err) ||
        !write_request(self, procedure, message, request_id, &request, err) ||
        !client_transport_exchange(self->transport, base_buf_bytes(&request), &within, answer, err))
        return CLIENT_CALL_FAILED;
    client_call_outcome outcome = judge(self, answer, request_id, err);
    if (outcome != CLIENT_CALL_ANSWERED && err)
        err->http_status = answer->status;
    return outcome;
}

/* ---- the caller's log ---- */

void client_log_call(const client *self, const char *procedure, int64_t started_ns,
                     const plim_error *err)
{
    char text[PLIM_ERROR_MESSAGE_MAX + 128];
    if (!self->log)
        return;
    int64_t took_ms = (base_monotonic_ns() - started_ns) / BASE_NS_PER_MS;
    if (plim_error_status(err) == PLIM_OK)
        snprintf(text, sizeof(text), "%s: answered after %" PRId64 " ms", procedure, took_ms);
    else
        snprintf(text, sizeof(text), "%s: %s after %" PRId64 " ms: %s", procedure,
                 plim_status_name(plim_error_status(err)), took_ms, plim_error_message(err));
    self->log(self->log_ctx, text);
}
