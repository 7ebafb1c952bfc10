"""Snippets that reach for the host: its modules, its files, its names, other realms, its addresses and its clock."""

import re

import pytest

from hostile import Hostile, attack

NAMES_OF_HOSTS = ("process require module exports Deno Bun fetch XMLHttpRequest WebSocket WebAssembly Worker SharedWorker "
                  "setTimeout setInterval setImmediate std os bjson Buffer global window self document importScripts "
                  "load loadFile read readFile open popen system exec spawn evalScript getenv setenv urlGet Java Packages "
                  "ActiveXObject print.constructor.env structuredClone crypto").split()

SPECIFIERS = ["fs", "node:fs", "std", "os", "bjson", "qjs:os", "qjs:bjson", "qjs:std/", "QJS:std", "./qjs:std", "../etc/passwd",
              "/etc/passwd", "file:///etc/passwd", "<snippet>", "./<snippet>", "", ".", "data:text/javascript,export default 1",
              "http://127.0.0.1/x.js", "blob:x", "a\0b", "x".ljust(100000, "y")]

CASES = [
    Hostile("names-of-hosts", "a name of another host is defined",
            "console.log(%r.filter(n => { try { return (0, eval)('typeof ' + n) !== 'undefined' } catch { return false } }).join())"
            % (NAMES_OF_HOSTS,), out="\n"),
    Hostile("function-constructor", "code made at run time sees more than the snippet does",
            "const F = (() => {}).constructor, G = (async () => {}).constructor, H = (function* () {}).constructor;\n"
            "console.log(F('return typeof process + typeof require + typeof this.std')(), G('return 1') instanceof Function,\n"
            "typeof H('yield 1'), F('return this')() === globalThis)", out="undefinedundefinedundefined true function true\n"),
    Hostile("constructor-of-constructor", "the constructor chain of a host function leads out of the realm",
            "for (const f of [print, console.log, __plimsoll_host_call, gc, performance.now, navigator.constructor])\n"
            "  console.log(f.constructor.constructor('return typeof os + typeof std')())", out="undefinedundefined\n" * 6),
    Hostile("indirect-eval", "an indirect eval finds names that the snippet does not have",
            "console.log((0, eval)('typeof std + typeof os + typeof scriptArgs'), (0, eval)('scriptArgs.length'))",
            out="undefinedundefinedobject 0\n"),
    Hostile("eval-of-an-import", "an import inside eval or new Function escapes the list of modules",
            "for (const make of [c => (0, eval)(c), c => eval(c), c => Function('return ' + c)()])\n"
            "  try { await make('import(\"os\")') } catch (e) { console.log(e.name) }", out="ReferenceError\n" * 3),
    Hostile("dynamic-imports", "an import of anything but qjs:std resolves",
            "let failed = 0; const names = %r;\n"
            "for (const n of names) try { await import(n); console.log('resolved', n) } catch (e) { failed++ }\n"
            "console.log(failed === names.length)" % (SPECIFIERS,), out="true\n"),
    Hostile("import-attributes", "an import attribute turns a path into data",
            "for (const type of ['json', 'text', 'bytes', 'css', ''])\n"
            "  try { await import('/etc/passwd', {with: {type}}); console.log('read') } catch (e) { }\nconsole.log('end')", out="end\n"),
    Hostile("static-import-of-a-file", "code before a failing import runs",
            "console.log('ran')\nimport x from '/etc/passwd'", exit_code=1, err="SyntaxError"),
    Hostile("static-import-of-a-missing-name", "a name that the module does not list is undefined instead of refused",
            "console.log('ran'); import {popen} from 'qjs:std'", exit_code=1, err="SyntaxError"),
    Hostile("names-of-the-std-module", "qjs:std offers more than its six functions",
            "import * as std from 'qjs:std'; const names = o => Reflect.ownKeys(o).map(String).join(); console.log(names(std), names(std.out), names(std.err))",
            out="err,exit,gc,out,Symbol(Symbol.toStringTag) puts,flush puts,flush\n"),
    Hostile("import-meta", "import.meta names a path or a loader",
            "console.log(JSON.stringify(import.meta), Reflect.ownKeys(import.meta).map(String).join())",
            out=re.compile(r"\{[^/]*\} ?[a-z,]*\n")),
    Hostile("own-module-again", "the snippet imports itself and runs twice",
            "globalThis.n = (globalThis.n ?? 0) + 1; try { await import('<snippet>') } catch (e) { console.log(e.name, n) }",
            out="ReferenceError 1\n"),
    Hostile("prepare-stack-trace", "a stack hook sees frames of ours or paths of the machine",
            "Error.prepareStackTrace = (e, frames) => { globalThis.frames = frames; return 'mine' };\n"
            "Error.stackTraceLimit = Infinity; (function deep(n) { if (n) return deep(n - 1); new Error('x').stack })(50);\n"
            "console.log(frames.every(f => [null, undefined, '<snippet>', 'native', ''].includes(f.getFileName())))",
            out="true\n"),
    Hostile("prepare-stack-trace-on-the-way-out", "a stack hook runs after the exit and prints",
            "import {exit} from 'qjs:std'; Error.prepareStackTrace = () => { print('hook'); for (;;); }; exit(5)",
            exit_code=5),
    Hostile("stack-text", "a stack trace names a path of the machine, a source file of the engine or an address",
            "try { null.x } catch (e) { print(e.stack) } try { JSON.parse('{') } catch (e) { print(e.stack) }\n"
            "try { [1].map(() => { throw Error('x') }) } catch (e) { print(e.stack) }",
            out=re.compile(r"(?!.*(/|\.c\b|\.h\b|0x)).*<snippet>.*", re.DOTALL)),
    Hostile("function-source", "the text of a host function shows how it is made",
            "for (const f of [print, gc, __plimsoll_host_call, console.log, performance.now])\n"
            "  print(/\\[native code\\]/.test(Function.prototype.toString.call(f)))", out="true\n" * 5),
    Hostile("caller-and-arguments", "caller or arguments of a function lead to frames of ours",
            "function f() { return [() => f.caller, () => f.arguments, () => (0, eval)('(function () { return this.caller })()')].map(g => {\n"
            "  try { return String(g()) } catch (e) { return e.name } }) }\nconsole.log(f().join())",
            out=re.compile(r"(TypeError|undefined|null)(,(TypeError|undefined|null)){2}\n")),
    Hostile("blocking-wait", "Atomics.wait blocks the only thread",
            "try { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0) } catch (e) { console.log(e.name) }\n"
            "console.log(Atomics.notify(new Int32Array(new SharedArrayBuffer(4)), 0))", out="TypeError\n0\n"),
    Hostile("shared-memory", "shared memory is shared with anything",
            "const s = new SharedArrayBuffer(1 << 20); new Uint8Array(s).fill(7); globalThis.s = s; console.log(s.byteLength)",
            out="1048576\n"),
    Hostile("timing-sources", "a clock tells real time, so that caches and other tenants can be timed",
            "const t = Date.now(), p = performance.now(); for (let i = 0; i < 3e6; i++);\n"
            "const c = new Int32Array(new SharedArrayBuffer(4)); try { Atomics.waitAsync?.(c, 0, 0, 100) } catch {}\n"
            "console.log(Date.now() - t, performance.now() - p, new Date() - t)", out="1 1 2\n"),
    Hostile("addresses", "an address of the engine shows in hashes, ids or uninitialized memory",
            "const b = new ArrayBuffer(1 << 20); console.log(new Uint8Array(b).every(x => x === 0));\n"
            "const u = new Float64Array(1 << 16); console.log(u.every(x => x === 0));\n"
            "console.log(Object.prototype.toString.call(Symbol()), String(() => 1), [new Set([{}, []])].map(s => [...s].length).join())",
            out="true\ntrue\n[object Symbol] () => 1 2\n"),
    Hostile("memory-of-earlier-values", "fresh buffers show what was freed before",
            "let seen = 0; for (let i = 0; i < 200; i++) { const s = 'secret'.repeat(2000 + i); const b = new Uint8Array(12000 + i * 6);\n"
            "  if (b.some(x => x !== 0)) seen++ } gc(); console.log(seen)", out="0\n"),
    Hostile("hidden-globals", "a global that is not listed is there",
            "const known = new Set(%r);\n"
            "console.log(Object.getOwnPropertyNames(globalThis).filter(n => !known.has(n)).join())" % (sorted(
                "Object Function Array String Number Boolean Symbol BigInt Math JSON Reflect Proxy RegExp Date Promise Map Set "
                "WeakMap WeakSet WeakRef FinalizationRegistry Iterator Error EvalError RangeError ReferenceError SyntaxError "
                "TypeError URIError AggregateError SuppressedError InternalError ArrayBuffer SharedArrayBuffer Int8Array "
                "Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array "
                "Float16Array Float32Array Float64Array DataView Atomics DisposableStack AsyncDisposableStack eval parseInt "
                "parseFloat isNaN isFinite decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape "
                "globalThis undefined NaN Infinity console print queueMicrotask performance navigator btoa atob DOMException "
                "gc scriptArgs Intl __plimsoll_host_call".split()),), out="\n"),
]


@pytest.mark.parametrize("mode", ["reused", "fresh"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_of_the_host_is_reached(sandboxes, case, mode):
    attack(sandboxes(mode), case)


def test_two_runs_print_the_same_bytes(sandboxes):
    """Whatever depends on an address, an order of hashing or a clock would differ between processes."""
    code = ("const o = {}; for (let i = 0; i < 50; i++) o['k' + Math.random()] = Symbol(i);\n"
            "console.log(Reflect.ownKeys(o).join(), [...new Map(Object.entries(o)).keys()].join());\n"
            "console.log(Date.now(), performance.now(), new Date().toString(), Math.random());\n"
            "try { (function f() { f() })() } catch (e) { console.log(e.stack) }\n"
            "console.log([3, 1, 2].sort(() => 0).join(), 0.1 + 0.2, 1e21, (123.456).toFixed(1), Math.sin(1), Math.exp(10))")
    answers = [sandboxes(mode).run(code) for mode in ("reused", "fresh", "reused", "fresh")]
    assert len({(a.stdout, a.stderr, a.exit_code) for a in answers}) == 1
    assert answers[0].exit_code == 0
