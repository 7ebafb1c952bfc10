/* gzip with both sides bounded: what comes out never passes the buffer's maximum, whatever goes in.
 */
#include "rpc/call.h"

#include <zlib.h>

enum {
    WINDOW_GZIP = 15 + 16, /* the largest window, in gzip's wrapping and no other */
    STEP_BYTES = 64 * 1024
};

/* One member of the stream, from what is left of the input. */
static rpc_gzip_outcome inflate_member(z_stream *stream, base_buf *out)
{
    int status = Z_OK;
    while (status != Z_STREAM_END) {
        size_t room = out->max - out->len;
        /* One byte more than may come tells "exactly full" from "too large". */
        unsigned char extra;
        char *to = room ? base_buf_reserve(out, room < STEP_BYTES ? room : STEP_BYTES) : NULL;
        if (room && !to)
            return RPC_GZIP_NOMEM;
        stream->next_out = to ? (unsigned char *)to : &extra;
        stream->avail_out = to ? (uInt)(room < STEP_BYTES ? room : STEP_BYTES) : 1;
        uInt offered = stream->avail_out;
        status = inflate(stream, Z_NO_FLUSH);
        uInt made = offered - stream->avail_out;
        if (status != Z_OK && status != Z_STREAM_END)
            return status == Z_MEM_ERROR ? RPC_GZIP_NOMEM : RPC_GZIP_MALFORMED;
        if (!to && made)
            return RPC_GZIP_TOO_LARGE;
        out->len += made;
        if (status == Z_OK && made == 0 && stream->avail_in == 0)
            return RPC_GZIP_MALFORMED;
    }
    return RPC_GZIP_OK;
}

rpc_gzip_outcome rpc_inflate(plim_bytes in, base_buf *out)
{
    z_stream stream = {0};
    if (inflateInit2(&stream, WINDOW_GZIP) != Z_OK)
        return RPC_GZIP_NOMEM;
    stream.next_in = (unsigned char *)in.data;
    stream.avail_in = (uInt)in.len;
    rpc_gzip_outcome outcome = in.len ? RPC_GZIP_OK : RPC_GZIP_MALFORMED;
    while (outcome == RPC_GZIP_OK && stream.avail_in) {
        outcome = inflate_member(&stream, out);
        if (outcome == RPC_GZIP_OK && inflateReset(&stream) != Z_OK)
            outcome = RPC_GZIP_MALFORMED;
    }
    inflateEnd(&stream);
    return outcome;
}

bool rpc_deflate(plim_bytes in, base_buf *out)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    /* What does not shrink at all may need more room than there is: then it does not fit. */
    size_t most = deflateBound(&stream, in.len), room = out->max - out->len;
    if (most > room)
        most = room;
    char *to = base_buf_reserve(out, most);
    bool done = false;
    if (to) {
        stream.next_in = (unsigned char *)in.data;
        stream.avail_in = (uInt)in.len;
        stream.next_out = (unsigned char *)to;
        stream.avail_out = (uInt)most;
        done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
        out->len += done ? stream.total_out : 0;
    }
    deflateEnd(&stream);
    return done;
}
