/*
 * A hostile worker: whatever bytes it sends, in whatever pieces, the state machine tells the same
 * events, keeps every length within its bound, and believes nothing after the first fault. The
 * first byte chooses how the rest is cut.
 */
#include "providers/wasm/frames.h"
#include "providers/wasm/protocol.h"

#include "fuzz.h"

enum { TOLD_BYTES_MAX = 4 * 1024 * 1024 };

static void check_bounds(wasm_frame_kind kind, plim_bytes payload)
{
    switch (kind) {
    case WASM_FRAME_STDOUT:
    case WASM_FRAME_STDERR:
        CHECK(payload.len >= 1 && payload.len <= PLIM_WORKER_OUTPUT_MAX);
        break;
    case WASM_FRAME_CALL:
        CHECK(payload.len >= 1 && payload.len <= PLIM_WORKER_ENVELOPE_MAX);
        break;
    case WASM_FRAME_TRAP:
        CHECK(payload.len <= PLIM_WORKER_TRAP_MAX);
        break;
    case WASM_FRAME_DONE:
        CHECK(payload.len == 1);
        break;
    default:
        CHECK(payload.len == 0);
    }
}

/* Feed one piece as a run would; false after the end of all belief. */
static bool feed(wasm_frames *frames, plim_bytes input, base_buf *told)
{
    while (input.len) {
        plim_bytes payload;
        size_t before = input.len;
        wasm_phase phase = frames->phase;
        wasm_frame_kind kind = wasm_frames_next(frames, &input, &payload);
        check_bounds(kind, payload);
        CHECK(input.len <= before);
        CHECK(kind == WASM_FRAME_BAD || input.len < before);
        CHECK(phase != WASM_PHASE_IDLE || kind == WASM_FRAME_BAD || kind == WASM_FRAME_MORE);
        if (kind == WASM_FRAME_BAD)
            return false;
        if (kind == WASM_FRAME_IDLE)
            frames->phase = WASM_PHASE_ASKED;
        if (kind == WASM_FRAME_CALL)
            frames->phase = WASM_PHASE_RUNNING;
        if (kind == WASM_FRAME_MORE)
            continue;
        /* Pieces of output may be cut anywhere: only their bytes count. */
        bool in_pieces = kind == WASM_FRAME_STDOUT || kind == WASM_FRAME_STDERR;
        if (!in_pieces)
            base_buf_printf(told, "%d:%zu:", (int)kind, payload.len);
        base_buf_add(told, payload);
    }
    return true;
}

static void run(plim_bytes input, size_t step, base_buf *told)
{
    wasm_frames frames;
    wasm_frames_init(&frames);
    bool good = true;
    while (good && input.len) {
        size_t length = input.len < step ? input.len : step;
        good = feed(&frames, (plim_bytes){input.data, length}, told);
        input = (plim_bytes){input.data + length, input.len - length};
    }
    if (!good) {
        plim_bytes more = PLIM_LIT("I\0\0\0\0"), payload;
        CHECK(frames.phase == WASM_PHASE_ENDED);
        CHECK(wasm_frames_next(&frames, &more, &payload) == WASM_FRAME_BAD);
        base_buf_add_byte(told, '!');
    }
    wasm_frames_free(&frames);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    _cleanup_buf_ base_buf whole = BASE_BUF_INIT(TOLD_BYTES_MAX);
    _cleanup_buf_ base_buf pieces = BASE_BUF_INIT(TOLD_BYTES_MAX);
    plim_bytes input = {(const char *)data + 1, size - 1};
    run(input, SIZE_MAX, &whole);
    run(input, (size_t)data[0] + 1, &pieces);
    CHECK(whole.failed == pieces.failed);
    CHECK(whole.failed || base_bytes_equal(base_buf_bytes(&whole), base_buf_bytes(&pieces)));
    return 0;
}
