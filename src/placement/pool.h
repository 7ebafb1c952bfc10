/*
 * The backends of a pool and what is known of them. A description is shared by the pool and the
 * requests that go by it, so it is counted; the pool's mutex guards what is kept, never a call.
 */
#ifndef PLACEMENT_POOL_H
#define PLACEMENT_POOL_H

#include "placement/placement.h"

#include <pthread.h>
#include <stdatomic.h>

/* A description that several hold; release each hold. */
typedef struct pool_info {
    atomic_int holders;
    plim_info *info;
} pool_info;

void pool_info_release(pool_info *info);
BASE_CLEANUP_FN(pool_info, pool_info_release, pool_info_releasep)

typedef struct pool_backend {
    const char *name;
    plim_sandbox *sandbox;

    /* the latest outcome: a description, or none when asking failed */
    pool_info *known;
    uint64_t asked;   /* which question it answers: later ones have higher numbers */
    int64_t asked_ns; /* when that was asked */
} pool_backend;

struct plim_pool {
    base_arena *arena; /* holds the struct, the backends and their names */
    int64_t ttl_ns;
    pthread_mutex_t mutex; /* guards `questions` and what is known of each backend */
    uint64_t questions;
    size_t count;
    pool_backend *backends;
};

/*
 * The description to go by: the kept one while it is young, else a new one. Release it. NULL with
 * an error: the backend could not be described, now.
 */
pool_info *pool_describe(plim_pool *pool, pool_backend *backend, plim_cancel *cancel,
                         plim_error *err) PLIM_MUST_USE;

/* The backend of a name, or NULL. */
pool_backend *pool_find(plim_pool *pool, plim_bytes name);

#endif
