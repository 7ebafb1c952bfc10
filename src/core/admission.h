/*
 * Admission: slots in flight, slots of one caller, and a token bucket per caller. Load is shed,
 * never queued. One limiter is shared by all threads; its mutex guards every member.
 */
#ifndef CORE_ADMISSION_H
#define CORE_ADMISSION_H

typedef struct core_limits {
    int64_t max_concurrent;     /* >= 1 */
    int64_t per_key_concurrent; /* 0: no cap */
    int64_t rate_per_min;       /* 0: no limit */
    int64_t rate_burst;         /* bucket size; >= 1 when there is a rate */
} core_limits;

typedef enum {
    CORE_SHED_AT_CAPACITY,
    CORE_SHED_PER_KEY,
    CORE_SHED_RATE,
    CORE_SHED_COUNT
} core_shed;

typedef struct core_admission_counts {
    int64_t in_flight;
    uint64_t shed[CORE_SHED_COUNT];
} core_admission_counts;

typedef struct core_limiter core_limiter;

core_limiter *core_limiter_new(const core_limits *limits) PLIM_MUST_USE;
void core_limiter_free(core_limiter *limiter);

/*
 * Take a slot for `key` (a principal's id) at `now_ns` (monotonic). False: refused with reason
 * `capacity`, nothing taken but the refusal's counter. A token is spent only when both slots are
 * free.
 */
bool core_limiter_acquire(core_limiter *limiter, plim_bytes key, int64_t now_ns, plim_error *err);

/* Give the slot back, once for each acquire. */
void core_limiter_release(core_limiter *limiter, plim_bytes key);

/*
 * Capacity that is counted: acquired at once, given back when the last holder has released it, so
 * that a sandbox which is removed after its answer is counted until it is gone. NULL: refused. The
 * limiter must outlive it; it may be held and released on any thread.
 */
typedef struct core_slot core_slot;
core_slot *core_slot_new(core_limiter *limiter, plim_bytes key, plim_error *err);
core_slot *core_slot_hold(core_slot *slot);
void core_slot_release(core_slot *slot);

/*
 * Give a run's own hold back (`key` as it was taken), when nothing is left to do but to answer.
 * Where more than half of the slots, of all or of this caller, are held by removals alone, this
 * waits until that is so no more, half the time that `ctx` still has, or ten seconds: who asks one
 * run after another is then never refused for its own sandboxes that are not gone yet.
 */
void core_slot_finish(core_slot *slot, plim_bytes key, const run_ctx *ctx);

void core_limiter_counts(core_limiter *limiter, core_admission_counts *out);

#endif
