"""Snippets that take too much: time, memory, stack, output. Each ends as a result, and the next run is as any other."""

import re

import pytest

from hostile import OUTPUT_BYTES_MAX, Hostile, attack

OUT_OF_MEMORY = re.compile("out of memory|InternalError|RangeError|invalid array|wasm error")
SMALL_MB = 64
ENDED = (1, 134)  # by an exception, or by a trap

ENDLESS = [
    Hostile("loop", "a loop outlives its deadline", "print('in'); for (;;);", 124, "in\n", timeout_ms=200),
    Hostile("loop-in-finally", "a finally block outlives the deadline",
            "print('in'); try { throw 1 } finally { for (;;); }", 124, "in\n", timeout_ms=200),
    Hostile("loop-in-a-getter", "a getter that never returns holds up the engine's own code",
            "print('in'); JSON.stringify({get a() { for (;;); }})", 124, "in\n", timeout_ms=200),
    Hostile("loop-in-a-conversion", "a conversion that never returns holds up the console",
            "print('in'); console.log({toString() { for (;;); }})", 124, "in\n", timeout_ms=200),
    Hostile("loop-in-a-rejected-reason", "the report of an error that never ends holds up the end of the run",
            "print('in'); throw {toString() { for (;;); }}", 124, "in\n", timeout_ms=200),
    Hostile("microtasks", "jobs that queue jobs outlive the deadline",
            "print('in'); (function again() { queueMicrotask(again) })()", 124, "in\n", timeout_ms=200),
    Hostile("awaits", "awaits without end outlive the deadline", "print('in'); for (;;) await 0", 124, "in\n", timeout_ms=200),
    Hostile("async-generators", "generators that feed each other outlive the deadline",
            "print('in'); async function* g() { for (;;) yield* [1, 2] } for await (const x of g());", 124, "in\n", timeout_ms=200),
    Hostile("regexp-backtracking", "a regular expression outlives the deadline",
            "print('in'); /^(a+)+$/.test('a'.repeat(60) + 'b')", (0, 1, 124), re.compile("in\n"), None, timeout_ms=300),
    Hostile("regexp-nested-backtracking", "a regular expression outlives the deadline",
            "print('in'); /((((a*)*)*)*)*b/.exec('a'.repeat(5000))", (0, 1, 124), re.compile("in\n"), None, timeout_ms=300),
    Hostile("bigint-power", "arithmetic on one number outlives the deadline",
            "print('in'); let x = 3n; for (;;) x = x * x", (1, 124, 134), re.compile("in\n"), None, timeout_ms=300),
    Hostile("replace-all", "a built-in over a huge text outlives the deadline",
            "print('in'); let s = 'a'; for (;;) s = s.replaceAll('a', 'aa').slice(0, 1 << 20)", 124, "in\n", timeout_ms=300),
    Hostile("sort-of-much", "a built-in that calls back outlives the deadline",
            "print('in'); const a = Array.from({length: 1 << 20}, (_, i) => i ^ 0x5555); for (;;) a.sort((x, y) => y - x)",
            124, "in\n", timeout_ms=300),
    Hostile("iterator-without-end", "a built-in that drains an iterator outlives the deadline",
            "print('in'); new Set(function* () { for (;;) yield 1 }())", 124, "in\n", timeout_ms=300),
    Hostile("proxy-length", "an array-like of 2^53 elements outlives the deadline",
            "print('in'); Array.prototype.forEach.call({length: 2 ** 53 - 1}, () => {})", 124, "in\n", timeout_ms=300),
    Hostile("host-calls", "host calls without end outlive the deadline",
            "print('in'); for (;;) __plimsoll_host_call('{\"method\":\"GET\",\"path\":\"/a\"}')", 124, "in\n", timeout_ms=300),
]

GREEDY = [
    Hostile("arrays", "arrays grow past the memory limit", "const a = []; for (;;) a.push(new Array(10000).fill(a.length))", 1),
    Hostile("typed-arrays", "typed arrays grow past the memory limit",
            "const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))", 1),
    Hostile("one-typed-array", "one request for everything succeeds or kills the worker",
            "for (const n of [2 ** 31 - 1, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, -1, NaN]) try { new Uint8Array(n); print(n) } "
            "catch (e) { print(e.name) }", 0,
            "InternalError\n" + "RangeError\n" * 4 + "NaN\n"),
    Hostile("resizable-buffer", "a resizable buffer grows past the memory limit",
            "const b = new ArrayBuffer(0, {maxByteLength: 2 ** 31}); for (let n = 1;; n *= 2) b.resize(n)", 1),
    Hostile("shared-buffer", "a growable shared buffer grows past the memory limit",
            "const b = new SharedArrayBuffer(0, {maxByteLength: 2 ** 31}); for (let n = 1;; n *= 2) b.grow(n)", 1),
    Hostile("strings", "strings grow past the memory limit", "let s = 'x'; for (;;) s += s + s", 1),
    Hostile("ropes", "a string of strings is flattened past the memory limit",
            "const a = []; for (;;) a.push('x'.repeat(1 << 20) + a.length)", 1),
    Hostile("repeat", "a length that overflows 32 bits allocates too little",
            "for (const n of [2 ** 28, 2 ** 29, 2 ** 30, 2 ** 31, 2 ** 32 + 1]) try { print('ab'.repeat(n).length) } catch (e) "
            "{ print('refused') }", 0, "refused\n" * 5),
    Hostile("pad", "a padded length that overflows allocates too little",
            "for (const n of [2 ** 30, 2 ** 31, 2 ** 32 + 16]) try { print('a'.padStart(n, 'xy').length) } catch { print('refused') }",
            0, "refused\n" * 3),
    Hostile("join", "a joined length that overflows allocates too little",
            "const a = new Array(2 ** 20).fill('x'.repeat(5000)); try { print(a.join('').length) } catch { print('refused') }",
            0, "refused\n"),
    Hostile("bigints", "a number grows past the memory limit", "let x = 1n << 1000000n; for (;;) x = x * x", ENDED, err=OUT_OF_MEMORY),
    Hostile("bigint-shift", "a shift allocates as much as it names",
            "for (const n of [1n << 40n, 1n << 70n]) try { 1n << n; print('made') } catch (e) { print(e.name) }",
            0, re.compile("((RangeError|InternalError)\n){2}")),
    Hostile("maps", "a map grows past the memory limit", "const m = new Map(); for (let i = 0;; i++) m.set(i, {i})", 1),
    Hostile("closures", "closures grow past the memory limit", "let f = () => 1; for (;;) { const g = f; f = () => g }", ENDED),
    Hostile("promises", "promises grow past the memory limit", "const a = []; for (;;) a.push(new Promise(() => {}))", ENDED),
    Hostile("queued-jobs", "a queue of jobs grows past the memory limit", "for (;;) queueMicrotask(() => {})", ENDED),
    Hostile("rejections", "rejections that nobody handles grow past the memory limit or hide the failure",
            "for (;;) Promise.reject(new Error('x'))", (1, 124, 134), timeout_ms=1000, err=None),
    Hostile("rejections-handled", "rejections that were handled stay in memory until it is full",
            "let n = 0; for (let i = 0; i < 300000; i++) try { await Promise.reject(new Error('x')) } catch { n++ } print(n)",
            0, "300000\n"),
    Hostile("rejections-backwards", "handling many rejections, the newest first, takes time that grows with their square",
            "const a = []; for (let i = 0; i < 70000; i++) a.push(Promise.reject(i)); while (a.length) a.pop().catch(() => {}); print('end')",
            0, "end\n", timeout_ms=5000),
    Hostile("symbols", "registered symbols grow past the memory limit", 
            "const a = []; for (let i = 0;; i++) a.push(Symbol.for('k'.repeat(10000) + i))", ENDED),
    Hostile("properties", "property names grow past the memory limit",
            "const o = {}; for (let i = 0;; i++) o['k'.repeat(1000) + i] = i", ENDED),
    Hostile("regexp-compilation", "a compiled regular expression grows past the memory limit",
            "try { new RegExp('(?:a{1,1000}){1,1000}'.repeat(1000)) } catch (e) { print(e.name) } print('end')",
            0, re.compile("([A-Za-z]+Error\n)?end\n")),
    Hostile("source-text", "source made at run time grows past the memory limit",
            "let s = '1'; for (;;) { s += '+1'.repeat(s.length); (0, eval)(s) }", ENDED),
    Hostile("caught-and-again", "catching the refusal again and again wears the limit out",
            "let n = 0; for (let i = 0; i < 20; i++) try { const a = []; for (;;) a.push(new Uint8Array(1 << 20)) } catch { n++ } print(n)",
            0, "20\n"),
]
DEEP = [
    Hostile("calls", "recursion overflows the stack of the worker", "(function f() { f() })()", ENDED),
    Hostile("constructors", "recursion overflows the stack of the worker", "class A { constructor() { new A() } } new A()", ENDED),
    Hostile("getters", "recursion overflows the stack of the worker", "const o = {get a() { return this.a }}; o.a", ENDED),
    Hostile("proxies", "a chain of proxies overflows the stack of the worker",
            "let p = {}; for (let i = 0; i < 100000; i++) p = new Proxy(p, {}); p.x", ENDED),
    Hostile("prototype-chain", "a chain of prototypes overflows the stack of the worker",
            "let o = {}; for (let i = 0; i < 100000; i++) o = Object.create(o); print(o.x)", (0, 1, 134), None, None),
    Hostile("bound-functions", "a chain of bound functions overflows the stack of the worker",
            "let f = () => 1; for (let i = 0; i < 100000; i++) f = f.bind(); f()", ENDED),
    Hostile("nested-brackets", "a source of nothing but brackets overflows the parser's stack", "[" * 100000, ENDED),
    Hostile("nested-parentheses", "a source of nothing but parentheses overflows the parser's stack", "(" * 100000 + ")" * 100000, ENDED),
    Hostile("nested-braces", "a source of nothing but blocks overflows the parser's stack", "{" * 100000 + "}" * 100000, ENDED),
    Hostile("nested-templates", "nested templates overflow the parser's stack", "`${" * 50000 + "}`" * 50000, ENDED),
    Hostile("nested-functions", "nested functions overflow the parser's stack", "()=>" * 60000 + "1", ENDED),
    Hostile("operators", "a chain of operators overflows the parser's stack", "1" + "**1" * 80000, (0, 1, 134), None, None),
    Hostile("unary-operators", "a chain of operators overflows the parser's stack", "!" * 200000 + "1", ENDED),
    Hostile("ternaries", "a chain of conditions overflows the parser's stack", "1?" * 100000 + "1" + ":1" * 1000, ENDED),
    Hostile("json", "nested JSON overflows the reader's stack", "JSON.parse('[{\"a\":'.repeat(100000))", ENDED),
    Hostile("json-reviver", "a reviver over nested JSON overflows the stack",
            "JSON.parse('['.repeat(5000) + ']'.repeat(5000), function r(k, v) { return v }); print('ok')", (0, 1, 134), None, None),
    Hostile("regexp-groups", "nested groups overflow the compiler's stack", "new RegExp('(?:'.repeat(100000) + ')'.repeat(100000))", ENDED),
    Hostile("regexp-lookbehind", "nested assertions overflow the matcher's stack",
            "try { new RegExp('(?<=(?='.repeat(20000) + '))'.repeat(20000)).test('x') } catch (e) { print(e.name) }",
            (0, 134), re.compile("([A-Za-z]*Error\n)?"), None),
    Hostile("regexp-matching", "a match that nests overflows the matcher's stack",
            "print(/(?:(?=(a))a)*b/.test('a'.repeat(1 << 20)))", (0, 1, 124, 134), None, None, timeout_ms=500),
    Hostile("conversions", "conversions that convert overflow the stack",
            "const a = []; a.toString = () => `${a}`; `${a}`", ENDED),
    Hostile("nested-arrays-as-text", "text of nested arrays overflows the stack",
            "let a = []; for (let i = 0; i < 100000; i++) a = [a]; print(String(a).length)", (0, 1, 134), None, None),
    Hostile("flattening", "flattening a cycle overflows the stack", "const a = []; a.push(a, a); a.flat(Infinity)", ENDED),
    Hostile("catch-and-deeper", "catching the overflow and going on overflows the stack",
            "function f() { try { f() } catch { f() } } const t = Date.now; try { f() } catch {} print('end')",
            (0, 1, 124, 134), None, None, timeout_ms=500),
]


@pytest.mark.parametrize("mode", ["reused", "fresh"])
@pytest.mark.parametrize("case", ENDLESS, ids=str)
def test_the_deadline_ends_it(sandboxes, case, mode):
    attack(sandboxes(mode), case)


@pytest.mark.parametrize("mode", ["reused", "fresh"])
@pytest.mark.parametrize("case", GREEDY, ids=str)
def test_memory_is_refused(sandboxes, case, mode):
    case = Hostile(case.name, case.must_not, case.code, case.exit_code, case.out,
                   OUT_OF_MEMORY if case.err == "" and case.exit_code != 0 else case.err, case.timeout_ms, SMALL_MB)
    attack(sandboxes(mode, SMALL_MB), case)


@pytest.mark.parametrize("mode", ["reused", "fresh"])
@pytest.mark.parametrize("case", DEEP, ids=str)
def test_the_stack_is_bounded(sandboxes, case, mode):
    case = Hostile(case.name, case.must_not, case.code, case.exit_code, case.out, None if case.err == "" else case.err, case.timeout_ms)
    answer = attack(sandboxes(mode), case)
    if answer.exit_code == 134:
        assert answer.err.startswith("guest aborted: wasm error: "), "a trap, not a crash of the worker"


def test_memory_to_the_cap_leaves_all_of_it_for_the_next_run(sandboxes):
    fill = ("let n = 0; try { const a = []; for (;; n++) a.push(new Uint8Array(1 << 20).fill(n)) } catch {} console.log(n)")
    for mode in ("reused", "fresh"):
        sandbox = sandboxes(mode, SMALL_MB)
        counts = {sandbox.run(fill).out for _ in range(4)}
        assert len(counts) == 1, counts
        assert SMALL_MB // 2 < int(counts.pop()) < SMALL_MB


FLOODS = {
    "stdout": "for (;;) console.log('x'.repeat(1000))",
    "both-streams": "import {out, err} from 'qjs:std'; for (;;) { out.puts('o'.repeat(1 << 16)); err.puts('e'.repeat(1 << 16)) }",
    "single-bytes": "import {out, err} from 'qjs:std'; for (;;) { out.puts('o'); err.puts('e') }",
    "empty-writes": "import {out} from 'qjs:std'; for (;;) out.puts('')",
    "one-huge-write": "console.log('x'.repeat(40 << 20)); for (;;);",
    "many-arguments": "const a = Array(50000).fill('y'.repeat(100)); for (;;) console.log(...a)",
}


@pytest.mark.parametrize("mode", ["reused", "fresh"])
@pytest.mark.parametrize("code", FLOODS.values(), ids=FLOODS)
def test_a_flood_of_output_is_cut_and_does_not_grow_its_reader(sandboxes, code, mode):
    sandbox = sandboxes(mode)
    sandbox.run("1")
    before = resident_kb(sandbox.process.pid)
    answer = attack(sandbox, Hostile("flood", "output fills the memory of the reader", code, 124, None, None, timeout_ms=500))
    for stream, cut in ((answer.stdout, "stdout_truncated"), (answer.stderr, "stderr_truncated")):
        assert answer.raw[cut] == (len(stream) == OUTPUT_BYTES_MAX and code != FLOODS["empty-writes"])
    assert resident_kb(sandbox.process.pid) < before + 8192


def resident_kb(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
