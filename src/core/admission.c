#include "core/core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

/* A bucket is forgotten when it was idle this long and would be full again, so forgetting never
 * grants a token. */
#define BUCKET_IDLE_NS (INT64_C(120) * BASE_NS_PER_S)
#define SWEEP_EVERY_NS (INT64_C(60) * BASE_NS_PER_S)

/* How long an answer waits at most for removals: one attempt of a removal (docker.md 13.3). */
#define FINISH_NS (INT64_C(10) * BASE_NS_PER_S)

/* One caller: its slots in flight and its bucket. */
struct caller {
    struct caller *next;
    int64_t in_flight;
    int64_t ending; /* of them, those whose run is over and whose sandbox is not gone */
    double tokens;
    int64_t refilled_ns;
    size_t key_len;
    char key[];
};

enum { CALLER_BUCKETS = 256 };

/* An answer that waits for removals; lives on its own stack. */
struct waiter {
    struct waiter *next;
    int woken; /* an eventfd, written whenever a sandbox is gone */
};

struct core_limiter {
    core_limits limits;
    pthread_mutex_t mutex; /* guards everything below */
    core_admission_counts counts;
    int64_t ending;
    struct waiter *waiters;
    int64_t swept_ns;
    struct caller *callers[CALLER_BUCKETS];
};

core_limiter *core_limiter_new(const core_limits *limits)
{
    core_limiter *limiter = base_new(core_limiter);
    if (!limiter)
        return NULL;
    limiter->limits = *limits;
    pthread_mutex_init(&limiter->mutex, NULL);
    return limiter;
}

void core_limiter_free(core_limiter *limiter)
{
    if (!limiter)
        return;
    for (size_t i = 0; i < CALLER_BUCKETS; i++) {
        for (struct caller *caller = limiter->callers[i]; caller;) {
            struct caller *next = caller->next;
            base_free(caller);
            caller = next;
        }
    }
    pthread_mutex_destroy(&limiter->mutex);
    base_free(limiter);
}

/* FNV-1a; the keys are principal ids that an operator chose, not a guest's. */
static size_t bucket_of(plim_bytes key)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key.len; i++)
        hash = (hash ^ (unsigned char)key.data[i]) * 16777619u;
    return hash % CALLER_BUCKETS;
}

static struct caller **find(core_limiter *limiter, plim_bytes key)
{
    struct caller **slot = &limiter->callers[bucket_of(key)];
    while (*slot && !base_bytes_equal((plim_bytes){(*slot)->key, (*slot)->key_len}, key))
        slot = &(*slot)->next;
    return slot;
}

static struct caller *find_or_add(core_limiter *limiter, plim_bytes key, int64_t now_ns)
{
    struct caller **slot = find(limiter, key);
    if (*slot)
        return *slot;
    struct caller *caller = base_alloc(1, sizeof(*caller) + key.len);
    if (!caller)
        return NULL;
    caller->tokens = (double)limiter->limits.rate_burst;
    caller->refilled_ns = now_ns;
    caller->key_len = key.len;
    if (key.len)
        memcpy(caller->key, key.data, key.len);
    return *slot = caller;
}

/* Threads read the clock before they take the lock, so a reading may be older than the last one:
 * then nothing has been earned since, and nothing is taken back. */
static double refilled(const core_limiter *limiter, const struct caller *caller, int64_t now_ns)
{
    int64_t passed_ns = now_ns > caller->refilled_ns ? now_ns - caller->refilled_ns : 0;
    double seconds = (double)passed_ns / (double)BASE_NS_PER_S;
    double tokens = caller->tokens + seconds * (double)limiter->limits.rate_per_min / 60.0;
    double burst = (double)limiter->limits.rate_burst;
    return tokens < burst ? tokens : burst;
}

/* Without a rate a bucket holds nothing worth keeping. */
static bool forgettable(const core_limiter *limiter, const struct caller *caller, int64_t now_ns)
{
    if (caller->in_flight)
        return false;
    return limiter->limits.rate_per_min == 0 ||
           (now_ns - caller->refilled_ns > BUCKET_IDLE_NS &&
            refilled(limiter, caller, now_ns) >= (double)limiter->limits.rate_burst);
}

static void sweep(core_limiter *limiter, int64_t now_ns)
{
    if (now_ns - limiter->swept_ns < SWEEP_EVERY_NS)
        return;
    limiter->swept_ns = now_ns;
    for (size_t i = 0; i < CALLER_BUCKETS; i++) {
        for (struct caller **slot = &limiter->callers[i]; *slot;) {
            struct caller *caller = *slot;
            if (forgettable(limiter, caller, now_ns)) {
                *slot = caller->next;
                base_free(caller);
            } else {
                slot = &caller->next;
            }
        }
    }
}

static bool shed(core_limiter *limiter, core_shed why)
{
    limiter->counts.shed[why]++;
    return false;
}

static bool acquire_locked(core_limiter *limiter, plim_bytes key, int64_t now_ns, plim_error *err)
{
    const core_limits *limits = &limiter->limits;
    sweep(limiter, now_ns);
    if (limiter->counts.in_flight >= limits->max_concurrent) {
        core_refuse_capacity(err, "all %" PRId64 " run slots are in use", limits->max_concurrent);
        return shed(limiter, CORE_SHED_AT_CAPACITY);
    }
    struct caller *caller = find_or_add(limiter, key, now_ns);
    if (!caller)
        return plim_refuse_nomem(err);
    if (limits->per_key_concurrent && caller->in_flight >= limits->per_key_concurrent) {
        core_refuse_capacity(err, "this caller already has %" PRId64 " runs in flight",
                             caller->in_flight);
        return shed(limiter, CORE_SHED_PER_KEY);
    }
    if (limits->rate_per_min) {
        caller->tokens = refilled(limiter, caller, now_ns);
        if (now_ns > caller->refilled_ns)
            caller->refilled_ns = now_ns;
        if (caller->tokens < 1) {
            core_refuse_capacity(err, "rate limit: %" PRId64 " runs a minute per caller",
                                 limits->rate_per_min);
            return shed(limiter, CORE_SHED_RATE);
        }
        caller->tokens -= 1;
    }
    caller->in_flight++;
    limiter->counts.in_flight++;
    return true;
}

bool core_limiter_acquire(core_limiter *limiter, plim_bytes key, int64_t now_ns, plim_error *err)
{
    pthread_mutex_lock(&limiter->mutex);
    bool admitted = acquire_locked(limiter, key, now_ns, err);
    pthread_mutex_unlock(&limiter->mutex);
    return admitted;
}

static void release_locked(core_limiter *limiter, struct caller *caller)
{
    if (caller && caller->in_flight) {
        caller->in_flight--;
        limiter->counts.in_flight--;
    }
}

void core_limiter_release(core_limiter *limiter, plim_bytes key)
{
    pthread_mutex_lock(&limiter->mutex);
    release_locked(limiter, *find(limiter, key));
    pthread_mutex_unlock(&limiter->mutex);
}

void core_limiter_counts(core_limiter *limiter, core_admission_counts *out)
{
    pthread_mutex_lock(&limiter->mutex);
    *out = limiter->counts;
    pthread_mutex_unlock(&limiter->mutex);
}

/* ---- slots ---- */

struct core_slot {
    core_limiter *limiter;
    atomic_int holders;
    bool ending; /* guarded by the limiter's mutex */
    size_t key_len;
    char key[];
};

static plim_bytes key_of(const core_slot *slot)
{
    return (plim_bytes){slot->key, slot->key_len};
}

core_slot *core_slot_new(core_limiter *limiter, plim_bytes key, plim_error *err)
{
    core_slot *slot = base_alloc(1, sizeof(*slot) + key.len);
    if (!slot) {
        plim_refuse_nomem(err);
        return NULL;
    }
    slot->limiter = limiter;
    slot->holders = 1;
    slot->key_len = key.len;
    if (key.len)
        memcpy(slot->key, key.data, key.len);
    if (core_limiter_acquire(limiter, key, base_monotonic_ns(), err))
        return slot;
    base_free(slot);
    return NULL;
}

core_slot *core_slot_hold(core_slot *slot)
{
    if (slot)
        atomic_fetch_add(&slot->holders, 1);
    return slot;
}

static void count_ending(core_limiter *limiter, struct caller *caller, int64_t change)
{
    limiter->ending += change;
    if (caller)
        caller->ending += change;
}

void core_slot_release(core_slot *slot)
{
    if (!slot || atomic_fetch_sub(&slot->holders, 1) != 1)
        return;
    core_limiter *limiter = slot->limiter;
    pthread_mutex_lock(&limiter->mutex);
    struct caller *caller = *find(limiter, key_of(slot));
    if (slot->ending)
        count_ending(limiter, caller, -1);
    release_locked(limiter, caller);
    for (struct waiter *waiter = limiter->waiters; waiter; waiter = waiter->next)
        eventfd_write(waiter->woken, 1);
    pthread_mutex_unlock(&limiter->mutex);
    base_free(slot);
}

/* Whether removals alone hold more than half of the slots, of all or of one caller. */
static bool crowded(core_limiter *limiter, plim_bytes key)
{
    const core_limits *limits = &limiter->limits;
    const struct caller *caller = *find(limiter, key);
    return limiter->ending > limits->max_concurrent / 2 ||
           (limits->per_key_concurrent && caller &&
            caller->ending > limits->per_key_concurrent / 2);
}

static void leave(core_limiter *limiter, const struct waiter *waiter)
{
    struct waiter **at = &limiter->waiters;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
}

static run_ctx patience(const run_ctx *ctx)
{
    int64_t now_ns = base_monotonic_ns(), half_ns = (ctx->deadline_ns - now_ns) / 2;
    return run_ctx_until(ctx, now_ns + (half_ns < FINISH_NS ? half_ns : FINISH_NS));
}

static void wait_for_removals(core_limiter *limiter, plim_bytes key, const run_ctx *ctx)
{
    pthread_mutex_lock(&limiter->mutex);
    bool free_enough = !crowded(limiter, key);
    pthread_mutex_unlock(&limiter->mutex);
    _cleanup_fd_ int woken = free_enough ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (woken < 0)
        return;
    const run_ctx until = patience(ctx);
    pthread_mutex_lock(&limiter->mutex);
    struct waiter waiter = {limiter->waiters, woken};
    /* cppcheck-suppress autoVariables ; it leaves the list before this returns */
    limiter->waiters = &waiter;
    run_wait state = RUN_READY;
    while (state == RUN_READY && crowded(limiter, key)) {
        pthread_mutex_unlock(&limiter->mutex);
        struct pollfd wake = {.fd = woken, .events = POLLIN};
        state = run_ctx_poll(&until, &wake, 1);
        eventfd_t ignored;
        eventfd_read(woken, &ignored);
        pthread_mutex_lock(&limiter->mutex);
    }
    leave(limiter, &waiter);
    pthread_mutex_unlock(&limiter->mutex);
}

void core_slot_finish(core_slot *slot, plim_bytes key, const run_ctx *ctx)
{
    core_limiter *limiter = slot->limiter;
    bool ending = atomic_load(&slot->holders) > 1;
    if (ending) {
        pthread_mutex_lock(&limiter->mutex);
        slot->ending = true;
        count_ending(limiter, *find(limiter, key), 1);
        pthread_mutex_unlock(&limiter->mutex);
    }
    core_slot_release(slot);
    if (ending)
        wait_for_removals(limiter, key, ctx);
}
