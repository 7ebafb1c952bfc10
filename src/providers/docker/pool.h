/*
 * Waiting containers for runs: started, never used, for one run each. A filler thread makes them,
 * watches them, and keeps the evidence fresh that a claim needs. A claim takes a member out, reads
 * it back and hands it over as a box like one that was just started. Shared by threads.
 */
#ifndef DOCKER_POOL_H
#define DOCKER_POOL_H

#include "providers/docker/preflight.h"

enum {
    DOCKER_POOL_EVIDENCE_MS = 60000, /* older evidence serves no claim */
    DOCKER_POOL_REFRESH_MS = 30000,
    DOCKER_POOL_AGE_MS = 30 * 60 * 1000,
    DOCKER_POOL_MAKE_MS = 120000,
    DOCKER_POOL_READBACK_MS = 1000,
    DOCKER_POOL_BUDGET_MS = 125000, /* the longest container budget */
};

typedef struct docker_pool docker_pool;

/* Borrows the rest. */
docker_pool *docker_pool_new(const core_settings *settings, docker_keeper *keeper,
                             docker_preflight *preflight, size_t size) PLIM_MUST_USE;
/* Stops the filler and has every member removed; claims find nothing any more. */
void docker_pool_stop(docker_pool *pool);
/* After it was stopped, and the keeper has removed what it had. NULL allowed. */
void docker_pool_free(docker_pool *pool);

/* After the startup proof: makes the first member, then starts the filler. Done once. */
bool docker_pool_start(docker_pool *pool, const run_ctx *ctx, plim_error *err);

/* Count a run that passed admission, for the division among kinds. */
void docker_pool_demand(docker_pool *pool, docker_kind kind);

/*
 * The oldest usable member of the kind under `state`, read back; false: there is none. The box is
 * the caller's then. A member that fails its reading back is removed, and one more is tried.
 */
bool docker_pool_claim(docker_pool *pool, docker_kind kind, plim_tier tier,
                       const docker_state *state, int64_t timeout_ms, const run_ctx *ctx,
                       docker_box *box);

/* After the run of a claimed member: now it may be replaced. */
void docker_pool_nudge(docker_pool *pool);

#endif
