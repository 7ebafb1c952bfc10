/*
 * Every allocation of a run fails once, ours and those of the libraries under it. Nothing crashes,
 * and no call that may have run is marked. The program is linked so that malloc, calloc and realloc
 * come here; only the thread that runs the client sees failures.
 */
#include "test_client_server.h"

#include <curl/curl.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <setjmp.h>

#include <cmocka.h>

#include "failing_alloc.h"

static _Thread_local long countdown = -1; /* allocations until one fails; below 0: none does */
static _Thread_local bool failed;

static bool alloc_fails(void)
{
    if (countdown < 0 || countdown-- > 0)
        return false;
    failed = true;
    return true;
}

/* What curl, jansson and OpenSSL allocate with, so that their failures are met too. */
static char *hook_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = __wrap_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

static void *crypto_malloc(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    return __wrap_malloc(size);
}

static void *crypto_realloc(void *block, size_t size, const char *file, int line)
{
    (void)file, (void)line;
    return __wrap_realloc(block, size);
}

static void crypto_free(void *block, const char *file, int line)
{
    (void)file, (void)line;
    free(block);
}

static bool refuse(server_conn *conn, server_request *request)
{
    static const char body[] =
        "{\"code\":\"not_found\",\"message\":\"m\",\"details\":["
        "{\"type\":\"plimsoll.v1.SessionEnded\",\"value\":\"CAkSA2VuZA\"},"
        "{\"type\":\"plimsoll.v1.UnansweredCall\",\"value\":\"CggIAyIEd2FzbQ==\"}]}";
    server_answer(conn, request, 404, "application/json", "", (plim_bytes){body, sizeof(body) - 1});
    return true;
}

typedef struct tally {
    long rounds, good, unmarked, marked;
} tally;

/* What OpenSSL cannot allocate when it is used for the first time, it never has; so use it first.
 */
static void use_once(client *made)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    run_snippet(made, "1", &result, &err);
    plim_result_free(result);
    plim_error_clear(&err);
}

/* Run with the first allocation failing, then the second, until a run meets no failure. */
static tally fail_each(server_script *script, bool fresh_client)
{
    tally sum = {0, 0, 0, 0};
    server served;
    server_start(&served, script, NULL, NULL);
    client *kept = server_client(&served, 60000, "token");
    use_once(kept);
    long warm_ups = 1;
    for (bool met = true; met; sum.rounds++) {
        client *made = fresh_client ? server_client(&served, 60000, "token") : kept;
        if (!fresh_client)
            use_once(kept), warm_ups++; /* what failed before may have cost the connection */
        plim_error err = PLIM_ERROR_INIT;
        plim_result *result;
        countdown = sum.rounds;
        failed = false;
        plim_status status = run_snippet(made, "console.log(1)", &result, &err);
        met = failed;
        countdown = -1;
        if (status == PLIM_OK)
            sum.good++;
        else if (plim_may_have_run(&err))
            sum.unmarked++;
        else
            sum.marked++;
        plim_result_free(result);
        plim_error_clear(&err);
        if (fresh_client)
            client_free(made);
    }
    client_free(kept);
    server_stop(&served);
    /* A marked call was never seen by the server. */
    assert_in_range(atomic_load(&served.requests), warm_ups, warm_ups + sum.good + sum.unmarked);
    return sum;
}

static void no_failure_of_memory_marks_what_may_have_run(void **state)
{
    (void)state;
    tally sum = fail_each(server_good, true);
    print_message("fresh: %ld rounds, %ld good, %ld unmarked, %ld marked\n", sum.rounds, sum.good,
                  sum.unmarked, sum.marked);
    assert_true(sum.good >= 1 && sum.unmarked >= 5 && sum.marked >= 5);
    sum = fail_each(server_good, false);
    print_message("kept: %ld rounds, %ld good, %ld unmarked, %ld marked\n", sum.rounds, sum.good,
                  sum.unmarked, sum.marked);
    assert_true(sum.good >= 1 && sum.unmarked >= 5 && sum.marked >= 5);
}

static void no_failure_of_memory_marks_an_unmarked_refusal(void **state)
{
    (void)state;
    tally sum = fail_each(refuse, false);
    assert_true(sum.good == 0 && sum.unmarked >= 5 && sum.marked >= 5);
}

int main(void)
{
    CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free);
    curl_global_init_mem(CURL_GLOBAL_DEFAULT, __wrap_malloc, free, __wrap_realloc, hook_strdup,
                         __wrap_calloc);
    json_set_alloc_funcs(__wrap_malloc, free);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_failure_of_memory_marks_what_may_have_run),
        cmocka_unit_test(no_failure_of_memory_marks_an_unmarked_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
