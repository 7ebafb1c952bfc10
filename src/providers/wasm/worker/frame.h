/*
 * Frames on the worker's socket, by way of its outbox, and nothing about what they mean.
 *
 * Blocking and single-threaded. A worker has exactly one peer and no way to live without it: when
 * the peer is gone these functions end the process, and so they cannot fail.
 */
#ifndef PLIM_WASM_WORKER_FRAME_H
#define PLIM_WASM_WORKER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/wasm/protocol.h"

/* Maps the outbox; before anything else of this file. The descriptor may be closed afterwards. */
bool frame_open_outbox(int fd);

/* Says one frame, header and `length` bytes: it waits in the outbox where there is room for it. */
void frame_say(uint8_t tag, const void *payload, size_t length);

/*
 * The same for a payload that has room for the header right before it; both are wiped. A frame
 * larger than the outbox costs one system call and no copy.
 */
void frame_say_in_place(uint8_t tag, uint8_t *payload, size_t length);

/* Sends what waits in the outbox. */
void frame_flush(void);

/* Asks for the next frame for a moment without sleeping, the processor offered to others between
 * two questions. False: nothing came. Only between frames. */
bool frame_ask(void);

/* Receives exactly `length` bytes of the frame being received. */
void frame_receive(void *target, size_t length);

/* Drops `length` bytes of the frame being received. */
void frame_skip(size_t length);

/* Waits for the next frame's header, then gives the payload's length. Any other tag ends the
 * process. */
uint32_t frame_expect(uint8_t tag, uint32_t length_min, uint32_t length_max);

/* Ends the process if bytes are left over behind the frame just received: nothing may follow it
 * unasked. */
void frame_end(void);

#endif
