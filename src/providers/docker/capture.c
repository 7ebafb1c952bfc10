#include "providers/docker/capture.h"

#include "providers/docker/text.h"

bool docker_capture_init(docker_capture *capture, size_t out_max, size_t err_max)
{
    *capture =
        (docker_capture){.out.kept = BASE_BUF_INIT(out_max), .err.kept = BASE_BUF_INIT(err_max)};
    if (!docker_random_name(CTL_MARKER_PREFIX, capture->marker, sizeof(capture->marker)))
        return false;
    capture->marker[CTL_MARKER_BYTES - 1] = '\n';
    return true;
}

void docker_capture_free(docker_capture *capture)
{
    base_buf_free(&capture->out.kept);
    base_buf_free(&capture->err.kept);
}

/* Keep the first bytes up to the cap, whatever the size of the piece; drop the rest and say so. */
static void keep(docker_stream *stream, plim_bytes piece)
{
    size_t room = stream->failed ? 0 : stream->kept.max - stream->kept.len;
    plim_bytes kept = {piece.data, piece.len < room ? piece.len : room};
    if (!base_buf_add(&stream->kept, kept))
        stream->failed = true;
    if (stream->failed || kept.len < piece.len)
        stream->truncated = true;
}

void docker_capture_out(docker_capture *capture, plim_bytes piece)
{
    keep(&capture->out, piece);
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
        keep(&capture->err, piece);
}
