"""Snippets that poison the world they run in; the next run must find a world that nobody has touched."""

import re

import pytest

from hostile import Hostile, attack

EVERY_BUILT_IN = """
const poison = () => { throw "poisoned" };
const names = Object.getOwnPropertyNames(globalThis);
let touched = 0;
for (const name of names) {
  let object;
  try { object = globalThis[name] } catch { continue }
  for (const target of [object, object && object.prototype]) {
    if (Object(target) !== target || target === globalThis) continue;
    for (const key of Reflect.ownKeys(target)) {
      if (target === console || (target === Reflect && (key === "ownKeys" || key === "set")) ||
          (target === Object && /own|defineProperty/i.test(String(key)))) continue;
      try { target[key] = poison; touched++ } catch {}
    }
  }
}
console.log(touched > 500);
"""

CASES = [
    Hostile("poison-every-built-in", "a replaced method of any built-in reaches the next run",
            EVERY_BUILT_IN, exit_code=(0, 1), out=re.compile("(true\n)?"), err=None),
    Hostile("delete-every-global", "a deleted global is missing from the next run",
            "for (const n of Object.getOwnPropertyNames(globalThis)) try { delete globalThis[n] } catch {}\n"
            "(0, eval)('1')", exit_code=1, err="ReferenceError"),
    Hostile("freeze-everything", "objects frozen by one run stay frozen in the next",
            "for (const n of Object.getOwnPropertyNames(globalThis)) { const v = globalThis[n];\n"
            "  if (Object(v) === v && v !== globalThis) { Object.freeze(v); if (v.prototype) Object.freeze(v.prototype) } }\n"
            "Object.freeze(Function.prototype); Object.freeze(Object.prototype); console.log(Object.isFrozen(Array.prototype))",
            out="true\n"),
    Hostile("prevent-extensions-of-the-global", "a sealed global object reaches the next run",
            "Object.preventExtensions(globalThis); try { globalThis.x = 1 } catch (e) { console.log(e.name) }", out="TypeError\n"),
    Hostile("swap-prototypes", "a changed prototype chain reaches the next run",
            "Object.setPrototypeOf(Array.prototype, null); Object.setPrototypeOf(Function.prototype, Array.prototype);\n"
            "Object.setPrototypeOf(Error, null); console.log('done')", out="done\n"),
    Hostile("getters-during-console-conversion", "a getter on Object.prototype runs with more rights, or its throw is an error of ours",
            "Object.defineProperty(Object.prototype, 'toString', {get() { throw new Error('gotcha') }});\n"
            "Object.defineProperty(Object.prototype, Symbol.toPrimitive, {get() { throw 1 }});\n"
            "console.log({}, [], new Map())", out="[object Object] [object Array] [object Map]\n"),
    Hostile("tag-getter-during-console-conversion", "a throwing tag ends the run or leaks its exception",
            "console.log({toString() { throw 1 }, get [Symbol.toStringTag]() { throw 2 }}, 'after')",
            out="[object Object] after\n"),
    Hostile("conversion-that-prints", "nested output tears the line of the outer call",
            "console.log('a', {toString() { console.log('inner'); return 'b' }}, 'c')", out="inner\na b c\n"),
    Hostile("conversion-that-recurses", "a conversion without end crashes the worker instead of ending as a result",
            "const o = {toString() { return `${o}` }}; console.log(o); console.log('after')",
            out="[object Object]\nafter\n"),
    Hostile("proxy-console-arguments", "a trap of a proxy reaches more than its own code",
            "const log = []; const p = new Proxy({}, new Proxy({}, {get(_, trap) { log.push(trap); return undefined }}));\n"
            "console.log(p); console.log(log.length > 0)", out=re.compile(r".*\ntrue\n")),
    Hostile("proxy-as-prototype-of-the-global", "a proxy behind the global object sees the next run's look-ups",
            "try { Object.setPrototypeOf(globalThis, new Proxy({}, {get() { return 'trapped' }, has() { return true }}));\n"
            "console.log(typeof nothing) } catch (e) { console.log(e.name) }", out=re.compile("string\n|TypeError\n|undefined\n")),
    Hostile("species", "a species constructor gets hold of the engine's own arrays",
            "class A extends Array { static get [Symbol.species]() { return function (n) { return globalThis } } }\n"
            "try { A.from([1, 2, 3]).map(x => 'leak') } catch {}; console.log(typeof globalThis[0])",
            out=re.compile("string\n|undefined\n")),
    Hostile("typed-array-species-too-short", "a typed array is written beyond its end",
            "class T extends Uint8Array { static get [Symbol.species]() { return function () { return new Uint8Array(1) } } }\n"
            "try { new T(1 << 20).map(() => 65) } catch (e) { console.log(e.name) }", out="TypeError\n"),
    Hostile("iterator-that-resizes", "an array that shrinks under its iterator is read beyond its end",
            "const a = Array(100000).fill('x'); let n = 0; for (const v of a) { a.length = 10; n += v ? 1 : 0 } console.log(n)",
            out="10\n"),
    Hostile("sort-that-shrinks", "a comparator that empties its array makes sort read freed values",
            "const a = Array.from({length: 5000}, (_, i) => ({i})); let n = 0;\n"
            "a.sort((x, y) => { if (++n === 50) { a.length = 0; gc() } return y.i - x.i }); console.log(a.length)",
            out=re.compile(r"(0|5000)\n")),
    Hostile("sort-without-order", "a comparator without order never ends or reads out of bounds",
            "const a = Array.from({length: 3000}, (_, i) => i); let s = 1;\n"
            "a.sort(() => (s = s * 16807 % 2147483647) % 3 - 1); console.log(a.length, new Set(a).size)", out="3000 3000\n"),
    Hostile("typed-array-sort-that-detaches", "a buffer given away during a sort is written",
            "const t = new Float64Array(1000).map((_, i) => -i); let n = 0;\n"
            "try { t.sort((a, b) => { if (++n === 20) t.buffer.transfer(0); return a - b }) } catch {}\n"
            "console.log(t.length)", out="0\n"),
    Hostile("array-buffer-transfer", "a view of a detached buffer still reaches its bytes",
            "const b = new ArrayBuffer(1 << 16), v = new Uint8Array(b); const c = b.transfer(1 << 20);\n"
            "v[0] = 7; console.log(v.length, v[0], b.detached, new Uint8Array(c)[0], c.byteLength)",
            out="0 undefined true 0 1048576\n"),
    Hostile("resizable-buffer-shrinks", "a view of a shrunken buffer reaches behind its end",
            "const b = new ArrayBuffer(1 << 16, {maxByteLength: 1 << 20}), v = new Uint8Array(b), w = new Uint8Array(b, 40000, 100);\n"
            "w[0] = 9; b.resize(16); console.log(v.length, w.length, w[0]); b.resize(1 << 20); console.log(v.length, w[0])",
            out="16 0 undefined\n1048576 0\n"),
    Hostile("json-poisoning", "JSON of the next run is a poisoned one",
            "JSON.parse = JSON.stringify = () => 'poisoned'; Object.prototype.toJSON = () => 'p'; console.log(JSON.stringify({}))",
            out="poisoned\n"),
    Hostile("regexp-poisoning", "regular expressions of the next run call a hook of this one",
            "RegExp.prototype.exec = () => ['hooked']; RegExp.prototype[Symbol.replace] = () => 'hooked';\n"
            "console.log('a'.replace(/a/, 'b'), /x/.test('y'))", out="hooked true\n"),
    Hostile("date-poisoning", "dates of the next run are poisoned ones",
            "Date.now = () => 0; Date.prototype.getTime = () => 0; globalThis.Date = class { }; console.log(typeof new Date().getTime)",
            out="undefined\n"),
    Hostile("promise-poisoning", "a replaced then is called by the engine's own awaits of the next run",
            "Promise.prototype.then = function () { console.log('then') }; globalThis.Promise = function () {};\n"
            "await 1; console.log('awaited')", out="awaited\n"),
    Hostile("thenable-of-every-object", "a then on Object.prototype takes over the engine's promises",
            "Object.prototype.then = function (ok) { ok('taken') }; const v = await {}; console.log(v)", out="taken\n"),
    Hostile("symbol-registry", "a registered symbol or a symbol's text carries a message to the next run",
            "Symbol.for('message'); globalThis[Symbol.for('message')] = 'left'; console.log(Symbol.keyFor(Symbol.for('message')))",
            out="message\n"),
    Hostile("finalization-registry", "a finalizer of one run is called in the next",
            "globalThis.r = new FinalizationRegistry(() => console.log('finalized')); r.register({}, 1);\n"
            "globalThis.w = new WeakRef({}); gc(); console.log(typeof w.deref())", out=re.compile(r"(undefined|object)\n(finalized\n)?")),
    Hostile("pending-work", "a pending promise or a queued job goes on in the next run",
            "globalThis.p = new Promise(() => {}); p.then(() => console.log('late'));\n"
            "(async () => { await p; console.log('late') })(); console.log('end')", out="end\n"),
    Hostile("job-after-exit", "a job queued before the exit runs after it",
            "import {exit} from 'qjs:std'; queueMicrotask(() => console.log('late')); Promise.resolve().then(() => console.log('late'));\n"
            "exit(4)", exit_code=4),
    Hostile("chance", "the random sequence goes on where the last run left it",
            "for (let i = 0; i < 100000; i++) Math.random(); console.log('drawn')", out="drawn\n"),
    Hostile("virtual-clocks", "the clocks go on where the last run left them",
            "for (let i = 0; i < 1000; i++) { Date.now(); performance.now() } console.log(Date.now() > 1640995200900)", out="true\n"),
    Hostile("template-cache", "a tagged template's strings array is shared with the next run",
            "const f = s => s; const t = () => f`a${1}b`; t().raw.x === undefined; console.log(t() === t(), Object.isFrozen(t()))",
            out="true true\n"),
    Hostile("module-namespace", "the module qjs:std that one run changed is what the next one imports",
            "const std = await import('qjs:std'); std.out.puts = () => {}; std.out.leak = 1;\n"
            "try { std.exit = 1 } catch (e) { console.log(e.name) }", out="TypeError\n"),
]

AFTERWARDS = [
    ("module-namespace", "import * as std from 'qjs:std'; std.out.puts('ok ', typeof std.out.leak)", "ok undefined"),
    ("symbol-registry", "console.log(globalThis[Symbol.for('message')])", "undefined\n"),
    ("json-poisoning", "console.log(JSON.stringify({a: [1]}))", '{"a":[1]}\n'),
    ("promise-poisoning", "Promise.resolve(1).then(v => console.log(v))", "1\n"),
    ("regexp-poisoning", "console.log('a'.replace(/a/, 'b'))", "b\n"),
]


@pytest.mark.parametrize("mode", ["reused", "fresh"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_next_run_finds_a_new_world(sandboxes, case, mode):
    attack(sandboxes(mode), case)


@pytest.mark.parametrize("name, look, expected", AFTERWARDS, ids=[name for name, *_ in AFTERWARDS])
def test_what_was_poisoned_works_in_the_next_run(sandboxes, name, look, expected):
    sandbox = sandboxes("reused")
    attack(sandbox, next(case for case in CASES if case.name == name))
    assert sandbox.run(look).out == expected
