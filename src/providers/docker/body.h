/*
 * The body of a create call: every container's lockdown in one place (the contract's 7.1). A pure
 * function from a description to JSON text; nothing that is not in it is ever set.
 */
#ifndef DOCKER_BODY_H
#define DOCKER_BODY_H

#include "core/core.h"

#define DOCKER_LABEL_EXPIRES "io.plimsoll.expires"
#define DOCKER_SOCKET_INSIDE "/run/host-api.sock"

typedef struct docker_body {
    const char *image;       /* content ID */
    const char *const *argv; /* argv[0] is the entry point */
    size_t argc;
    const char *const *image_env; /* the image's variables: removed from the container */
    size_t image_env_count;
    int64_t uid, expires;
    bool interactive; /* a run: stdin attached, removed by the Engine when it ends */
    bool work;        /* with /work */
    int64_t tmp_mb, shm_mb, work_mb, memory_mb, pids;
    double cpus;
    const char *runtime; /* "" for the Engine's own */
    const char *seccomp; /* what follows `seccomp=`, or NULL */
    const char *socket;  /* a host socket to bind, or NULL */
} docker_body;

/* The JSON on the heap; NULL when out of memory. */
char *docker_body_write(const docker_body *body) PLIM_MUST_USE;

#endif
