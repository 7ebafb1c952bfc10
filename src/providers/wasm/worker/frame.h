/*
 * Frames on the worker's socket, and nothing about what they mean.
 *
 * Blocking and single-threaded. A worker has exactly one peer and no way to live without it: when
 * the peer is gone these functions end the process, and so they cannot fail.
 */
#ifndef PLIM_WASM_WORKER_FRAME_H
#define PLIM_WASM_WORKER_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "providers/wasm/protocol.h"

/* Sends one frame: header, then `length` bytes. */
void frame_send(uint8_t tag, const void *payload, size_t length);

/*
 * Sends one frame whose payload has room for the header right before it, which is overwritten: one
 * system call, no copy.
 */
void frame_send_in_place(uint8_t tag, uint8_t *payload, size_t length);

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
