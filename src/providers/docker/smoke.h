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

#endif
