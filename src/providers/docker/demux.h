/*
 * The framing of an attached stream: an 8-byte header (stream number, three zeros, big-endian
 * length), then that many bytes. A pure state machine over hostile bytes; input may be cut
 * anywhere. Nothing is kept but the header in progress.
 */
#ifndef DOCKER_DEMUX_H
#define DOCKER_DEMUX_H

#include "base/base.h"

/* A longer frame ends the connection: the Engine's own are at most 64 KiB. */
enum { DOCKER_FRAME_BYTES_MAX = 16 * 1024 * 1024, DOCKER_FRAME_HEADER = 8 };

typedef enum {
    DOCKER_FRAME_MORE,   /* input used up */
    DOCKER_FRAME_STDOUT, /* `*piece` is a part of a frame, borrowed from the input, never empty */
    DOCKER_FRAME_STDERR,
    DOCKER_FRAME_BAD /* not this framing. Final */
} docker_frame_event;

typedef struct docker_demux {
    unsigned char header[DOCKER_FRAME_HEADER];
    unsigned char have; /* bytes of the header */
    uint32_t left;      /* bytes of the frame */
    bool bad;
} docker_demux;

/* A zeroed struct is the start. Consumes from the front of `*input`. */
docker_frame_event docker_demux_next(docker_demux *demux, plim_bytes *input, plim_bytes *piece);

/* Is it between two frames? An end anywhere else is a cut. */
bool docker_demux_at_rest(const docker_demux *demux);

#endif
