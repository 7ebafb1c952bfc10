/*
 * The pool and its real worker host: which process serves whom and how often, what a worker is
 * confined by, and what becomes of waiting when the host dies.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "providers/wasm/host.h"
#include "providers/wasm/pool.h"
#include "providers/wasm/run.h"
#include "sandbox_support.h"

#define ALICE PLIM_LIT("alice")
#define BOB   PLIM_LIT("bob")

static const run_ctx no_end = RUN_CTX_NONE;

static wasm_pool *pool_of(size_t slots, bool single_use)
{
    wasm_pool *pool = wasm_pool_new(slots, single_use);
    struct plim_host_ready ready;
    plim_error err = PLIM_ERROR_INIT;
    assert_non_null(pool);
    if (!wasm_pool_start(pool, &no_end, &ready, &err))
        fail_msg("%s", plim_error_message(&err));
    return pool;
}

/* Run for a principal until a deadline: how it ended, and the process that served it. */
static wasm_run_end run_for(wasm_pool *pool, plim_bytes principal, const char *code, int timeout_ms,
                            pid_t *pid)
{
    run_ctx bounded = {base_deadline_after_ms(HANG_MS), -1};
    wasm_worker *worker = wasm_pool_take(pool, principal, &bounded, NULL);
    assert_non_null(worker);
    *pid = (pid_t)worker->pid;
    wasm_run run;
    wasm_run_init(&run);
    wasm_run_end end = wasm_run_on(pool, worker, plim_bytes_of(code), PLIM_WASM_PAGES_DEFAULT,
                                   &no_end, base_deadline_after_ms(timeout_ms), &run);
    if (end == WASM_RUN_DONE)
        wasm_pool_give_back(pool, worker);
    else
        wasm_pool_discard(pool, worker);
    wasm_run_free(&run);
    return end;
}

static bool holds(const pid_t *pids, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

enum { ROUNDS = 40 };

/* ---- who serves whom ---- */

static void a_worker_serves_again_after_a_clean_return(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static const char *const clean[] = {"1", "throw 1", "await new Promise(() => {})", "let x = ;",
                                        "import {exit} from 'qjs:std'; exit(3)"};
    wasm_pool *pool = pool_of(1, false);
    pid_t served[ROUNDS];
    size_t again = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        assert_int_equal(run_for(pool, ALICE, clean[i % 5], HANG_MS, &served[i]), WASM_RUN_DONE);
        again += holds(served, i, served[i]);
        sleep_ms(5); /* for the reset, so that no spare has to help out */
    }
    assert_true(again > ROUNDS / 2);
    wasm_pool_free(pool);
}

static void a_single_use_worker_serves_once(void **state)
{
    (void)state;
    NEEDS_WORKER();
    wasm_pool *pool = pool_of(1, true);
    pid_t served[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        assert_int_equal(run_for(pool, ALICE, i % 2 ? "1" : "throw 1", HANG_MS, &served[i]),
                         WASM_RUN_DONE);
        assert_false(holds(served, i, served[i]));
    }
    wasm_pool_free(pool);
}

static void a_worker_never_serves_a_second_principal(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static const plim_bytes principals[] = {
        PLIM_LIT("alice"), PLIM_LIT("bob"), PLIM_LIT("alic"), PLIM_LIT("alice\0"), {NULL, 0}};
    enum { WHO = sizeof(principals) / sizeof(principals[0]) };
    wasm_pool *pool = pool_of(1, false);
    pid_t served[WHO][ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++)
        for (size_t who = 0; who < WHO; who++) {
            assert_int_equal(run_for(pool, principals[who], "1", HANG_MS, &served[who][i]),
                             WASM_RUN_DONE);
            for (size_t other = 0; other < WHO; other++)
                if (other != who)
                    assert_false(holds(served[other], other < who ? i + 1 : i, served[who][i]));
        }
    wasm_pool_free(pool);
}

static void a_worker_that_did_not_end_well_never_serves_again(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static const struct {
        const char *code;
        wasm_run_end end;
    } bad[] = {
        {"for (;;);", WASM_RUN_TIMEOUT},
        {"await 0; for (;;) await 0", WASM_RUN_TIMEOUT},
    };
    wasm_pool *pool = pool_of(1, false);
    pid_t dead[ROUNDS] = {0}, pid;
    size_t count = 0;
    for (size_t i = 0; i < PLIM_COUNT(bad); i++)
        for (int round = 0; round < 3; round++) {
            assert_int_equal(run_for(pool, ALICE, "1", HANG_MS, &pid), WASM_RUN_DONE);
            assert_false(holds(dead, count, pid));
            assert_int_equal(run_for(pool, ALICE, bad[i].code, 100, &pid), bad[i].end);
            assert_false(holds(dead, count, pid));
            dead[count++] = pid;
            assert_true(await_end(pid));
        }
    wasm_pool_free(pool);
}

/* A run that grew too far beyond the snapshot uses its worker up, and says so by nothing else. */
static void a_worker_that_grew_too_far_is_replaced(void **state)
{
    (void)state;
    NEEDS_WORKER();
    wasm_pool *pool = pool_of(1, false);
    pid_t served[10];
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(
            run_for(pool, ALICE, "new Uint8Array(100 << 20).fill(1)", HANG_MS, &served[i]),
            WASM_RUN_DONE);
        assert_false(holds(served, i, served[i]));
    }
    wasm_pool_free(pool);
}

/* ---- what stands around a worker ---- */

static void descriptors_of(pid_t pid, char *out, size_t size)
{
    char path[64];
    bool open[16] = {false};
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    out[0] = '\0';
    if (!folder) {
        /* Not dumpable: only a privileged user may look. */
        assert_true(errno == EACCES && geteuid() != 0);
        snprintf(out, size, "0123");
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        long fd = strtol(entry->d_name, NULL, 10);
        assert_true(fd < 16);
        open[fd] = true;
    }
    closedir(folder);
    for (size_t fd = 0, at = 0; fd < 16 && at + 1 < size; fd++)
        if (open[fd]) {
            out[at++] = "0123456789abcdef"[fd];
            out[at] = '\0';
        }
}

static void a_worker_is_confined(void **state)
{
    (void)state;
    NEEDS_WORKER();
    _cleanup_fd_ int secret = eventfd(0, 0); /* inheritable on purpose */
    assert_true(secret >= 0);
    setenv("PLIMSOLL_TEST_SECRET", "hunter2", 1);
    wasm_pool *pool = pool_of(2, false);
    pid_t pid;
    assert_int_equal(run_for(pool, ALICE, "1", HANG_MS, &pid), WASM_RUN_DONE);
    unsetenv("PLIMSOLL_TEST_SECRET");
    char text[256], path[64];
    assert_string_equal(status_of(pid, "Seccomp", text, sizeof(text)), "2");
    assert_string_equal(status_of(pid, "NoNewPrivs", text, sizeof(text)), "1");
    assert_string_equal(status_of(pid, "Threads", text, sizeof(text)), "1");
    static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapAmb"};
    for (size_t i = 0; i < PLIM_COUNT(sets); i++)
        assert_string_equal(status_of(pid, sets[i], text, sizeof(text)), "0000000000000000");
    descriptors_of(pid, text, sizeof(text));
    assert_string_equal(text, "0123");
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        assert_int_equal(fread(text, 1, sizeof(text), file), 0);
        fclose(file);
    }
    wasm_pool_free(pool);
}

static void a_forbidden_call_kills(void **state)
{
    (void)state;
    NEEDS_WORKER();
    wasm_pool *pool = pool_of(1, false);
    for (int i = 0; i < 3; i++) {
        int status = 0;
        plim_error err = PLIM_ERROR_INIT;
        if (!wasm_pool_probe(pool, &no_end, &status, &err))
            fail_msg("%s", plim_error_message(&err));
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSYS);
    }
    wasm_pool_free(pool);
}

/* ---- waiting ---- */

static void a_pool_that_never_started_is_freed(void **state)
{
    (void)state;
    wasm_pool_free(wasm_pool_new(8, false));
    wasm_pool_free(NULL);
}

static void taking_waits_no_longer_than_it_may(void **state)
{
    (void)state;
    NEEDS_WORKER();
    wasm_pool *pool = pool_of(1, false);
    /* Both places taken: the slot and the spare. */
    wasm_worker *first = wasm_pool_take(pool, ALICE, &no_end, NULL);
    wasm_worker *second = wasm_pool_take(pool, ALICE, &no_end, NULL);
    assert_non_null(first);
    assert_non_null(second);
    plim_error err = PLIM_ERROR_INIT;
    run_ctx late = {base_deadline_after_ms(50), -1};
    assert_null(wasm_pool_take(pool, BOB, &late, &err));
    assert_failed(&err, PLIM_E_REMOTE, "internal");
    _cleanup_fd_ int fired = eventfd(1, EFD_CLOEXEC);
    run_ctx cancelled = {BASE_NEVER, fired};
    assert_null(wasm_pool_take(pool, BOB, &cancelled, &err));
    assert_refused(&err, PLIM_E_CANCELED, "canceled", PLIM_ND_REQUEST);
    wasm_pool_give_back(pool, first);
    wasm_pool_discard(pool, second);
    pid_t pid;
    assert_int_equal(run_for(pool, BOB, "1", HANG_MS, &pid), WASM_RUN_DONE);
    wasm_pool_free(pool);
}

/* A host that is killed takes its workers along; a new one is started, and only then are runs
 * served again. A worker that was taken is lost, without a claim that nothing ran. */
static void a_dead_host_is_replaced(void **state)
{
    (void)state;
    NEEDS_WORKER();
    wasm_pool *pool = pool_of(2, false);
    for (int i = 0; i < 3; i++) {
        pid_t host, pid;
        wasm_worker *taken = wasm_pool_take(pool, ALICE, &no_end, NULL);
        assert_non_null(taken);
        assert_int_equal(host_pids(&host, 1), 1);
        assert_int_equal(kill(host, SIGKILL), 0);
        int status;
        assert_int_equal(wasm_pool_end_of(pool, taken, &status), WASM_END_LOST);
        wasm_pool_discard(pool, taken);
        assert_int_equal(run_for(pool, ALICE, "1", HANG_MS, &pid), WASM_RUN_DONE);
        pid_t successor = 0;
        assert_int_equal(host_pids(&successor, 1), 1);
        assert_int_not_equal(successor, host);
    }
    wasm_pool_free(pool);
    assert_true(await_children(0));
}

/* ---- a worker host that was taken over ---- */

/* Send what a host would send, with `count` descriptors. */
static void say_as_host(int control, unsigned char tag, const void *body, size_t size, size_t count)
{
    char packet[PLIM_HOST_PACKET_MAX] = {(char)tag};
    union {
        char space[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } ancillary = {{0}};
    struct iovec part = {packet, size + 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memcpy(packet + 1, body, size);
    if (count) {
        message.msg_control = &ancillary;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (size_t i = 0; i < count; i++)
            memcpy(CMSG_DATA(rights) + i * sizeof(int), &control, sizeof(int));
    }
    assert_int_equal(sendmsg(control, &message, MSG_NOSIGNAL), size + 1);
}

/* Only a worker comes with descriptors, and with three of them; no other ones stay open. */
static void descriptors_come_with_a_worker_alone(void **state)
{
    (void)state;
    static const struct {
        unsigned char tag;
        size_t size, right;
    } kinds[] = {
        {PLIM_HOST_READY, sizeof(struct plim_host_ready), 0},
        {PLIM_HOST_WORKER, sizeof(struct plim_host_worker), PLIM_HOST_WORKER_FDS},
        {PLIM_HOST_NO_WORKER, sizeof(struct plim_host_no_worker), 0},
        {PLIM_HOST_EXITED, sizeof(struct plim_host_exited), 0},
        {PLIM_HOST_REFUSED, 5, 0},
    };
    static const char body[128] = "why";
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    wasm_host host = {.control = ends[0], .pidfd = -1, .pid = -1};
    size_t before = open_descriptors();
    for (size_t kind = 0; kind < PLIM_COUNT(kinds); kind++)
        for (size_t count = 0; count <= 6; count++) {
            wasm_packet packet;
            say_as_host(ends[1], kinds[kind].tag, body, kinds[kind].size, count);
            wasm_packet_result result = wasm_host_receive(&host, &packet);
            assert_int_equal(result,
                             count == kinds[kind].right ? WASM_PACKET_OK : WASM_PACKET_GONE);
            if (result == WASM_PACKET_OK) {
                assert_int_equal(open_descriptors(), before + count);
                wasm_packet_close(&packet);
            }
            assert_int_equal(open_descriptors(), before);
        }
    close(ends[0]);
    close(ends[1]);
}

/* The host's own end of its control socket; -1 where nobody may look into another process. */
static int end_of_host(pid_t host)
{
    _cleanup_fd_ int pidfd = pidfd_open(host, 0);
    assert_true(pidfd >= 0);
    int end = (int)syscall(SYS_pidfd_getfd, pidfd, PLIM_WORKER_FD, 0);
    assert_true(end >= 0 || errno == EPERM);
    return end;
}

/* It cannot take a worker away under its run: it is given up, and the run ends in its own time. */
static void a_taken_worker_is_not_refused_afterwards(void **state)
{
    (void)state;
    NEEDS_WORKER();
    wasm_pool *pool = pool_of(2, false);
    wasm_worker *taken = wasm_pool_take(pool, ALICE, &no_end, NULL);
    pid_t host, pid;
    assert_non_null(taken);
    assert_int_equal(host_pids(&host, 1), 1);
    _cleanup_fd_ int control = end_of_host(host);
    if (control < 0) {
        wasm_pool_discard(pool, taken);
        wasm_pool_free(pool);
        printf("skip: no right to speak for another process\n");
        skip();
    }
    const struct plim_host_no_worker lie = {.id = taken->id, .error = EAGAIN};
    say_as_host(control, PLIM_HOST_NO_WORKER, &lie, sizeof(lie), 0);
    int status;
    assert_int_equal(wasm_pool_end_of(pool, taken, &status), WASM_END_LOST);
    wasm_pool_discard(pool, taken);
    assert_true(await_end(host));
    assert_int_equal(run_for(pool, ALICE, "1", HANG_MS, &pid), WASM_RUN_DONE);
    wasm_pool_free(pool);
    assert_true(await_children(0));
}

/* Nothing of a pool is left when it is gone, runs or no runs. */
static void a_pool_leaves_no_process(void **state)
{
    (void)state;
    NEEDS_WORKER();
    for (int single_use = 0; single_use < 2; single_use++) {
        pid_t pid, workers[16];
        wasm_pool *pool = pool_of(4, single_use);
        assert_int_equal(run_for(pool, ALICE, "1", HANG_MS, &pid), WASM_RUN_DONE);
        size_t count = worker_pids(workers, 16);
        assert_true(count >= 1);
        wasm_pool_free(pool);
        assert_true(await_children(0));
        for (size_t i = 0; i < count; i++) {
            assert_true(await_end(workers[i]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_serves_again_after_a_clean_return),
        cmocka_unit_test(a_single_use_worker_serves_once),
        cmocka_unit_test(a_worker_never_serves_a_second_principal),
        cmocka_unit_test(a_worker_that_did_not_end_well_never_serves_again),
        cmocka_unit_test(a_worker_that_grew_too_far_is_replaced),
        cmocka_unit_test(a_worker_is_confined),
        cmocka_unit_test(a_forbidden_call_kills),
        cmocka_unit_test(a_pool_that_never_started_is_freed),
        cmocka_unit_test(taking_waits_no_longer_than_it_may),
        cmocka_unit_test(a_dead_host_is_replaced),
        cmocka_unit_test(descriptors_come_with_a_worker_alone),
        cmocka_unit_test(a_taken_worker_is_not_refused_afterwards),
        cmocka_unit_test(a_pool_leaves_no_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
