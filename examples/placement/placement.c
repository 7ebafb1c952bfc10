/*
 * One request over several daemons: three are started, one that runs nothing and two with `wasm`,
 * and put into a pool in that order. A request goes to the first that fits; it goes on to the next
 * only while the answer is a promise that nothing ran. An answer that is lost is not such a
 * promise. Every step must end as it should, or the program fails.
 *
 * Run it from the top of the repository.
 */
#include <plimsoll/placement.h>
#include <plimsoll/plimsoll.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../support/local_daemon.h"

enum { OFF, WASM, SPARE, DAEMONS };

static const struct {
    const char *name, *provider;
} rows[DAEMONS] = {{"off", ""}, {"wasm", "wasm"}, {"spare", "wasm"}};

/* The daemons, their logs (in memory), the handles and the pool of them. */
static struct {
    local_daemon daemons[DAEMONS];
    int logs[DAEMONS];
    plim_sandbox *sandboxes[DAEMONS];
    plim_pool *pool;
} world;

static bool fail(const char *step, const char *why)
{
    fprintf(stderr, "placement: %s: %s\n", step, why);
    return false;
}

/* ---- the world ---- */

static bool connect_to(int index, plim_error *err)
{
    local_daemon *daemon = &world.daemons[index];
    plim_client_options options = {.size = sizeof(options),
                                   .base_url = plim_bytes_of(daemon->base_url),
                                   .token = plim_bytes_of(daemon->token)};
    return plim_sandbox_connect(&options, &world.sandboxes[index], err) == PLIM_OK ||
           fail(rows[index].name, plim_error_message(err));
}

static bool build(const char *bin, plim_error *err)
{
    plim_backend backends[DAEMONS];
    for (int i = 0; i < DAEMONS; i++) {
        world.logs[i] = memfd_create(rows[i].name, MFD_CLOEXEC);
        if (world.logs[i] < 0 ||
            !local_daemon_start(&world.daemons[i], bin, rows[i].provider, world.logs[i]))
            return fail(rows[i].name, world.daemons[i].problem);
        if (!connect_to(i, err))
            return false;
        backends[i] = (plim_backend){plim_bytes_of(rows[i].name), world.sandboxes[i]};
    }
    return plim_pool_new(backends, DAEMONS, 0, &world.pool, err) == PLIM_OK ||
           fail("pool", plim_error_message(err));
}

static void tear_down(void)
{
    plim_pool_free(world.pool);
    for (int i = 0; i < DAEMONS; i++) {
        plim_sandbox_free(world.sandboxes[i]);
        local_daemon_stop(&world.daemons[i]);
        if (world.logs[i] > 0)
            close(world.logs[i]);
    }
}

/* Audit lines in a daemon's log: one for each call that it handed to its provider. */
static int runs_of(int index)
{
    static char log[1 << 20];
    ssize_t length = pread(world.logs[index], log, sizeof(log) - 1, 0);
    int count = 0;
    log[length > 0 ? length : 0] = '\0';
    for (const char *at = log; (at = strstr(at, "\"msg\":\"code run")); at++)
        count++;
    return count;
}

static bool runs_are(int off, int wasm, int spare)
{
    return runs_of(OFF) == off && runs_of(WASM) == wasm && runs_of(SPARE) == spare;
}

/* ---- a step ---- */

struct placed {
    plim_status status;
    plim_result *result;
    plim_choice *choice;
    plim_error err;
};

static struct placed place(const char *code, plim_tier floor)
{
    struct placed placed = {.err = PLIM_ERROR_INIT};
    plim_javascript_request request = {.size = sizeof(request),
                                       .options = {.timeout_ms = 10000, .minimum_isolation = floor},
                                       .code = plim_bytes_of(code)};
    placed.status = plim_pool_run_javascript(world.pool, &request, NULL, NULL, &placed.result,
                                             &placed.choice, &placed.err);
    return placed;
}

static void release(struct placed *placed)
{
    plim_result_free(placed->result);
    plim_choice_free(placed->choice);
    plim_error_clear(&placed->err);
}

static bool ran_on(const struct placed *placed, const char *name)
{
    return placed->status == PLIM_OK && strcmp(plim_choice_backend(placed->choice), name) == 0 &&
           plim_result_exit_code(placed->result) == 0;
}

static void print_answer(int step, const char *asked, const struct placed *placed)
{
    printf("%d | %s: ran on %s, tier %s", step, asked, plim_choice_backend(placed->choice),
           plim_result_isolation(placed->result));
    size_t count = plim_choice_retried_count(placed->choice);
    for (size_t i = 0; i < count; i++) {
        plim_retried refused = plim_choice_retried(placed->choice, i);
        printf("%s %s (%s)", i ? "," : "; refused before by", refused.backend,
               plim_not_dispatched_name(refused.reason));
    }
    printf("%s\n", count ? "" : "; nobody refused it");
}

static bool fits_the_second(void)
{
    struct placed placed = place("console.log(6 * 7)", PLIM_TIER_PROCESS);
    bool right = ran_on(&placed, "wasm") && plim_choice_retried_count(placed.choice) == 0 &&
                 runs_are(0, 1, 0);
    if (right)
        print_answer(1, "floor process", &placed);
    else
        fail("step 1", plim_error_message(&placed.err));
    release(&placed);
    return right;
}

static bool fits_nobody(void)
{
    struct placed placed = place("console.log(1)", PLIM_TIER_KERNEL);
    const char *text = plim_error_message(&placed.err);
    bool right = placed.status == PLIM_E_NO_BACKEND &&
                 plim_error_not_dispatched(&placed.err) == PLIM_ND_UNSUPPORTED &&
                 strstr(text, "off") && strstr(text, "wasm") && strstr(text, "spare") &&
                 runs_are(0, 1, 0);
    if (right)
        printf("2 | floor kernel: nothing ran (unsupported): %s\n", text);
    else
        fail("step 2", text);
    release(&placed);
    return right;
}

static bool goes_on_from_a_dead_one(void)
{
    local_daemon_kill(&world.daemons[WASM]);
    struct placed placed = place("console.log(6 * 7)", PLIM_TIER_PROCESS);
    bool right = ran_on(&placed, "spare") && plim_choice_retried_count(placed.choice) == 1 &&
                 plim_choice_retried(placed.choice, 0).reason == PLIM_ND_ENVIRONMENT &&
                 strcmp(plim_choice_retried(placed.choice, 0).backend, "wasm") == 0 &&
                 runs_are(0, 1, 1);
    if (right)
        print_answer(3, "wasm is gone, floor process", &placed);
    else
        fail("step 3", plim_error_message(&placed.err));
    release(&placed);
    return right;
}

static void *kill_spare_soon(void *unused)
{
    (void)unused;
    nanosleep(&(struct timespec){.tv_nsec = 500000000L}, NULL);
    local_daemon_kill(&world.daemons[SPARE]);
    return NULL;
}

static bool stops_at_a_lost_answer(void)
{
    pthread_t killer;
    if (pthread_create(&killer, NULL, kill_spare_soon, NULL) != 0)
        return fail("step 4", "no thread");
    struct placed placed = place("for (;;);", PLIM_TIER_PROCESS);
    pthread_join(killer, NULL);
    bool right = placed.status == PLIM_E_TRANSPORT && plim_may_have_run(&placed.err) &&
                 strcmp(plim_choice_backend(placed.choice), "spare") == 0 && runs_are(0, 1, 1);
    if (right)
        printf("4 | spare is killed during a run: it may have run on %s, and nobody else was "
               "asked: %s\n",
               plim_choice_backend(placed.choice), plim_error_message(&placed.err));
    else
        fail("step 4", plim_error_message(&placed.err));
    release(&placed);
    return right;
}

int main(int argc, char **argv)
{
    const char *bin = "build/bin";
    if (argc == 3 && strcmp(argv[1], "-bin") == 0) {
        bin = argv[2];
    } else if (argc != 1) {
        fprintf(
            stderr,
            "usage: placement [-bin FOLDER]   FOLDER holds plimsoll and plimsolld (build/bin)\n");
        return 2;
    }
    plim_error err = PLIM_ERROR_INIT;
    bool done = build(bin, &err) && fits_the_second() && fits_nobody() &&
                goes_on_from_a_dead_one() && stops_at_a_lost_answer();
    tear_down();
    plim_error_clear(&err);
    if (fflush(stdout) != 0 || ferror(stdout))
        return fail("output", "cannot write to stdout") ? 0 : 1;
    return done ? 0 : 1;
}
