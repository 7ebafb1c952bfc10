/* Descriptors, waits and digests. */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/base.h"

/* ---- descriptors ---- */

static void closing_is_done_once_and_keeps_errno(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    int same = fd;
    errno = EBUSY;
    base_fd_close(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(errno, EBUSY);
    assert_int_equal(fcntl(same, F_GETFD), -1);
    errno = EBUSY;
    base_fd_close(&fd);
    assert_int_equal(errno, EBUSY);
}

struct reader {
    int fd;
    size_t bytes, chunk;
    bool in_order;
};

static void *read_slowly(void *argument)
{
    struct reader *reader = argument;
    char chunk[4096];
    reader->in_order = true;
    for (ssize_t count; (count = read(reader->fd, chunk, reader->chunk)) > 0;)
        for (ssize_t i = 0; i < count; i++, reader->bytes++)
            reader->in_order &= chunk[i] == (char)(reader->bytes % 251);
    return NULL;
}

/* More than a pipe or a socket buffer holds arrives whole, in order. */
static void writes_are_whole(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    static char data[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (char)(i % 251);
    for (int kind = 0; kind < 2; kind++) {
        int ends[2];
        assert_int_equal(kind ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
                              : pipe2(ends, O_CLOEXEC),
                         0);
        struct reader reader = {.fd = ends[0], .chunk = 3333};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
        assert_true(base_write_all(ends[1], (plim_bytes){data, BYTES}));
        close(ends[1]);
        pthread_join(thread, NULL);
        close(ends[0]);
        assert_int_equal(reader.bytes, BYTES);
        assert_true(reader.in_order);
    }
}

static void writing_nothing_or_nowhere(void **state)
{
    (void)state;
    assert_true(base_write_all(-1, (plim_bytes){NULL, 0}));
    assert_false(base_write_all(-1, PLIM_LIT("x")));
    assert_int_equal(errno, EBADF);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    close(ends[0]);
    assert_false(base_write_all(ends[1], PLIM_LIT("x"))); /* and no SIGPIPE */
    assert_int_equal(errno, EPIPE);
    close(ends[1]);
}

static void files_are_read_up_to_a_bound(void **state)
{
    (void)state;
    char path[] = "/tmp/plimsoll-test-XXXXXX";
    _cleanup_fd_ int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(base_write_all(fd, PLIM_LIT("0123456789")));

    _cleanup_error_ plim_error err = PLIM_ERROR_INIT;
    _cleanup_buf_ base_buf exact = BASE_BUF_INIT(10), small = BASE_BUF_INIT(9);
    assert_true(base_read_file(path, &exact, &err));
    assert_bytes(base_buf_bytes(&exact), "0123456789");
    assert_false(base_read_file(path, &small, &err));
    assert_refused(&err, PLIM_E_INVALID_OPTION, "invalid_argument", PLIM_ND_REQUEST);
    assert_contains(plim_error_message(&err), path);
    assert_contains(plim_error_message(&err), "9 bytes");
    unlink(path);
    assert_false(base_read_file(path, &exact, &err));
    assert_refused(&err, PLIM_E_IO, "invalid_argument", PLIM_ND_REQUEST);
    assert_contains(plim_error_message(&err), path);
    assert_contains(plim_error_message(&err), "No such file");
    assert_false(base_read_file("/", &exact, &err));
    assert_contains(plim_error_message(&err), "Is a directory");
}

/* ---- waits ---- */

struct wait_case {
    bool ready, cancelled, late;
    run_wait expected;
};

static void a_wait_ends_for_one_reason(void **state)
{
    (void)state;
    static const struct wait_case cases[] = {
        {.ready = true, .expected = RUN_READY},
        {.cancelled = true, .expected = RUN_CANCELED},
        {.late = true, .expected = RUN_DEADLINE},
        {.ready = true, .cancelled = true, .expected = RUN_CANCELED},
        {.ready = true, .late = true, .expected = RUN_READY},
        {.cancelled = true, .late = true, .expected = RUN_CANCELED},
    };
    for (size_t i = 0; i < PLIM_COUNT(cases); i++) {
        _cleanup_fd_ int input = eventfd(cases[i].ready, EFD_CLOEXEC);
        _cleanup_fd_ int cancel = eventfd(cases[i].cancelled, EFD_CLOEXEC);
        run_ctx ctx = {cases[i].late ? 1 : BASE_NEVER, cancel};
        struct pollfd fd = {.fd = input, .events = POLLIN};
        assert_int_equal(run_ctx_poll(&ctx, &fd, 1), cases[i].expected);
        assert_int_equal(fd.revents, cases[i].expected == RUN_READY ? POLLIN : 0);
    }
}

static void a_deadline_is_waited_for(void **state)
{
    (void)state;
    int64_t due = base_deadline_after_ms(30);
    run_ctx ctx = {due, -1};
    assert_int_equal(run_ctx_poll(&ctx, NULL, 0), RUN_DEADLINE);
    assert_true(base_monotonic_ns() >= due);
}

static void waits_are_bounded_and_narrowed(void **state)
{
    (void)state;
    struct pollfd fds[RUN_CTX_POLL_MAX + 1] = {{.fd = -1}};
    for (size_t i = 0; i < PLIM_COUNT(fds); i++)
        fds[i] = (struct pollfd){.fd = -1};
    run_ctx now = {0, -1};
    assert_int_equal(run_ctx_poll(&now, fds, RUN_CTX_POLL_MAX + 1), RUN_FAILED);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(run_ctx_poll(&now, fds, RUN_CTX_POLL_MAX), RUN_DEADLINE);
    run_ctx ctx = {100, 5}, sooner = run_ctx_until(&ctx, 50), later = run_ctx_until(&ctx, 200);
    assert_int_equal(sooner.deadline_ns, 50);
    assert_int_equal(later.deadline_ns, 100);
    assert_int_equal(sooner.cancel_fd, 5);
    run_ctx never = RUN_CTX_NONE;
    assert_true(run_ctx_until(&never, BASE_NEVER).deadline_ns == BASE_NEVER);
}

static void on_signal(int number)
{
    (void)number;
}

static void *interrupt(void *argument)
{
    for (int i = 0; i < 5; i++) {
        usleep(5000);
        pthread_kill(*(pthread_t *)argument, SIGUSR1);
    }
    return NULL;
}

static void signals_do_not_end_a_wait(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal}, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    pthread_t self = pthread_self(), other;
    assert_int_equal(pthread_create(&other, NULL, interrupt, &self), 0);
    int64_t due = base_deadline_after_ms(60);
    run_ctx ctx = {due, -1};
    assert_int_equal(run_ctx_poll(&ctx, NULL, 0), RUN_DEADLINE);
    assert_true(base_monotonic_ns() >= due);
    pthread_join(other, NULL);
    sigaction(SIGUSR1, &before, NULL);
}

static void deadlines_saturate(void **state)
{
    (void)state;
    int64_t before = base_monotonic_ns();
    assert_true(base_deadline_after_ms(-5) >= before);
    assert_true(base_deadline_after_ms(-5) <= base_monotonic_ns());
    assert_true(base_deadline_after_ms(1000) - before >= BASE_NS_PER_S);
    assert_true(base_deadline_after_ms(INT64_MAX) == BASE_NEVER);
    assert_true(base_deadline_after_ms(INT64_MAX / BASE_NS_PER_MS) == BASE_NEVER);
    assert_true(base_wall_unix_ms() > INT64_C(1600000000000));
}

/* ---- digests ---- */

static void digests_match_the_standard(void **state)
{
    (void)state;
    char hex[BASE_SHA256_HEX + 1];
    assert_true(base_sha256_hex_of((plim_bytes){NULL, 0}, hex));
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_true(base_sha256_hex_of(PLIM_LIT("abc"), hex));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");

    _cleanup_(base_sha256_freep)
    base_sha256 *digest = base_sha256_new();
    unsigned char piecewise[BASE_SHA256_BYTES], whole[BASE_SHA256_BYTES];
    assert_non_null(digest);
    base_sha256_update(digest, PLIM_LIT("a"));
    base_sha256_update(digest, (plim_bytes){NULL, 0});
    base_sha256_update(digest, PLIM_LIT("bc"));
    assert_true(base_sha256_final(digest, piecewise));
    assert_true(base_sha256_of(PLIM_LIT("abc"), whole));
    assert_memory_equal(piecewise, whole, sizeof(whole));
    base_sha256_free(NULL);
}

static void random_and_comparison(void **state)
{
    (void)state;
    unsigned char a[32] = {0}, b[32] = {0};
    assert_true(base_equal_constant_time(a, b, sizeof(a)));
    assert_true(base_random(a, sizeof(a)));
    assert_true(base_random(b, sizeof(b)));
    assert_false(base_equal_constant_time(a, b, sizeof(a)));
    assert_false(base_random(a, (size_t)INT_MAX + 1));
    char hex[2 * 4 + 1];
    base_hex((const unsigned char[]){0x00, 0x0F, 0xA5, 0xFF}, 4, hex);
    assert_string_equal(hex, "000fa5ff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closing_is_done_once_and_keeps_errno),
        cmocka_unit_test(writes_are_whole),
        cmocka_unit_test(writing_nothing_or_nowhere),
        cmocka_unit_test(files_are_read_up_to_a_bound),
        cmocka_unit_test(a_wait_ends_for_one_reason),
        cmocka_unit_test(a_deadline_is_waited_for),
        cmocka_unit_test(waits_are_bounded_and_narrowed),
        cmocka_unit_test(signals_do_not_end_a_wait),
        cmocka_unit_test(deadlines_saturate),
        cmocka_unit_test(digests_match_the_standard),
        cmocka_unit_test(random_and_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
