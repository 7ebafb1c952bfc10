/*
 * Every allocation from the moment that a provider has run something fails once, in any thread of
 * the server: whatever answer still comes, none says that nothing ran.
 */
#include "unit.h"

#include "failing_alloc.h"

#include "rpc_server.h"

enum { NTH_MAX = 1000 };

static pthread_t tester;           /* the client's own allocations never fail */
static atomic_long countdown = -1; /* allocations until one fails; below 0: none does */
static long nth;

static bool alloc_fails(void)
{
    return atomic_load(&countdown) >= 0 && !pthread_equal(pthread_self(), tester) &&
           atomic_fetch_sub(&countdown, 1) == 0;
}

static bool run_then_fail(const core_request *request, const run_ctx *ctx, plim_result **out,
                          plim_error *err)
{
    (void)request, (void)ctx, (void)err;
    *out = fake_result(PLIM_KIND_JAVASCRIPT);
    atomic_store(&countdown, nth);
    return true;
}

static bool fail_then_fail(const core_request *request, const run_ctx *ctx, plim_result **out,
                           plim_error *err)
{
    (void)request, (void)ctx, (void)out;
    atomic_store(&countdown, nth);
    return core_fail_internal(err, "lost");
}

/* What comes back, up to the end of the connection; perhaps nothing. */
static void ask(const char *type, plim_bytes body, char *out, size_t size)
{
    char head[512];
    size_t have = 0;
    ssize_t got;
    snprintf(head, sizeof(head),
             "POST " PROCEDURE "Run HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
             "Plimsoll-Request-Id: 0123456789abcdef0123456789abcdef\r\n"
             "Content-Type: %s\r\nContent-Length: %zu\r\n\r\n",
             type, body.len);
    int fd = dial();
    send_all(fd, plim_bytes_of(head));
    send_all(fd, body);
    while (have < size - 1 && (got = recv_on(fd, out + have, size - 1 - have, 0)) > 0)
        have += (size_t)got;
    for (size_t i = 0; i < have; i++)
        if (out[i] == '\0')
            out[i] = '.'; /* searched as text below */
    out[have] = '\0';
    close(fd);
}

static void none_says_that_nothing_ran(const char *type, plim_bytes body)
{
    bool untouched = false;
    for (nth = 0; !untouched && nth < NTH_MAX; nth++) {
        char text[8192];
        int before = fake.runs;
        ask(type, body, text, sizeof(text));
        untouched = atomic_exchange(&countdown, -1) >= 0;
        assert_int_equal(fake.runs, before + 1);
        if (strcasestr(text, "not-dispatched") || strstr(text, "NotDispatched"))
            fail_msg("allocation %ld after the run: %s", nth, text);
    }
    assert_true(untouched);
    assert_true(nth > 3); /* some were made to fail */
}

static void answers_after_a_run_bear_no_mark(void **state)
{
    (void)state;
    static const plim_bytes json = {RUN_JSON(""), sizeof(RUN_JSON("")) - 1};
    static char enveloped[5 + sizeof(RUN_JSON("")) - 1] = {0, 0, 0, 0, sizeof(RUN_JSON("")) - 1};
    memcpy(enveloped + 5, json.data, json.len);
    fake.run = run_then_fail;
    none_says_that_nothing_ran("application/json", json);
    none_says_that_nothing_ran("application/grpc-web+json",
                               (plim_bytes){enveloped, sizeof(enveloped)});
    fake.run = fail_then_fail;
    none_says_that_nothing_ran("application/json", json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_after_a_run_bear_no_mark, setup_open, teardown),
    };
    tester = pthread_self();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
