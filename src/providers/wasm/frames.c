#include "providers/wasm/frames.h"

#include "providers/wasm/protocol.h"

/* One row a frame: when it may come, how long it may be, what comes after, and whether it is
 * delivered in pieces. */
static const struct frame_rule {
    wasm_frame_kind kind;
    wasm_phase when, then;
    uint32_t least, most;
    unsigned char tag;
    bool in_pieces;
} frame_rules[] = {
    {WASM_FRAME_IDLE, WASM_PHASE_STARTING, WASM_PHASE_IDLE, 0, 0, PLIM_WORKER_IDLE, false},
    {WASM_FRAME_START, WASM_PHASE_ASKED, WASM_PHASE_RUNNING, 0, 0, PLIM_WORKER_START, false},
    {WASM_FRAME_STDOUT, WASM_PHASE_RUNNING, WASM_PHASE_RUNNING, 1, PLIM_WORKER_OUTPUT_MAX,
     PLIM_WORKER_STDOUT, true},
    {WASM_FRAME_STDERR, WASM_PHASE_RUNNING, WASM_PHASE_RUNNING, 1, PLIM_WORKER_OUTPUT_MAX,
     PLIM_WORKER_STDERR, true},
    {WASM_FRAME_CALL, WASM_PHASE_RUNNING, WASM_PHASE_CALLING, 1, PLIM_WORKER_ENVELOPE_MAX,
     PLIM_WORKER_CALL, false},
    {WASM_FRAME_TRAP, WASM_PHASE_RUNNING, WASM_PHASE_ENDED, 0, PLIM_WORKER_TRAP_MAX,
     PLIM_WORKER_TRAP, false},
    {WASM_FRAME_DONE, WASM_PHASE_RUNNING, WASM_PHASE_STARTING, 1, 1, PLIM_WORKER_DONE, false},
};

void wasm_frames_init(wasm_frames *frames)
{
    *frames = (wasm_frames){.phase = WASM_PHASE_STARTING,
                            .payload = BASE_BUF_INIT(PLIM_WORKER_ENVELOPE_MAX)};
}

void wasm_frames_free(wasm_frames *frames)
{
    base_buf_free(&frames->payload);
}

static wasm_frame_kind bad(wasm_frames *frames)
{
    frames->phase = WASM_PHASE_ENDED;
    return WASM_FRAME_BAD;
}

static const struct frame_rule *rule_of(const wasm_frames *frames)
{
    for (size_t i = 0; i < PLIM_COUNT(frame_rules); i++)
        if (frame_rules[i].tag == frames->header[0] && frame_rules[i].when == frames->phase)
            return &frame_rules[i];
    return NULL;
}

static plim_bytes take(plim_bytes *input, size_t most)
{
    plim_bytes taken = {input->data, input->len < most ? input->len : most};
    *input = (plim_bytes){input->data + taken.len, input->len - taken.len};
    return taken;
}

/* Read the header; true when it is complete. */
static bool take_header(wasm_frames *frames, plim_bytes *input)
{
    plim_bytes piece = take(input, sizeof(frames->header) - frames->header_len);
    if (piece.len)
        memcpy(frames->header + frames->header_len, piece.data, piece.len);
    frames->header_len += piece.len;
    if (frames->header_len < sizeof(frames->header))
        return false;
    const unsigned char *length = frames->header + 1;
    frames->remaining = (uint32_t)length[0] | (uint32_t)length[1] << 8 | (uint32_t)length[2] << 16 |
                        (uint32_t)length[3] << 24;
    base_buf_clear(&frames->payload);
    return true;
}

static wasm_frame_kind finish(wasm_frames *frames, const struct frame_rule *rule)
{
    frames->header_len = 0;
    frames->phase = rule->then;
    return rule->kind;
}

wasm_frame_kind wasm_frames_next(wasm_frames *frames, plim_bytes *input, plim_bytes *payload)
{
    *payload = (plim_bytes){NULL, 0};
    if (frames->phase == WASM_PHASE_ENDED)
        return WASM_FRAME_BAD;
    bool fresh = frames->header_len < sizeof(frames->header);
    if (fresh && !take_header(frames, input))
        return WASM_FRAME_MORE;
    const struct frame_rule *rule = rule_of(frames);
    if (!rule || (fresh && (frames->remaining < rule->least || frames->remaining > rule->most)))
        return bad(frames);

    plim_bytes piece = take(input, frames->remaining);
    frames->remaining -= (uint32_t)piece.len;
    if (rule->in_pieces) {
        *payload = piece;
        if (frames->remaining == 0)
            return finish(frames, rule);
        return piece.len ? rule->kind : WASM_FRAME_MORE;
    }
    if (!base_buf_add(&frames->payload, piece))
        return bad(frames);
    if (frames->remaining)
        return WASM_FRAME_MORE;
    *payload = base_buf_bytes(&frames->payload);
    return finish(frames, rule);
}
