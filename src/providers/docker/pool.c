#include "providers/docker/pool.h"

#include "providers/docker/cgroup.h"
#include "providers/docker/shares.h"
#include "providers/docker/snapshot.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

enum {
    RETRY_MS_LEAST = 1000,
    RETRY_MS_MOST = 60000,
    LOOK_MS = 250,
    FDS_PER_MEMBER = 3,
    CLAIM_TRIES = 2,
};

typedef struct member {
    struct member *next;
    docker_box box;
    docker_kind kind;
    char key[BASE_SHA256_HEX + 1];
    plim_tier tier;
    docker_snapshot snapshot;
    int64_t made_ns, label_ns; /* when it was begun; when its label ends */
} member;

struct docker_pool {
    const core_settings *settings;
    docker_keeper *keeper;
    docker_preflight *preflight;
    int wake, stop;
    pthread_t thread;
    int64_t retry_ms, retry_at_ns; /* of the filler alone */

    pthread_mutex_t mutex; /* guards everything below */
    bool started, stopping;
    docker_shares shares;
    member *members;           /* oldest first */
    size_t have[DOCKER_KINDS]; /* waiting, by kind */
    size_t counted;            /* waiting, being made, being removed: at most the size */
};

docker_pool *docker_pool_new(const core_settings *settings, docker_keeper *keeper,
                             docker_preflight *preflight, size_t size)
{
    docker_pool *pool = base_new(docker_pool);
    if (!pool)
        return NULL;
    pool->settings = settings;
    pool->keeper = keeper;
    pool->preflight = preflight;
    pool->shares = docker_shares_new(size);
    pool->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pool->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&pool->mutex, NULL);
    if (pool->wake >= 0 && pool->stop >= 0)
        return pool;
    docker_pool_free(pool);
    return NULL;
}

void docker_pool_nudge(docker_pool *pool)
{
    eventfd_write(pool->wake, 1);
}

/* ---- giving up a member ---- */

static void uncount(docker_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->counted--;
    pthread_mutex_unlock(&pool->mutex);
}

/* On a thread of the keeper: its place is free only now. */
static void on_gone(void *data)
{
    uncount(data);
    docker_pool_nudge(data);
}

static void free_member(member *gone)
{
    base_free(gone->snapshot.text);
    base_free(gone);
}

static void retire(docker_pool *pool, member *old)
{
    docker_box_dispose(&old->box, NULL, on_gone, pool);
    free_member(old);
}

/* With the mutex held: take it out of the list. */
static member *unlink_at(docker_pool *pool, member **at)
{
    member *taken = *at;
    *at = taken->next;
    taken->next = NULL;
    pool->have[taken->kind]--;
    return taken;
}

/* A byte, an end of a stream, an answer to the wait, an end of the process: none may come. */
static bool is_silent(const member *one)
{
    struct pollfd fds[FDS_PER_MEMBER] = {{.fd = one->box.attach->fd, .events = POLLIN},
                                         {.fd = one->box.wait->fd, .events = POLLIN},
                                         {.fd = one->box.pidfd, .events = POLLIN}};
    return poll(fds, FDS_PER_MEMBER, 0) == 0;
}

static bool is_young(const member *one, int64_t now_ns)
{
    return now_ns - one->made_ns <= (int64_t)DOCKER_POOL_AGE_MS * BASE_NS_PER_MS;
}

/* ---- making one ---- */

static bool read_snapshot(docker_box *box, const run_ctx *ctx, docker_snapshot *out)
{
    char target[128];
    _cleanup_reply_ docker_reply reply;
    snprintf(target, sizeof(target), "/containers/%s/json", box->id);
    docker_engine_call(box->state->engine, "GET", target, (plim_bytes){NULL, 0}, ctx, &reply);
    return docker_reply_ok(&reply) && docker_snapshot_read(base_buf_bytes(&reply.body), out);
}

/* Nothing but the marker may have come. */
static bool is_untouched(const docker_box *box)
{
    return box->capture.started && box->capture.out.total == 0 && box->capture.err.total == 0 &&
           docker_demux_at_rest(&box->demux);
}

static bool make_in(docker_pool *pool, docker_kind kind, docker_state *state, member *made,
                    const run_ctx *ctx, plim_error *err)
{
    docker_facts facts;
    docker_box_outcome outcome;
    docker_preflight_facts(pool->preflight, &facts);
    docker_site site = {.settings = pool->settings,
                        .keeper = pool->keeper,
                        .control = facts.proof.control,
                        .tier = facts.tier};
    int64_t budget_ms = (int64_t)DOCKER_POOL_AGE_MS + DOCKER_POOL_BUDGET_MS;
    made->kind = kind;
    made->tier = facts.tier;
    made->made_ns = base_monotonic_ns();
    made->label_ns = made->made_ns + budget_ms * BASE_NS_PER_MS;
    snprintf(made->key, sizeof(made->key), "%s", state->key[kind]);
    if (!docker_run_launch(&site, state, kind, DOCKER_POOL_PREFIX, budget_ms, &made->box, ctx, err))
        return false;
    if (!docker_box_await_start(&made->box, ctx, &outcome))
        return core_refuse_environment(err, "a waiting container did not start: %s",
                                       outcome.fault[0] ? outcome.fault : "no start marker");
    if (!read_snapshot(&made->box, ctx, &made->snapshot) || !is_untouched(&made->box))
        return core_refuse_environment(err, "a waiting container is not as it was made");
    made->box.pidfd = docker_process_open(made->snapshot.pid, made->box.id);
    return true;
}

/* With a place counted for it. False: the place is given back when what was made is gone. */
static bool make_member(docker_pool *pool, docker_kind kind, const run_ctx *ctx, plim_error *err)
{
    _cleanup_(docker_state_releasep)
    docker_state *state = NULL;
    run_ctx bounded = run_ctx_until(ctx, base_deadline_after_ms(DOCKER_POOL_MAKE_MS));
    member *made = base_new(member);
    if (!made || !docker_preflight_run(pool->preflight, &bounded, &state, err)) {
        base_free(made);
        on_gone(pool);
        return made ? false : plim_refuse_nomem(err);
    }
    if (!make_in(pool, kind, state, made, &bounded, err)) {
        retire(pool, made);
        return false;
    }
    pthread_mutex_lock(&pool->mutex);
    member **last = &pool->members;
    while (*last)
        last = &(*last)->next;
    *last = made;
    pool->have[kind]++;
    pthread_mutex_unlock(&pool->mutex);
    return true;
}

/* ---- the filler ---- */

/* With the mutex held: members that may serve nobody any more, taken out. */
static member *take_unusable(docker_pool *pool, const docker_state *state)
{
    member *taken = NULL;
    int64_t now_ns = base_monotonic_ns();
    for (member **at = &pool->members; *at;) {
        member *one = *at;
        bool matches = !state || strcmp(one->key, state->key[one->kind]) == 0;
        if (matches && is_young(one, now_ns) && is_silent(one)) {
            at = &one->next;
            continue;
        }
        unlink_at(pool, at);
        one->next = taken;
        taken = one;
    }
    return taken;
}

/* With the mutex held: the oldest member of a kind that has too many. */
static member *take_surplus(docker_pool *pool)
{
    size_t waiting = 0;
    for (docker_kind kind = 0; kind < DOCKER_KINDS; kind++)
        waiting += pool->have[kind];
    if (waiting < pool->shares.size)
        return NULL;
    docker_kind kind = docker_shares_rebalance(&pool->shares, pool->have, base_monotonic_ns());
    for (member **at = &pool->members; kind != DOCKER_KINDS && *at; at = &(*at)->next)
        if ((*at)->kind == kind)
            return unlink_at(pool, at);
    return NULL;
}

static void retire_all(docker_pool *pool, member *list)
{
    while (list) {
        member *next = list->next;
        retire(pool, list);
        list = next;
    }
}

static void retire_round(docker_pool *pool)
{
    _cleanup_(docker_state_releasep)
    docker_state *state = docker_preflight_last(pool->preflight, INT32_MAX);
    pthread_mutex_lock(&pool->mutex);
    member *unusable = take_unusable(pool, state);
    member *surplus = unusable ? NULL : take_surplus(pool);
    pthread_mutex_unlock(&pool->mutex);
    retire_all(pool, unusable);
    retire_all(pool, surplus);
}

/* Count a place for another member, if there is one and none failed just now. */
static bool reserve(docker_pool *pool, docker_kind *kind)
{
    if (base_monotonic_ns() < pool->retry_at_ns)
        return false;
    pthread_mutex_lock(&pool->mutex);
    bool free_place = pool->counted < pool->shares.size;
    if (free_place) {
        pool->counted++;
        *kind = docker_shares_next(&pool->shares, pool->have);
    }
    pthread_mutex_unlock(&pool->mutex);
    return free_place;
}

static void note(docker_pool *pool, bool made, const plim_error *err)
{
    if (made) {
        pool->retry_ms = pool->retry_at_ns = 0;
        return;
    }
    pool->retry_ms = pool->retry_ms ? pool->retry_ms * 2 : RETRY_MS_LEAST;
    if (pool->retry_ms > RETRY_MS_MOST)
        pool->retry_ms = RETRY_MS_MOST;
    pool->retry_at_ns = base_deadline_after_ms(pool->retry_ms);
    base_log(BASE_LOG_WARN, "a waiting container could not be made",
             LOG_STR("error", plim_error_message(err)), LOG_INT("retry_ms", pool->retry_ms));
}

/* While members wait, their evidence must not grow too old for a claim. */
static void refresh_evidence(docker_pool *pool, const run_ctx *ctx)
{
    docker_state *fresh = docker_preflight_last(pool->preflight, DOCKER_POOL_REFRESH_MS);
    docker_state *now = NULL;
    if (!fresh)
        docker_preflight_run(pool->preflight, ctx, &now, NULL);
    docker_state_release(fresh);
    docker_state_release(now);
}

/* What a member says, and a claim by a long run, is noticed within the look. */
static bool rest(docker_pool *pool, const run_ctx *ctx)
{
    struct pollfd fd = {.fd = pool->wake, .events = POLLIN};
    run_ctx bounded = run_ctx_until(ctx, base_deadline_after_ms(LOOK_MS));
    eventfd_t ignored;
    run_wait wait = run_ctx_poll(&bounded, &fd, 1);
    if (wait == RUN_READY) {
        run_ctx answer_first = run_ctx_until(ctx, base_deadline_after_ms(DOCKER_ANSWER_FIRST_MS));
        wait = run_ctx_poll(&answer_first, NULL, 0);
        eventfd_read(pool->wake, &ignored);
    }
    return wait == RUN_READY || wait == RUN_DEADLINE;
}

static void *fill(void *data)
{
    docker_pool *pool = data;
    run_ctx ctx = {BASE_NEVER, pool->stop};
    do {
        docker_kind kind;
        refresh_evidence(pool, &ctx);
        retire_round(pool);
        while (reserve(pool, &kind)) {
            _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
            note(pool, make_member(pool, kind, &ctx, &err), &err);
        }
    } while (rest(pool, &ctx));
    return NULL;
}

static bool start_filler(docker_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&pool->thread, NULL, fill, pool) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

bool docker_pool_start(docker_pool *pool, const run_ctx *ctx, plim_error *err)
{
    docker_kind kind;
    pthread_mutex_lock(&pool->mutex);
    bool started = pool->started;
    pthread_mutex_unlock(&pool->mutex);
    if (started)
        return true;
    if (reserve(pool, &kind) && !make_member(pool, kind, ctx, err))
        return plim_error_wrap(err, "SANDBOX_DOCKER_POOL");
    pthread_mutex_lock(&pool->mutex);
    pool->started = start_filler(pool);
    started = pool->started;
    pthread_mutex_unlock(&pool->mutex);
    return started || core_refuse_environment(err, "no thread to fill the pool");
}

void docker_pool_stop(docker_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    bool started = pool->started;
    pool->started = false;
    pool->stopping = true;
    pthread_mutex_unlock(&pool->mutex);
    eventfd_write(pool->stop, 1);
    if (started)
        pthread_join(pool->thread, NULL);
    pthread_mutex_lock(&pool->mutex);
    member *all = TAKE_PTR(pool->members);
    pthread_mutex_unlock(&pool->mutex);
    retire_all(pool, all);
}

void docker_pool_free(docker_pool *pool)
{
    if (!pool)
        return;
    base_fd_close(&pool->wake);
    base_fd_close(&pool->stop);
    pthread_mutex_destroy(&pool->mutex);
    base_free(pool);
}

/* ---- claims ---- */

void docker_pool_demand(docker_pool *pool, docker_kind kind)
{
    pthread_mutex_lock(&pool->mutex);
    docker_shares_demand(&pool->shares, kind);
    pthread_mutex_unlock(&pool->mutex);
}

static member *take_usable(docker_pool *pool, docker_kind kind, plim_tier tier,
                           const docker_state *state, int64_t end_ns)
{
    member *found = NULL;
    int64_t now_ns = base_monotonic_ns();
    pthread_mutex_lock(&pool->mutex);
    for (member **at = &pool->members; !pool->stopping && *at; at = &(*at)->next) {
        const member *one = *at;
        if (one->kind != kind || one->tier != tier || strcmp(one->key, state->key[kind]) != 0 ||
            !is_young(one, now_ns) || one->label_ns < end_ns)
            continue;
        found = unlink_at(pool, at);
        break;
    }
    pthread_mutex_unlock(&pool->mutex);
    return found;
}

/* Is it still what was made, by the Engine's word, and has it said nothing? */
static bool read_back(member *one, const run_ctx *ctx)
{
    docker_snapshot now = {NULL, 0};
    run_ctx bounded = run_ctx_until(ctx, base_deadline_after_ms(DOCKER_POOL_READBACK_MS));
    bool same = is_silent(one) && read_snapshot(&one->box, &bounded, &now) &&
                strcmp(now.text, one->snapshot.text) == 0 && is_silent(one);
    base_free(now.text);
    return same;
}

bool docker_pool_claim(docker_pool *pool, docker_kind kind, plim_tier tier,
                       const docker_state *state, int64_t timeout_ms, const run_ctx *ctx,
                       docker_box *box)
{
    int64_t end_ns = base_deadline_after_ms(timeout_ms + DOCKER_PROJECT_MARGIN_MS);
    for (int i = 0; i < CLAIM_TRIES; i++) {
        member *found = take_usable(pool, kind, tier, state, end_ns);
        if (!found)
            return false;
        if (!read_back(found, ctx)) {
            retire(pool, found);
            continue;
        }
        *box = found->box;
        free_member(found);
        /* Its memory is charged to the run from here on. The filler is not woken: what it makes
         * would take the processor from this very run. */
        uncount(pool);
        return true;
    }
    return false;
}
