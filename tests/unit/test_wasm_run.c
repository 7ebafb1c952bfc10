/*
 * One run against a worker that lies: a thread of this test at the other end of the socket, and a
 * process to kill. Whatever it says or leaves unsaid, the run ends, as a result once it has
 * started, keeps what was written, and never reports a clean return that was none.
 */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "providers/wasm/pool.h"
#include "providers/wasm/run.h"
#include "sandbox_support.h"

/* How the runs of these tests wait for the first answer: they all pass either way. */
static wasm_eager eager;

/* ---- a worker that says what a test wants ---- */

struct liar {
    uint64_t leaves_sent; /* what its outbox states as sent before what it leaves */
    size_t outbox_cut;    /* bytes that its outbox is too short */
    plim_bytes says;
    plim_bytes leaves; /* said and not sent: waits in its outbox */
    int socket;        /* its end */
    pid_t process;
    uint32_t leaves_more; /* bytes that its outbox counts beyond those */
    bool hangs_up;        /* closes its socket afterwards, else keeps it open */
    bool reads_none;      /* never reads what it is sent */
    bool floods;          /* repeats what it says until the socket is closed */
};

static bool say(const struct liar *liar)
{
    plim_bytes left = liar->says;
    while (left.len) {
        size_t piece = left.len < PLIM_WORKER_PACKET_MAX ? left.len : PLIM_WORKER_PACKET_MAX;
        ssize_t sent = send(liar->socket, left.data, piece, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        left = (plim_bytes){left.data + sent, left.len - (size_t)sent};
    }
    return true;
}

static void *lie(void *argument)
{
    struct liar *liar = argument;
    char drop[PLIM_WORKER_PACKET_MAX];
    /* The run comes first: its frame, as far as one read gets. */
    if (!liar->reads_none && recv(liar->socket, drop, sizeof(drop), 0) <= 0)
        return NULL;
    while (say(liar) && liar->floods)
        continue;
    if (liar->hangs_up) {
        kill(liar->process, SIGKILL);
        shutdown(liar->socket, SHUT_RDWR);
        return NULL;
    }
    while (!liar->reads_none && recv(liar->socket, drop, sizeof(drop), 0) > 0)
        continue;
    return NULL;
}

static pid_t spawn_idler(void)
{
    pid_t pid;
    char *const arguments[] = {(char[]){"sleep"}, (char[]){"1000"}, NULL};
    assert_int_equal(posix_spawnp(&pid, "sleep", NULL, NULL, arguments, environ), 0);
    return pid;
}

static int outbox_of(const struct liar *liar)
{
    struct plim_worker_outbox outbox = {.sent = liar->leaves_sent,
                                        .length = (uint32_t)liar->leaves.len + liar->leaves_more};
    assert_true(liar->leaves.len <= sizeof(outbox.bytes));
    if (liar->leaves.len)
        memcpy(outbox.bytes, liar->leaves.data, liar->leaves.len);
    size_t size = sizeof(outbox) - liar->outbox_cut;
    int fd = memfd_create("outbox", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &outbox, size, 0), size);
    return fd;
}

struct told {
    wasm_run_end end;
    wasm_run run;
    wasm_phase phase;
    wasm_eager eager;
};

/* One run of `code` for at most `timeout_ms`, as the pool would have it. */
static struct told run_against(struct liar liar, plim_bytes code, const run_ctx *ctx,
                               int timeout_ms)
{
    int ends[2];
    pthread_t thread;
    static char input[WASM_INPUT_BYTES];
    wasm_pool *pool = wasm_pool_new(1, false);
    assert_non_null(pool);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    liar.socket = ends[1];
    liar.process = spawn_idler();
    wasm_worker worker = {.socket = ends[0],
                          .pidfd = pidfd_open(liar.process, 0),
                          .outbox = outbox_of(&liar),
                          .input = input,
                          .eager = eager,
                          .state = WASM_WORKER_TAKEN,
                          .end = WASM_END_STATUS,
                          .status = SIGKILL};
    assert_true(worker.pidfd >= 0);
    wasm_frames_init(&worker.frames);
    worker.frames.phase = WASM_PHASE_IDLE;
    assert_int_equal(pthread_create(&thread, NULL, lie, &liar), 0);

    struct told told;
    wasm_run_init(&told.run);
    told.end = wasm_run_on(pool, &worker, code, PLIM_WASM_PAGES_DEFAULT, ctx,
                           base_deadline_after_ms(timeout_ms), &told.run);
    told.phase = worker.frames.phase;
    told.eager = worker.eager;
    shutdown(ends[0], SHUT_RDWR);
    pthread_join(thread, NULL);
    kill(liar.process, SIGKILL);
    waitpid(liar.process, NULL, 0);
    base_fd_close(&worker.socket);
    base_fd_close(&worker.pidfd);
    base_fd_close(&worker.outbox);
    base_fd_close(&liar.socket);
    wasm_frames_free(&worker.frames);
    wasm_pool_free(pool);
    return told;
}

static const run_ctx no_end = RUN_CTX_NONE;

/* Frames as text: I and S have no payload, the others hold "x" or the given number of bytes. */
#define IDLE  "I\0\0\0\0"
#define START "S\0\0\0\0"
#define OUT   "O\1\0\0\0o"
#define ERR   "E\1\0\0\0e"
#define DONE0 "D\1\0\0\0\0"
#define DONE7 "D\1\0\0\0\7"
#define CALL  "H\2\0\0\0{}"
#define TRAP  "T\4\0\0\0oops"

static const struct lie {
    plim_bytes says;
    wasm_run_end end;
    const char *out, *reason; /* part of the reason; NULL: any */
} lies[] = {
    /* the truth */
    {PLIM_LIT(START DONE0 IDLE), WASM_RUN_DONE, "", NULL},
    {PLIM_LIT(START OUT OUT ERR DONE7), WASM_RUN_DONE, "oo", NULL},
    {PLIM_LIT(START OUT TRAP), WASM_RUN_ABORTED, "o", "wasm error: oops"},
    {PLIM_LIT(START "T\0\0\0\0"), WASM_RUN_ABORTED, "", "wasm error: "},
    /* before the start mark: no result, and no claim either */
    {PLIM_LIT(DONE0), WASM_RUN_LOST, "", "broke its protocol"},
    {PLIM_LIT(IDLE), WASM_RUN_LOST, "", "broke its protocol"},
    {PLIM_LIT(OUT START DONE0), WASM_RUN_LOST, "", "broke its protocol"},
    {PLIM_LIT(TRAP), WASM_RUN_LOST, "", "broke its protocol"},
    {PLIM_LIT("\0\0\0\0\0"), WASM_RUN_LOST, "", "broke its protocol"},
    {PLIM_LIT("S\1\0\0\0x"), WASM_RUN_LOST, "", "broke its protocol"},
    /* after it: an abort that keeps what was written */
    {PLIM_LIT(START OUT START), WASM_RUN_ABORTED, "o", "broke its protocol"},
    {PLIM_LIT(START OUT IDLE), WASM_RUN_ABORTED, "o", "broke its protocol"},
    {PLIM_LIT(START OUT "X\0\0\0\0"), WASM_RUN_ABORTED, "o", "broke its protocol"},
    {PLIM_LIT(START OUT "R\0\0\0\0"), WASM_RUN_ABORTED, "o", "broke its protocol"},
    {PLIM_LIT(START OUT "h\0\0\0\0"), WASM_RUN_ABORTED, "o", "broke its protocol"},
    {PLIM_LIT(START OUT "O\0\0\0\0"), WASM_RUN_ABORTED, "o", "broke its protocol"},
    {PLIM_LIT(START OUT "O\1\0\1\0"), WASM_RUN_ABORTED, "o", "broke its protocol"},
    {PLIM_LIT(START OUT "O\377\377\377\377"), WASM_RUN_ABORTED, "o", "broke its protocol"},
    {PLIM_LIT(START "H\1\0\21\0"), WASM_RUN_ABORTED, "", "broke its protocol"},
    {PLIM_LIT(START "T\1\1\0\0"), WASM_RUN_ABORTED, "", "broke its protocol"},
    {PLIM_LIT(START "D\0\0\0\0"), WASM_RUN_ABORTED, "", "broke its protocol"},
    {PLIM_LIT(START "D\2\0\0\0\0\0"), WASM_RUN_ABORTED, "", "broke its protocol"},
    /* more than one end, or something behind it */
    {PLIM_LIT(START DONE0 DONE0), WASM_RUN_ABORTED, "", "broke its protocol"},
    {PLIM_LIT(START DONE0 OUT), WASM_RUN_ABORTED, "", "broke its protocol"},
    {PLIM_LIT(START DONE0 IDLE START), WASM_RUN_ABORTED, "", "broke its protocol"},
    {PLIM_LIT(START DONE0 IDLE IDLE), WASM_RUN_ABORTED, "", "broke its protocol"},
    /* a call is answered one at a time */
    {PLIM_LIT(START CALL DONE0), WASM_RUN_ABORTED, "", "broke its protocol"},
    {PLIM_LIT(START CALL CALL), WASM_RUN_ABORTED, "", "broke its protocol"},
};

static void a_liar_is_found_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLIM_COUNT(lies); i++) {
        struct liar liar = {.says = lies[i].says};
        struct told told = run_against(liar, PLIM_LIT("1"), &no_end, HANG_MS);
        if (told.end != lies[i].end)
            fail_msg("lie %zu ended as %d (%s)", i, (int)told.end, told.run.reason);
        assert_true(base_bytes_is(base_buf_bytes(&told.run.out.kept), lies[i].out));
        if (lies[i].reason)
            assert_contains(told.run.reason, lies[i].reason);
        wasm_run_free(&told.run);
    }
}

static void an_exit_code_is_taken_from_its_frame(void **state)
{
    (void)state;
    struct told told =
        run_against((struct liar){.says = PLIM_LIT(START DONE7)}, PLIM_LIT("1"), &no_end, HANG_MS);
    assert_int_equal(told.end, WASM_RUN_DONE);
    assert_int_equal(told.run.exit_code, 7);
    wasm_run_free(&told.run);
}

/* A reason is text of a hostile process: it reaches a terminal as ASCII only. */
static void reasons_are_plain_text(void **state)
{
    (void)state;
    struct told told =
        run_against((struct liar){.says = PLIM_LIT(START "T\10\0\0\0a\n\33[m\377\0z")},
                    PLIM_LIT("1"), &no_end, HANG_MS);
    assert_int_equal(told.end, WASM_RUN_ABORTED);
    assert_string_equal(told.run.reason, "wasm error: a??[m??z");
    wasm_run_free(&told.run);
}

/* Silence, at every point, ends at the deadline. */
static void silence_ends_at_the_deadline(void **state)
{
    (void)state;
    static const struct {
        plim_bytes says;
        const char *out;
    } cases[] = {
        {{NULL, 0}, ""},
        {PLIM_LIT("S\0"), ""},
        {PLIM_LIT(START), ""},
        {PLIM_LIT(START OUT), "o"},
        {PLIM_LIT(START "O\5\0\0\0ab"), "ab"},
        {PLIM_LIT(START OUT "D\1\0\0\0"), "o"},
        {PLIM_LIT(START OUT "H\5\0\0\0{"), "o"},
        {PLIM_LIT(START OUT CALL), "o"},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        struct told told =
            run_against((struct liar){.says = cases[i].says}, PLIM_LIT("1"), &no_end, 60);
        assert_int_equal(told.end, WASM_RUN_TIMEOUT);
        assert_true(base_bytes_is(base_buf_bytes(&told.run.out.kept), cases[i].out));
        wasm_run_free(&told.run);
    }
}

/* A worker that does not read a source larger than the socket holds cannot hold the run up. */
static void a_worker_that_does_not_read_is_left(void **state)
{
    (void)state;
    static char code[PLIM_CODE_BYTES_MAX];
    memset(code, ' ', sizeof(code));
    struct told told = run_against((struct liar){.reads_none = true},
                                   (plim_bytes){code, sizeof(code)}, &no_end, 60);
    assert_int_equal(told.end, WASM_RUN_TIMEOUT);
    wasm_run_free(&told.run);
}

static void a_worker_that_dies_is_a_result_once_it_started(void **state)
{
    (void)state;
    static const struct {
        plim_bytes says;
        wasm_run_end end;
        const char *reason;
    } cases[] = {
        {{NULL, 0}, WASM_RUN_LOST, "lost"},
        {PLIM_LIT("S\0\0"), WASM_RUN_LOST, "lost"},
        {PLIM_LIT(START), WASM_RUN_ABORTED, "worker killed by signal 9"},
        {PLIM_LIT(START OUT "O\377\0\0\0cut"), WASM_RUN_ABORTED, "worker killed by signal 9"},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        struct told told = run_against((struct liar){.says = cases[i].says, .hangs_up = true},
                                       PLIM_LIT("1"), &no_end, HANG_MS);
        assert_int_equal(told.end, cases[i].end);
        assert_contains(told.run.reason, cases[i].reason);
        wasm_run_free(&told.run);
    }
}

/* ---- what a worker had said and not sent ---- */

/* Whoever ends it, and whenever: what was said counts, once. */
static void last_words_are_part_of_the_run(void **state)
{
    (void)state;
    enum { START_OUT = 11 }; /* bytes of START OUT */
    static const struct {
        struct liar liar;
        wasm_run_end end;
        const char *out, *err;
    } cases[] = {
        /* killed while it had sent nothing */
        {{.leaves = PLIM_LIT(START), .hangs_up = true}, WASM_RUN_ABORTED, "", ""},
        {{.leaves = PLIM_LIT(START OUT ERR), .hangs_up = true}, WASM_RUN_ABORTED, "o", "e"},
        /* between its last frame and the sending of it */
        {{.leaves = PLIM_LIT(START OUT DONE0), .hangs_up = true}, WASM_RUN_ABORTED, "o", ""},
        /* after a send, in the middle of one, and in the middle of a frame */
        {{.says = PLIM_LIT(START OUT),
          .leaves = PLIM_LIT(OUT ERR),
          .leaves_sent = START_OUT,
          .hangs_up = true},
         WASM_RUN_ABORTED,
         "oo",
         "e"},
        {{.says = PLIM_LIT(START OUT), .leaves = PLIM_LIT(START OUT OUT ERR), .hangs_up = true},
         WASM_RUN_ABORTED,
         "oo",
         "e"},
        {{.says = PLIM_LIT(START "O\1\0"), .leaves = PLIM_LIT(START OUT ERR), .hangs_up = true},
         WASM_RUN_ABORTED,
         "o",
         "e"},
        /* sent, and not yet taken out of the count; or taken out, and not yet counted as sent */
        {{.says = PLIM_LIT(START OUT), .leaves = PLIM_LIT(START OUT), .hangs_up = true},
         WASM_RUN_ABORTED,
         "o",
         ""},
        {{.says = PLIM_LIT(START OUT), .hangs_up = true}, WASM_RUN_ABORTED, "o", ""},
        /* the deadline */
        {{.leaves = PLIM_LIT(START OUT)}, WASM_RUN_TIMEOUT, "o", ""},
        {{.says = PLIM_LIT(START), .leaves = PLIM_LIT(START OUT ERR DONE0)},
         WASM_RUN_TIMEOUT,
         "o",
         "e"},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        struct told told = run_against(cases[i].liar, PLIM_LIT("1"), &no_end,
                                       cases[i].liar.hangs_up ? HANG_MS : 60);
        if (told.end != cases[i].end)
            fail_msg("case %zu ended as %d (%s)", i, (int)told.end, told.run.reason);
        assert_true(told.run.started);
        assert_true(base_bytes_is(base_buf_bytes(&told.run.out.kept), cases[i].out));
        assert_true(base_bytes_is(base_buf_bytes(&told.run.err.kept), cases[i].err));
        wasm_run_free(&told.run);
    }
}

/* An outbox that nobody honest leaves says nothing: then the run may have started. */
static void a_lying_outbox_is_no_proof_that_nothing_ran(void **state)
{
    (void)state;
    static const struct liar liars[] = {
        {.leaves = PLIM_LIT(""), .leaves_sent = 1, .hangs_up = true},
        {.leaves_sent = UINT64_MAX, .hangs_up = true},
        {.leaves_more = PLIM_WORKER_OUTBOX_ROOM + 1, .hangs_up = true},
        {.leaves_more = UINT32_MAX, .hangs_up = true},
        {.outbox_cut = 1, .hangs_up = true},
        {.outbox_cut = sizeof(struct plim_worker_outbox), .hangs_up = true},
    };
    for (size_t i = 0; i < PLIM_COUNT(liars); i++) {
        struct told told = run_against(liars[i], PLIM_LIT("1"), &no_end, HANG_MS);
        if (told.end != WASM_RUN_ABORTED)
            fail_msg("liar %zu ended as %d (%s)", i, (int)told.end, told.run.reason);
        assert_int_equal(told.run.out.kept.len, 0);
        wasm_run_free(&told.run);
    }
    /* Bytes of no frame, within the bounds: all of them are read, none is believed. */
    struct told told = run_against((struct liar){.says = PLIM_LIT(START OUT),
                                                 .leaves_more = PLIM_WORKER_OUTBOX_ROOM,
                                                 .hangs_up = true},
                                   PLIM_LIT("1"), &no_end, HANG_MS);
    assert_int_equal(told.end, WASM_RUN_ABORTED);
    assert_true(base_bytes_is(base_buf_bytes(&told.run.out.kept), "o"));
    wasm_run_free(&told.run);
}

/* Output without end is kept up to the cap and read on: the flood ends with the run. */
static void a_flood_is_cut(void **state)
{
    (void)state;
    static char flood[2 * (5 + 65536)];
    static const char heads[2][6] = {"O\0\0\1\0", "E\0\0\1\0"};
    for (size_t i = 0; i < 2; i++) {
        memcpy(flood + i * (5 + 65536), heads[i], 5);
        memset(flood + i * (5 + 65536) + 5, 'f', 65536);
    }
    base_buf says = BASE_BUF_INIT(sizeof(flood) + 5);
    assert_true(base_buf_add(&says, PLIM_LIT(START)));
    assert_true(base_buf_add(&says, (plim_bytes){flood, sizeof(flood)}));
    /* The start mark once; then the flood again and again would repeat it, which is out of order:
     * so one pass, a second one bad, and everything kept of the first. */
    struct told told = run_against((struct liar){.says = base_buf_bytes(&says), .floods = true},
                                   PLIM_LIT("1"), &no_end, HANG_MS);
    assert_int_equal(told.end, WASM_RUN_ABORTED);
    assert_int_equal(told.run.out.kept.len, WASM_OUTPUT_BYTES_MAX);
    assert_int_equal(told.run.err.kept.len, WASM_OUTPUT_BYTES_MAX);
    assert_false(told.run.out.truncated);
    wasm_run_free(&told.run);
    base_buf_free(&says);
}

static void a_cancelled_run_is_gone(void **state)
{
    (void)state;
    _cleanup_fd_ int fired = eventfd(1, EFD_CLOEXEC);
    run_ctx cancelled = {BASE_NEVER, fired};
    struct told told =
        run_against((struct liar){.says = PLIM_LIT(START)}, PLIM_LIT("1"), &cancelled, HANG_MS);
    assert_int_equal(told.end, WASM_RUN_GONE);
    assert_int_equal(told.run.why, RUN_CANCELED);
    wasm_run_free(&told.run);
    run_ctx late = {base_deadline_after_ms(30), -1};
    told = run_against((struct liar){.says = PLIM_LIT(START)}, PLIM_LIT("1"), &late, HANG_MS);
    assert_int_equal(told.end, WASM_RUN_GONE);
    assert_int_equal(told.run.why, RUN_DEADLINE);
    wasm_run_free(&told.run);
}

/* Not even one that has its answer: it was too late. */
static void a_run_beyond_its_deadline_is_a_timeout(void **state)
{
    (void)state;
    struct told told =
        run_against((struct liar){.says = PLIM_LIT(START OUT DONE0)}, PLIM_LIT("1"), &no_end, 0);
    assert_int_equal(told.end, WASM_RUN_TIMEOUT);
    wasm_run_free(&told.run);
}

/* Asking is bounded, and what came of it is known. */
static void asking_tells_how_it_went(void **state)
{
    (void)state;
    struct told told =
        run_against((struct liar){.says = PLIM_LIT(START)}, PLIM_LIT("1"), &no_end, 60);
    assert_int_equal(told.end, WASM_RUN_TIMEOUT);
    assert_true(eager == WASM_EAGER_NOT ? told.eager == WASM_EAGER_NOT : told.eager > WASM_EAGER);
    wasm_run_free(&told.run);
    told = run_against((struct liar){.reads_none = true}, PLIM_LIT("1"), &no_end, 60);
    assert_int_equal(told.end, WASM_RUN_TIMEOUT);
    assert_int_equal(told.eager, eager == WASM_EAGER_NOT ? WASM_EAGER_NOT : WASM_EAGER_IN_VAIN);
    wasm_run_free(&told.run);
}

static void *cancel_soon(void *argument)
{
    uint64_t one = 1;
    sleep_ms(20);
    assert_int_equal(write(*(int *)argument, &one, sizeof(one)), sizeof(one));
    return NULL;
}

static void a_caller_that_goes_during_the_run_ends_it(void **state)
{
    (void)state;
    _cleanup_fd_ int fd = eventfd(0, EFD_CLOEXEC);
    pthread_t thread;
    run_ctx watched = {BASE_NEVER, fd};
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &fd), 0);
    struct told told =
        run_against((struct liar){.leaves = PLIM_LIT(START OUT)}, PLIM_LIT("1"), &watched, HANG_MS);
    pthread_join(thread, NULL);
    assert_int_equal(told.end, WASM_RUN_GONE);
    assert_int_equal(told.run.why, RUN_CANCELED);
    wasm_run_free(&told.run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_liar_is_found_out),
        cmocka_unit_test(an_exit_code_is_taken_from_its_frame),
        cmocka_unit_test(reasons_are_plain_text),
        cmocka_unit_test(silence_ends_at_the_deadline),
        cmocka_unit_test(a_worker_that_does_not_read_is_left),
        cmocka_unit_test(a_worker_that_dies_is_a_result_once_it_started),
        cmocka_unit_test(last_words_are_part_of_the_run),
        cmocka_unit_test(a_lying_outbox_is_no_proof_that_nothing_ran),
        cmocka_unit_test(a_flood_is_cut),
        cmocka_unit_test(a_cancelled_run_is_gone),
        cmocka_unit_test(a_run_beyond_its_deadline_is_a_timeout),
        cmocka_unit_test(asking_tells_how_it_went),
        cmocka_unit_test(a_caller_that_goes_during_the_run_ends_it),
    };
    int failed = 0;
    for (eager = WASM_EAGER_NOT; eager <= WASM_EAGER; eager++)
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    return failed;
}
