/*
 * The startup proof: real containers under the lockdown of a run, and only what they show is
 * believed. Blocking, on the thread of whoever starts the program.
 */
#ifndef DOCKER_SMOKE_H
#define DOCKER_SMOKE_H

#include "providers/docker/run.h"

/* What was shown. */
typedef struct docker_proof {
    docker_control control; /* of the snippet image */
    bool javascript, python;
    bool kernel; /* a kernel of its own answered */
} docker_proof;

/* False: refused, naming image and runtime. */
bool docker_smoke(const docker_site *site, docker_state *state, const run_ctx *ctx,
                  docker_proof *proof, plim_error *err);

/* The file that states a container's process limit on this host, from a process's cgroup file: the
 * v1 line goes before v2's. Pure. False: no line, or it does not name the container. */
bool docker_pids_file(plim_bytes cgroup, const char *id, char *out, size_t size);

#endif
