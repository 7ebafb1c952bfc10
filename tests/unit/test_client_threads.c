/* Many threads on one client: every one gets its own answer. Meant for the thread sanitizer. */
#include "test_client_server.h"

#include <setjmp.h>

#include <cmocka.h>

enum { THREADS = 64, RUNS = 20 };

typedef struct worker {
    client *client;
    int number;
    atomic_int *wrong;
} worker;

static void *work(void *arg)
{
    const worker *self = arg;
    for (int i = 0; i < RUNS; i++) {
        char code[64];
        plim_error err = PLIM_ERROR_INIT;
        plim_result *result;
        snprintf(code, sizeof(code), "console.log(%d, %d)", self->number, i);
        bool good = run_snippet(self->client, code, &result, &err) == PLIM_OK &&
                    base_bytes_is(plim_result_stdout(result), code);
        if (!good)
            atomic_fetch_add(self->wrong, 1);
        plim_result_free(result);
        plim_error_clear(&err);
    }
    return NULL;
}

static void every_thread_gets_its_own_answers(void **state)
{
    (void)state;
    atomic_int wrong = 0;
    server served;
    server_start(&served, server_good, NULL, NULL);
    client *made = server_client(&served, 120000, "token");
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){made, i, &wrong};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    client_free(made);
    server_stop(&served);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_int_equal(atomic_load(&served.requests), THREADS * RUNS);
    assert_in_range(atomic_load(&served.connections), 1, THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_thread_gets_its_own_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
