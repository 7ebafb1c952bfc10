/*
 * What the last successful Preflight found: immutable once published, counted, so that a run keeps
 * the state it began with. Two states are compared by their keys: whatever could change what a
 * container is, is in it.
 */
#ifndef DOCKER_STATE_H
#define DOCKER_STATE_H

#include "providers/docker/engine.h"
#include "providers/docker/image.h"
#include "providers/docker/limits.h"

#include <stdatomic.h>

typedef enum { DOCKER_SNIPPET, DOCKER_PROJECT, DOCKER_KINDS } docker_kind;

/* A file by what changes when it is replaced. */
typedef struct docker_file_id {
    uint64_t device, inode;
    int64_t size, modified_ns;
} docker_file_id;

typedef struct docker_state_image {
    const char *reference;
    docker_image facts;
    char software[320]; /* "" when none can be claimed */
    char environment[16 + DOCKER_ID_MAX];
} docker_state_image;

typedef struct docker_state {
    atomic_int holders;
    base_arena *arena;
    docker_engine *engine; /* the provider's, pinned */
    const char *engine_id, *runtime, *registration;
    bool has_runtime_file;
    docker_file_id runtime_file;
    const char *runtime_path;
    char platform[64]; /* "" : none is sent */
    docker_state_image images[DOCKER_KINDS];
    const char *seccomp; /* what is sent after `seccomp=`, or NULL */
    int64_t uid;
    int64_t verified_ns;
    char key[DOCKER_KINDS][BASE_SHA256_HEX + 1]; /* without the tier */
} docker_state;

docker_state *docker_state_hold(docker_state *state);
void docker_state_release(docker_state *state);
BASE_CLEANUP_FN(docker_state, docker_state_release, docker_state_releasep)

/* The checks of the contract's 5.2, from 1 to 10, against the Engine. NULL: refused. */
docker_state *docker_state_probe(const core_settings *settings, docker_engine *engine,
                                 const run_ctx *ctx, plim_error *err);

/* Those of them that need no Engine: 1 to 5. `seccomp` (may be NULL) gets the profile. */
bool docker_state_check_settings(const core_settings *settings, char **seccomp, plim_error *err);

int64_t docker_uid_of(const core_settings *settings);
bool docker_is_runsc(const char *runtime);
const char *docker_reference_of(const core_settings *settings, docker_kind kind);

#endif
