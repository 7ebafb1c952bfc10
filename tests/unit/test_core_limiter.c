/* Admission: slots, slots of a caller, token buckets over a clock of the test's own, and threads
 * that fight over all of it. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/core.h"

#define SECONDS(n) ((int64_t)(n)*BASE_NS_PER_S)

static core_limiter *limiter_of(core_limits limits)
{
    core_limiter *limiter = core_limiter_new(&limits);
    assert_non_null(limiter);
    return limiter;
}

static bool acquire(core_limiter *limiter, const char *key, int64_t now_ns)
{
    return core_limiter_acquire(limiter, plim_bytes_of(key), now_ns, NULL);
}

static void release(core_limiter *limiter, const char *key)
{
    core_limiter_release(limiter, plim_bytes_of(key));
}

static void assert_counts(core_limiter *limiter, int64_t in_flight, uint64_t at_capacity,
                          uint64_t per_key, uint64_t rate)
{
    core_admission_counts counts;
    core_limiter_counts(limiter, &counts);
    assert_int_equal(counts.in_flight, in_flight);
    assert_int_equal(counts.shed[CORE_SHED_AT_CAPACITY], at_capacity);
    assert_int_equal(counts.shed[CORE_SHED_PER_KEY], per_key);
    assert_int_equal(counts.shed[CORE_SHED_RATE], rate);
}

/* With max 2 and one a caller: A's second is refused, B's first runs, C's is one too many. */
static void slots_are_counted(void **state)
{
    (void)state;
    core_limiter *limiter = limiter_of((core_limits){.max_concurrent = 2, .per_key_concurrent = 1});
    plim_error err = PLIM_ERROR_INIT;
    assert_true(acquire(limiter, "A", 0));
    assert_false(core_limiter_acquire(limiter, PLIM_LIT("A"), 0, &err));
    assert_refused(&err, PLIM_E_AT_CAPACITY, "resource_exhausted", PLIM_ND_CAPACITY);
    assert_counts(limiter, 1, 0, 1, 0);
    assert_true(acquire(limiter, "B", 0));
    assert_false(core_limiter_acquire(limiter, PLIM_LIT("C"), 0, &err));
    assert_refused(&err, PLIM_E_AT_CAPACITY, "resource_exhausted", PLIM_ND_CAPACITY);
    assert_counts(limiter, 2, 1, 1, 0);
    release(limiter, "A");
    assert_true(acquire(limiter, "C", 0));
    release(limiter, "B");
    release(limiter, "C");
    assert_counts(limiter, 0, 1, 1, 0);
    core_limiter_free(limiter);
    core_limiter_free(NULL);
}

static void no_cap_means_no_cap_of_a_caller(void **state)
{
    (void)state;
    core_limiter *limiter = limiter_of((core_limits){.max_concurrent = 1024});
    for (int i = 0; i < 1024; i++)
        assert_true(acquire(limiter, "", 0));
    assert_false(acquire(limiter, "", 0));
    for (int i = 0; i < 1024; i++)
        release(limiter, "");
    assert_counts(limiter, 0, 1, 0, 0);
    core_limiter_free(limiter);
}

/* A release without a slot of that caller gives nobody one. */
static void releases_cannot_make_slots(void **state)
{
    (void)state;
    core_limiter *limiter = limiter_of((core_limits){.max_concurrent = 1});
    release(limiter, "A");
    assert_true(acquire(limiter, "A", 0));
    release(limiter, "B");
    assert_counts(limiter, 1, 0, 0, 0);
    assert_false(acquire(limiter, "B", 0));
    release(limiter, "A");
    release(limiter, "A");
    assert_counts(limiter, 0, 1, 0, 0);
    assert_true(acquire(limiter, "A", 0));
    assert_false(acquire(limiter, "A", 0));
    core_limiter_free(limiter);
}

/* Rate 60 a minute, burst 2: two at once, the third refused, one more after a second. */
static void buckets_refill_with_time(void **state)
{
    (void)state;
    core_limiter *limiter =
        limiter_of((core_limits){.max_concurrent = 100, .rate_per_min = 60, .rate_burst = 2});
    plim_error err = PLIM_ERROR_INIT;
    int64_t now = SECONDS(1000);
    assert_true(acquire(limiter, "A", now));
    assert_true(acquire(limiter, "A", now));
    assert_false(core_limiter_acquire(limiter, PLIM_LIT("A"), now, &err));
    assert_refused(&err, PLIM_E_AT_CAPACITY, "resource_exhausted", PLIM_ND_CAPACITY);
    assert_true(acquire(limiter, "B", now)); /* each caller has a bucket of its own */
    assert_false(acquire(limiter, "A", now + SECONDS(1) - 1000000));
    assert_true(acquire(limiter, "A", now + SECONDS(1)));
    assert_false(acquire(limiter, "A", now + SECONDS(1)));
    /* However long it waits, a caller saves up a burst and no more. */
    assert_true(acquire(limiter, "A", now + SECONDS(3600)));
    assert_true(acquire(limiter, "A", now + SECONDS(3600)));
    assert_false(acquire(limiter, "A", now + SECONDS(3600)));
    assert_counts(limiter, 6, 0, 0, 4);
    core_limiter_free(limiter);
}

/* A refusal for want of a slot costs no token, whichever slot it was. */
static void a_token_is_spent_last(void **state)
{
    (void)state;
    core_limiter *limiter = limiter_of((core_limits){
        .max_concurrent = 2, .per_key_concurrent = 1, .rate_per_min = 1, .rate_burst = 2});
    assert_true(acquire(limiter, "A", 0)); /* one token left */
    for (int i = 0; i < 10; i++)
        assert_false(acquire(limiter, "A", 0)); /* per caller */
    assert_true(acquire(limiter, "B", 0));
    for (int i = 0; i < 10; i++)
        assert_false(acquire(limiter, "A", 0)); /* at capacity */
    release(limiter, "A");
    assert_true(acquire(limiter, "A", 0)); /* the token is still there */
    release(limiter, "A");
    assert_false(acquire(limiter, "A", 0)); /* and was the last */
    assert_counts(limiter, 1, 10, 10, 1);
    core_limiter_free(limiter);
}

/* A second run of the same length after the bucket may have been forgotten. */
static void forgetting_a_bucket_grants_nothing(void **state)
{
    (void)state;
    /* 1 a minute, burst 10: an empty bucket is full again after 600 s. */
    core_limits limits = {.max_concurrent = 100, .rate_per_min = 1, .rate_burst = 10};
    for (int64_t pause = 0; pause <= 700; pause += 7) {
        core_limiter *limiter = limiter_of(limits);
        int64_t now = SECONDS(10000);
        for (int i = 0; i < 10; i++) {
            assert_true(acquire(limiter, "A", now));
            release(limiter, "A");
        }
        now += SECONDS(pause);
        /* Another caller's start sweeps the buckets. */
        assert_true(acquire(limiter, "B", now));
        int64_t admitted = 0;
        while (admitted <= 10 && acquire(limiter, "A", now))
            admitted++;
        assert_int_equal(admitted, pause / 60 < 10 ? pause / 60 : 10);
        core_limiter_free(limiter);
    }
}

/* A caller with a run in flight keeps its entry through any sweep. */
static void a_long_run_keeps_its_slot(void **state)
{
    (void)state;
    core_limiter *limiter = limiter_of((core_limits){
        .max_concurrent = 100, .per_key_concurrent = 1, .rate_per_min = 60, .rate_burst = 1});
    assert_true(acquire(limiter, "A", 0));
    for (int64_t hour = 1; hour < 5; hour++) {
        assert_true(acquire(limiter, "B", SECONDS(3600 * hour)));
        release(limiter, "B");
        assert_false(acquire(limiter, "A", SECONDS(3600 * hour)));
    }
    release(limiter, "A");
    assert_true(acquire(limiter, "A", SECONDS(3600 * 5)));
    core_limiter_free(limiter);
}

/* Threads read the clock before they take the lock, so readings come out of order. */
static void clock_readings_out_of_order_grant_nothing(void **state)
{
    (void)state;
    core_limiter *limiter =
        limiter_of((core_limits){.max_concurrent = 1000, .rate_per_min = 60, .rate_burst = 3});
    int admitted = 0;
    for (int i = 0; i < 100; i++)
        admitted += acquire(limiter, "A", SECONDS(1000) - (i % 10) * BASE_NS_PER_MS);
    assert_int_equal(admitted, 3);
    assert_true(acquire(limiter, "A", SECONDS(1001)));
    core_limiter_free(limiter);
}

/* Keys are compared by all their bytes: no prefix, no terminator, any length. */
static void keys_are_bytes(void **state)
{
    (void)state;
    core_limiter *limiter =
        limiter_of((core_limits){.max_concurrent = 2000, .per_key_concurrent = 1});
    static char many[1000][8];
    static const plim_bytes odd[] = {{NULL, 0},       PLIM_LIT("\0"),   PLIM_LIT("a"),
                                     PLIM_LIT("a\0"), PLIM_LIT("a\0b"), PLIM_LIT("ab"),
                                     PLIM_LIT("\xFF")};
    for (size_t i = 0; i < PLIM_COUNT(odd); i++)
        assert_true(core_limiter_acquire(limiter, odd[i], 0, NULL));
    for (size_t i = 0; i < PLIM_COUNT(odd); i++)
        assert_false(core_limiter_acquire(limiter, odd[i], 0, NULL));
    for (size_t i = 0; i < PLIM_COUNT(many); i++) {
        snprintf(many[i], sizeof(many[i]), "key-%zu", i);
        assert_true(acquire(limiter, many[i], 0));
    }
    for (size_t i = 0; i < PLIM_COUNT(many); i++) {
        assert_false(acquire(limiter, many[i], 0));
        release(limiter, many[i]);
        assert_true(acquire(limiter, many[i], 0));
        release(limiter, many[i]);
    }
    for (size_t i = 0; i < PLIM_COUNT(odd); i++)
        core_limiter_release(limiter, odd[i]);
    core_admission_counts counts;
    core_limiter_counts(limiter, &counts);
    assert_int_equal(counts.in_flight, 0);
    core_limiter_free(limiter);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 5000, MOST = 3, MOST_EACH = 2 };

struct contest {
    core_limiter *limiter;
    atomic_int in_flight, in_flight_of[2], admitted, refused;
    atomic_bool over;
};

static void *contend(void *argument)
{
    struct contest *contest = argument;
    for (int i = 0; i < ROUNDS; i++) {
        int who = i & 1;
        const char *key = who ? "odd" : "even";
        /* A minute a round: sweeps happen all the time. */
        if (!acquire(contest->limiter, key, SECONDS(60) * i)) {
            contest->refused++;
            continue;
        }
        contest->admitted++;
        if (++contest->in_flight > MOST || ++contest->in_flight_of[who] > MOST_EACH)
            contest->over = true;
        contest->in_flight_of[who]--;
        contest->in_flight--;
        release(contest->limiter, key);
    }
    return NULL;
}

static void threads_never_exceed_the_caps(void **state)
{
    (void)state;
    struct contest contest = {.limiter = limiter_of((core_limits){.max_concurrent = MOST,
                                                                  .per_key_concurrent = MOST_EACH,
                                                                  .rate_per_min = 1000000,
                                                                  .rate_burst = 1000000})};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, contend, &contest), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_false(contest.over);
    assert_int_equal(contest.admitted + contest.refused, THREADS * ROUNDS);
    assert_true(contest.admitted > 0);
    core_admission_counts counts;
    core_limiter_counts(contest.limiter, &counts);
    assert_int_equal(counts.in_flight, 0);
    assert_int_equal(counts.shed[CORE_SHED_AT_CAPACITY] + counts.shed[CORE_SHED_PER_KEY] +
                         counts.shed[CORE_SHED_RATE],
                     contest.refused);
    core_limiter_free(contest.limiter);
}

/* ---- removals ---- */

/* A caller's time, half of which is waited at most; and what a wait takes at least of 400 ms. */
enum { AT_MOST_MS = 60000 };
#define FINISH_LEAST_NS (200 * BASE_NS_PER_MS)

static int64_t in_flight(core_limiter *limiter)
{
    core_admission_counts counts;
    core_limiter_counts(limiter, &counts);
    return counts.in_flight;
}

/* A slot whose run is over and whose sandbox is being removed: the returned hold is the removal's.
 */
static core_slot *ended(core_limiter *limiter, const char *key, int64_t patience_ms)
{
    plim_bytes who = plim_bytes_of(key);
    core_slot *slot = core_slot_new(limiter, who, NULL);
    assert_non_null(slot);
    core_slot *removal = core_slot_hold(slot);
    run_ctx ctx = {base_deadline_after_ms(patience_ms), -1};
    core_slot_finish(slot, who, &ctx);
    return removal;
}

/* With 4 slots two may wait for their removal; a third answer waits. Of one caller with 2, one. */
static void an_answer_waits_where_removals_crowd(void **state)
{
    (void)state;
    static const struct {
        core_limits limits;
        size_t at_once;
    } cases[] = {
        {{.max_concurrent = 4}, 2},
        {{.max_concurrent = 5}, 2},
        {{.max_concurrent = 1}, 0},
        {{.max_concurrent = 100, .per_key_concurrent = 2}, 1},
        {{.max_concurrent = 100, .per_key_concurrent = 1}, 0},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        core_limiter *limiter = limiter_of(cases[i].limits);
        core_slot *removals[3];
        int64_t began_ns = base_monotonic_ns();
        for (size_t n = 0; n < cases[i].at_once; n++)
            removals[n] = ended(limiter, "A", AT_MOST_MS);
        assert_true(base_monotonic_ns() - began_ns < SECONDS(9)); /* a wait would take ten */
        /* Nobody removes anything: half of the caller's time passes, and the answer goes out. */
        began_ns = base_monotonic_ns();
        removals[cases[i].at_once] = ended(limiter, "A", 400);
        assert_true(base_monotonic_ns() - began_ns >= FINISH_LEAST_NS);
        assert_int_equal(in_flight(limiter), cases[i].at_once + 1);
        for (size_t n = 0; n <= cases[i].at_once; n++)
            core_slot_release(removals[n]);
        assert_int_equal(in_flight(limiter), 0);
        core_limiter_free(limiter);
    }
}

/* A caller who is gone, or whose time is over, is not waited with. */
static void nobody_waits_for_removals_alone(void **state)
{
    (void)state;
    int gone = eventfd(1, EFD_CLOEXEC);
    const run_ctx over[] = {{BASE_NEVER, gone}, {base_monotonic_ns() - 1, -1}};
    for (size_t i = 0; i < PLIM_COUNT(over); i++) {
        core_limiter *limiter = limiter_of((core_limits){.max_concurrent = 1});
        core_slot *slot = core_slot_new(limiter, PLIM_LIT("A"), NULL);
        core_slot *removal = core_slot_hold(slot);
        core_slot_finish(slot, PLIM_LIT("A"), &over[i]);
        assert_int_equal(in_flight(limiter), 1);
        core_slot_release(removal);
        assert_int_equal(in_flight(limiter), 0);
        core_limiter_free(limiter);
    }
    close(gone);
}

/* A removal that is quicker than its answer leaves nothing to wait for. */
static void a_slot_of_no_removal_is_given_back(void **state)
{
    (void)state;
    core_limiter *limiter = limiter_of((core_limits){.max_concurrent = 1});
    for (int i = 0; i < 3; i++) {
        core_slot *slot = core_slot_new(limiter, PLIM_LIT("A"), NULL);
        assert_non_null(slot);
        core_slot_release(core_slot_hold(slot));
        run_ctx ctx = RUN_CTX_NONE;
        core_slot_finish(slot, PLIM_LIT("A"), &ctx);
        assert_int_equal(in_flight(limiter), 0);
    }
    core_limiter_free(limiter);
}

struct remover {
    core_limiter *limiter;
    core_slot *_Atomic left[ROUNDS];
    int tries;
};

static void *remove_all(void *argument)
{
    struct remover *remover = argument;
    for (int i = 0; i < remover->tries; i++) {
        core_slot *slot;
        while (!(slot = remover->left[i]))
            sched_yield();
        core_slot_release(slot);
    }
    return NULL;
}

/* Who asks one run after another is never refused, however slow removals are: no run is lost. */
static void one_after_another_is_never_refused(void **state)
{
    (void)state;
    for (int most = 1; most <= 3; most++) {
        struct remover *remover = base_new(struct remover);
        assert_non_null(remover);
        remover->limiter = limiter_of((core_limits){.max_concurrent = most});
        remover->tries = ROUNDS;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, remove_all, remover), 0);
        for (int i = 0; i < ROUNDS; i++) {
            core_slot *slot = core_slot_new(remover->limiter, PLIM_LIT("A"), NULL);
            assert_non_null(slot);
            remover->left[i] = core_slot_hold(slot);
            run_ctx ctx = RUN_CTX_NONE;
            core_slot_finish(slot, PLIM_LIT("A"), &ctx);
        }
        pthread_join(thread, NULL);
        assert_int_equal(in_flight(remover->limiter), 0);
        core_limiter_free(remover->limiter);
        base_free(remover);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_counted),
        cmocka_unit_test(no_cap_means_no_cap_of_a_caller),
        cmocka_unit_test(releases_cannot_make_slots),
        cmocka_unit_test(buckets_refill_with_time),
        cmocka_unit_test(a_token_is_spent_last),
        cmocka_unit_test(forgetting_a_bucket_grants_nothing),
        cmocka_unit_test(a_long_run_keeps_its_slot),
        cmocka_unit_test(clock_readings_out_of_order_grant_nothing),
        cmocka_unit_test(keys_are_bytes),
        cmocka_unit_test(threads_never_exceed_the_caps),
        cmocka_unit_test(an_answer_waits_where_removals_crowd),
        cmocka_unit_test(nobody_waits_for_removals_alone),
        cmocka_unit_test(a_slot_of_no_removal_is_given_back),
        cmocka_unit_test(one_after_another_is_never_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
