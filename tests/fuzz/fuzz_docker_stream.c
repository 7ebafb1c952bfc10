/*
 * A lying Engine and a hostile guest on one attached connection: whatever bytes come, in whatever
 * pieces, the framing and what is kept of both streams are the same, within their bounds, and
 * nothing is believed after a fault. The first byte chooses how the rest is cut.
 */
#include "providers/docker/capture.h"
#include "providers/docker/demux.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KEPT_MAX = 64 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static bool feed(docker_demux *demux, plim_bytes input, docker_capture *capture)
{
    plim_bytes piece;
    for (;;) {
        size_t before = input.len;
        docker_frame_event event = docker_demux_next(demux, &input, &piece);
        CHECK(input.len <= before && piece.len <= before);
        if (event == DOCKER_FRAME_MORE || event == DOCKER_FRAME_BAD) {
            CHECK(piece.len == 0 && (event == DOCKER_FRAME_BAD || input.len == 0));
            return event == DOCKER_FRAME_MORE;
        }
        CHECK(piece.len > 0);
        if (event == DOCKER_FRAME_STDOUT)
            docker_capture_out(capture, piece);
        else
            docker_capture_err(capture, piece);
        CHECK(capture->out.kept.len <= KEPT_MAX && capture->err.kept.len <= KEPT_MAX);
        CHECK(capture->started || capture->err.kept.len == 0);
    }
}

static bool run(plim_bytes input, size_t step, docker_capture *capture)
{
    docker_demux demux = {.have = 0};
    bool good = true;
    while (good && input.len) {
        size_t length = input.len < step ? input.len : step;
        good = feed(&demux, (plim_bytes){input.data, length}, capture);
        input = (plim_bytes){input.data + length, input.len - length};
    }
    CHECK(good || !feed(&demux, PLIM_LIT("\1\0\0\0\0\0\0\1x"), capture));
    return good;
}

static docker_capture new_capture(void)
{
    docker_capture capture = {.out.kept = BASE_BUF_INIT(KEPT_MAX),
                              .err.kept = BASE_BUF_INIT(KEPT_MAX)};
    snprintf(capture.marker, sizeof(capture.marker), "%s0123456789abcdef\n", CTL_MARKER_PREFIX);
    return capture;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    plim_bytes input = {(const char *)data + 1, size - 1};
    docker_capture whole = new_capture(), pieces = new_capture();
    bool good = run(input, input.len + 1, &whole);
    CHECK(run(input, (size_t)data[0] % 16 + 1, &pieces) == good);
    CHECK(base_bytes_equal(base_buf_bytes(&whole.out.kept), base_buf_bytes(&pieces.out.kept)));
    CHECK(base_bytes_equal(base_buf_bytes(&whole.err.kept), base_buf_bytes(&pieces.err.kept)));
    CHECK(whole.started == pieces.started && whole.out.truncated == pieces.out.truncated);
    docker_capture_free(&whole);
    docker_capture_free(&pieces);
    return 0;
}
