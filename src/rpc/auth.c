/* Steps 2 and 3: who calls, and may they? */
#include "rpc/call.h"

/* The next part between white space; no bytes at the end. */
static plim_bytes next_part(plim_bytes *rest)
{
    size_t start = 0, end;
    while (start < rest->len && base_is_space(rest->data[start]))
        start++;
    for (end = start; end < rest->len && !base_is_space(rest->data[end]);)
        end++;
    plim_bytes part = {rest->len ? rest->data + start : NULL, end - start};
    *rest = (plim_bytes){rest->len ? rest->data + end : NULL, rest->len - end};
    return part;
}

plim_bytes rpc_bearer_token(plim_bytes header)
{
    plim_bytes scheme = next_part(&header), token = next_part(&header), more = next_part(&header);
    if (more.len || !base_ascii_equal_ignore_case(scheme, "bearer"))
        return (plim_bytes){NULL, 0};
    return token;
}

/* A principal's id that limits, grants and log lines can be keyed by. */
static bool id_usable(plim_bytes id)
{
    plim_bytes trimmed = base_trim(id);
    if (id.len == 0 || trimmed.len != id.len || base_bytes_is(id, "*"))
        return false;
    for (plim_bytes rest = id; rest.len;) {
        uint32_t point;
        size_t length = base_utf8_decode(rest, &point);
        if (length == 0 || point < 0x20 || (point >= 0x7F && point <= 0x9F))
            return false;
        rest = (plim_bytes){rest.data + length, rest.len - length};
    }
    return true;
}

static bool refuse_credential(const rpc_authenticator *auth, plim_error *err, const char *text)
{
    if (auth->refused)
        auth->refused(auth->data);
    return plim_refuse(err, PLIM_E_REMOTE, PLIM_CODE_UNAUTHENTICATED, PLIM_ND_PERMISSION, "%s",
                       text);
}

static bool verify(rpc_call *call, const rpc_authenticator *auth, plim_error *err)
{
    plim_bytes header, token = {NULL, 0};
    if (http_request_header_count(call->req, "authorization") == 1 &&
        http_request_header(call->req, "authorization", &header))
        token = rpc_bearer_token(header);
    if (token.len == 0)
        return refuse_credential(auth, err, "a bearer token is needed");
    switch (auth->verify(auth->data, token, &call->caller)) {
    case RPC_AUTH_KNOWN:
        return id_usable(call->caller.id) ||
               refuse_credential(auth, err, "the bearer token is not valid");
    case RPC_AUTH_UNKNOWN:
        return refuse_credential(auth, err, "the bearer token is not valid");
    default:
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_UNAVAILABLE,
                         "the bearer token could not be verified now");
    }
}

bool rpc_authenticate(rpc_call *call, plim_error *err)
{
    const rpc_authenticator *auth = call->server->config.auth;
    call->caller = (rpc_caller){PLIM_LIT("anon"), NULL};
    if (!auth)
        return true;
    if (!verify(call, auth, err))
        return false;
    const char *scope = call->method ? call->method->scope : NULL;
    return (scope && auth->has_scope(auth->data, &call->caller, scope)) ||
           core_refuse_permission(err, "the caller may not call this procedure");
}
