/* A call after its header: the body, the message, the method. */
#include "rpc/call.h"

/* Larger messages are decoded by a worker, whatever method they are for: the loop has others to
 * serve. */
enum { LOOP_BYTES_MAX = 64 * 1024 };

/* All that is made for one call: with a message as sent and inflated it stays below the 96 MiB that
 * the contract gives one decode. */
enum { CALL_BYTES_MAX = 72 * 1024 * 1024 };

void rpc_call_free(rpc_call *call)
{
    base_arena_free(call->arena);
    base_buf_free(&call->inflated);
    base_free(call);
}

static void release_slot(rpc_call *call)
{
    if (call->has_slot)
        rpc_slots_release(&call->server->slots, call->caller.id);
    call->has_slot = false;
}

static void *decode(rpc_call *call, plim_error *err)
{
    plim_bytes message;
    call->arena = base_arena_new(CALL_BYTES_MAX);
    if (!call->arena) {
        plim_refuse_nomem(err);
        return NULL;
    }
    if (!rpc_unwrap(&call->framing, http_request_body(call->req),
                    call->server->config.message_bytes_max, &call->inflated, &message, err))
        return NULL;
    return wire_decode(call->arena, call->framing.codec, call->method->request, message, err);
}

/* Step 7's decoding, step 8 and the answer; takes the call. Any thread. */
static void serve(rpc_call *call)
{
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    const void *request = decode(call, &err), *response = NULL;
    if (!request) {
        rpc_answer_error(call, &err);
        return;
    }
    call->reached = true;
    release_slot(call);
    if (call->method->handle(call, request, &response, &err))
        rpc_answer_message(call, response);
    else
        rpc_answer_error(call, &err);
}

static void serve_task(rpc_task *task)
{
    serve((rpc_call *)(void *)((char *)task - offsetof(rpc_call, task)));
}

static bool body_complete(http_body_outcome outcome, size_t bytes_max, plim_error *err)
{
    switch (outcome) {
    case HTTP_BODY_COMPLETE:
        return true;
    case HTTP_BODY_TOO_LARGE:
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_RESOURCE_EXHAUSTED,
                         "the request has more than %zu bytes", bytes_max);
    case HTTP_BODY_TIMEOUT:
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_DEADLINE_EXCEEDED,
                         "the request did not arrive in time");
    case HTTP_BODY_MALFORMED:
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_INVALID_ARGUMENT,
                         "the request's body is malformed");
    case HTTP_BODY_GONE:
        return plim_fail(err, PLIM_E_CANCELED, PLIM_CODE_CANCELED, "the caller went away");
    default:
        return plim_refuse_nomem(err);
    }
}

void rpc_call_on_body(http_request *req, http_body_outcome outcome, void *data)
{
    rpc_call *call = data;
    rpc_server *server = call->server;
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    if (!body_complete(outcome, server->config.message_bytes_max, &err)) {
        rpc_answer_error(call, &err);
        return;
    }
    if (call->method->on_loop && !call->framing.request_gzip &&
        http_request_body(req).len <= LOOP_BYTES_MAX) {
        serve(call);
        return;
    }
    call->cancel_fd = http_request_cancel_fd(req);
    call->task.run = serve_task;
    /* Without a descriptor a run could not be ended when its caller goes away. */
    if (call->cancel_fd < 0 || !rpc_pool_add(server->pool, &call->task)) {
        core_refuse_capacity(&err, "no descriptor or thread is left for this call");
        rpc_answer_error(call, &err);
    }
}

/* ---- for methods ---- */

void *rpc_call_data(const rpc_call *call)
{
    return call->server->config.data;
}

void rpc_call_set_state(rpc_call *call, void *state)
{
    call->state = state;
}

void *rpc_call_state(const rpc_call *call)
{
    return call->state;
}

base_arena *rpc_call_arena(rpc_call *call)
{
    return call->arena;
}

const rpc_caller *rpc_call_caller(const rpc_call *call)
{
    return &call->caller;
}

const http_request *rpc_call_http(const rpc_call *call)
{
    return call->req;
}

bool rpc_call_has_request_id(const rpc_call *call)
{
    plim_bytes id;
    return rpc_request_id(call->req, &id);
}

run_ctx rpc_call_ctx(const rpc_call *call)
{
    return (run_ctx){call->framing.deadline_ns, call->cancel_fd};
}

static rpc_extras *extras(rpc_call *call)
{
    if (!call->extras)
        call->extras = base_arena_alloc(call->arena, 1, sizeof(*call->extras));
    return call->extras;
}

static bool add(http_header *headers, size_t *count, plim_bytes name, plim_bytes value)
{
    if (*count == RPC_EXTRA_HEADERS_MAX)
        return false;
    headers[(*count)++] = (http_header){name, value};
    return true;
}

bool rpc_call_add_header(rpc_call *call, plim_bytes name, plim_bytes value)
{
    rpc_extras *more = extras(call);
    return more && add(more->headers, &more->header_count, name, value);
}

bool rpc_call_add_trailer(rpc_call *call, plim_bytes name, plim_bytes value)
{
    rpc_extras *more = extras(call);
    return more && add(more->trailers, &more->trailer_count, name, value);
}

bool rpc_call_add_detail(rpc_call *call, plim_bytes type, plim_bytes value)
{
    rpc_extras *more = extras(call);
    if (!more || more->detail_count == RPC_DETAILS_MAX)
        return false;
    more->details[more->detail_count++] = (rpc_detail){type, value};
    return true;
}
