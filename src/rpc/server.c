/* A request's header: the checks before a byte of its body is read, in the contract's order. */
#include "rpc/call.h"

rpc_server *rpc_server_new(const rpc_config *config, plim_error *err)
{
    rpc_server *server = base_new(rpc_server);
    if (server) {
        server->config = *config;
        server->pool = rpc_pool_new(config->workers_max);
    }
    if (server && server->pool && rpc_slots_init(&server->slots, config->decode_slots))
        return server;
    rpc_server_free(server);
    plim_refuse_nomem(err);
    return NULL;
}

void rpc_server_free(rpc_server *server)
{
    if (!server)
        return;
    rpc_pool_free(server->pool);
    rpc_slots_destroy(&server->slots);
    base_free(server);
}

static const rpc_method *find_method(const rpc_server *server, plim_bytes path)
{
    for (size_t i = 0; i < server->config.method_count; i++)
        if (base_bytes_is(path, server->config.methods[i].path))
            return &server->config.methods[i];
    return NULL;
}

/* An unknown name below the service is denied like a known one; without authentication it is merely
 * unknown. */
static bool is_ours(const rpc_server *server, const rpc_method *method, plim_bytes path)
{
    size_t length = strlen(server->config.prefix);
    return method || (server->config.auth && path.len >= length &&
                      memcmp(path.data, server->config.prefix, length) == 0);
}

/* An envelope around a message of the greatest size is not too much. */
static size_t body_bytes_max(const rpc_call *call)
{
    size_t most = call->server->config.message_bytes_max;
    return call->framing.protocol == RPC_CONNECT ? most : most + RPC_ENVELOPE_BYTES;
}

static bool check_length(const rpc_call *call, plim_error *err)
{
    size_t most = body_bytes_max(call);
    int64_t declared = http_request_content_length(call->req);
    return declared < 0 || (uint64_t)declared <= most ||
           plim_refuse(err, PLIM_E_REMOTE, PLIM_CODE_RESOURCE_EXHAUSTED, PLIM_ND_REQUEST,
                       "the request has more than %zu bytes", most);
}

static bool take_slot(rpc_call *call, plim_error *err)
{
    call->has_slot = rpc_slots_take(&call->server->slots, call->caller.id, err);
    return call->has_slot;
}

static const http_header accept_post = {
    PLIM_LIT("accept-post"),
    PLIM_LIT("application/proto, application/json, application/json; charset=utf-8, "
             "application/grpc, application/grpc+proto, application/grpc+json, "
             "application/grpc+json; charset=utf-8, application/grpc-web, "
             "application/grpc-web+proto, application/grpc-web+json, "
             "application/grpc-web+json; charset=utf-8")};
static const http_header allow_post = {PLIM_LIT("allow"), PLIM_LIT("POST")};

/* Steps 2 to 6; takes the call. */
static void check_header(rpc_call *call)
{
    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    plim_bytes content_type = {NULL, 0};
    http_request_header(call->req, "content-type", &content_type);
    /* Read first, since it says how a refusal is written; judged in its turn. */
    bool served = rpc_read_content_type(content_type, &call->framing);
    bool admitted =
        rpc_authenticate(call, &err) && check_length(call, &err) && take_slot(call, &err);
    if (admitted && !base_bytes_is(http_request_method(call->req), "POST"))
        rpc_answer_status(call, 405, allow_post);
    else if (admitted && !served)
        rpc_answer_status(call, 415, accept_post);
    else if (admitted && rpc_read_headers(call->req, call->received_ns, &call->framing, &err))
        http_read_body(call->req, body_bytes_max(call), rpc_call_on_body, call);
    else
        rpc_answer_error(call, &err);
}

bool rpc_take(rpc_server *server, http_request *req)
{
    plim_bytes path = http_request_path(req);
    const rpc_method *method = find_method(server, path);
    if (!is_ours(server, method, path))
        return false;
    rpc_call *call = base_new(rpc_call);
    if (!call) {
        http_header bind[RPC_BIND_HEADERS_MAX];
        http_respond(req, &(http_answer){.status = 503,
                                         .headers = bind,
                                         .header_count = rpc_bind(req, 503, bind)});
        return true;
    }
    call->server = server;
    call->req = req;
    call->method = method;
    call->framing = (rpc_framing){.codec = WIRE_JSON, .deadline_ns = BASE_NEVER};
    call->received_ns = base_monotonic_ns();
    call->cancel_fd = -1;
    check_header(call);
    return true;
}
