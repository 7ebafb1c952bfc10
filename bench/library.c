/*
 * The library's own rows of the benchmark: one handle, the `wasm` provider, a snippet that does
 * next to nothing. Prints one JSON object a line; bench/run adds the floors. Options: --json
 * (accepted, the only form of output).
 */
#include <plimsoll/plimsoll.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WARM_RUNS = 200, TIMED_RUNS = 4000, FRESH_RUNS = 300, STARTS = 5, THREADS = 2 };

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void die(const plim_error *err)
{
    fprintf(stderr, "bench/library: %s\n", plim_error_message(err));
    exit(1);
}

static plim_sandbox *open_ready(bool fresh_process)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_setting settings[] = {
        {PLIM_LIT("SANDBOX_PROVIDER"), PLIM_LIT("wasm")},
        {PLIM_LIT("SANDBOX_WASM_FRESH_PROCESS"), fresh_process ? PLIM_LIT("1") : PLIM_LIT("0")}};
    plim_local_options options = {sizeof(options), settings, 2, true};
    plim_sandbox *sandbox;
    if (plim_sandbox_local(&options, &sandbox, &err) != PLIM_OK ||
        plim_sandbox_ready(sandbox, NULL, &err) != PLIM_OK)
        die(&err);
    return sandbox;
}

static double run_once(plim_sandbox *sandbox)
{
    plim_error err = PLIM_ERROR_INIT;
    plim_result *result;
    plim_javascript_request request = {.size = sizeof(request),
                                       .code = PLIM_LIT("console.log(1 + 1)")};
    double began = now_ms();
    if (plim_run_javascript(sandbox, &request, NULL, &result, &err) != PLIM_OK)
        die(&err);
    double took = now_ms() - began;
    if (plim_result_exit_code(result) != 0 || plim_result_stdout(result).len != 2) {
        fprintf(stderr, "bench/library: the snippet did not print 2\n");
        exit(1);
    }
    plim_result_free(result);
    return took;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double p50_of(bool fresh_process, int runs)
{
    plim_sandbox *sandbox = open_ready(fresh_process);
    double *times = calloc((size_t)runs, sizeof(*times));
    if (!times)
        exit(1);
    for (int i = 0; i < WARM_RUNS && i < runs; i++)
        run_once(sandbox);
    for (int i = 0; i < runs; i++)
        times[i] = run_once(sandbox);
    qsort(times, (size_t)runs, sizeof(*times), compare);
    double middle = times[runs / 2];
    free(times);
    plim_sandbox_free(sandbox);
    return middle;
}

static void *many_runs(void *sandbox)
{
    for (int i = 0; i < TIMED_RUNS; i++)
        run_once(sandbox);
    return NULL;
}

static double runs_per_s(void)
{
    plim_sandbox *sandbox = open_ready(false);
    pthread_t threads[THREADS];
    for (int i = 0; i < WARM_RUNS; i++)
        run_once(sandbox);
    double began = now_ms();
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, many_runs, sandbox))
            exit(1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    double seconds = (now_ms() - began) / 1e3;
    plim_sandbox_free(sandbox);
    return THREADS * TIMED_RUNS / seconds;
}

static double start_ms(void)
{
    double times[STARTS];
    for (int i = 0; i < STARTS; i++) {
        double began = now_ms();
        plim_sandbox *sandbox = open_ready(false);
        times[i] = now_ms() - began;
        plim_sandbox_free(sandbox);
    }
    qsort(times, STARTS, sizeof(*times), compare);
    return times[STARTS / 2];
}

static void row(const char *name, const char *unit, double value, const char *floor_name)
{
    printf("{\"name\": \"%s\", \"unit\": \"%s\", \"value\": %.6g%s%s%s}\n", name, unit, value,
           floor_name ? ", \"floor_name\": \"" : "", floor_name ? floor_name : "",
           floor_name ? "\"" : "");
    fflush(stdout);
}

int main(void)
{
    row("wasm_library_p50_ms", "ms", p50_of(false, TIMED_RUNS), "wasm_engine_runs_per_s");
    row("wasm_library_runs_per_s", "1/s", runs_per_s(), "wasm_engine_runs_per_s");
    row("wasm_fresh_process_p50_ms", "ms", p50_of(true, FRESH_RUNS), "wasm_engine_runs_per_s");
    row("wasm_start_ms", "ms", start_ms(), NULL);
    return 0;
}
