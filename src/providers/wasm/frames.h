/*
 * Reading what a worker sends, one byte stream of frames (protocol.h). Every byte is hostile:
 * lengths are checked before anything is kept, and the order of a run (S, then O E H, then one D or
 * T) is part of the grammar. A pure state machine without I/O; one per worker, used by the thread
 * that holds the worker.
 */
#ifndef PROVIDERS_WASM_FRAMES_H
#define PROVIDERS_WASM_FRAMES_H

#include "base/base.h"

typedef enum {
    WASM_FRAME_MORE, /* the input is used up, nothing complete */
    WASM_FRAME_IDLE,
    WASM_FRAME_START,
    WASM_FRAME_STDOUT, /* payload: a piece, of any size, of what the guest wrote */
    WASM_FRAME_STDERR,
    WASM_FRAME_CALL, /* payload: the whole envelope */
    WASM_FRAME_TRAP, /* payload: the reason */
    WASM_FRAME_DONE, /* payload: one byte, the exit code */
    WASM_FRAME_BAD   /* not what a worker may say now: final */
} wasm_frame_kind;

/* Where in its life a worker is, as far as its bytes tell. */
typedef enum {
    WASM_PHASE_STARTING, /* I is due */
    WASM_PHASE_IDLE,     /* nothing is due; set to WASM_PHASE_ASKED when a run is sent */
    WASM_PHASE_ASKED,    /* S is due */
    WASM_PHASE_RUNNING,  /* O E H, or D or T */
    WASM_PHASE_CALLING,  /* waits for our reply: nothing is due; set back to RUNNING when it is sent
                          */
    WASM_PHASE_ENDED     /* T came, or the stream was bad: nothing more is believed */
} wasm_phase;

typedef struct wasm_frames {
    wasm_phase phase;
    unsigned char header[5];
    size_t header_len;
    uint32_t remaining; /* payload bytes still to come */
    base_buf payload;   /* of frames that are delivered whole */
} wasm_frames;

void wasm_frames_init(wasm_frames *frames);
void wasm_frames_free(wasm_frames *frames);

/*
 * Take the next event out of `*input`, which is advanced past what was used. `*payload` is borrowed
 * from the input or from `frames` and stands until the next call.
 */
wasm_frame_kind wasm_frames_next(wasm_frames *frames, plim_bytes *input, plim_bytes *payload);

#endif
