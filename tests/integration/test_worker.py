"""The worker host and the JavaScript guest, through their own protocol (spec/wasm.md; numbers are its conformance list)."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

import worker_host
from worker_host import GUEST, PROBE, ROOT, SINGLE_USE, WORKER, Gone, Host

pytestmark = pytest.mark.skipif(not WORKER.exists(), reason=f"{WORKER} is not built")

LOCK = ROOT / "third_party" / "lock"
WALLS_REQUIRED = 0x1F
WALL_EMPTY_ROOT, WALL_NET_NS, WALL_OTHER_UID = 0x100, 0x200, 0x2000


@pytest.fixture(scope="module")
def host():
    with Host() as h:
        h.facts = h.ready()
        yield h


class Runner:
    """Serves run() with one worker as long as it stays usable: every run but the first is on a reused one."""

    def __init__(self, host: Host) -> None:
        self.host, self.worker = host, host.fork()

    def __call__(self, source, pages=worker_host.PAGES_DEFAULT, answer=None):
        result = self.worker.run(source, pages, answer)
        try:
            self.worker.expect(b"I")
        except Gone:
            allowed = 10 if result.trap else 0
            assert os.WEXITSTATUS(self.host.exit_status(self.worker)) == allowed, "only a trap or much growth ends a worker"
            self.worker = self.host.fork()
        return result


@pytest.fixture(scope="module")
def run(host):
    return Runner(host)


@pytest.fixture
def worker(host):
    w = host.fork()
    yield w
    w.close()


def clean(result, stdout: str, exit_code: int = 0) -> None:
    assert (result.stdout.decode(), result.stderr, result.exit_code, result.trap) == (stdout, b"", exit_code, None)


# ---- what a snippet sees -------------------------------------------------------------------------------------------


def test_1_arithmetic(run):
    clean(run('console.log("wasm", 6*7)'), "wasm 42\n")


@pytest.mark.parametrize("method", ["log", "error", "warn", "info", "debug", "trace"])
def test_7_console_methods_write_to_stdout(run, method):
    clean(run(f'console.{method}("x", 1)'), "x 1\n")


@pytest.mark.parametrize(
    "arguments, text",
    [
        ('"a",1,-0,null,undefined,10n,[1,[2,3]],{a:1},[null,undefined]', "a 1 0 null undefined 10 1,2,3 [object Object] ,"),
        ('Symbol("s")', "<exception>"),
        ('"%s","x"', "%s x"),
        ("", ""),
        ("new Map(), Object.create(null)", "[object Map] [object Object]"),
        ("{toString() { throw 1 }}, {toString: 1, valueOf: 1, [Symbol.toStringTag]: 'T'}", "[object Object] [object T]"),
        ("{toString() { throw 1 }, get [Symbol.toStringTag]() { throw 2 }}", "[object Object]"),
        ("x => x + 1, new TypeError('m')", "x => x + 1 TypeError: m"),
        ("new Date(0)", "Thu Jan 01 1970 00:00:00 GMT+0000"),
        ("true, 1e21, 0.1, NaN, -Infinity", "true 1e+21 0.1 NaN -Infinity"),
    ],
)
def test_8_console_conversion(run, arguments, text):
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
        ("JSON.stringify(new Intl.NumberFormat('x',{style:'currency'}).resolvedOptions())",
         '{"locale":"en-US","style":"currency"}'),
        ("[1000, 2000].map(new Intl.NumberFormat().format)", "1,000,2,000"),
        ("[1000, 2.5].toLocaleString()", "1,000,2.5"),
        ("Object.getOwnPropertyNames(Intl)", "NumberFormat"),
        ("typeof Intl.DateTimeFormat", "undefined"),
    ],
)
def test_9_number_formatting(run, expression, text):
    clean(run(f"console.log({expression})"), text + "\n")


PRESENT = """Object Function Array String Number Boolean Symbol BigInt Math JSON Reflect Proxy RegExp Date Promise Map Set
WeakMap WeakSet WeakRef FinalizationRegistry Iterator Error EvalError RangeError ReferenceError SyntaxError TypeError URIError
AggregateError SuppressedError InternalError ArrayBuffer SharedArrayBuffer Int8Array Uint8Array Uint8ClampedArray Int16Array
Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array Float16Array Float32Array Float64Array DataView Atomics
DisposableStack AsyncDisposableStack eval parseInt parseFloat isNaN isFinite decodeURI decodeURIComponent encodeURI
encodeURIComponent escape unescape console print queueMicrotask performance navigator btoa atob DOMException gc scriptArgs
globalThis Intl __plimsoll_host_call NaN Infinity""".split()

ABSENT = """fetch XMLHttpRequest WebSocket setTimeout setInterval setImmediate structuredClone TextEncoder TextDecoder URL Blob
crypto WebAssembly Worker require module process Buffer std os host bjson""".split()


def test_6_globals(run):
    clean(run("console.log(typeof fetch, typeof setTimeout, typeof process, typeof require)"), "undefined " * 3 + "undefined\n")
    names = ",".join(f"typeof {name}" for name in ABSENT)
    clean(run(f"console.log([{names}].every(t => t === 'undefined'))"), "true\n")
    source = f"console.log(Object.getOwnPropertyNames(globalThis).filter(n => n !== 'undefined').sort().join())"
    clean(run(source), ",".join(sorted(PRESENT)) + "\n")


def test_host_like_globals(run):
    clean(run("console.log(JSON.stringify([scriptArgs, Object.keys(performance), navigator.userAgent, btoa('a'), atob('YQ==')]))"),
          '[[],["now"],"quickjs-ng/0.17.0","YQ==","a"]\n')
    clean(run("queueMicrotask(() => console.log(2)); console.log(1)"), "1\n2\n")
    clean(run("console.log(new DOMException('m', 'AbortError').code, gc())"), "20 undefined\n")
    clean(run("console.log(Object.keys(globalThis).includes('Intl'), new SharedArrayBuffer(8).byteLength)"), "false 8\n")


def test_atomics_work_and_never_block(run):
    clean(run("const a = new Int32Array(new SharedArrayBuffer(8)); Atomics.add(a, 0, 5); console.log(Atomics.load(a, 0), Atomics.notify(a, 0))"),
          "5 0\n")
    result = run("Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0, 1000)")
    assert result.exit_code == 1 and result.stderr.startswith(b"TypeError: ")


def test_module_mode(run):
    clean(run("console.log(typeof this)"), "undefined\n")
    assert run("undeclared = 1").stderr.startswith(b"ReferenceError: ")
    assert run("return 1").stderr.startswith(b"SyntaxError: ")
    assert run("const a = 1; const a = 2;").stderr.startswith(b"SyntaxError: ")


# ---- ends of a run -------------------------------------------------------------------------------------------------


def test_3_uncaught_errors(run):
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
    for thrown, text in (("null", "null"), ("Object.create(null)", "[object Object]"), ("Symbol('s')", "<exception>"), ("{a: 1}", "[object Object]")):
        result = run(f"throw {thrown}")
        assert (result.exit_code, result.stderr.decode()) == (1, text + "\n")


def test_line_numbers_skip_what_the_host_put_first(run):
    result = run("//@plimsoll-lines 3\nconst a = 1;\nconst b = 2;\nthrow new Error(String(a + b))")
    assert result.stderr == b"Error: 3\n    at <anonymous> (<snippet>:1:28)\n\n"


def test_4_rejections(run):
    result = run('Promise.reject(new Error("r"))')
    assert result.exit_code == 1
    assert result.stderr.startswith(b"Possibly unhandled promise rejection: Error: r\n    at ")
    clean(run('const p = Promise.reject(new Error("r")); await null; p.catch(() => console.log("handled"))'), "handled\n")
    result = run("Promise.reject(1); Promise.reject(2)")
    assert result.stderr == b"Possibly unhandled promise rejection: 1\nPossibly unhandled promise rejection: 2\n"
    result = run("Promise.reject(1); await new Promise(() => {})")
    assert result.exit_code == 1


def test_5_top_level_await(run):
    clean(run("const v = await Promise.resolve(42); console.log(v)"), "42\n")
    result = run("console.log(1); await new Promise(() => {})")
    assert (result.exit_code, result.stdout, result.stderr) == (13, b"1\n", b"unsettled top-level await\n")
    clean(run("Promise.resolve().then(() => console.log('job'));"), "job\n")


def test_13_deep_recursion_is_a_result(run):
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
    clean(run("let d = 0; function f() { d++; f() } try { f() } catch (e) { console.log(e.name, d > 1000) }"), "RangeError true\n")
    clean(run("let a = null; for (let i = 0; i < 300000; i++) a = { a }; a = null; gc(); console.log('ok')"), "ok\n")


def test_17_std_module(run):
    result = run('import {exit} from "qjs:std"; console.log("a"); exit(7); console.log("b")')
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"a\n", b"")
    result = run('console.log("no"); import "fs"')
    assert (result.exit_code, result.stdout) == (1, b"") and result.stderr.startswith(b"SyntaxError: ")
    clean(run('import("fs").catch(e => console.log(e.name))'), "ReferenceError\n")
    for name in ("./qjs:std", "qjs:os", "std", "<snippet>", "/etc/passwd", "data:text/javascript,1"):
        clean(run(f'import("{name}").catch(e => console.log(e.name))'), "ReferenceError\n")
    result = run('import {err, out} from "qjs:std"; err.puts("e\\n"); out.puts("o", "p\\n"); out.flush(); err.flush()')
    assert (result.exit_code, result.stdout, result.stderr) == (0, b"op\n", b"e\n")
    clean(run('import * as std from "qjs:std"; console.log(Object.keys(std).sort(), Object.getOwnPropertyNames(std.out).sort(), std.gc())'),
          "err,exit,gc,out flush,puts undefined\n")
    assert run('import {exit} from "qjs:std"; exit(-1)').exit_code == 255
    assert run('import {exit} from "qjs:std"; exit(256 + 3)').exit_code == 3
    assert run('(await import("qjs:std")).exit(9)').exit_code == 9


@pytest.mark.parametrize(
    "body",
    [
        "try { exit(4) } catch { console.log('caught') } finally { console.log('finally') } console.log('after')",
        "async function f() { exit(4) } f(); console.log('after')",
        "async function f() { try { exit(4) } finally { console.log('finally') } } f().finally(() => console.log('x')); console.log('after')",
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


def test_15_clocks_and_random_are_virtual(host, run):
    source = "console.log(Date.now(), Date.now(), Math.random(), performance.now(), performance.now(), new Date().toISOString())"
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
  if (!seen.has(v)) { seen.set(v, seen.size); queue.push(v); } add("#" + seen.get(v)); } else add(typeof v + String(v)); };
seen.set(globalThis, 0);
while (queue.length) { const o = queue.shift(); count++; visit(Object.getPrototypeOf(o));
  if (typeof o === "function") add(Function.prototype.toString.call(o));
  add(String(Object.isExtensible(o)));
  for (const k of Reflect.ownKeys(o)) { const d = Object.getOwnPropertyDescriptor(o, k); add(String(k)); add(d.configurable + "" + d.enumerable + d.writable);
    for (const f of ["value", "get", "set"]) if (f in d) visit(d[f]); } }
console.log(count, hash);
"""

POISON = """
const seen = new Set(); const queue = [globalThis]; let n = 0;
while (queue.length) { const o = queue.shift(); if (seen.has(o)) continue; seen.add(o);
  const p = Object.getPrototypeOf(o); if (p) queue.push(p);
  for (const k of Reflect.ownKeys(o)) { const d = Object.getOwnPropertyDescriptor(o, k);
    for (const v of [d.value, d.get, d.set]) if ((typeof v === "object" && v) || typeof v === "function") queue.push(v); } }
const poison = function () { throw new Error("poisoned"); };
const set = Reflect.defineProperty, keys = Reflect.ownKeys, get = Object.getOwnPropertyDescriptor, freeze = Object.preventExtensions;
const all = [...seen]; const len = all.length; const list = []; for (let i = 0; i < len; i++) list[i] = keys(all[i]);
for (let i = 0; i < len; i++) { const o = all[i];
  for (let j = 0; j < list[i].length; j++) { const k = list[i][j]; const d = get(o, k);
    if (d && d.configurable && o !== globalThis) { set(o, k, {value: poison, writable: true, configurable: true, enumerable: true}); n++; } }
  try { o.leak = 1 } catch {} freeze(o); }
print(n > 1000);
"""

DIRTY = {
    "a global": ("globalThis.leak = 1", 0),
    "a changed built-in": ("Array.prototype.push = () => 0; Object.prototype.leak = 1; delete globalThis.Map", 0),
    "every built-in poisoned": (POISON, 0),
    "an exception": ("globalThis.leak = 1; throw new Error('x')", 1),
    "exit(7)": ('import {exit} from "qjs:std"; globalThis.leak = 1; exit(7)', 7),
    "exit in the middle of a call": ('import {exit} from "qjs:std"; globalThis.leak = 1; [3, 2, 1].sort(() => exit(7))', 7),
    "an unsettled promise": ("globalThis.leak = 1; await new Promise(() => {})", 13),
    "60 MiB": ("globalThis.leak = []; for (let i = 0; i < 60; i++) leak.push(new Uint8Array(1 << 20).fill(0xa5))", 0),
    "2 MiB of small objects": ("globalThis.leak = []; for (let i = 0; i < 20000; i++) leak.push({i})", 0),
    "deep recursion": ("globalThis.leak = 1; (function f() { f() })()", 1),
    "clock and random readings": ("for (let i = 0; i < 1000; i++) { Date.now(); performance.now(); Math.random() }", 0),
    "pending microtasks": ("globalThis.leak = 1; queueMicrotask(() => { throw 1 }); queueMicrotask(() => {})", 1),
    "new atoms, shapes, symbols, classes": ("for (let i = 0; i < 5000; i++) { Symbol.for('s' + i); globalThis['k' + i] = class {} }", 0),
    "a syntax error": ("let x = ;", 1),
    "a large source": ("/*" + "x" * 300000 + "*/ globalThis.leak = 1", 0),
}

CAPACITY = "let a = [], n = 0; try { for (;;) { a.push(new Uint8Array(1 << 20)); n++ } } catch (e) { a = null; console.log(e.name, e.message, n) }"
STATE = "console.log(typeof leak, Date.now(), performance.now(), Math.random(), [].push(1), Object.keys(globalThis).length);" + FINGERPRINT


@pytest.mark.parametrize("name", DIRTY)
@pytest.mark.parametrize("single_use", [False, True], ids=["reused", "fresh process"])
def test_16_nothing_of_a_run_reaches_the_next(host, name, single_use):
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

    expected_state, = runs(STATE)
    expected_capacity, = runs(CAPACITY)
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
            if end - start > 1 << 30 or fields[-1] in ("[stack]", "[vvar]", "[vsyscall]", "[vvar_vclock]"):
                continue
            memory.seek(start)
            try:
                yield line.strip(), memory.read(end - start)
            except OSError:
                continue


@pytest.mark.skipif(os.geteuid() != 0, reason="reads a worker's memory, which only root may")
def test_no_byte_of_a_run_stays_in_the_worker(worker):
    parts = "const m = ['MARK', 'OF', 'RUN'].join('-'); "
    keep = parts + "globalThis.big = []; for (let i = 0; i < 40; i++) big.push(m.repeat(60000)); globalThis.small = m + '!'; console.log(m); let a = ['FROM-THE-SOURCE']"
    assert not any(b"MARK-OF-RUN" in data for _, data in readable_memory(worker.pid))
    for source in (keep, parts + "console.log(m) // FROM-THE-SOURCE", parts + "let s = m; while (s.length < 300000) s += m; print(s)"):
        assert worker.run(source).exit_code == 0
        worker.expect(b"I")
        for where, data in readable_memory(worker.pid):
            assert b"MARK-OF-RUN" not in data and b"FROM-THE-SOURCE" not in data, where


def test_growth_far_beyond_the_snapshot_ends_the_worker(host):
    worker = host.fork()
    result = worker.run("const a = []; for (let i = 0; i < 80; i++) a.push(new Uint8Array(1 << 20)); console.log(a.length)")
    clean(result, "80\n")
    with pytest.raises(Gone):
        worker.receive()
    assert host.exit_status(worker) == 0


# ---- limits --------------------------------------------------------------------------------------------------------

ARRAYS = "const a = []; for (let i = 0; i < 128; i++) a.push(new Uint8Array(1 << 20).fill(i)); console.log(a.length)"


def test_11_memory_cap(host):
    clean(host.fork().run(ARRAYS), "128\n")
    result = host.fork().run(ARRAYS, pages=512)
    assert (result.exit_code, result.stdout) == (1, b"") and result.stderr.startswith(b"InternalError: out of memory\n")
    clean(host.fork().run("console.log('ok')", pages=65536), "ok\n")
    clean(host.fork().run("try { new Uint8Array(1 << 26) } catch (e) { console.log(e.name, e.message) }", pages=512),
          "InternalError out of memory\n")


def test_a_source_larger_than_the_memory(host, worker):
    pages = host.facts["snapshot_pages"] + 64
    result = worker.run("/*" + "x" * (16 << 20) + "*/", pages=pages)
    assert (result.exit_code, result.stderr) == (1, b"InternalError: out of memory\n\n")
    worker.expect(b"I")
    clean(worker.run("console.log(1)", pages=pages), "1\n")


def test_10_endless_loop_is_killed(host, worker):
    worker.start("console.log('before'); while (true) {}")
    assert worker.expect(b"O") == b"before\n"
    worker.kill()
    worker.wait_dead()
    with pytest.raises(Gone):
        worker.receive()
    assert os.WTERMSIG(host.exit_status(worker)) == signal.SIGKILL


def test_14_output(host, run):
    clean(run("console.log('x'.repeat(69999))"), "x" * 69999 + "\n")
    assert run("console.log('x'.repeat(200000))").frames == [(b"O", 65536)] * 3 + [(b"O", 200001 - 3 * 65536), (b"D", 1)]
    flood = host.fork()
    flood.start("for (;;) console.log('x'.repeat(10000))")
    for _ in range(100):
        assert flood.receive()[0] == b"O"
    rss = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{flood.pid}/status").read_text())[1])
    assert rss < 64 << 10  # KiB: a reader that stops leaves the worker blocked, not growing
    flood.kill()
    flood.wait_dead()


def test_24_killed_from_outside(host, worker):
    worker.start("console.log(1); for (;;);")
    worker.expect(b"O")
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait_dead()
    assert os.WTERMSIG(host.exit_status(worker)) == signal.SIGKILL


def test_24_host_killed_takes_its_workers():
    with Host() as host:
        host.ready()
        idle, busy = host.fork(), host.fork()
        busy.start("for (;;);")
        os.kill(host.pid, signal.SIGKILL)
        for worker in (idle, busy):
            worker.wait_dead()
            with pytest.raises(Gone):
                worker.receive()


# ---- host calls ----------------------------------------------------------------------------------------------------


def test_19_envelope_lengths(run):
    ask = "const r = __plimsoll_host_call({}); console.log(r.status, JSON.stringify(r.body))"
    too_large = '413 "host api request envelope too large\\n"\n'
    clean(run(ask.format("''")), too_large)
    clean(run(ask.format("'x'.repeat(1114113)")), too_large)
    seen = []

    def answer(envelope):
        seen.append(envelope)
        return 200, b"yes"

    clean(run(ask.format("'x'.repeat(1114112)"), answer=answer), '200 "yes"\n')
    assert seen == [b"x" * 1114112]
    assert run("__plimsoll_host_call()").stderr.startswith(b"TypeError: ")
    for text in ('{"method":"GET","path":"/a","x":1}', '{"method":"GET","path":"/a"}{}', '"GET"', '{"body":null, "é": "\\u0000"}'):
        seen.clear()
        clean(run(f"__plimsoll_host_call({text!r})" if "'" not in text else "", answer=answer), "")
        assert seen == [text.encode().replace(b"\\u0000", b"\0")] or seen == [text.encode()]


def test_host_call_replies(run):
    ask = "try { const r = __plimsoll_host_call('{}'); console.log(Object.keys(r), r.status, r.body.length, r.body.slice(0, 8)) } catch (e) { console.log(e.name, e.message) }"
    cases = [
        ((200, b'{"a":1}'), 'status,body 200 7 {"a":1}\n'),
        ((599, b""), "status,body 599 0 \n"),
        ((0, b"secret"), "status,body 500 0 \n"),
        ((600, b"secret"), "status,body 500 0 \n"),
        ((0xFFFFFFFF, b""), "status,body 500 0 \n"),
        ((200, "é\0z".encode()), "status,body 200 3 é\0z\n"),
        ((200, b"a\xffb\xc3"), "status,body 200 4 a\ufffdb\ufffd\n"),
        ((200, b"x" * 4194304), "status,body 200 4194304 xxxxxxxx\n"),
    ]
    for reply, text in cases:
        clean(run(ask, answer=lambda envelope, reply=reply: reply), text)
    clean(run("let n = 0; for (let i = 0; i < 50; i++) n += __plimsoll_host_call('{\"i\":' + i + '}').body.length; console.log(n)",
              answer=lambda envelope: (200, envelope)), f"{sum(len(str(i)) + 6 for i in range(50))}\n")


# ---- the protocol --------------------------------------------------------------------------------------------------


def frame(tag: bytes, payload: bytes, length: int | None = None) -> bytes:
    return struct.pack("<cI", tag, len(payload) if length is None else length) + payload


@pytest.mark.parametrize(
    "data",
    [
        frame(b"X", b""),
        frame(b"I", b""),
        frame(b"h", struct.pack("<I", 200)),
        frame(b"R", b""),
        frame(b"R", b"\0\0\0"),
        frame(b"R", struct.pack("<I", 0) + b"1"),
        frame(b"R", struct.pack("<I", 65537) + b"1"),
        frame(b"R", struct.pack("<I", 4096), length=4 + 67108864 + 1),
        frame(b"R", struct.pack("<I", 4096), length=0xFFFFFFFF),
        frame(b"R", struct.pack("<I", 4096) + b"1") + b"R",
        frame(b"R", struct.pack("<I", 4096) + b"1") * 2,
    ],
)
def test_malformed_run_messages_end_the_worker(host, data):
    worker = host.fork()
    worker.sock.sendall(data)
    with pytest.raises((Gone, ConnectionResetError)):
        worker.receive()
    assert os.WEXITSTATUS(host.exit_status(worker)) == 11


@pytest.mark.parametrize(
    "data",
    [
        frame(b"R", struct.pack("<I", 4096) + b"1"),
        frame(b"h", b"\0\0\0"),
        frame(b"h", struct.pack("<I", 200), length=4 + 4194304 + 1),
        frame(b"h", struct.pack("<I", 200) + b"ok") + b"h",
    ],
)
def test_malformed_replies_end_the_worker(host, data):
    worker = host.fork()
    worker.start("__plimsoll_host_call('{}'); console.log('never')")
    worker.expect(b"H")
    worker.sock.sendall(data)
    with pytest.raises((Gone, ConnectionResetError)):
        worker.receive()
    assert os.WEXITSTATUS(host.exit_status(worker)) == 11


def test_a_message_in_pieces(worker):
    data = frame(b"R", struct.pack("<I", 4096) + b"console.log(1)")
    for i in range(len(data)):
        worker.sock.sendall(data[i : i + 1])
    worker.expect(b"S")
    clean(worker.finish(), "1\n")


@pytest.mark.parametrize("packet", [b"X", b"F", b"F\0\0\0\0", b"F\0\0\0\0\0\0", b"F\0\0\0\0\x04", b"V" * 85, b"F" * 2000])
def test_malformed_control_messages_end_the_host(packet):
    with Host() as host:
        host.ready()
        worker = host.fork()
        host.control.send(packet)
        assert os.WEXITSTATUS(host.wait()) == 3
        worker.wait_dead()


def test_parent_closing_a_worker_ends_it(host):
    worker = host.fork()
    worker.sock.close()
    worker.wait_dead()
    assert host.exit_status(worker) == 0
    busy = host.fork()
    busy.start("for (;;) console.log(1)")
    busy.sock.close()
    busy.wait_dead()
    assert host.exit_status(busy) == 0


def test_single_use_serves_once(host):
    worker = host.fork(SINGLE_USE)
    clean(worker.run("console.log(1)"), "1\n")
    with pytest.raises(Gone):
        worker.receive()
    assert host.exit_status(worker) == 0
    limits = pathlib.Path(f"/proc/{host.fork(SINGLE_USE).pid}/limits").read_text()
    assert re.search(r"Max cpu time +31 +31 ", limits)


# The engine aborts when it has no memory left to settle the promise of an async function.
TRAP = """console.log("before"); let l = null;
async function f() { l = {l, s: "x".repeat(100)}; await null; f(); f(); } f(); f();"""


def test_23_one_pid_serves_many_runs_and_none_after_a_trap(host, worker):
    for i in range(50):
        clean(worker.run(f"console.log({i})"), f"{i}\n")
        worker.expect(b"I")
    trapped = host.fork()
    result = trapped.run(TRAP, pages=512)
    assert (result.trap, result.stdout, result.exit_code) == ("unreachable", b"before\n", None)
    with pytest.raises(Gone):
        trapped.receive()
    assert os.WEXITSTATUS(host.exit_status(trapped)) == 10


# ---- confinement ---------------------------------------------------------------------------------------------------


def test_ready_states_the_walls(host):
    assert host.facts["version"] == 1
    assert host.facts["walls"] & WALLS_REQUIRED == WALLS_REQUIRED
    assert host.facts["snapshot_pages"] < host.facts["module_max_pages"] <= 65536
    if os.geteuid() == 0:
        assert host.facts["walls"] & WALL_OTHER_UID


def status_of(pid: int) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into a non-dumpable process, which only root may")
def test_23_what_a_worker_has(host, worker):
    proc = pathlib.Path(f"/proc/{worker.pid}")
    assert sorted(os.listdir(proc / "fd"), key=int) == ["0", "1", "2", "3"]
    assert [os.readlink(proc / "fd" / str(i)) for i in range(3)] == ["/dev/null"] * 3
    assert os.readlink(proc / "fd" / "3").startswith("socket:")
    assert (proc / "environ").read_bytes() == b""
    assert (proc / "cmdline").read_bytes() == b"plimsoll-wasm-worker\0"
    status = status_of(worker.pid)
    assert (status["Seccomp"].strip(), status["NoNewPrivs"].strip(), status["Threads"].strip()) == ("2", "1", "1")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["Uid"].split() != ["0"] * 4 and status["Groups"].strip() == ""
    assert (proc / "fd").stat().st_uid == 0  # non-dumpable: what is in there belongs to root
    assert not any("rwx" in line or "-wx" in line for line in (proc / "maps").read_text().splitlines())
    if host.facts["walls"] & WALL_EMPTY_ROOT:
        assert os.listdir(proc / "root") == []
        with pytest.raises(OSError):
            (proc / "root" / "x").mkdir()
    if host.facts["walls"] & WALL_NET_NS:
        assert os.readlink(proc / "ns" / "net") != os.readlink("/proc/self/ns/net")
    limits = (proc / "limits").read_text()
    for pattern in (r"Max open files +4 +4 ", r"Max processes +0 +0 ", r"Max file size +0 +0 ", r"Max core file size +0 +0 ",
                    r"Max stack size +8388608 +8388608 ", r"Max cpu time +unlimited"):
        assert re.search(pattern, limits), pattern
    assert os.getsid(worker.pid) == worker.pid


def test_probe_is_killed_by_the_filter(host):
    worker = host.fork(PROBE, idle=False)
    with pytest.raises(Gone):
        worker.receive()
    status = host.exit_status(worker)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS


def test_host_closes_what_it_inherits():
    with Host(extra_fds=True) as host:
        host.ready()
        if os.geteuid() == 0:
            worker = host.fork()
            assert sorted(os.listdir(f"/proc/{worker.pid}/fd"), key=int) == ["0", "1", "2", "3"]
            assert not {"7", "100"} & set(os.listdir(f"/proc/{host.pid}/fd"))


def test_host_refuses_what_it_should_not_have():
    with Host(environment={"TOKEN": "x"}) as host:
        assert "environment" in host.refusal()
        assert os.WEXITSTATUS(host.wait()) == 1
    with Host(arguments=("--help",)) as host:
        assert "argument" in host.refusal()
        assert os.WEXITSTATUS(host.wait()) == 1
    with Host(socket_type=socket.SOCK_STREAM) as host:
        assert os.WEXITSTATUS(host.wait()) == 2


def test_closing_control_ends_everything():
    host = Host()
    host.ready()
    busy = host.fork()
    busy.start("for (;;);")
    host.control.close()
    assert host.wait() == 0
    busy.wait_dead()
    busy.close()


CHILD = """
import sys; sys.path.insert(0, sys.argv[1])
from worker_host import Host
host = Host(); host.ready(); workers = [host.fork(), host.fork()]
workers[0].start("for (;;);")
print(host.pid, *(w.pid for w in workers), flush=True)
sys.stdin.read()
"""


def test_23_parent_killed_leaves_nothing():
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(pathlib.Path(__file__).parent)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    pids = [int(x) for x in child.stdout.readline().split()]
    assert len(pids) == 3 and all(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)
    child.kill()
    child.wait()

    def alive(pid):
        try:
            return status_of(pid)["State"].strip()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    deadline = time.monotonic() + 10
    while any(map(alive, pids)):
        assert time.monotonic() < deadline, [pid for pid in pids if alive(pid)]
        time.sleep(0.01)
    child.stdin.close()
    child.stdout.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="starts the host as another user, which only root may")
def test_an_ordinary_user_may_run_the_host(tmp_path):
    """Namespaces come with a user namespace then, where the kernel allows one; the required walls stand anyhow."""
    folder = pathlib.Path("/tmp") / f"plimsoll-worker-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        shutil.copy(WORKER, folder / "worker")
        code = CHILD.replace("Host()", f"Host(__import__('pathlib').Path({str(folder / 'worker')!r}))").replace(
            "host.ready()", "print(host.ready()['walls'], flush=True)")
        shutil.copy(pathlib.Path(worker_host.__file__), folder / "worker_host.py")
        child = subprocess.Popen(["/usr/bin/python3", "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 user=65534, group=65534, extra_groups=[], cwd="/")
        walls = int(child.stdout.readline())
        assert walls & WALLS_REQUIRED == WALLS_REQUIRED and not walls & WALL_OTHER_UID
        pids = [int(x) for x in child.stdout.readline().split()]
        status = status_of(pids[1])
        assert status["Seccomp"].strip() == "2" and int(status["CapEff"], 16) == 0
        child.stdin.close()
        assert child.wait() == 0
        child.stdout.close()
    finally:
        shutil.rmtree(folder)


# ---- provenance ----------------------------------------------------------------------------------------------------


def lock_entry(name: str) -> dict[str, str]:
    for stanza in LOCK.read_text().split("\n\n"):
        entry = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and not line.startswith("#"))
        if entry.get("name") == name:
            return entry
    raise KeyError(name)


def test_22_identity_is_the_modules_hash(host):
    digest = hashlib.sha256((GUEST / "guest.wasm").read_bytes()).hexdigest()
    assert host.facts["identity"] == digest
    assert f'#define PLIM_GUEST_SHA256 "{digest}"' in (GUEST / "guest_identity.h").read_text()


def sections(module: bytes) -> dict[int, bytes]:
    assert module[:8] == b"\0asm\1\0\0\0"
    found, at = {}, 8
    while at < len(module):
        ident, (size, at) = module[at], leb(module, at + 1)
        found.setdefault(ident, module[at : at + size])
        at += size
    return found


def leb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at


def name_at(data: bytes, at: int) -> tuple[str, int]:
    length, at = leb(data, at)
    return data[at : at + length].decode(), at + length


def test_22_imports_and_exports_are_exactly_the_contracts():
    found = sections((GUEST / "guest.wasm").read_bytes())
    imports, data = set(), found[2]
    count, at = leb(data, 0)
    for _ in range(count):
        module, at = name_at(data, at)
        name, at = name_at(data, at)
        assert data[at] == 0, "a function"
        _, at = leb(data, at + 1)
        imports.add(f"{module}.{name}")
    wasi = "wasi_snapshot_preview1."
    assert imports == {"plimsoll.host_call", wasi + "clock_time_get", wasi + "fd_write", wasi + "fd_fdstat_get", wasi + "fd_seek",
                       wasi + "fd_close"}
    exports, data = set(), found[7]
    count, at = leb(data, 0)
    for _ in range(count):
        name, at = name_at(data, at)
        _, at = leb(data, at + 1)
        exports.add(name)
    assert exports == {"memory", "_initialize", "plimsoll_init", "plimsoll_alloc", "plimsoll_run"}


def test_translation_is_what_was_compiled(tmp_path):
    subprocess.run(["wasm2c", "-n", "guest", str(GUEST / "guest.wasm"), "-o", str(tmp_path / "guest.c")], check=True)
    for name in ("guest.c", "guest.h"):
        assert (tmp_path / name).read_bytes() == (GUEST / name).read_bytes()


def test_module_builds_the_same_elsewhere(tmp_path):
    """The build's own commands, with every path moved."""
    printed = subprocess.run(["ninja", "-C", str(worker_host.BUILD), "-t", "commands", "guest/guest.wasm"], check=True,
                             capture_output=True, text=True).stdout.splitlines()
    commands = []
    for line in printed:
        arguments = shlex.split(line)
        if "--target=wasm32-wasi" in arguments:
            compiler = next(i for i, a in enumerate(arguments) if re.search(r"(^|/)clang(-\d+)?$", a))
            commands.append([a for a in arguments[compiler:] if a != "&&"])
    assert len(commands) == 6
    engine = next(pathlib.Path(a).parent for c in commands for a in c if a.endswith("/quickjs.c"))
    moves = [((worker_host.BUILD / engine).resolve(), tmp_path / "a" / "engine"), (ROOT / "guest", tmp_path / "b" / "source"),
             (GUEST, tmp_path / "c" / "built")]
    for old, new in moves[:2]:
        shutil.copytree(old, new)
    moves[2][1].mkdir(parents=True)
    shutil.copy(GUEST / "prelude.h", moves[2][1])

    def move(argument: str) -> str:
        prefix, path, suffix = re.fullmatch(r"(-ffile-prefix-map=)?([^=]*)(.*)", argument).groups("")
        full = pathlib.Path(os.path.normpath(worker_host.BUILD / path))
        for old, new in moves:
            if full == old or old in full.parents:
                return prefix + str(new / full.relative_to(old)) + suffix
        return argument

    def build(command: list[str]) -> None:
        subprocess.run([move(a) for a in command], check=True, cwd=tmp_path, env={**os.environ, "SOURCE_DATE_EPOCH": "0"})

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(build, [c for c in commands if "-c" in c]))
    build(next(c for c in commands if "-c" not in c))
    assert (moves[2][1] / "guest.wasm").read_bytes() == (GUEST / "guest.wasm").read_bytes()


def test_module_names_no_path_of_the_build():
    module = (GUEST / "guest.wasm").read_bytes()
    assert str(ROOT).encode() not in module and b"/build/" not in module and b"/home/" not in module


def test_licence_notices_are_shipped():
    notice = (GUEST / "LICENSE.quickjs-ng").read_bytes()
    assert hashlib.sha256(notice).hexdigest() == lock_entry("quickjs-ng")["notice-sha256"]
    assert b"Fabrice Bellard" in notice and b"Permission is hereby granted" in notice


def test_worker_is_hardened():
    headers = subprocess.run(["readelf", "-hldW", str(WORKER)], check=True, capture_output=True, text=True).stdout
    assert re.search(r"Type: +DYN", headers) and "GNU_RELRO" in headers
    assert "BIND_NOW" in headers or re.search(r"FLAGS.*NOW", headers)
    assert re.search(r"GNU_STACK +\S+ +\S+ +\S+ +\S+ +\S+ +RW ", headers)
