/*
 * What happens to runs that are disturbed: cancelled, shared by threads, robbed of their worker or
 * of its host; and what is left of them: no process, no zombie, no descriptor, no memory.
 */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/base.h"
#include "sandbox_support.h"

static const char *const two_slots[] = {"SANDBOX_MAX_CONCURRENT=2", NULL};
static const char *const fresh[] = {"SANDBOX_MAX_CONCURRENT=2", "SANDBOX_WASM_FRESH_PROCESS=1",
                                    NULL};
static const char *const *const modes[] = {two_slots, fresh};

/* A run in another thread: its status and what the error says. */
struct call {
    plim_sandbox *sandbox;
    const char *code;
    int64_t timeout_ms;
    plim_cancel *cancel;
    plim_status status;
    plim_result *result;
    plim_error err;
    pthread_t thread;
};

static void *run_call(void *argument)
{
    struct call *call = argument;
    plim_javascript_request request = {.size = sizeof(request),
                                       .options = {.timeout_ms = call->timeout_ms},
                                       .code = plim_bytes_of(call->code)};
    call->status =
        plim_run_javascript(call->sandbox, &request, call->cancel, &call->result, &call->err);
    return NULL;
}

static void start_call(struct call *call)
{
    assert_int_equal(pthread_create(&call->thread, NULL, run_call, call), 0);
}

/* Processor time that a process has used, in clock ticks; -1 when it is gone. */
static long ticks_of(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 14; field++)
        at = strchr(at + 1, ' ');
    return at ? strtol(at, NULL, 10) : -1;
}

/* The first tick count that was read of a process; the newest one when it was never seen before. */
static long first_ticks(pid_t pid, long now)
{
    static struct {
        pid_t pid;
        long ticks;
    } seen[1024];
    static size_t count;
    for (size_t i = 0; i < count; i++)
        if (seen[i].pid == pid)
            return seen[i].ticks;
    assert_true(count < PLIM_COUNT(seen));
    seen[count].pid = pid;
    seen[count++].ticks = now;
    return now;
}

/* Longer than the endless loop of the startup test, which the first run of a handle waits for. */
enum { SPINNING_TICKS = 15 };

/* The worker that is spinning: the one whose time has gone up, however little of it a busy machine
 * gives. */
static pid_t await_spinning_worker(void)
{
    for (int waited = 0; waited < HANG_MS; waited += 20) {
        pid_t pids[64];
        size_t count = worker_pids(pids, 64);
        for (size_t i = 0; i < count; i++) {
            long now = ticks_of(pids[i]);
            if (now >= 0 && now >= first_ticks(pids[i], now) + SPINNING_TICKS)
                return pids[i];
        }
        sleep_ms(20);
    }
    fail_msg("no worker is spinning");
    return -1;
}

/* ---- cancelling ---- */

static void a_run_is_cancelled_from_another_thread(void **state)
{
    (void)state;
    NEEDS_WORKER();
    for (int mode = 0; mode < 2; mode++) {
        plim_sandbox *sandbox = open_wasm(modes[mode]);
        expect_run(sandbox, "1", 0, "", "");
        plim_cancel *cancel = plim_cancel_new();
        struct call call = {
            .sandbox = sandbox, .code = "for (;;);", .timeout_ms = 30000, .cancel = cancel};
        start_call(&call);
        pid_t worker = await_spinning_worker();
        plim_cancel_fire(cancel);
        pthread_join(call.thread, NULL);
        assert_int_equal(call.status, PLIM_E_CANCELED);
        assert_null(call.result);
        assert_failed(&call.err, PLIM_E_CANCELED, "canceled"); /* it may have run: it did */
        assert_true(await_end(worker));
        /* A second fire is harmless; the handle works on, without it and with a new one. */
        plim_cancel_fire(cancel);
        plim_cancel_free(cancel);
        expect_run(sandbox, "console.log('next')", 0, "next\n", "");
        plim_sandbox_free(sandbox);
    }
}

/* A caller that was gone before is refused, and no worker is lost over it. */
static void a_run_that_was_cancelled_before_costs_no_worker(void **state)
{
    (void)state;
    NEEDS_WORKER();
    plim_sandbox *sandbox = open_wasm(two_slots);
    expect_run(sandbox, "1", 0, "", "");
    plim_cancel *cancel = plim_cancel_new();
    plim_cancel_fire(cancel);
    pid_t before[64], after[64];
    size_t count = worker_pids(before, 64);
    assert_true(count > 0);
    for (int i = 0; i < 5; i++) {
        struct call call = {.sandbox = sandbox, .code = "1", .timeout_ms = 30000, .cancel = cancel};
        run_call(&call);
        assert_refused(&call.err, PLIM_E_CANCELED, "canceled", PLIM_ND_REQUEST);
        assert_null(call.result);
    }
    assert_int_equal(worker_pids(after, 64), count);
    assert_memory_equal(before, after, count * sizeof(*before));
    plim_cancel_free(cancel);
    plim_sandbox_free(sandbox);
}

/* One handle stops all calls that hold it. */
static void one_cancel_stops_several_runs(void **state)
{
    (void)state;
    NEEDS_WORKER();
    plim_sandbox *sandbox = open_wasm(two_slots);
    plim_cancel *cancel = plim_cancel_new();
    struct call calls[2];
    for (int i = 0; i < 2; i++) {
        calls[i] = (struct call){
            .sandbox = sandbox, .code = "for (;;);", .timeout_ms = 30000, .cancel = cancel};
        start_call(&calls[i]);
    }
    await_spinning_worker();
    plim_cancel_fire(cancel);
    for (int i = 0; i < 2; i++) {
        pthread_join(calls[i].thread, NULL);
        assert_int_equal(calls[i].status, PLIM_E_CANCELED);
    }
    plim_cancel_free(cancel);
    plim_sandbox_free(sandbox);
}

/* ---- killing ---- */

static void a_killed_worker_is_an_abort_with_its_output(void **state)
{
    (void)state;
    NEEDS_WORKER();
    for (int mode = 0; mode < 2; mode++) {
        plim_sandbox *sandbox = open_wasm(modes[mode]);
        for (int round = 0; round < 3; round++) {
            struct call call = {.sandbox = sandbox,
                                .code = "console.log('before'); for (;;);",
                                .timeout_ms = 30000};
            start_call(&call);
            assert_int_equal(kill(await_spinning_worker(), SIGKILL), 0);
            pthread_join(call.thread, NULL);
            assert_int_equal(call.status, PLIM_OK);
            assert_int_equal(plim_result_exit_code(call.result), 134);
            assert_false(plim_result_timed_out(call.result));
            assert_bytes(plim_result_stdout(call.result), "before\n");
            assert_bytes(plim_result_stderr(call.result),
                         "guest aborted: worker killed by signal 9\n");
            plim_result_free(call.result);
            expect_run(sandbox, "console.log('next')", 0, "next\n", "");
        }
        plim_sandbox_free(sandbox);
    }
}

/* What the guest said itself stays what it said. */
static void a_killed_guest_keeps_its_stderr(void **state)
{
    (void)state;
    NEEDS_WORKER();
    plim_sandbox *sandbox = open_wasm(two_slots);
    struct call call = {.sandbox = sandbox,
                        .code = "import {err} from 'qjs:std'; err.puts('mine'); for (;;);",
                        .timeout_ms = 30000};
    start_call(&call);
    assert_int_equal(kill(await_spinning_worker(), SIGKILL), 0);
    pthread_join(call.thread, NULL);
    assert_int_equal(call.status, PLIM_OK);
    assert_bytes(plim_result_stderr(call.result), "mine");
    plim_result_free(call.result);
    plim_sandbox_free(sandbox);
}

static void a_host_killed_between_runs_is_replaced(void **state)
{
    (void)state;
    NEEDS_WORKER();
    for (int mode = 0; mode < 2; mode++) {
        plim_sandbox *sandbox = open_wasm(modes[mode]);
        expect_run(sandbox, "1", 0, "", "");
        for (int round = 0; round < 3; round++) {
            pid_t host;
            assert_int_equal(host_pids(&host, 1), 1);
            assert_int_equal(kill(host, SIGKILL), 0);
            plim_javascript_request request = {.size = sizeof(request),
                                               .options = {.timeout_ms = 30000},
                                               .code = PLIM_LIT("console.log(1)")};
            plim_result *result = NULL;
            plim_error err = PLIM_ERROR_INIT;
            /* The news may not be here yet: then the run is lost, and says so without a mark. */
            plim_status status = plim_run_javascript(sandbox, &request, NULL, &result, &err);
            if (status != PLIM_OK)
                assert_failed(&err, PLIM_E_REMOTE, "internal");
            plim_result_free(result);
            assert_true(await_end(host));
            expect_run(sandbox, "console.log('next')", 0, "next\n", "");
        }
        plim_sandbox_free(sandbox);
    }
}

/* Its workers die with it, and a run in flight is an error that promises nothing. */
static void a_host_killed_during_a_run_loses_it(void **state)
{
    (void)state;
    NEEDS_WORKER();
    for (int mode = 0; mode < 2; mode++) {
        plim_sandbox *sandbox = open_wasm(modes[mode]);
        struct call call = {.sandbox = sandbox, .code = "for (;;);", .timeout_ms = 30000};
        start_call(&call);
        pid_t worker = await_spinning_worker(), host;
        assert_int_equal(host_pids(&host, 1), 1);
        assert_int_equal(kill(host, SIGKILL), 0);
        pthread_join(call.thread, NULL);
        assert_int_equal(call.status, PLIM_E_REMOTE);
        assert_failed(&call.err, PLIM_E_REMOTE, "internal");
        assert_null(call.result);
        assert_true(await_end(worker));
        expect_run(sandbox, "console.log('next')", 0, "next\n", "");
        plim_sandbox_free(sandbox);
    }
}

/* ---- sharing ---- */

enum { THREADS = 16, RUNS_EACH = 25 };

struct sharer {
    plim_sandbox *sandbox;
    int who;
    int wrong, at_capacity, answered;
    pthread_t thread;
};

static void *share(void *argument)
{
    struct sharer *sharer = argument;
    char code[128], expected[64];
    for (int i = 0; i < RUNS_EACH; i++) {
        snprintf(code, sizeof(code),
                 "console.log(typeof leak, %d * 1000 + %d); globalThis.leak = %d", sharer->who, i,
                 sharer->who);
        snprintf(expected, sizeof(expected), "undefined %d\n", sharer->who * 1000 + i);
        plim_javascript_request request = {
            .size = sizeof(request), .options = {.timeout_ms = 30000}, .code = plim_bytes_of(code)};
        plim_result *result = NULL;
        plim_error err = PLIM_ERROR_INIT;
        plim_status status = plim_run_javascript(sharer->sandbox, &request, NULL, &result, &err);
        bool good = status == PLIM_OK && plim_result_exit_code(result) == 0 &&
                    base_bytes_is(plim_result_stdout(result), expected);
        bool full = status == PLIM_E_AT_CAPACITY && !plim_may_have_run(&err);
        sharer->answered += good;
        sharer->at_capacity += full;
        sharer->wrong += !good && !full;
        plim_result_free(result);
        plim_error_clear(&err);
    }
    return NULL;
}

/* 16 threads on a handle of 16 slots: every answer is the asker's own. On one of 3 slots some are
 * refused, marked, and none is mixed up. */
static void threads_share_a_handle(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static const char *const sixteen[] = {"SANDBOX_MAX_CONCURRENT=16", NULL};
    static const char *const three[] = {"SANDBOX_MAX_CONCURRENT=3", NULL};
    static const char *const single[] = {"SANDBOX_MAX_CONCURRENT=16",
                                         "SANDBOX_WASM_FRESH_PROCESS=1", NULL};
    const char *const *const settings[] = {sixteen, three, single};
    for (int i = 0; i < 3; i++) {
        plim_sandbox *sandbox = open_wasm(settings[i]);
        struct sharer sharers[THREADS] = {0};
        int answered = 0, refused = 0;
        for (int t = 0; t < THREADS; t++) {
            sharers[t].sandbox = sandbox;
            sharers[t].who = t;
            assert_int_equal(pthread_create(&sharers[t].thread, NULL, share, &sharers[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(sharers[t].thread, NULL);
            assert_int_equal(sharers[t].wrong, 0);
            answered += sharers[t].answered;
            refused += sharers[t].at_capacity;
        }
        plim_sandbox_free(sandbox); /* right after the last run */
        assert_int_equal(answered + refused, THREADS * RUNS_EACH);
        if (i != 1)
            assert_int_equal(refused, 0);
        assert_true(answered > 0);
    }
    assert_true(await_children(0));
}

static void two_handles_live_side_by_side(void **state)
{
    (void)state;
    NEEDS_WORKER();
    plim_sandbox *first = open_wasm(two_slots), *second = open_wasm(fresh);
    pid_t hosts[4];
    for (int i = 0; i < 5; i++) {
        expect_run(first, "console.log(typeof leak); globalThis.leak = 1", 0, "undefined\n", "");
        expect_run(second, "console.log(typeof leak); globalThis.leak = 1", 0, "undefined\n", "");
    }
    assert_int_equal(host_pids(hosts, 4), 2);
    plim_sandbox_free(first);
    expect_run(second, "console.log('still')", 0, "still\n", "");
    assert_int_equal(host_pids(hosts, 4), 1);
    plim_sandbox_free(second);
    assert_true(await_children(0));
}

/* ---- leaving nothing behind ---- */

static void many_runs_leave_nothing(void **state)
{
    (void)state;
    NEEDS_WORKER();
    enum { RUNS = 2000 };
    plim_sandbox *sandbox = open_wasm(two_slots);
    size_t before = 0, memory_before = 0;
    for (int i = 0; i < RUNS; i++) {
        plim_result *result = run_snippet(sandbox, i % 7 ? "console.log(1)" : "throw 1", 30000);
        assert_non_null(result);
        plim_result_free(result);
        if (i == 100) {
            before = open_descriptors();
            memory_before = resident_kb();
        }
    }
    /* A worker more or less may be on its way. */
    size_t after = open_descriptors();
    assert_true(after <= before + 4);
    assert_true(resident_kb() < memory_before + (size_t)8 * 1024);
    pid_t children[8];
    assert_int_equal(children_of(getpid(), children, 8), 1); /* the host, and no zombie */
    plim_sandbox_free(sandbox);
    assert_true(await_children(0));
}

static void replaced_workers_leave_nothing(void **state)
{
    (void)state;
    NEEDS_WORKER();
    plim_sandbox *sandbox = open_wasm(fresh);
    size_t before = 0;
    for (int i = 0; i < 150; i++) {
        plim_result *result =
            run_snippet(sandbox, i % 10 ? "console.log(1)" : "for (;;);", i % 10 ? 30000 : 20);
        assert_non_null(result);
        plim_result_free(result);
        if (i == 20)
            before = open_descriptors();
    }
    /* Spares come and go: each has a socket and a process descriptor. */
    assert_true(open_descriptors() <= before + 10);
    pid_t host, workers[64];
    assert_int_equal(host_pids(&host, 1), 1);
    for (int waited = 0; worker_pids(workers, 64) > 5 && waited < HANG_MS; waited += 5)
        sleep_ms(5);
    assert_true(worker_pids(workers, 64) <= 5);
    char text[64];
    for (size_t i = 0; i < worker_pids(workers, 64); i++)
        assert_true(status_of(workers[i], "State", text, sizeof(text))[0] != 'Z');
    plim_sandbox_free(sandbox);
    assert_true(await_children(0));
}

/* A guest that prints without end does not grow its reader. */
static void an_output_flood_does_not_fill_memory(void **state)
{
    (void)state;
    NEEDS_WORKER();
    plim_sandbox *sandbox = open_wasm(two_slots);
    expect_run(sandbox, "1", 0, "", "");
    size_t before = resident_kb();
    plim_result *result = run_snippet(sandbox,
                                      "import {err} from 'qjs:std'; const s = 'f'.repeat(100000); "
                                      "for (;;) { console.log(s); err.puts(s) }",
                                      1500);
    assert_non_null(result);
    assert_true(plim_result_timed_out(result));
    assert_int_equal(plim_result_stdout(result).len, 65536);
    assert_int_equal(plim_result_stderr(result).len, 65536);
    assert_true(plim_result_stdout_truncated(result));
    assert_true(plim_result_stderr_truncated(result));
    assert_true(resident_kb() < before + (size_t)8 * 1024);
    plim_result_free(result);
    plim_sandbox_free(sandbox);
}

/* The program's own signals and children are its own: none is touched, none is waited for. */
static atomic_int child_signals, pipe_signals;

static void on_signal(int number)
{
    if (number == SIGCHLD)
        child_signals++;
    else
        pipe_signals++;
}

static void the_program_keeps_its_signals(void **state)
{
    (void)state;
    NEEDS_WORKER();
    struct sigaction mine = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, child, pipe, found;
    assert_int_equal(sigaction(SIGCHLD, &mine, &child), 0);
    assert_int_equal(sigaction(SIGPIPE, &mine, &pipe), 0);
    plim_sandbox *sandbox = open_wasm(two_slots);
    for (int i = 0; i < 3; i++) {
        expect_run(sandbox, "1", 0, "", "");
        struct call call = {.sandbox = sandbox, .code = "for (;;);", .timeout_ms = 30000};
        start_call(&call);
        assert_int_equal(kill(await_spinning_worker(), SIGKILL), 0);
        pthread_join(call.thread, NULL);
        plim_result_free(call.result);
    }
    plim_sandbox_free(sandbox);
    assert_int_equal(pipe_signals, 0);
    assert_int_equal(sigaction(SIGCHLD, &child, &found), 0);
    assert_ptr_equal(found.sa_handler, on_signal);
    assert_int_equal(sigaction(SIGPIPE, &pipe, &found), 0);
    assert_ptr_equal(found.sa_handler, on_signal);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Freed right after it was opened, readied, run: nothing is left, nothing hangs. */
static void a_handle_may_be_freed_at_any_point(void **state)
{
    (void)state;
    NEEDS_WORKER();
    for (int i = 0; i < 5; i++) {
        plim_sandbox_free(open_wasm(two_slots));
        plim_sandbox *sandbox = open_wasm(modes[i % 2]);
        assert_int_equal(plim_sandbox_ready(sandbox, NULL, NULL), PLIM_OK);
        plim_sandbox_free(sandbox);
        sandbox = open_wasm(modes[i % 2]);
        expect_run(sandbox, "console.log(1)", 0, "1\n", "");
        plim_sandbox_free(sandbox);
    }
    assert_true(await_children(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_cancelled_from_another_thread),
        cmocka_unit_test(a_run_that_was_cancelled_before_costs_no_worker),
        cmocka_unit_test(one_cancel_stops_several_runs),
        cmocka_unit_test(a_killed_worker_is_an_abort_with_its_output),
        cmocka_unit_test(a_killed_guest_keeps_its_stderr),
        cmocka_unit_test(a_host_killed_between_runs_is_replaced),
        cmocka_unit_test(a_host_killed_during_a_run_loses_it),
        cmocka_unit_test(threads_share_a_handle),
        cmocka_unit_test(two_handles_live_side_by_side),
        cmocka_unit_test(many_runs_leave_nothing),
        cmocka_unit_test(replaced_workers_leave_nothing),
        cmocka_unit_test(an_output_flood_does_not_fill_memory),
        cmocka_unit_test(the_program_keeps_its_signals),
        cmocka_unit_test(a_handle_may_be_freed_at_any_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
