/* What an inspection must show unchanged between a container's start and its use: a canonical text
 * of it, or nothing when it does not run. Pure over hostile JSON. */
#ifndef DOCKER_SNAPSHOT_H
#define DOCKER_SNAPSHOT_H

#include "core/core.h"

typedef struct docker_snapshot {
    char *text; /* on the heap */
    int64_t pid;
} docker_snapshot;

/* False: not an answer, or not a container that runs: paused, restarting, dead, ended. */
bool docker_snapshot_read(plim_bytes inspection, docker_snapshot *out);

#endif
