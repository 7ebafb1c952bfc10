/* A run: validate, send, check, record. */
#include "client/call.h"
#include "client/exchange.h"

/* A request as a message: every limit of the contract together, with room to spare. */
enum { REQUEST_BYTES_MAX = 96 * 1024 * 1024 };

/* What was sent: kept until the answer is checked against it. */
typedef struct sent_request {
    plim_bytes message;
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
    if (!written || !wire_record_request(written, request, &sent->facts) ||
        !record_request_digest(&sent->facts, sent->sha256) ||
        !wire_encode(WIRE_PROTO, written, message))
        return plim_refuse_nomem(err);
    sent->message = base_buf_bytes(message);
    return true;
}

/* The same for a message that is made already. What a decoder says of it is about the caller's
 * bytes, and nothing was sent. */
static bool prepare_as_given(base_arena *arena, plim_bytes message, sent_request *sent,
                             plim_error *err)
{
    _cleanup_error_ plim_error inner = PLIM_ERROR_INIT;
    sent->message = message;
    if (!client_describe_request(arena, message, &sent->facts, &inner))
        return plim_error_status(&inner) == PLIM_E_NOMEM
                   ? plim_refuse_nomem(err)
                   : core_refuse_request(err, "the request cannot be sent: %s",
                                         plim_error_message(&inner));
    return record_request_digest(&sent->facts, sent->sha256) || plim_refuse_nomem(err);
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
    if (result->kind != sent->facts.kind || !result->kind)
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

/* Only what has passed every check is handed over. */
static bool keep(const client *self, const sent_request *sent, const client_answer *answer,
                 plim_error *err)
{
    const plim_recorder *recorder = &self->recorder;
    if (!recorder->record ||
        recorder->record(recorder->ctx, sent->message, base_buf_bytes(&answer->body)) == 0)
        return true;
    return plim_fail(
        err, PLIM_E_NOT_RECORDED, PLIM_CODE_INTERNAL,
        "the run was answered and its record checks, but the recorder did not keep it");
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

/* Send what was prepared, check the answer, and hand both to the recorder. */
static bool exchange(client *self, base_arena *arena, const sent_request *sent, const run_ctx *ctx,
                     plim_result **out, plim_error *err)
{
    _cleanup_(client_answer_free)
    client_answer answer;
    client_answer_init(&answer);
    client_call_outcome outcome = client_call(self, "Run", sent->message, ctx, &answer, err);
    return outcome != CLIENT_CALL_FAILED &&
           read_result(arena, sent, &answer, outcome == CLIENT_CALL_UNBOUND, out, err) &&
           keep(self, sent, &answer, err);
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
    return validate(request, err) && prepare(arena, request, &message, &sent, err) &&
           exchange(self, arena, &sent, ctx, out, err);
}

static bool run_as_given(client *self, plim_bytes message, const run_ctx *ctx, plim_result **out,
                         plim_error *err)
{
    _cleanup_(base_arena_freep)
    base_arena *arena = base_arena_new(REQUEST_BYTES_MAX);
    sent_request sent = {.sha256 = ""};
    if (!arena)
        return plim_refuse_nomem(err);
    return prepare_as_given(arena, message, &sent, err) &&
           exchange(self, arena, &sent, ctx, out, err);
}

bool client_run(client *self, const core_request *request, const run_ctx *ctx, plim_result **out,
                plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    int64_t started_ns = base_monotonic_ns();
    bool good = run(self, request, ctx, out, &local);
    client_log_call(self, "Run", started_ns, &local);
    plim_error_move(err, &local);
    return good;
}

bool client_exchange(client *self, plim_bytes request, const run_ctx *ctx, plim_result **out,
                     plim_error *err)
{
    plim_error local = PLIM_ERROR_INIT;
    int64_t started_ns = base_monotonic_ns();
    bool good = run_as_given(self, request, ctx, out, &local);
    client_log_call(self, "Run", started_ns, &local);
    plim_error_move(err, &local);
    return good;
}
