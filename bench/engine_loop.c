/*
 * The floor under every wasm run: a trivial snippet evaluated and undone in a loop, by the worker's
 * own code, with no process, socket or parent around it.
 */
#include "engine_bench.h"
#include "trivial_js.h"

#define WARM_UP_RUNS 1000
#define DURATION_MS  2000.0
#define BATCH        500

int main(int argc, char **argv)
{
    const bool json = wants_json(argc, argv);
    uint64_t runs = 0;
    double start, elapsed;

    prepare_guest();
    for (int i = 0; i < WARM_UP_RUNS; i++)
        run_guest((const char *)trivial_js, trivial_js_length);
    bench_output_bytes = 0;
    start = now_ms();
    do {
        for (int i = 0; i < BATCH; i++)
            run_guest((const char *)trivial_js, trivial_js_length);
        runs += BATCH;
        elapsed = now_ms() - start;
    } while (elapsed < DURATION_MS);
    if (bench_output_bytes != runs * strlen("wasm 42\n"))
        fail("the output is not what the snippet prints");

    const double per_second = (double)runs / elapsed * 1e3;
    if (json)
        printf("{\"name\": \"wasm_engine_runs_per_s\", \"unit\": \"1/s\", \"value\": %.0f}\n",
               per_second);
    else
        printf("%.0f runs/s, %.4f ms a run with its reset\n", per_second, elapsed / (double)runs);
    return 0;
}
