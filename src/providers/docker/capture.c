#include "providers/docker/capture.h"

#include "providers/docker/mac.h"
#include "providers/docker/text.h"

/* A stream's name before the signed text of its frame. */
enum { NAME_BYTES = sizeof CTL_END_STDOUT - 1, SIGNED_MAX = NAME_BYTES + CTL_END_SIGNED_BYTES };
_Static_assert(sizeof CTL_END_STDOUT == sizeof CTL_END_STDERR, "both names have the same length");

bool docker_capture_init(docker_capture *capture, size_t out_max, size_t err_max)
{
    *capture =
        (docker_capture){.out.kept = BASE_BUF_INIT(out_max), .err.kept = BASE_BUF_INIT(err_max)};
    if (!docker_random_name(CTL_MARKER_PREFIX, capture->marker, sizeof(capture->marker)))
        return false;
    capture->marker[CTL_MARKER_BYTES - 1] = '\n';
    return true;
}

bool docker_capture_arm(docker_capture *capture)
{
    capture->armed = base_random(capture->key, sizeof(capture->key));
    return capture->armed;
}

void docker_capture_free(docker_capture *capture)
{
    base_buf_free(&capture->out.kept);
    base_buf_free(&capture->err.kept);
    base_wipe(capture->key, sizeof(capture->key));
    capture->armed = false;
}

/* ---- one stream ---- */

/* Keep the first bytes up to the cap, whatever the size of the piece. */
static void keep_first(docker_stream *stream, plim_bytes piece)
{
    size_t room = stream->failed ? 0 : stream->kept.max - stream->kept.len;
    plim_bytes kept = {piece.data, piece.len < room ? piece.len : room};
    if (!base_buf_add(&stream->kept, kept))
        stream->failed = true;
}

/* The last bytes of a stream that is shorter than they are stand at their end. */
static void keep_last(docker_stream *stream, plim_bytes piece)
{
    size_t count = piece.len < CTL_END_BYTES ? piece.len : CTL_END_BYTES;
    memmove(stream->last, stream->last + count, CTL_END_BYTES - count);
    memcpy(stream->last + CTL_END_BYTES - count, piece.data + piece.len - count, count);
}

static bool is_ended(const docker_capture *capture, const char *name, docker_stream *stream)
{
    char text[SIGNED_MAX];
    const char *mac;
    if (!capture->armed || stream->total < CTL_END_BYTES ||
        !ctl_end_read((const unsigned char *)stream->last, &stream->end, &mac))
        return false;
    memcpy(text, name, NAME_BYTES);
    memcpy(text + NAME_BYTES, stream->last + 1, CTL_END_SIGNED_BYTES);
    return docker_mac_verifies(capture->key, (plim_bytes){text, sizeof(text)}, mac);
}

static void hear(const docker_capture *capture, const char *name, docker_stream *stream,
                 plim_bytes piece)
{
    keep_first(stream, piece);
    keep_last(stream, piece);
    stream->total += piece.len;
    stream->ended = is_ended(capture, name, stream);
}

/* How many of its bytes are the guest's. */
static uint64_t guest_bytes(const docker_stream *stream)
{
    return stream->total - (stream->ended ? CTL_END_BYTES : 0);
}

plim_bytes docker_stream_output(const docker_stream *stream)
{
    plim_bytes kept = base_buf_bytes(&stream->kept);
    uint64_t whole = guest_bytes(stream);
    return (plim_bytes){kept.data, kept.len < whole ? kept.len : (size_t)whole};
}

bool docker_stream_truncated(const docker_stream *stream)
{
    return stream->kept.len < guest_bytes(stream);
}

/* ---- both ---- */

void docker_capture_out(docker_capture *capture, plim_bytes piece)
{
    if (piece.len)
        hear(capture, CTL_END_STDOUT, &capture->out, piece);
}

/* The marker's first letter occurs nowhere else in it, so a mismatch starts again at most there. */
void docker_capture_err(docker_capture *capture, plim_bytes piece)
{
    while (!capture->started && piece.len) {
        char byte = piece.data[0];
        if (capture->before_len < sizeof(capture->before))
            capture->before[capture->before_len++] = byte;
        if (byte != capture->marker[capture->matched])
            capture->matched = 0;
        if (byte == capture->marker[capture->matched])
            capture->matched++;
        capture->started = capture->matched == CTL_MARKER_BYTES;
        piece = (plim_bytes){piece.data + 1, piece.len - 1};
    }
    if (piece.len)
        hear(capture, CTL_END_STDERR, &capture->err, piece);
}

bool docker_capture_ended(const docker_capture *capture, struct ctl_end *end)
{
    const struct ctl_end *out = &capture->out.end, *err = &capture->err.end;
    if (!capture->out.ended || !capture->err.ended || out->status != err->status ||
        out->memory != err->memory || out->pids != err->pids || out->disk != err->disk)
        return false;
    *end = *out;
    return true;
}
