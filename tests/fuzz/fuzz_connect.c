/*
 * What a request brings before its message: header values, envelopes, gzip. The first byte chooses
 * the protocol, the codec and whether an encoding was named; what unwraps is decoded as a request
 * to Run, and judged.
 */
#include "rpc/call.h"

#include "fuzz.h"

enum { MESSAGE_BYTES_MAX = 64 * 1024 };

static void read_headers(plim_bytes value)
{
    rpc_framing framing = {0};
    int64_t deadline;
    plim_bytes token = rpc_bearer_token(value);
    if (token.len > value.len)
        abort();
    if (rpc_read_content_type(value, &framing) && framing.content_type.len != value.len)
        abort();
    if (rpc_connect_timeout(value, 1, &deadline) && deadline < 1)
        abort();
    if (rpc_grpc_timeout(value, 1, &deadline) && deadline < 1)
        abort();
}

static void read_body(rpc_framing framing, plim_bytes body)
{
    base_buf inflated = BASE_BUF_INIT(0);
    plim_bytes message;
    plim_error err = PLIM_ERROR_INIT;
    base_arena *arena = base_arena_new(WIRE_DECODE_BYTES_MAX);
    if (arena && rpc_unwrap(&framing, body, MESSAGE_BYTES_MAX, &inflated, &message, &err)) {
        core_request request;
        wire_run_request *run =
            wire_decode(arena, framing.codec, WIRE_TYPE(run_request), message, &err);
        if (run && wire_read_request(arena, run, &request, &err) && request.kind == PLIM_KIND_NONE)
            abort();
    }
    if (inflated.len > MESSAGE_BYTES_MAX)
        abort();
    plim_error_clear(&err);
    base_buf_free(&inflated);
    base_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    plim_bytes rest = {(const char *)data + 1, size - 1};
    read_headers(rest);
    read_body((rpc_framing){.protocol = (rpc_protocol)(data[0] % 3),
                            .codec = data[0] & 4 ? WIRE_JSON : WIRE_PROTO,
                            .request_gzip = data[0] & 8},
              rest);
    return 0;
}
