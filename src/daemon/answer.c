#include "daemon/answer.h"

#include "rpc/rpc.h"

void daemon_answer(http_request *req, int status, const char *content_type, plim_bytes body)
{
    http_header headers[RPC_BIND_HEADERS_MAX + 1];
    size_t count = rpc_bind(req, status, headers);
    headers[count++] = (http_header){PLIM_LIT("content-type"), plim_bytes_of(content_type)};
    http_respond(
        req,
        &(http_answer){.status = status, .headers = headers, .header_count = count, .body = body});
}

void daemon_answer_text(http_request *req, int status, const char *body)
{
    daemon_answer(req, status, "text/plain; charset=utf-8", plim_bytes_of(body));
}

size_t daemon_bind_refusal(const http_request *req, int status,
                           http_header out[HTTP_REFUSAL_HEADERS_MAX], void *data)
{
    _Static_assert((int)RPC_BIND_HEADERS_MAX <= (int)HTTP_REFUSAL_HEADERS_MAX, "room for binding");
    (void)data;
    return rpc_bind_refusal(req, status, out);
}
