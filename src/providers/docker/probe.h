/*
 * The verdicts over what the storage and identity probe saw (the contract's 6.1). A pure function
 * over hostile JSON: any member that is missing, of another type, or not exactly as configured is a
 * failure with its own message.
 */
#ifndef DOCKER_PROBE_H
#define DOCKER_PROBE_H

#include "core/core.h"

typedef struct docker_kernel {
    char release[128], version[256], proc[512];
} docker_kernel;

typedef struct docker_probe_wanted {
    int64_t uid;
    int64_t pids;                    /* 0: not looked at from inside (runsc) */
    int64_t tmp_mb, shm_mb, work_mb; /* work 0: no /work */
    const docker_kernel *host;       /* under runsc: what the kernel inside must not be */
    bool socket;                     /* the first image: a host socket was tried */
} docker_probe_wanted;

/* False: refused, `environment`, naming what does not hold. */
bool docker_probe_check(plim_bytes document, const docker_probe_wanted *wanted, plim_error *err);

/* The kernel log's first line, printable, or "": for information alone. */
void docker_probe_banner(plim_bytes document, char out[121]);

/* What this host says of its kernel. False: unreadable. */
bool docker_kernel_of_host(docker_kernel *out);

#endif
