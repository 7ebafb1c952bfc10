/*
 * What the translation costs: fib(27) in the guest against the same engine sources compiled
 * natively. Both run in this process, in turns, and the best of each counts, so that the ratio
 * means something on a busy machine.
 */
#include "engine_bench.h"
#include "fib27_js.h"
#include "quickjs.h"

#define ROUNDS 9

static double time_native(void)
{
    JSRuntime *runtime = JS_NewRuntime();
    JSContext *context = runtime != NULL ? JS_NewContext(runtime) : NULL;
    double start, elapsed;
    JSValue result;

    if (context == NULL)
        fail("no native engine");
    start = now_ms();
    result =
        JS_Eval(context, (const char *)fib27_js, fib27_js_length, "fib27.js", JS_EVAL_TYPE_MODULE);
    elapsed = now_ms() - start;
    if (JS_PromiseState(context, result) != JS_PROMISE_FULFILLED)
        fail("the native engine miscalculates");
    JS_FreeValue(context, result);
    JS_FreeContext(context);
    JS_FreeRuntime(runtime);
    return elapsed;
}

static double time_guest(void)
{
    const double start = now_ms();

    run_guest((const char *)fib27_js, fib27_js_length);
    return now_ms() - start;
}

int main(int argc, char **argv)
{
    const bool json = wants_json(argc, argv);
    double native = 1e9, guest = 1e9;

    prepare_guest();
    for (int i = 0; i < ROUNDS; i++) {
        const double n = time_native(), g = time_guest();
        native = n < native ? n : native;
        guest = g < guest ? g : guest;
    }
    if (json)
        printf("{\"name\": \"js_fib_ratio\", \"unit\": \"x\", \"value\": %.3f, \"floor_name\": "
               "\"the engine built natively\", "
               "\"floor\": 1, \"ratio\": %.3f, \"wasm_ms\": %.2f, \"native_ms\": %.2f}\n",
               guest / native, guest / native, guest, native);
    else
        printf("fib(27): guest %.2f ms, native %.2f ms, ratio %.3f\n", guest, native,
               guest / native);
    return 0;
}
