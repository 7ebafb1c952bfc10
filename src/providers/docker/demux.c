#include "providers/docker/demux.h"

static plim_bytes take(plim_bytes *input, size_t count)
{
    plim_bytes front = {input->data, count};
    *input = (plim_bytes){input->data + count, input->len - count};
    return front;
}

/* False: not a header of this framing. */
static bool read_header(docker_demux *demux)
{
    const unsigned char *h = demux->header;
    uint32_t length =
        (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | (uint32_t)h[7];
    demux->left = length;
    return (h[0] == 1 || h[0] == 2) && !h[1] && !h[2] && !h[3] && length <= DOCKER_FRAME_BYTES_MAX;
}

docker_frame_event docker_demux_next(docker_demux *demux, plim_bytes *input, plim_bytes *piece)
{
    *piece = (plim_bytes){NULL, 0};
    while (!demux->bad && input->len) {
        if (demux->left) {
            *piece = take(input, input->len < demux->left ? input->len : demux->left);
            demux->left -= (uint32_t)piece->len;
            return demux->header[0] == 1 ? DOCKER_FRAME_STDOUT : DOCKER_FRAME_STDERR;
        }
        size_t want = sizeof(demux->header) - demux->have;
        plim_bytes part = take(input, input->len < want ? input->len : want);
        memcpy(demux->header + demux->have, part.data, part.len);
        demux->have = (unsigned char)(demux->have + part.len);
        if (demux->have == sizeof(demux->header)) {
            demux->have = 0;
            demux->bad = !read_header(demux);
        }
    }
    return demux->bad ? DOCKER_FRAME_BAD : DOCKER_FRAME_MORE;
}

bool docker_demux_at_rest(const docker_demux *demux)
{
    return !demux->bad && demux->have == 0 && demux->left == 0;
}
