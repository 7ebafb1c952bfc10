/*
 * Who keeps track of containers: the names in use, their removal off the path of a result, and the
 * sweep of what crashed programs left behind. A name is held from before its create call until its
 * removal has finished or given up, and a sweep never touches a held name. Shared by threads.
 */
#ifndef DOCKER_KEEPER_H
#define DOCKER_KEEPER_H

#include "providers/docker/engine.h"

enum { DOCKER_NAME_MAX = 48 };

typedef struct docker_keeper docker_keeper;

/* Removals run on `threads` threads of their own, started with the first removal. */
docker_keeper *docker_keeper_new(size_t threads) PLIM_MUST_USE;
/* Waits for every removal. */
void docker_keeper_free(docker_keeper *keeper);

/* False: out of memory, and then nothing may be created under that name. */
bool docker_keeper_hold(docker_keeper *keeper, const char *name) PLIM_MUST_USE;
/* For a name under which nothing was created. */
void docker_keeper_forget(docker_keeper *keeper, const char *name);

/*
 * What follows a run in the background waits this long, so that on a small machine it is not in the
 * way of the answer, which is being written. The Engine takes 70 to 100 ms for a removal.
 */
enum { DOCKER_ANSWER_FIRST_MS = 15 };

typedef struct docker_removal {
    docker_engine *engine;
    char name[DOCKER_NAME_MAX];
    bool ended;               /* its program ended by itself: the Engine removes it */
    bool in_doubt;            /* its creation was not answered: it may appear later */
    core_slot *slot;          /* taken; released when it is gone. May be NULL */
    void (*gone)(void *data); /* called then, on a thread of the keeper. May be NULL */
    void *data;
} docker_removal;

/* Remove in the background. Always takes the slot; the call itself never fails. */
void docker_keeper_remove(docker_keeper *keeper, const docker_removal *removal);

/* The same, and wait. True when it is gone. */
bool docker_keeper_remove_now(docker_keeper *keeper, const docker_removal *removal);

/* Remove containers whose label ended more than five minutes ago and that nobody here holds. */
bool docker_keeper_sweep(docker_keeper *keeper, docker_engine *engine, const run_ctx *ctx,
                         size_t *removed, plim_error *err);

/*
 * The IDs in a listing that a sweep removes at that time: pure. `is_held` is asked for each name.
 * False: not a listing. The IDs are NUL-terminated, one after another, in `out`.
 */
bool docker_sweep_choose(plim_bytes listing, int64_t now_unix_s,
                         bool (*is_held)(void *data, const char *name), void *data, base_buf *out);

/* Remove our dead socket directories directly under `tmpdir`; how many went. */
size_t docker_sweep_directories(const char *tmpdir);

#endif
