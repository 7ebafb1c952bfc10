/*
 * The runner's report: found by its MAC among whatever else a hostile program wrote to the same
 * stream, then decoded strictly. Pure functions over hostile bytes.
 */
#ifndef DOCKER_REPORT_H
#define DOCKER_REPORT_H

#include "core/core.h"

#include "guest/ctl/ctl.h"

typedef enum {
    DOCKER_REPORT_NONE,            /* no marker anywhere */
    DOCKER_REPORT_UNAUTHENTICATED, /* markers, none with a frame that verifies */
    DOCKER_REPORT_VERIFIED
} docker_report_found;

/* The first frame of `bytes` whose MAC is right under the key; `*body` is borrowed. */
docker_report_found docker_report_find(plim_bytes bytes, const unsigned char key[CTL_KEY_BYTES],
                                       plim_bytes *body);

typedef struct docker_report {
    plim_bytes error; /* when there is one, nothing else is set */
    core_step_result *steps;
    size_t step_count;
    core_artifact *artifacts;
    size_t artifact_count;
    bool artifacts_truncated;
} docker_report;

/* Decode a verified body into `arena`. False: unknown, missing, duplicate or ill-typed members. */
bool docker_report_read(plim_bytes body, base_arena *arena, docker_report *out);

#endif
