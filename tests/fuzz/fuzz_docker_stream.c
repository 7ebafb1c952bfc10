/*
 * A lying Engine and a hostile guest on one attached connection: whatever bytes come, in whatever
 * pieces, the framing and what is kept of both streams are the same, within their bounds, and
 * nothing is believed after a fault. Two frames that verify then end what was in order, without a
 * change to what the guest wrote. The first byte chooses how the rest is cut.
 */
#include "guest/ctl/end.h"
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
    capture.armed = true;
    return capture;
}

static void check_same(const docker_stream *a, const docker_stream *b)
{
    CHECK(base_bytes_equal(docker_stream_output(a), docker_stream_output(b)));
    CHECK(docker_stream_truncated(a) == docker_stream_truncated(b) && a->ended == b->ended);
}

static void send_end(docker_capture *capture, const struct ctl_end *end, bool is_err, size_t step)
{
    char frame[CTL_END_BYTES];
    ctl_end_frame(end, is_err ? CTL_END_STDERR : CTL_END_STDOUT, capture->key, frame);
    for (size_t at = 0; at < sizeof(frame); at += step) {
        plim_bytes piece = {frame + at, sizeof(frame) - at < step ? sizeof(frame) - at : step};
        if (is_err)
            docker_capture_err(capture, piece);
        else
            docker_capture_out(capture, piece);
    }
}

/* Nothing that a fuzzer can write verifies, so no stream has ended yet. */
static void end_both(docker_capture *capture, size_t step)
{
    struct ctl_end end = {.status = 3}, told;
    plim_bytes out = docker_stream_output(&capture->out), err = docker_stream_output(&capture->err);
    bool out_cut = docker_stream_truncated(&capture->out),
         err_cut = docker_stream_truncated(&capture->err);
    CHECK(!capture->out.ended && !capture->err.ended);
    if (!capture->started)
        return; /* what follows could be the rest of the marker */
    send_end(capture, &end, false, step);
    send_end(capture, &end, true, step);
    CHECK(docker_capture_ended(capture, &told) && told.status == 3);
    CHECK(docker_stream_output(&capture->out).len == out.len);
    CHECK(docker_stream_output(&capture->err).len == err.len);
    CHECK(docker_stream_truncated(&capture->out) == out_cut);
    CHECK(docker_stream_truncated(&capture->err) == err_cut);
    docker_capture_out(capture, PLIM_LIT("x"));
    CHECK(!docker_capture_ended(capture, &told));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    plim_bytes input = {(const char *)data + 1, size - 1};
    docker_capture whole = new_capture(), pieces = new_capture();
    size_t step = (size_t)data[0] % 16 + 1;
    bool good = run(input, input.len + 1, &whole);
    CHECK(run(input, step, &pieces) == good && whole.started == pieces.started);
    check_same(&whole.out, &pieces.out);
    check_same(&whole.err, &pieces.err);
    end_both(&pieces, step);
    docker_capture_free(&whole);
    docker_capture_free(&pieces);
    return 0;
}
