/* Step 7: from a body to the bytes of one message. */
#include "rpc/call.h"

static bool too_large(size_t bytes_max, plim_error *err)
{
    return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_RESOURCE_EXHAUSTED,
                     "the message has more than %zu bytes", bytes_max);
}

static bool inflate_message(plim_bytes in, size_t bytes_max, base_buf *inflated, plim_bytes *out,
                            plim_error *err)
{
    *inflated = BASE_BUF_INIT(bytes_max);
    switch (rpc_inflate(in, inflated)) {
    case RPC_GZIP_OK:
        *out = base_buf_bytes(inflated);
        return true;
    case RPC_GZIP_TOO_LARGE:
        return too_large(bytes_max, err);
    case RPC_GZIP_NOMEM:
        return plim_refuse_nomem(err);
    default:
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_INVALID_ARGUMENT,
                         "the message is not valid gzip");
    }
}

/* The one message of an enveloped body, as it was sent, and whether it is compressed. */
static bool open_envelope(plim_bytes body, size_t bytes_max, plim_bytes *message, bool *compressed,
                          plim_error *err)
{
    if (body.len == 0)
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_UNIMPLEMENTED,
                         "a unary call has one message, not none");
    if (body.len < RPC_ENVELOPE_BYTES)
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_INVALID_ARGUMENT,
                         "the body ends inside an envelope");
    const unsigned char *head = (const unsigned char *)body.data;
    size_t length = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    if (head[0] & ~RPC_ENVELOPE_COMPRESSED)
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_INTERNAL, "the envelope has unknown flags");
    if (length > bytes_max)
        return too_large(bytes_max, err);
    if (length > body.len - RPC_ENVELOPE_BYTES)
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_INVALID_ARGUMENT,
                         "the body ends inside a message");
    if (length < body.len - RPC_ENVELOPE_BYTES)
        return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_UNIMPLEMENTED,
                         "a unary call has one message, not several");
    *message = (plim_bytes){body.data + RPC_ENVELOPE_BYTES, length};
    *compressed = head[0] & RPC_ENVELOPE_COMPRESSED;
    return true;
}

bool rpc_unwrap(const rpc_framing *framing, plim_bytes body, size_t bytes_max, base_buf *inflated,
                plim_bytes *message, plim_error *err)
{
    bool compressed = framing->request_gzip;
    *message = body;
    if (framing->protocol != RPC_CONNECT) {
        if (!open_envelope(body, bytes_max, message, &compressed, err))
            return false;
        if (compressed && !framing->request_gzip)
            return plim_fail(err, PLIM_E_REMOTE, PLIM_CODE_INTERNAL,
                             "a message is compressed and no grpc-encoding was named");
    }
    /* No bytes are no stream: they stand for the empty message as they are. */
    if (!compressed || message->len == 0)
        return true;
    return inflate_message(*message, bytes_max, inflated, message, err);
}
