/*
 * What of a container's two streams is kept: a capped prefix of each, and of stderr only what
 * follows the start marker. Pure; hostile bytes in pieces of any size. Bytes past a cap are counted
 * out by a flag, never held.
 */
#ifndef DOCKER_CAPTURE_H
#define DOCKER_CAPTURE_H

#include "core/core.h"

#include "guest/ctl/ctl.h"

enum { DOCKER_BEFORE_BYTES_MAX = 256 };

typedef struct docker_stream {
    base_buf kept;
    bool truncated, failed; /* failed: memory ended below the cap */
} docker_stream;

typedef struct docker_capture {
    docker_stream out, err;
    char marker[CTL_MARKER_BYTES + 1];
    size_t matched;                       /* of the marker, at the end of stderr so far */
    bool started;                         /* the marker was seen */
    char before[DOCKER_BEFORE_BYTES_MAX]; /* the first bytes of stderr before it, for messages */
    size_t before_len;
} docker_capture;

/* With a fresh marker. False when there is no randomness. */
bool docker_capture_init(docker_capture *capture, size_t out_max, size_t err_max) PLIM_MUST_USE;
void docker_capture_free(docker_capture *capture);

void docker_capture_out(docker_capture *capture, plim_bytes piece);
void docker_capture_err(docker_capture *capture, plim_bytes piece);

#endif
