/*
 * What of a container's two streams is kept: a capped prefix of each, and of stderr only what
 * follows the start marker; and whether a stream has come to its end, which only a frame says that
 * verifies under the key of the run and that nothing follows. Such a frame is no output; one that
 * does not verify is. Pure; hostile bytes in pieces of any size, on which nothing depends. Bytes
 * past a cap are counted, never held.
 */
#ifndef DOCKER_CAPTURE_H
#define DOCKER_CAPTURE_H

#include "core/core.h"

#include "guest/ctl/ctl.h"

enum { DOCKER_BEFORE_BYTES_MAX = 256 };

typedef struct docker_stream {
    base_buf kept;
    bool failed;              /* memory ended below the cap */
    bool ended;               /* the last bytes are a frame that verifies: `end` */
    uint64_t total;           /* bytes that came */
    char last[CTL_END_BYTES]; /* the last of them */
    struct ctl_end end;
} docker_stream;

typedef struct docker_capture {
    docker_stream out, err;
    char marker[CTL_MARKER_BYTES + 1];
    size_t matched;                       /* of the marker, at the end of stderr so far */
    bool started;                         /* the marker was seen */
    char before[DOCKER_BEFORE_BYTES_MAX]; /* the first bytes of stderr before it, for messages */
    size_t before_len;
    bool armed;
    unsigned char key[CTL_KEY_BYTES]; /* wiped with the capture */
} docker_capture;

/* With a fresh marker. False when there is no randomness. */
bool docker_capture_init(docker_capture *capture, size_t out_max, size_t err_max) PLIM_MUST_USE;
void docker_capture_free(docker_capture *capture);

/* Make the key of the run, under which a frame is the end of a stream. False as above. */
bool docker_capture_arm(docker_capture *capture) PLIM_MUST_USE;

void docker_capture_out(docker_capture *capture, plim_bytes piece);
void docker_capture_err(docker_capture *capture, plim_bytes piece);

/* Have both streams come to their end, and do they tell the same one? */
bool docker_capture_ended(const docker_capture *capture, struct ctl_end *end);

/* The guest's bytes that were kept, and whether there were more. */
plim_bytes docker_stream_output(const docker_stream *stream);
bool docker_stream_truncated(const docker_stream *stream);

#endif
