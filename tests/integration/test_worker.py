"""What a snippet sees, how runs end, what stays."""

from __future__ import annotations

import os
import re

import pytest

from worker_host import SINGLE_USE, WORKER, Gone, clean, host, run, worker  # noqa: F401 - fixtures are used by name

pytestmark = pytest.mark.skipif(not WORKER.exists(), reason=f"{WORKER} is not built")


# ---- what a snippet sees -------------------------------------------------------------------------------------------


def test_arithmetic(run):
    clean(run('console.log("wasm", 6*7)'), "wasm 42\n")


@pytest.mark.parametrize("method", ["log", "error", "warn", "info", "debug", "trace"])
def test_console_methods_write_to_stdout(run, method):
    clean(run(f'console.{method}("x", 1)'), "x 1\n")


@pytest.mark.parametrize(
    "arguments, text",
    [
        (
            '"a",1,-0,null,undefined,10n,[1,[2,3]],{a:1},[null,undefined]',
            "a 1 0 null undefined 10 1,2,3 [object Object] ,",
        ),
        ('Symbol("s")', "<exception>"),
        ('"%s","x"', "%s x"),
        ("", ""),
        ("new Map(), Object.create(null)", "[object Map] [object Object]"),
        (
            "{toString() { throw 1 }}, {toString: 1, valueOf: 1, [Symbol.toStringTag]: 'T'}",
            "[object Object] [object T]",
        ),
        ("{toString() { throw 1 }, get [Symbol.toStringTag]() { throw 2 }}", "[object Object]"),
        ("x => x + 1, new TypeError('m')", "x => x + 1 TypeError: m"),
        ("new Date(0)", "Thu Jan 01 1970 00:00:00 GMT+0000"),
        ("true, 1e21, 0.1, NaN, -Infinity", "true 1e+21 0.1 NaN -Infinity"),
    ],
)
def test_console_conversion(run, arguments, text):
    clean(run(f"console.log({arguments})"), text + "\n")


def test_console_has_no_other_methods(run):
    for name in ("table", "dir", "group", "time", "assert", "count"):
        result = run(f"console.{name}(1)")
        assert result.exit_code == 1 and result.stderr.startswith(b"TypeError: "), name


def test_a_line_is_one_frame(run):
    assert run('console.log("a", "b"); print("c")').frames == [(b"O", 4), (b"O", 2), (b"D", 1)]


def test_bytes_of_strings(run):
    result = run(r'console.log("é€😀", "\ud83d", "\0", "a\u0000b")')
    assert result.stdout == "é€😀 ".encode() + b"\xed\xa0\xbd \0 a\0b\n"
    clean(run('console.log("žluťoučký 😀".length)'), "12\n")


def test_nul_in_source_is_no_terminator(run):
    result = run(b'console.log("before"); \0 console.log("after")')
    assert (result.exit_code, result.stdout) == (1, b"") and result.stderr.startswith(b"SyntaxError: ")
    clean(run(b'console.log("a\0b".length) // \0'), "3\n")


@pytest.mark.parametrize(
    "expression, text",
    [
        ("(95000).toLocaleString()", "95,000"),
        ('(95000).toLocaleString("en-US",{style:"currency",currency:"USD"})', "$95,000.00"),
        ('(-1234567.5).toLocaleString("en-US",{style:"currency",currency:"USD"})', "-$1,234,567.50"),
        ('new Intl.NumberFormat("en-US",{style:"currency",currency:"EUR"}).format(1000)', "€1,000.00"),
        ("(1234.5678).toLocaleString()", "1,234.568"),
        ("NaN.toLocaleString()", "NaN"),
        ('(5).toLocaleString("de",{minimumFractionDigits:2})', "5.00"),
        ('(0.5).toLocaleString("en-US",{maximumFractionDigits:0})', "1"),
        ('(1.5).toLocaleString("en-US",{style:"currency",currency:"XYZ"})', "XYZ 1.50"),
        ('(999).toLocaleString("en-US",{style:"currency"})', "999.00"),
        (
            "JSON.stringify(new Intl.NumberFormat('x',{style:'currency'}).resolvedOptions())",
            '{"locale":"en-US","style":"currency"}',
        ),
        ("[1000, 2000].map(new Intl.NumberFormat().format)", "1,000,2,000"),
        ("[1000, 2.5].toLocaleString()", "1,000,2.5"),
        ("Object.getOwnPropertyNames(Intl)", "NumberFormat"),
        ("typeof Intl.DateTimeFormat", "undefined"),
    ],
)
def test_number_formatting(run, expression, text):
    clean(run(f"console.log({expression})"), text + "\n")


PRESENT = """
Object Function Array String Number Boolean Symbol BigInt Math JSON Reflect Proxy RegExp Date Promise Map Set
WeakMap WeakSet WeakRef FinalizationRegistry Iterator Error EvalError RangeError ReferenceError SyntaxError
TypeError URIError AggregateError SuppressedError InternalError ArrayBuffer SharedArrayBuffer Int8Array Uint8Array
Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array Float16Array
Float32Array Float64Array DataView Atomics DisposableStack AsyncDisposableStack eval parseInt parseFloat isNaN
isFinite decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape console print queueMicrotask
performance navigator btoa atob DOMException gc scriptArgs globalThis Intl __plimsoll_host_call NaN Infinity
""".split()

ABSENT = """
fetch XMLHttpRequest WebSocket setTimeout setInterval setImmediate structuredClone TextEncoder TextDecoder URL Blob
crypto WebAssembly Worker require module process Buffer std os host bjson
""".split()


def test_globals(run):
    clean(
        run("console.log(typeof fetch, typeof setTimeout, typeof process, typeof require)"),
        "undefined " * 3 + "undefined\n",
    )
    names = ",".join(f"typeof {name}" for name in ABSENT)
    clean(run(f"console.log([{names}].every(t => t === 'undefined'))"), "true\n")
    source = f"console.log(Object.getOwnPropertyNames(globalThis).filter(n => n !== 'undefined').sort().join())"
    clean(run(source), ",".join(sorted(PRESENT)) + "\n")


def test_host_like_globals(run):
    clean(
        run(
            "const all = [scriptArgs, Object.keys(performance), navigator.userAgent, btoa('a'), atob('YQ==')];"
            "console.log(JSON.stringify(all))"
        ),
        '[[],["now"],"quickjs-ng/0.17.0","YQ==","a"]\n',
    )
    clean(run("queueMicrotask(() => console.log(2)); console.log(1)"), "1\n2\n")
    clean(run("console.log(new DOMException('m', 'AbortError').code, gc())"), "20 undefined\n")
    clean(
        run("console.log(Object.keys(globalThis).includes('Intl'), new SharedArrayBuffer(8).byteLength)"), "false 8\n"
    )


def test_atomics_work_and_never_block(run):
    clean(
        run(
            "const a = new Int32Array(new SharedArrayBuffer(8)); Atomics.add(a, 0, 5);"
            "console.log(Atomics.load(a, 0), Atomics.notify(a, 0))"
        ),
        "5 0\n",
    )
    result = run("Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0, 1000)")
    assert result.exit_code == 1 and result.stderr.startswith(b"TypeError: ")


def test_module_mode(run):
    clean(run("console.log(typeof this)"), "undefined\n")
    assert run("undeclared = 1").stderr.startswith(b"ReferenceError: ")
    assert run("return 1").stderr.startswith(b"SyntaxError: ")
    assert run("const a = 1; const a = 2;").stderr.startswith(b"SyntaxError: ")


# ---- ends of a run -------------------------------------------------------------------------------------------------


def test_uncaught_errors(run):
    result = run('console.log("out");\nfunction f() {\n  throw new Error("boom");\n}\nf();')
    assert (result.exit_code, result.stdout) == (1, b"out\n")
    assert result.stderr == b"Error: boom\n    at f (<snippet>:3:13)\n    at <anonymous> (<snippet>:5:1)\n\n"
    result = run("throw 5")
    assert (result.exit_code, result.stderr) == (1, b"5\n")
    result = run("await null; throw new TypeError('late')")
    assert result.exit_code == 1 and result.stderr.startswith(b"TypeError: late\n    at ")
    result = run('console.log("early");\nlet x = ;')
    assert (result.exit_code, result.stdout) == (1, b"")
    assert result.stderr.startswith(b"SyntaxError: ") and b"<snippet>:2:" in result.stderr
    result = run("queueMicrotask(() => { throw new Error('job') }); queueMicrotask(() => console.log('never'))")
    assert (result.exit_code, result.stdout) == (1, b"") and result.stderr.startswith(b"Error: job\n")
    for thrown, text in (
        ("null", "null"),
        ("Object.create(null)", "[object Object]"),
        ("Symbol('s')", "<exception>"),
        ("{a: 1}", "[object Object]"),
    ):
        result = run(f"throw {thrown}")
        assert (result.exit_code, result.stderr.decode()) == (1, text + "\n")


def test_line_numbers_skip_what_the_host_put_first(run):
    result = run("//@plimsoll-lines 3\nconst a = 1;\nconst b = 2;\nthrow new Error(String(a + b))")
    assert result.stderr == b"Error: 3\n    at <anonymous> (<snippet>:1:28)\n\n"


def test_rejections(run):
    result = run('Promise.reject(new Error("r"))')
    assert result.exit_code == 1
    assert result.stderr.startswith(b"Possibly unhandled promise rejection: Error: r\n    at ")
    clean(
        run('const p = Promise.reject(new Error("r")); await null; p.catch(() => console.log("handled"))'), "handled\n"
    )
    result = run("Promise.reject(1); Promise.reject(2)")
    assert result.stderr == b"Possibly unhandled promise rejection: 1\nPossibly unhandled promise rejection: 2\n"
    result = run("Promise.reject(1); await new Promise(() => {})")
    assert result.exit_code == 1


def test_rejections_are_forgotten_one_by_one(run):
    many = "const all = []; for (let i = 0; i < 300; i++) all.push(Promise.reject(i));"
    for order in ("i => i", "i => 299 - i", "i => i * 7 % 300"):
        clean(run(f"{many} for (let i = 0; i < 300; i++) all[({order})(i)].catch(() => {{}}); print(1)"), "1\n")
    result = run(f"{many} all.forEach((p, i) => i % 100 === 50 || p.catch(() => {{}})); Promise.reject('last')")
    texts = ["50", "150", "250", "last"]
    assert result.stderr.decode() == "".join(f"Possibly unhandled promise rejection: {text}\n" for text in texts)
    # What was forgotten is collected: its promise may be, and another may take its place in memory.
    again = "for (let i = 0; i < 300; i++) { let p = Promise.reject(i); p.catch(() => {}); p = null }"
    result = run(f"{again} gc(); {again} Promise.reject('left')")
    assert result.stderr == b"Possibly unhandled promise rejection: left\n"


def test_top_level_await(run):
    clean(run("const v = await Promise.resolve(42); console.log(v)"), "42\n")
    result = run("console.log(1); await new Promise(() => {})")
    assert (result.exit_code, result.stdout, result.stderr) == (13, b"1\n", b"unsettled top-level await\n")
    clean(run("Promise.resolve().then(() => console.log('job'));"), "job\n")


def test_deep_recursion_is_a_result(run):
    for source in (
        "function f(n) { return n ? 1 + f(n - 1) : 0 } f(200000)",
        "function f() { [1].map(f) } f()",
        "const o = { toString() { return '' + this } }; '' + o",
        "const p = new Proxy({}, { get(t, k, r) { return r[k] } }); p.x",
        "async function f() { await f() } await f()",
        "class A { constructor() { new A } } new A",
        "JSON.parse('['.repeat(200000))",
        "let a = []; for (let i = 0; i < 100000; i++) a = [a]; String(a)",
        "let f = () => 1; for (let i = 0; i < 100000; i++) f = f.bind(null); f()",
        "let f = {}; for (let i = 0; i < 100000; i++) f = new Proxy(f, {}); f.x",
        "(" * 50000 + "1" + ")" * 50000,
        "[" * 50000 + "]" * 50000,
        "!" * 100000 + "1",
        "function a(){" * 5000 + "}" * 5000,
        "new RegExp('(?:'.repeat(50000) + ')'.repeat(50000))",
    ):
        result = run(source)
        assert result.trap == "call stack exhausted" or (
            result.exit_code == 1 and re.match(rb"(RangeError|InternalError|SyntaxError): ", result.stderr)
        ), (source[:60], result.exit_code, result.trap, result.stderr[:200])
    clean(
        run("let d = 0; function f() { d++; f() } try { f() } catch (e) { console.log(e.name, d > 1000) }"),
        "RangeError true\n",
    )
    clean(run("let a = null; for (let i = 0; i < 300000; i++) a = { a }; a = null; gc(); console.log('ok')"), "ok\n")


def test_std_module(run):
    result = run('import {exit} from "qjs:std"; console.log("a"); exit(7); console.log("b")')
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"a\n", b"")
    result = run('console.log("no"); import "fs"')
    assert (result.exit_code, result.stdout) == (1, b"") and result.stderr.startswith(b"SyntaxError: ")
    clean(run('import("fs").catch(e => console.log(e.name))'), "ReferenceError\n")
    for name in ("./qjs:std", "qjs:os", "std", "<snippet>", "/etc/passwd", "data:text/javascript,1"):
        clean(run(f'import("{name}").catch(e => console.log(e.name))'), "ReferenceError\n")
    result = run('import {err, out} from "qjs:std"; err.puts("e\\n"); out.puts("o", "p\\n"); out.flush(); err.flush()')
    assert (result.exit_code, result.stdout, result.stderr) == (0, b"op\n", b"e\n")
    clean(
        run(
            'import * as std from "qjs:std";'
            "console.log(Object.keys(std).sort(), Object.getOwnPropertyNames(std.out).sort(), std.gc())"
        ),
        "err,exit,gc,out flush,puts undefined\n",
    )
    assert run('import {exit} from "qjs:std"; exit(-1)').exit_code == 255
    assert run('import {exit} from "qjs:std"; exit(256 + 3)').exit_code == 3
    assert run('(await import("qjs:std")).exit(9)').exit_code == 9


@pytest.mark.parametrize(
    "body",
    [
        "try { exit(4) } catch { console.log('caught') } finally { console.log('finally') } console.log('after')",
        "async function f() { exit(4) } f(); console.log('after')",
        "async function f() { try { exit(4) } finally { console.log('finally') } }"
        "f().finally(() => console.log('x')); console.log('after')",
        "function* g() { try { exit(4) } finally { console.log('finally') } } [...g()]; console.log('after')",
        "new Promise(() => exit(4)); console.log('after')",
        "Promise.resolve().then(() => exit(4)).finally(() => console.log('x')); await new Promise(() => {})",
        "console.log({ toString() { exit(4) } }); console.log('after')",
        "[2, 1].sort(() => exit(4)); console.log('after')",
        "Error.prepareStackTrace = () => { console.log('trace'); for (;;); }; exit(4)",
        "async function f() { exit(4) } f(); for (;;);",
        "async function f() { exit(4) } f(); __plimsoll_host_call('{}'); console.log('after')",
        "Promise.reject(1); exit(4)",
        "throw { toString() { exit(4) } }",
        "queueMicrotask(() => exit(4)); queueMicrotask(() => console.log('x'))",
    ],
)
def test_nothing_runs_after_exit(run, body):
    result = run(f'import {{exit}} from "qjs:std"; {body}')
    assert (result.exit_code, result.stdout, result.stderr, result.trap) == (4, b"", b"", None)


# ---- determinism and isolation -------------------------------------------------------------------------------------


def test_clocks_and_random_are_virtual(host, run):
    source = "const p = performance; const values = [Date.now(), Date.now(), Math.random(), p.now(), p.now()];"
    source += "console.log(...values, new Date().toISOString())"
    first = run(source)
    fields = first.stdout.decode().split()
    assert fields[:2] == ["1640995200000", "1640995200001"] and fields[3:] == ["0", "1", "2022-01-01T00:00:00.002Z"]
    assert 0 <= float(fields[2]) < 1
    assert run(source).stdout == first.stdout
    fresh = host.fork()
    assert fresh.run(source).stdout == first.stdout
    clean(run("console.log(new Date(2022, 0, 1).getTimezoneOffset())"), "0\n")


# Walks everything reachable from the globals and digests names, kinds, flags and function sources.
FINGERPRINT = """
const seen = new Map(); const queue = [globalThis]; let hash = 0, count = 0;
const add = s => { for (let i = 0; i < s.length; i++) hash = (hash * 31 + s.charCodeAt(i)) | 0; };
const visit = v => { if ((typeof v === "object" && v !== null) || typeof v === "function") {
  if (!seen.has(v)) { seen.set(v, seen.size); queue.push(v); } add("#" + seen.get(v)); }
  else add(typeof v + String(v)); };
seen.set(globalThis, 0);
while (queue.length) { const o = queue.shift(); count++; visit(Object.getPrototypeOf(o));
  if (typeof o === "function") add(Function.prototype.toString.call(o));
  add(String(Object.isExtensible(o)));
  for (const k of Reflect.ownKeys(o)) { const d = Object.getOwnPropertyDescriptor(o, k);
    add(String(k)); add(d.configurable + "" + d.enumerable + d.writable);
    for (const f of ["value", "get", "set"]) if (f in d) visit(d[f]); } }
console.log(count, hash);
"""

POISON = """
const seen = new Set(); const queue = [globalThis]; let n = 0;
while (queue.length) { const o = queue.shift(); if (seen.has(o)) continue; seen.add(o);
  const p = Object.getPrototypeOf(o); if (p) queue.push(p);
  for (const k of Reflect.ownKeys(o)) { const d = Object.getOwnPropertyDescriptor(o, k);
    for (const v of [d.value, d.get, d.set])
      if ((typeof v === "object" && v) || typeof v === "function") queue.push(v); } }
const poison = function () { throw new Error("poisoned"); };
const set = Reflect.defineProperty, keys = Reflect.ownKeys;
const get = Object.getOwnPropertyDescriptor, freeze = Object.preventExtensions;
const all = [...seen]; const len = all.length; const list = []; for (let i = 0; i < len; i++) list[i] = keys(all[i]);
for (let i = 0; i < len; i++) { const o = all[i];
  for (let j = 0; j < list[i].length; j++) { const k = list[i][j]; const d = get(o, k);
    if (d && d.configurable && o !== globalThis) {
      set(o, k, {value: poison, writable: true, configurable: true, enumerable: true}); n++; } }
  try { o.leak = 1 } catch {} freeze(o); }
print(n > 1000);
"""

DIRTY = {
    "a global": ("globalThis.leak = 1", 0),
    "a changed built-in": ("Array.prototype.push = () => 0; Object.prototype.leak = 1; delete globalThis.Map", 0),
    "every built-in poisoned": (POISON, 0),
    "an exception": ("globalThis.leak = 1; throw new Error('x')", 1),
    "exit(7)": ('import {exit} from "qjs:std"; globalThis.leak = 1; exit(7)', 7),
    "exit in the middle of a call": (
        'import {exit} from "qjs:std"; globalThis.leak = 1; [3, 2, 1].sort(() => exit(7))',
        7,
    ),
    "an unsettled promise": ("globalThis.leak = 1; await new Promise(() => {})", 13),
    "60 MiB": ("globalThis.leak = []; for (let i = 0; i < 60; i++) leak.push(new Uint8Array(1 << 20).fill(0xa5))", 0),
    "2 MiB of small objects": ("globalThis.leak = []; for (let i = 0; i < 20000; i++) leak.push({i})", 0),
    "deep recursion": ("globalThis.leak = 1; (function f() { f() })()", 1),
    "clock and random readings": ("for (let i = 0; i < 1000; i++) { Date.now(); performance.now(); Math.random() }", 0),
    "pending microtasks": ("globalThis.leak = 1; queueMicrotask(() => { throw 1 }); queueMicrotask(() => {})", 1),
    "new atoms, shapes, symbols, classes": (
        "for (let i = 0; i < 5000; i++) { Symbol.for('s' + i); globalThis['k' + i] = class {} }",
        0,
    ),
    "a syntax error": ("let x = ;", 1),
    "a large source": ("/*" + "x" * 300000 + "*/ globalThis.leak = 1", 0),
}

CAPACITY = """let a = [], n = 0;
try { for (;;) { a.push(new Uint8Array(1 << 20)); n++ } } catch (e) { a = null; console.log(e.name, e.message, n) }"""
STATE = (
    "console.log(typeof leak, Date.now(), performance.now(), Math.random(), [].push(1));"
    "console.log(Object.keys(globalThis).length);" + FINGERPRINT
)


@pytest.mark.parametrize("name", DIRTY)
@pytest.mark.parametrize("single_use", [False, True], ids=["reused", "fresh process"])
def test_nothing_of_a_run_reaches_the_next(host, name, single_use):
    source, exit_code = DIRTY[name]
    flags = SINGLE_USE if single_use else 0

    def runs(*sources):
        results, worker = [], None
        for text in sources:
            if worker is None or single_use:
                worker = host.fork(flags)
            elif results:
                worker.expect(b"I")
            results.append(worker.run(text, pages=1024 if text is CAPACITY else 4096))
        return results

    (expected_state,) = runs(STATE)
    (expected_capacity,) = runs(CAPACITY)
    clean(expected_state, expected_state.stdout.decode())
    assert re.fullmatch(rb"InternalError out of memory [3-6]\d\n", expected_capacity.stdout), expected_capacity
    dirty, state, again, capacity = runs(source, STATE, source, CAPACITY)
    assert dirty.exit_code == exit_code == again.exit_code, dirty
    assert dirty.stdout == again.stdout and dirty.stderr == again.stderr
    assert (state.stdout, state.stderr) == (expected_state.stdout, b"")
    assert (capacity.stdout, capacity.stderr) == (expected_capacity.stdout, b"")


def readable_memory(pid: int):
    """Every mapped byte of a process but its native stack, whose dead frames no guest can read."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            fields = line.split()
            start, end = (int(x, 16) for x in fields[0].split("-"))
            if fields[-1] in ("[stack]", "[vvar]", "[vsyscall]", "[vvar_vclock]"):
                continue
            memory.seek(start)
            try:
                yield line.strip(), memory.read(min(end - start, 160 << 20))  # of the reservation: all that was used
            except OSError:
                continue


@pytest.mark.skipif(os.geteuid() != 0, reason="reads a worker's memory, which only root may")
def test_no_byte_of_a_run_stays_in_the_worker(worker):
    parts = "const m = ['MARK', 'OF', 'RUN'].join('-'); "
    keep = (
        parts
        + "globalThis.big = []; for (let i = 0; i < 40; i++) big.push(m.repeat(60000));"
        + "globalThis.small = m + '!'; console.log(m); let a = ['FROM-THE-SOURCE']"
    )
    assert not any(b"MARK-OF-RUN" in data for _, data in readable_memory(worker.pid))
    for source in (
        keep,
        parts + "console.log(m) // FROM-THE-SOURCE",
        parts + "let s = m; while (s.length < 300000) s += m; print(s)",
    ):
        assert worker.run(source).exit_code == 0
        worker.expect(b"I")
        for where, data in readable_memory(worker.pid):
            assert b"MARK-OF-RUN" not in data and b"FROM-THE-SOURCE" not in data, where


def test_growth_far_beyond_the_snapshot_ends_the_worker(host):
    worker = host.fork()
    result = worker.run(
        "const a = []; for (let i = 0; i < 80; i++) a.push(new Uint8Array(1 << 20)); console.log(a.length)"
    )
    clean(result, "80\n")
    with pytest.raises(Gone):
        worker.receive()
    assert host.exit_status(worker) == 0
