/* Answers: an encoded message, an error, or a bare status, in the form of the call's protocol. */
#include "rpc/call.h"

enum {
    ANSWER_BYTES_MAX = 32 * 1024 * 1024 - 1, /* clients refuse more */
    ERROR_BYTES_MAX = 256 * 1024             /* 32 headers and 8 details are far below */
};

/* What a binary body starts with and a JSON error is; names in the order they are sent. */
enum { HEADERS_MAX = RPC_BIND_HEADERS_MAX + 4 + 2 * RPC_EXTRA_HEADERS_MAX };

struct answer {
    http_header headers[HEADERS_MAX], trailers[3 + RPC_EXTRA_HEADERS_MAX];
    size_t header_count, trailer_count;
};

static void add_header(struct answer *answer, plim_bytes name, plim_bytes value)
{
    answer->headers[answer->header_count++] = (http_header){name, value};
}

static void add_trailer(struct answer *answer, plim_bytes name, plim_bytes value)
{
    answer->trailers[answer->trailer_count++] = (http_header){name, value};
}

/* The headers that bind the answer, and those that the method added. */
static void add_common(const rpc_call *call, int status, struct answer *answer)
{
    /* After the handler was reached only the error's own detail says what ran. */
    answer->header_count = rpc_bind(call->req, call->reached ? 200 : status, answer->headers);
    for (size_t i = 0; call->extras && i < call->extras->header_count; i++)
        answer->headers[answer->header_count++] = call->extras->headers[i];
}

/* A Connect answer has its trailers among its headers. */
static bool add_connect_trailers(const rpc_call *call, struct answer *answer)
{
    for (size_t i = 0; call->extras && i < call->extras->trailer_count; i++) {
        plim_bytes name = call->extras->trailers[i].name;
        char *prefixed = base_arena_printf(call->arena, "trailer-%.*s", (int)name.len, name.data);
        if (!prefixed)
            return false;
        add_header(answer, plim_bytes_of(prefixed), call->extras->trailers[i].value);
    }
    return true;
}

static void add_grpc_trailers(const rpc_call *call, struct answer *answer)
{
    for (size_t i = 0; call->extras && i < call->extras->trailer_count; i++)
        answer->trailers[answer->trailer_count++] = call->extras->trailers[i];
}

/* Send, handing the body's memory over, and free the call. */
static void send(rpc_call *call, int status, struct answer *answer, base_buf *body)
{
    if (call->has_slot)
        rpc_slots_release(&call->server->slots, call->caller.id);
    http_respond(call->req, &(http_answer){.status = status,
                                           .headers = answer->headers,
                                           .header_count = answer->header_count,
                                           .body = base_buf_bytes(body),
                                           .body_free = base_free,
                                           .body_data = TAKE_PTR(body->data),
                                           .trailers = answer->trailers,
                                           .trailer_count = answer->trailer_count});
    rpc_call_free(call);
}

void rpc_answer_status(rpc_call *call, int status, http_header extra)
{
    struct answer answer = {.header_count = 0};
    base_buf none = BASE_BUF_INIT(0);
    add_common(call, status, &answer);
    add_header(&answer, extra.name, extra.value);
    send(call, status, &answer, &none);
}

static void put_envelope(base_buf *body, size_t at, unsigned char flags)
{
    size_t length = body->len - at - RPC_ENVELOPE_BYTES;
    unsigned char *head = (unsigned char *)body->data + at;
    head[0] = flags;
    for (int i = 0; i < 4; i++)
        head[1 + i] = (unsigned char)(length >> (24 - 8 * i));
}

static bool open_envelope(base_buf *body)
{
    return base_buf_add(body, (plim_bytes){"\0\0\0\0\0", RPC_ENVELOPE_BYTES});
}

/* The message as the body has it: perhaps compressed, perhaps in an envelope. */
static bool encode_body(const rpc_call *call, const void *message, base_buf *body)
{
    const rpc_framing *framing = &call->framing;
    bool enveloped = framing->protocol != RPC_CONNECT;
    if (enveloped && !open_envelope(body))
        return false;
    if (!framing->answer_gzip) {
        if (!wire_encode(framing->codec, message, body))
            return false;
    } else {
        _cleanup_buf_ base_buf plain = BASE_BUF_INIT(ANSWER_BYTES_MAX);
        if (!wire_encode(framing->codec, message, &plain) ||
            !rpc_deflate(base_buf_bytes(&plain), body))
            return false;
    }
    if (enveloped)
        put_envelope(body, 0, framing->answer_gzip ? RPC_ENVELOPE_COMPRESSED : 0);
    return true;
}

/* gRPC-Web has its trailers in the body, as lines of an envelope of their own. */
static bool add_web_trailers(struct answer *answer, base_buf *body)
{
    size_t at = body->len;
    if (!open_envelope(body))
        return false;
    for (size_t i = 0; i < answer->trailer_count; i++) {
        base_buf_add(body, answer->trailers[i].name);
        base_buf_add_text(body, ": ");
        base_buf_add(body, answer->trailers[i].value);
        base_buf_add_text(body, "\r\n");
    }
    answer->trailer_count = 0;
    if (!body->failed)
        put_envelope(body, at, RPC_ENVELOPE_TRAILERS);
    return !body->failed;
}

static void add_message_headers(const rpc_call *call, struct answer *answer)
{
    const rpc_framing *framing = &call->framing;
    bool connect = framing->protocol == RPC_CONNECT;
    add_header(answer, PLIM_LIT("content-type"), framing->content_type);
    add_header(answer, connect ? PLIM_LIT("accept-encoding") : PLIM_LIT("grpc-accept-encoding"),
               PLIM_LIT(RPC_ENCODINGS));
    if (framing->answer_gzip)
        add_header(answer, connect ? PLIM_LIT("content-encoding") : PLIM_LIT("grpc-encoding"),
                   PLIM_LIT("gzip"));
}

void rpc_answer_message(rpc_call *call, const void *message)
{
    struct answer answer = {.header_count = 0};
    base_buf body = BASE_BUF_INIT(ANSWER_BYTES_MAX);
    bool encoded = encode_body(call, message, &body);
    if (call->method->release)
        call->method->release(call);
    add_common(call, 200, &answer);
    add_message_headers(call, &answer);
    if (call->framing.protocol == RPC_CONNECT) {
        encoded = encoded && add_connect_trailers(call, &answer);
    } else {
        add_grpc_trailers(call, &answer);
        add_trailer(&answer, PLIM_LIT("grpc-status"), PLIM_LIT("0"));
        if (call->framing.protocol == RPC_GRPC_WEB)
            encoded = encoded && add_web_trailers(&answer, &body);
    }
    if (encoded) {
        send(call, 200, &answer, &body);
        return;
    }
    /* Code has run: the error that says so bears no mark. */
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    base_buf_free(&body);
    core_fail_internal(&err, "the answer does not fit into %d bytes or into memory",
                       ANSWER_BYTES_MAX);
    rpc_answer_error(call, &err);
}

static bool write_connect_error(const rpc_call *call, const plim_error *err, struct answer *answer,
                                base_buf *body)
{
    add_header(answer, PLIM_LIT("content-type"), PLIM_LIT("application/json"));
    return add_connect_trailers(call, answer) &&
           rpc_error_json(err, call->extras, call->server->config.mark_type, body);
}

static bool write_grpc_error(const rpc_call *call, const plim_error *err, struct answer *answer,
                             base_buf *body, base_buf *message, base_buf *details)
{
    static const char *const numbers[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                          "9", "10", "11", "12", "13", "14", "15", "16"};
    add_header(answer, PLIM_LIT("content-type"), call->framing.content_type);
    add_header(answer, PLIM_LIT("grpc-accept-encoding"), PLIM_LIT(RPC_ENCODINGS));
    if (!rpc_error_grpc(err, call->extras, call->server->config.mark_type, message, details))
        return false;
    add_grpc_trailers(call, answer);
    add_trailer(answer, PLIM_LIT("grpc-status"), plim_bytes_of(numbers[err->code]));
    add_trailer(answer, PLIM_LIT("grpc-message"), base_buf_bytes(message));
    if (details->len)
        add_trailer(answer, PLIM_LIT("grpc-status-details-bin"), base_buf_bytes(details));
    return call->framing.protocol == RPC_GRPC || add_web_trailers(answer, body);
}

void rpc_answer_error(rpc_call *call, const plim_error *err)
{
    plim_error shown = *err; /* borrows what `err` owns */
    if (call->reached && call->server->config.conceal)
        call->server->config.conceal(err, &shown);
    bool connect = call->framing.protocol == RPC_CONNECT;
    int status = connect ? plim_code_http_status((plim_code)shown.code) : 200;
    struct answer answer = {.header_count = 0};
    base_buf body = BASE_BUF_INIT(ERROR_BYTES_MAX);
    _cleanup_buf_ base_buf message = BASE_BUF_INIT(ERROR_BYTES_MAX);
    _cleanup_buf_ base_buf details = BASE_BUF_INIT(ERROR_BYTES_MAX);
    add_common(call, status, &answer);
    bool written = connect ? write_connect_error(call, &shown, &answer, &body)
                           : write_grpc_error(call, &shown, &answer, &body, &message, &details);
    if (!written) {
        /* No memory for the words: a bare status, bound like any answer. */
        base_buf_free(&body);
        answer.trailer_count = 0;
        status = 500;
    }
    send(call, status, &answer, &body);
}
