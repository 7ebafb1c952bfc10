/* Answer binding: an answer names the request it is for, so that an intermediary cannot make a call
 * that ran look like one that did not. */
#include "rpc/call.h"

enum { REQUEST_ID_BYTES = 32 };

bool rpc_request_id(const http_request *req, plim_bytes *id)
{
    if (http_request_header_count(req, "plimsoll-request-id") != 1 ||
        !http_request_header(req, "plimsoll-request-id", id) || id->len != REQUEST_ID_BYTES)
        return false;
    for (size_t i = 0; i < id->len; i++)
        if (!base_is_lower_hex(id->data[i]))
            return false;
    return true;
}

size_t rpc_bind(const http_request *req, int status, http_header out[RPC_BIND_HEADERS_MAX])
{
    size_t count = 0;
    plim_bytes id;
    if (req && rpc_request_id(req, &id))
        out[count++] = (http_header){PLIM_LIT("plimsoll-request-id"), id};
    if (status >= 300)
        out[count++] = (http_header){PLIM_LIT("plimsoll-not-dispatched"),
                                     status == 404 ? PLIM_LIT("unsupported") : PLIM_LIT("request")};
    return count;
}

size_t rpc_bind_refusal(const http_request *req, int status, http_header out[RPC_BIND_HEADERS_MAX])
{
    return rpc_bind(req, status == 500 ? 200 : status, out);
}
