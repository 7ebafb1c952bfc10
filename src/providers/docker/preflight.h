/*
 * Preflight: one probe of the Engine at a time, on a thread of its own so that a caller who leaves
 * takes nothing away; its success is kept for a while, its failure makes the provider not ready.
 * The Engine is pinned by the first. What the startup proof showed is kept here too, because every
 * later state is compared with it. Shared by threads.
 */
#ifndef DOCKER_PREFLIGHT_H
#define DOCKER_PREFLIGHT_H

#include "providers/docker/smoke.h"
#include "providers/docker/state.h"

enum {
    DOCKER_PREFLIGHT_MS = 10000,
    DOCKER_FRESH_MS = 5000,
    DOCKER_CONTENTION_MS = 2000,
    DOCKER_LOOK_MS = 20,
};

typedef struct docker_preflight docker_preflight;

/* Borrows the settings. */
docker_preflight *docker_preflight_new(const core_settings *settings) PLIM_MUST_USE;
void docker_preflight_free(docker_preflight *preflight);

/* The verified state, held for the caller: a fresh one, or what a probe finds now. False: refused,
 * `environment`, or `capacity` when the caller's own deadline ended first. */
bool docker_preflight_run(docker_preflight *preflight, const run_ctx *ctx, docker_state **out,
                          plim_error *err);

/* The last state if it is in force, at most `age_ms` old, and what was proven. NULL otherwise. */
docker_state *docker_preflight_last(docker_preflight *preflight, int64_t age_ms);

/* Keep what a proof over `state` showed. */
void docker_preflight_prove(docker_preflight *preflight, docker_state *state,
                            const docker_proof *proof);

/* What is known now. */
typedef struct docker_facts {
    bool ready; /* the last probe succeeded */
    plim_tier tier;
    docker_proof proof;
    char environment[DOCKER_KINDS][16 + DOCKER_ID_MAX], software[DOCKER_KINDS][320];
} docker_facts;
void docker_preflight_facts(docker_preflight *preflight, docker_facts *out);

/* The pinned Engine, or NULL before the first probe that could find it. */
docker_engine *docker_preflight_engine(docker_preflight *preflight);

#endif
