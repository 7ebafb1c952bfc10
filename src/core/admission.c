#include "core/core.h"

#include <pthread.h>
#include <stdatomic.h>

/* A bucket is forgotten when it was idle this long and would be full again, so forgetting never
 * grants a token. */
#define BUCKET_IDLE_NS (INT64_C(120) * BASE_NS_PER_S)
#define SWEEP_EVERY_NS (INT64_C(60) * BASE_NS_PER_S)

/* One caller: its slots in flight and its bucket. */
struct caller {
    struct caller *next;
    int64_t in_flight;
    double tokens;
    int64_t refilled_ns;
    size_t key_len;
    char key[];
};

enum { CALLER_BUCKETS = 256 };

struct core_limiter {
    core_limits limits;
    pthread_mutex_t mutex; /* guards everything below */
    core_admission_counts counts;
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

void core_limiter_release(core_limiter *limiter, plim_bytes key)
{
    pthread_mutex_lock(&limiter->mutex);
    struct caller *caller = *find(limiter, key);
    if (caller && caller->in_flight) {
        caller->in_flight--;
        limiter->counts.in_flight--;
    }
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
    size_t key_len;
    char key[];
};

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

void core_slot_release(core_slot *slot)
{
    if (!slot || atomic_fetch_sub(&slot->holders, 1) != 1)
        return;
    core_limiter_release(slot->limiter, (plim_bytes){slot->key, slot->key_len});
    base_free(slot);
}
