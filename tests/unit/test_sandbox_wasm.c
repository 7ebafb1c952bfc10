/*
 * The conformance list of the wasm provider through the public interface, in both modes: a reused
 * worker (one slot, so that reuse really happens) and a process for every run.
 */
#include "unit.h"

#include <stdlib.h>

#include "base/base.h"
#include "sandbox_support.h"

enum { OUTPUT_MAX = 65536 };

static const char *const reusing[] = {"SANDBOX_MAX_CONCURRENT=1", NULL};
static const char *const fresh[] = {"SANDBOX_MAX_CONCURRENT=1", "SANDBOX_WASM_FRESH_PROCESS=1",
                                    NULL};
static const char *const *const modes[] = {reusing, fresh};

static plim_sandbox *handles[2];

static int open_handles(void **state)
{
    (void)state;
    if (worker_missing())
        return 0;
    for (int i = 0; i < 2; i++)
        handles[i] = open_wasm(modes[i]);
    return 0;
}

static int free_handles(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        plim_sandbox_free(handles[i]);
    return 0;
}

/* One snippet, both modes: exit code, exact stdout, beginning of stderr. */
static const struct row {
    const char *code;
    int exit_code;
    const char *out, *err;
} rows[] = {
    {"console.log('wasm', 6*7)", 0, "wasm 42\n", ""},
    /* Uncaught errors. */
    {"throw new Error('boom')", 1, "", "Error: boom"},
    {"throw 5", 1, "", "5\n"},
    {"console.log('earlier')\nlet x = ;", 1, "", "SyntaxError"},
    {"console.log('kept'); throw null", 1, "kept\n", "null\n"},
    {"function f() { throw new TypeError('deep') }\nf()", 1, "",
     "TypeError: deep\n    at f (<snippet>:1:"},
    {"await null; throw new RangeError('late')", 1, "", "RangeError: late"},
    {"return 1", 1, "", "SyntaxError"},
    {"undeclared = 1", 1, "", "ReferenceError"},
    {"console.log(this)", 0, "undefined\n", ""},
    /* Rejections that nothing handled, and one that something did. */
    {"Promise.reject(new Error('r'))", 1, "", "Possibly unhandled promise rejection: Error: r"},
    {"const p = Promise.reject(new Error('r')); await null; p.catch(() => {}); console.log('ok')",
     0, "ok\n", ""},
    {"(async () => { throw new Error('x') })()", 1, "",
     "Possibly unhandled promise rejection: Error: x"},
    {"(async () => { throw new Error('x') })().catch(() => console.log('caught'))", 0, "caught\n",
     ""},
    /* Top-level await. */
    {"const v = await Promise.resolve(42); console.log(v)", 0, "42\n", ""},
    {"await new Promise(() => {})", 13, "", "unsettled top-level await\n"},
    {"console.log('a'); await new Promise(() => {}); console.log('b')", 13, "a\n",
     "unsettled top-level await\n"},
    /* What a snippet sees. */
    {"console.log(typeof fetch, typeof setTimeout, typeof process, typeof require)", 0,
     "undefined undefined undefined undefined\n", ""},
    {"console.log([typeof XMLHttpRequest, typeof WebSocket, typeof setInterval, typeof "
     "setImmediate, "
     "typeof structuredClone, typeof TextEncoder, typeof TextDecoder, typeof URL, typeof Blob, "
     "typeof crypto, typeof WebAssembly, typeof Worker, typeof module, typeof Buffer, typeof std, "
     "typeof os, typeof bjson, typeof Intl.DateTimeFormat].every(t => t === 'undefined'))",
     0, "true\n", ""},
    {"console.log(typeof host); host", 1, "undefined\n", "ReferenceError"},
    /* Every method of the console writes to stdout. */
    {"for (const m of ['log', 'error', 'warn', 'info', 'debug', 'trace']) console[m](m); "
     "print('p')",
     0, "log\nerror\nwarn\ninfo\ndebug\ntrace\np\n", ""},
    {"console.table([1])", 1, "", "TypeError"},
    /* How values are shown. */
    {"console.log('a',1,-0,null,undefined,10n,[1,[2,3]],{a:1},[null,undefined])", 0,
     "a 1 0 null undefined 10 1,2,3 [object Object] ,\n", ""},
    {"console.log(Symbol('s'))", 0, "<exception>\n", ""},
    {"console.log('%s','x')", 0, "%s x\n", ""},
    {"console.log()", 0, "\n", ""},
    {"console.log(Object.create(null), new Map(), new Error('m'), () => 1)", 0,
     "[object Object] [object Map] Error: m () => 1\n", ""},
    {"console.log('\\ud800x')", 0, "\xED\xA0\x80x\n", ""},
    /* Numbers in the form of en-US. */
    {"console.log((95000).toLocaleString())", 0, "95,000\n", ""},
    {"console.log((95000).toLocaleString('en-US',{style:'currency',currency:'USD'}))", 0,
     "$95,000.00\n", ""},
    {"console.log((-1234567.5).toLocaleString('en-US',{style:'currency',currency:'USD'}))", 0,
     "-$1,234,567.50\n", ""},
    {"console.log(new Intl.NumberFormat('en-US',{style:'currency',currency:'EUR'}).format(1000))",
     0,
     "\xE2\x82\xAC"
     "1,000.00\n",
     ""},
    {"console.log((1234.5678).toLocaleString())", 0, "1,234.568\n", ""},
    {"console.log(NaN.toLocaleString())", 0, "NaN\n", ""},
    /* Virtual clocks. */
    {"console.log(Date.now(), Date.now(), performance.now(), performance.now())", 0,
     "1640995200000 1640995200001 0 1\n", ""},
    {"console.log(new Date().toISOString(), new Date(0).getTimezoneOffset())", 0,
     "2022-01-01T00:00:00.000Z 0\n", ""},
    /* The one module. */
    {"import {exit} from 'qjs:std'; console.log('a'); exit(7); console.log('b')", 7, "a\n", ""},
    {"import {exit} from 'qjs:std'; exit(263)", 7, "", ""},
    {"import {exit} from 'qjs:std'; exit(-1)", 255, "", ""},
    {"import {exit} from 'qjs:std'; exit(0); throw 1", 0, "", ""},
    {"console.log('nothing'); import 'fs'", 1, "", "SyntaxError"},
    {"try { await import('fs') } catch (e) { console.log(e.name) }", 0, "ReferenceError\n", ""},
    {"import {err, out} from 'qjs:std'; err.puts('e\\n'); out.puts('o', '1\\n'); out.flush()", 0,
     "o1\n", "e\n"},
    /* A host call has nobody to answer it. */
    {"const r = __plimsoll_host_call('{\"method\":\"GET\",\"path\":\"/a\"}'); "
     "console.log(r.status, JSON.stringify(r.body))",
     0, "503 \"host api broker unavailable\\n\"\n", ""},
    {"__plimsoll_host_call()", 1, "", "TypeError"},
    /* Envelopes at their bounds, and malformed ones. */
    {"console.log(__plimsoll_host_call('').status)", 0, "413\n", ""},
    {"console.log(__plimsoll_host_call(' '.repeat(1114113)).status)", 0, "413\n", ""},
    {"console.log(__plimsoll_host_call(' '.repeat(1114112)).status)", 0, "400\n", ""},
    {"const e = '{\"method\":\"GET\",\"path\":\"/a\"}'; "
     "console.log(__plimsoll_host_call(e + ' '.repeat(1114112 - e.length)).status)",
     0, "503\n", ""},
    {"for (const e of ['{\"method\":\"GET\",\"path\":\"/a\",\"x\":1}', "
     "'{\"method\":\"GET\",\"path\":\"/a\"}{}', '\"GET\"', '{}', 'null', '\\ud800']) "
     "console.log(__plimsoll_host_call(e).status)",
     0, "400\n400\n400\n400\n400\n400\n", ""},
    {"console.log(__plimsoll_host_call('{\"method\":\"GET\",\"path\":\"/"
     "a\",\"body\":1e20}').status)",
     0, "503\n", ""},
    /* whatever is thrown */
    {"throw undefined", 1, "", "undefined\n"},
    {"throw Symbol('s')", 1, "", "<exception>\n"},
    {"throw {toString() { throw 1 }}", 1, "", "[object Object]\n"},
    {"throw new Proxy({}, {get() { throw 1 }})", 1, "", NULL},
};

static void snippets_end_as_the_contract_says(void **state)
{
    (void)state;
    NEEDS_WORKER();
    for (int mode = 0; mode < 2; mode++)
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            expect_run(handles[mode], rows[i].code, rows[i].exit_code, rows[i].out, rows[i].err);
}

static void a_result_states_its_evidence(void **state)
{
    (void)state;
    NEEDS_WORKER();
    for (int mode = 0; mode < 2; mode++) {
        plim_result *result = run_snippet(handles[mode], "console.log('x')", 0);
        assert_non_null(result);
        assert_int_equal(plim_result_kind(result), PLIM_KIND_JAVASCRIPT);
        assert_string_equal(plim_result_provider(result), "wasm");
        assert_int_equal(plim_result_tier(result), PLIM_TIER_PROCESS);
        assert_string_equal(plim_result_isolation(result), "process");
        assert_string_equal(plim_result_software_identity(result), "");
        assert_true(plim_result_duration_ns(result) > 0);
        assert_int_equal(plim_result_duration_ms(result),
                         plim_result_duration_ns(result) / 1000000);
        plim_info *info = NULL;
        assert_int_equal(plim_describe(handles[mode], NULL, &info, NULL), PLIM_OK);
        assert_string_equal(plim_result_environment(result),
                            plim_info_environment(info, PLIM_KIND_JAVASCRIPT).identity);
        plim_info_free(info);
        plim_result_free(result);
    }
}

/* A floor that is met runs. */
static void a_floor_that_is_met_runs(void **state)
{
    (void)state;
    NEEDS_WORKER();
    plim_javascript_request request = {
        .size = sizeof(request),
        .options = {.minimum_isolation = PLIM_TIER_PROCESS, .trace_id = PLIM_LIT("req-1:2")},
        .code = PLIM_LIT("console.log(1)")};
    plim_result *result = NULL;
    assert_int_equal(plim_run_javascript(handles[0], &request, NULL, &result, NULL), PLIM_OK);
    assert_bytes(plim_result_stdout(result), "1\n");
    plim_result_free(result);

    plim_error err = PLIM_ERROR_INIT;
    request.options.trace_id = PLIM_LIT("not/a/trace/id");
    assert_int_equal(plim_run_javascript(handles[0], &request, NULL, &result, &err),
                     PLIM_E_INVALID_REQUEST);
    assert_int_equal(plim_error_not_dispatched(&err), PLIM_ND_REQUEST);
    plim_error_clear(&err);
}

/* The loop ends at its deadline, what was printed before is returned, and the next run works.
 */
static void endless_loops_time_out(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static const char *const endless[] = {
        "console.log('in'); while (true) {}",
        "console.log('in'); const f = () => Promise.resolve().then(f); await f()",
        "console.log('in'); queueMicrotask(function again() { queueMicrotask(again) })",
        "console.log('in'); for (;;) try { for (;;); } finally { continue }",
        "console.log('in'); /^(a+)+$/.test('a'.repeat(40) + 'b'); for (;;);",
    };
    for (int mode = 0; mode < 2; mode++)
        for (size_t i = 0; i < sizeof(endless) / sizeof(endless[0]); i++) {
            int64_t due = base_deadline_after_ms(200);
            plim_result *result = run_snippet(handles[mode], endless[i], 200);
            assert_non_null(result);
            assert_true(base_monotonic_ns() >= due);
            assert_true(plim_result_timed_out(result));
            assert_int_equal(plim_result_exit_code(result), 124);
            assert_bytes(plim_result_stdout(result), "in\n");
            assert_true(plim_result_duration_ms(result) < HANG_MS);
            plim_result_free(result);
            expect_run(handles[mode], "console.log(1)", 0, "1\n", "");
        }
}

/* Live arrays of 128 MiB complete at the default cap and do not under 32 MiB. */
static void the_memory_cap_is_real(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static const char live[] =
        "const a = []; for (let i = 0; i < 128; i++) a.push(new Uint8Array(1 << 20).fill(1)); "
        "console.log(a.length)";
    static const char caught[] =
        "const a = []; try { for (;;) a.push(new Uint8Array(1 << 20).fill(1)) } "
        "catch (e) { a.length = 0; console.log(e.name, e.message) }";
    static const char *const small[] = {"SANDBOX_MEMORY_MB=32", "SANDBOX_MAX_CONCURRENT=1", NULL};
    static const char *const huge[] = {"SANDBOX_MEMORY_MB=8192", "SANDBOX_MAX_CONCURRENT=1", NULL};
    for (int mode = 0; mode < 2; mode++)
        expect_run(handles[mode], live, 0, "128\n", "");
    plim_sandbox *sandbox = open_wasm(small);
    expect_run(sandbox, live, 1, "", "InternalError: out of memory");
    expect_run(sandbox, caught, 0, "InternalError out of memory\n", "");
    expect_run(sandbox, "console.log('next')", 0, "next\n", "");
    plim_sandbox_free(sandbox);
    sandbox = open_wasm(huge);
    expect_run(sandbox, "console.log('ok')", 0, "ok\n", "");
    plim_sandbox_free(sandbox);
}

/* Too little memory for the engine itself: refused, and the sentence says how much it needs. */
static void a_cap_below_the_engine_is_refused(void **state)
{
    (void)state;
    NEEDS_WORKER();
    plim_sandbox *sandbox = open_wasm((const char *const[]){"SANDBOX_MEMORY_MB=1", NULL});
    plim_error err = PLIM_ERROR_INIT;
    assert_int_equal(plim_sandbox_ready(sandbox, NULL, &err), PLIM_E_INVALID_OPTION);
    assert_refused(&err, PLIM_E_INVALID_OPTION, "failed_precondition", PLIM_ND_ENVIRONMENT);
    assert_contains(plim_error_message(&err), "SANDBOX_MEMORY_MB");
    plim_javascript_request request = {.size = sizeof(request), .code = PLIM_LIT("1")};
    plim_result *result = NULL;
    assert_int_equal(plim_run_javascript(sandbox, &request, NULL, &result, &err),
                     PLIM_E_INVALID_OPTION);
    assert_false(plim_may_have_run(&err));
    plim_sandbox_free(sandbox);
}

/* A result with a non-zero exit, whichever limit ends it. */
static void deep_recursion_is_a_result(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static const char *const deep[] = {
        "function f(n) { return n ? f(n - 1) + 1 : 0 } f(200000)",
        "JSON.parse('['.repeat(200000))",
        "let o = []; for (let i = 0; i < 200000; i++) o = [o]; String(o)",
        "new RegExp('('.repeat(100000) + ')'.repeat(100000))",
        "eval('['.repeat(100000) + ']'.repeat(100000))",
        "const a = []; a[0] = a; function g() { [1].sort(g); [1, 2].map(g) } g()",
    };
    for (int mode = 0; mode < 2; mode++)
        for (size_t i = 0; i < sizeof(deep) / sizeof(deep[0]); i++) {
            plim_result *result = run_snippet(handles[mode], deep[i], 20000);
            assert_non_null(result);
            int exit_code = plim_result_exit_code(result);
            if (exit_code != 1 && exit_code != 134)
                fail_msg("%s: exit code %d", deep[i], exit_code);
            char text[256];
            plim_bytes err = plim_result_stderr(result);
            snprintf(text, sizeof(text), "%.*s", (int)err.len, err.data);
            if (exit_code == 134)
                assert_contains(text, "guest aborted: wasm error: ");
            plim_result_free(result);
            expect_run(handles[mode], "console.log(1)", 0, "1\n", "");
        }
}

/* Exactly the cap is whole, one byte more is cut; each stream by itself, however it is written.
 */
static void output_is_cut_at_its_cap(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static const struct {
        const char *code;
        size_t out, err;
        bool out_cut, err_cut;
    } cases[] = {
        {"out.puts('x'.repeat(65536))", OUTPUT_MAX, 0, false, false},
        {"out.puts('x'.repeat(65537))", OUTPUT_MAX, 0, true, false},
        {"console.log('x'.repeat(65535))", OUTPUT_MAX, 0, false, false},
        {"for (let i = 0; i < 65536; i++) out.puts('x')", OUTPUT_MAX, 0, false, false},
        {"for (let i = 0; i < 65537; i++) out.puts('x')", OUTPUT_MAX, 0, true, false},
        {"out.puts('x'.repeat(70000))", OUTPUT_MAX, 0, true, false},
        {"out.puts('x'.repeat(10 << 20))", OUTPUT_MAX, 0, true, false},
        {"err.puts('x'.repeat(65536)); out.puts('y')", 1, OUTPUT_MAX, false, false},
        {"err.puts('x'.repeat(65537)); out.puts('y')", 1, OUTPUT_MAX, false, true},
        {"for (let i = 0; i < 300; i++) { out.puts('x'.repeat(999)); err.puts('x'.repeat(999)) }",
         OUTPUT_MAX, OUTPUT_MAX, true, true},
        {"out.puts('\\u20ac'.repeat(30000))", OUTPUT_MAX, 0, true, false}, /* inside a character */
        {"out.puts('')", 0, 0, false, false},
    };
    for (int mode = 0; mode < 2; mode++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            char code[256];
            snprintf(code, sizeof(code), "import {out, err} from 'qjs:std';%s", cases[i].code);
            plim_result *result = run_snippet(handles[mode], code, 20000);
            assert_non_null(result);
            assert_int_equal(plim_result_exit_code(result), 0);
            assert_int_equal(plim_result_stdout(result).len, cases[i].out);
            assert_int_equal(plim_result_stderr(result).len, cases[i].err);
            assert_int_equal(plim_result_stdout_truncated(result), cases[i].out_cut);
            assert_int_equal(plim_result_stderr_truncated(result), cases[i].err_cut);
            plim_result_free(result);
        }
}

/* Bytes of every value come back as they were written. */
static void output_is_bytes(void **state)
{
    (void)state;
    NEEDS_WORKER();
    plim_result *result = run_snippet(
        handles[0],
        "let s = ''; for (let i = 0; i < 0x180; i++) s += String.fromCharCode(i); print(s)", 0);
    assert_non_null(result);
    plim_bytes out = plim_result_stdout(result);
    assert_int_equal(out.len, 128 + 2 * 256 + 1);
    for (size_t i = 0; i < 128; i++)
        assert_int_equal(out.data[i], i);
    plim_result_free(result);
}

/* The same bytes in every run, of clocks, chance, and what depends on addresses. */
static void runs_are_repeatable(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static const char code[] =
        "console.log(Date.now(), Date.now(), Math.random(), Math.random(), performance.now());"
        "console.log(Object.getOwnPropertyNames(globalThis).join());"
        "const s = new Set([{}, Symbol('a'), () => 1, 1n]); console.log(s.size);"
        "try { null.x } catch (e) { console.log(e.stack) }";
    char first[8192] = "";
    size_t length = 0;
    for (int round = 0; round < 3; round++)
        for (int mode = 0; mode < 2; mode++) {
            plim_result *result = run_snippet(handles[mode], code, 0);
            assert_non_null(result);
            plim_bytes out = plim_result_stdout(result);
            assert_true(out.len > 100 && out.len < sizeof(first));
            if (length == 0)
                memcpy(first, out.data, length = out.len);
            assert_int_equal(out.len, length);
            assert_memory_equal(out.data, first, length);
            plim_result_free(result);
        }
}

/* Whatever a run does to its world, the next one has a new one. */
static void nothing_is_left_for_the_next_run(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static const struct {
        const char *code;
        int exit_code;
        bool fills; /* so the next run must find as much memory as in a new worker */
    } traces[] = {
        {"globalThis.leak = 1", 0, false},
        {"globalThis.leak = 1; Array.prototype.leak = 1; Object.prototype.leak = 1", 0, false},
        {"globalThis.leak = 1; throw new Error('x')", 1, false},
        {"import {exit} from 'qjs:std'; globalThis.leak = 1; exit(7)", 7, false},
        {"globalThis.leak = 1; await new Promise(() => {})", 13, false},
        {"globalThis.leak = new Uint8Array(60 << 20).fill(1)", 0, true},
        {"const a = []; for (;;) a.push(new Uint8Array(1 << 20))", 1, true},
        {"delete globalThis.Array; delete globalThis.JSON; console.log = 0", 0, false},
        {"Math.random(); Date.now(); performance.now(); Symbol.for('leak')", 0, false},
        {"Promise.reject(1); globalThis.leak = 1", 1, false},
        {"(function f() { f() })()", 1, false},
    };
    static const char look[] =
        "console.log(typeof leak, [].leak, ({}).leak, typeof Array, typeof JSON, Date.now(), "
        "Math.random(), performance.now())";
    static const char fill[] =
        "let n = 0; try { const a = []; for (; n < 200; n++) a.push(new Uint8Array(1 << 20)) } "
        "catch {} console.log(n)";
    for (int mode = 0; mode < 2; mode++) {
        plim_sandbox *sandbox = open_wasm(modes[mode]);
        plim_result *clean = run_snippet(sandbox, look, 20000);
        assert_non_null(clean);
        plim_bytes expected = plim_result_stdout(clean);
        char text[512];
        assert_true(expected.len < sizeof(text));
        snprintf(text, sizeof(text), "%.*s", (int)expected.len, expected.data);
        assert_contains(text, "undefined undefined undefined function object 1640995200000");
        for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
            expect_run(sandbox, traces[i].code, traces[i].exit_code, NULL, NULL);
            if (traces[i].fills)
                expect_run(sandbox, fill, 0, "200\n", "");
            expect_run(sandbox, look, 0, text, "");
        }
        plim_result_free(clean);
        plim_sandbox_free(sandbox);
    }
}

/* The largest source is accepted and runs to its last byte. */
static void the_longest_code_runs(void **state)
{
    (void)state;
    NEEDS_WORKER();
    static char code[PLIM_CODE_BYTES_MAX + 1];
    memset(code, '\n', PLIM_CODE_BYTES_MAX);
    static const char last[] = "console.log('end')";
    memcpy(code + PLIM_CODE_BYTES_MAX - sizeof(last) + 1, last, sizeof(last) - 1);
    code[PLIM_CODE_BYTES_MAX] = '\0';
    for (int mode = 0; mode < 2; mode++)
        expect_run(handles[mode], code, 0, "end\n", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets_end_as_the_contract_says),
        cmocka_unit_test(a_result_states_its_evidence),
        cmocka_unit_test(a_floor_that_is_met_runs),
        cmocka_unit_test(endless_loops_time_out),
        cmocka_unit_test(the_memory_cap_is_real),
        cmocka_unit_test(a_cap_below_the_engine_is_refused),
        cmocka_unit_test(deep_recursion_is_a_result),
        cmocka_unit_test(output_is_cut_at_its_cap),
        cmocka_unit_test(output_is_bytes),
        cmocka_unit_test(runs_are_repeatable),
        cmocka_unit_test(nothing_is_left_for_the_next_run),
        cmocka_unit_test(the_longest_code_runs),
    };
    return cmocka_run_group_tests(tests, open_handles, free_handles);
}
