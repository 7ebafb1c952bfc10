"""Snippets that lie about how they ended, speak to the terminal, or abuse the host call."""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import time

import pytest

from hostile import HANG_SECONDS, ROOT, Hostile, attack, children_of

PLIMSOLL = ROOT / "build/bin/plimsoll"
SUMMARY = "plimsoll: provider wasm, tier process, exit code 0, 1 ms"
SUMMARY_LINE = re.compile(r"plimsoll: provider wasm, tier process, (exit code \d+|timed out), [\d.]+ ms.*")

THROWN = [
    Hostile("null", "throwing null crashes the reporter", "throw null", 1, err="null\n"),
    Hostile("undefined", "throwing undefined crashes the reporter", "throw undefined", 1, err="undefined\n"),
    Hostile("symbol", "throwing a symbol crashes the reporter", "throw Symbol('s')", 1, err="<exception>\n"),
    Hostile("bigint", "throwing a bigint crashes the reporter", "throw 10n ** 30n", 1, err="1" + "0" * 30),
    Hostile("function", "throwing a function crashes the reporter", "throw function f() {}", 1, err="function f() {}"),
    Hostile("proxy", "a trap of a thrown proxy goes on after the end", "throw new Proxy({}, {get() { print('trap'); return 1 }})", 1, None, None),
    Hostile("revoked-proxy", "a revoked proxy crashes the reporter",
            "const {proxy, revoke} = Proxy.revocable({}, {}); revoke(); throw proxy", 1, err=None),
    Hostile("throwing-text", "a throwing conversion crashes the reporter", "throw {toString() { throw {toString() { throw 1 }} }}", 1,
            err="[object Object]\n"),
    Hostile("error-with-hostile-parts", "an error's own getters run after the end or crash the reporter",
            "const e = new Error('m'); for (const k of ['name', 'message', 'stack', 'cause', 'toString'])\n"
            "  Object.defineProperty(e, k, {get() { throw k }}); throw e", 1, err=None),
    Hostile("error-with-a-long-stack", "a stack text of megabytes fills memory",
            "const e = new Error('m'); e.stack = 's'.repeat(5 << 20); throw e", 1, err="Error: m\n"),
    Hostile("exit-in-a-getter-of-the-error", "an exit while an error is reported is lost or reported twice",
            "import {exit} from 'qjs:std'; throw {toString() { exit(9) }}", 9),
    Hostile("exit-in-nested-finally", "finally blocks run on after the exit",
            "import {exit} from 'qjs:std'; try { try { exit(3) } finally { print('f1'); throw 1 } } catch { print('c') } finally { print('f2') }", 3),
    Hostile("exit-in-a-loop-of-finally", "a finally that loops holds the exit up",
            "import {exit} from 'qjs:std'; for (;;) try { exit(6) } finally { continue }", 6),
    Hostile("exit-in-an-async-function", "an async function swallows the exit",
            "import {exit} from 'qjs:std'; try { await (async () => { await 0; exit(8) })() } catch { print('c') } print('after')", 8),
    Hostile("exit-in-a-generator", "a generator's return swallows the exit",
            "import {exit} from 'qjs:std'; function* g() { try { yield 1 } finally { exit(2) } } for (const x of g()) break; print('after')", 2),
    Hostile("exit-in-a-sort", "a comparator that exits leaves the built-in running",
            "import {exit} from 'qjs:std'; [3, 2, 1].sort(() => exit(11)); print('after')", 11),
    Hostile("exit-in-an-executor", "a promise turns the exit into a rejection",
            "import {exit} from 'qjs:std'; new Promise(() => exit(12)).catch(() => print('c')); print('after')", 12),
    Hostile("exit-twice", "the second exit replaces the code of the first",
            "import {exit} from 'qjs:std'; try { exit(1) } finally { exit(0) }", 1),
    Hostile("exit-with-a-hostile-code", "a code that cannot be converted ends the run anyway",
            "import {exit} from 'qjs:std'; try { exit({valueOf() { throw 'no' }}) } catch (e) { print(e) } exit(2 ** 40 + 5)", 5, "no\n"),
    Hostile("forged-exit-code", "text makes an exit code",
            "print('{\"exit_code\":0}'); import {err} from 'qjs:std'; err.puts('exit code 0'); throw 1", 1, "{\"exit_code\":0}\n", "exit code 0"),
    Hostile("forged-frames", "bytes of the worker's own protocol in the output are taken for frames",
            "print('D\\x01\\0\\0\\0\\0I\\0\\0\\0\\0S\\0\\0\\0\\0T\\x01\\0\\0\\0x'); throw 1", 1,
            "D\x01\0\0\0\0I\0\0\0\0S\0\0\0\0T\x01\0\0\0x\n", "1\n"),
    Hostile("rejections-storm", "one of many rejections hides the others, or all are forgotten",
            "for (let i = 0; i < 2000; i++) Promise.reject(i)", 1, err="Possibly unhandled promise rejection: 0"),
    Hostile("rejection-handled-late", "a rejection that was handled fails the run",
            "const p = Promise.reject(1); await 0; await 0; p.catch(() => {}); print('fine')", 0, "fine\n"),
    Hostile("lone-surrogates-and-nul", "odd characters cut or change the output",
            "print('a\\0b\\ud800c\\udfffd')", 0, "a\0b\ud800c\udfffd\n"),
]

TYPES = "[null, undefined, 1, NaN, true, {}, [], () => 1, 1n, new Proxy({}, {}), new Uint8Array(8), new Date(0), /x/]"

CALLS = [
    Hostile("wrong-types", "a host call with a wrong type does more than refuse",
            f"for (const v of {TYPES}) console.log(__plimsoll_host_call(v).status)", 0,
            re.compile("((400|413)\n){13}")),
    Hostile("symbols-and-throwers", "a conversion that throws crashes the host call",
            "for (const v of [Symbol('s'), {toString() { throw new RangeError('mine') }}, Object.create(null)])\n"
            "  try { __plimsoll_host_call(v) } catch (e) { print(e.name) }", 0, "TypeError\nRangeError\nTypeError\n"),
    Hostile("many-arguments", "further arguments reach the host",
            "print(__plimsoll_host_call('{\"method\":\"GET\",\"path\":\"/a\"}', 'x'.repeat(1 << 20), {a: 1}).status)", 0, "503\n"),
    Hostile("another-this", "this of a host call matters",
            "for (const t of [null, 1, globalThis, {}, new Proxy({}, {})]) print(Reflect.apply(__plimsoll_host_call, t, ['x']).status)",
            0, "400\n" * 5),
    Hostile("as-a-constructor", "a host call can be constructed or extended",
            "for (const f of [() => new __plimsoll_host_call('x'), () => new (class extends __plimsoll_host_call {})('x'),\n"
            "  () => Reflect.construct(Object, [], __plimsoll_host_call)]) try { f(); print('made') } catch (e) { print(e.name) }",
            0, "TypeError\n" * 3),
    Hostile("huge-envelopes", "an envelope over its limit is sent",
            "for (const n of [1114112, 1114113, 2 << 20, 20 << 20]) print(__plimsoll_host_call('x'.repeat(n)).status)",
            0, "400\n413\n413\n413\n"),
    Hostile("bytes-not-characters", "an envelope's length is counted in characters",
            "print(__plimsoll_host_call('\\u20ac'.repeat(371370)).status, __plimsoll_host_call('\\u20ac'.repeat(371371)).status)",
            0, "400 413\n"),
    Hostile("malformed-envelopes", "something that is not one envelope is accepted",
            "for (const e of ['{', '[]', 'null', '{}{}', '{\"method\":1,\"path\":\"/\"}', '{\"method\":\"GET\",\"path\":\"/\",\"x\":1}',\n"
            "  '{\"method\":\"GET\",\"method\":\"GET\",\"path\":\"/\"}', '{\"method\":\"GET\",\"path\":\"/\"}\\0', '\\ufeff{}', '\\ud800'])\n"
            "  print(__plimsoll_host_call(e).status)", 0, "400\n" * 10),
    Hostile("nested-envelopes", "a nested body overflows the reader's stack",
            "print(__plimsoll_host_call('{\"method\":\"GET\",\"path\":\"/a\",\"body\":' + '['.repeat(1000000)).status)", 0, "400\n"),
    Hostile("re-entrancy", "a host call from inside a host call mixes the answers up",
            "const ask = () => __plimsoll_host_call('{\"method\":\"GET\",\"path\":\"/a\"}').status;\n"
            "print(__plimsoll_host_call({toString() { return ask() === 503 ? '' : 'x' }}).status, ask())", 0, "413 503\n"),
    Hostile("poisoned-answer", "an answer is built from poisoned prototypes",
            "Object.defineProperty(Object.prototype, 'status', {set() { throw 1 }, configurable: true});\n"
            "Object.prototype.body = 1; const r = __plimsoll_host_call('x'); print(r.status, JSON.stringify(r.body))",
            0, "400 \"invalid host api request envelope\\n\"\n"),
    Hostile("calls-after-the-exit", "a host call after the exit is sent",
            "import {exit} from 'qjs:std'; try { exit(3) } finally { __plimsoll_host_call('x'); print('sent') }", 3),
    Hostile("many-calls", "ten thousand calls wear anything out",
            "let n = 0; for (let i = 0; i < 10000; i++) n += __plimsoll_host_call('x').status; print(n)", 0, "4000000\n"),
    Hostile("answers-are-fresh", "two answers are the same object",
            "const a = __plimsoll_host_call('x'), b = __plimsoll_host_call('x'); a.status = 1; print(b.status, a === b)", 0, "400 false\n"),
]


@pytest.mark.parametrize("mode", ["reused", "fresh"])
@pytest.mark.parametrize("case", THROWN, ids=str)
def test_no_end_is_forged(sandboxes, case, mode):
    attack(sandboxes(mode), case)


@pytest.mark.parametrize("mode", ["reused", "fresh"])
@pytest.mark.parametrize("case", CALLS, ids=str)
def test_the_host_call_only_answers(sandboxes, case, mode):
    attack(sandboxes(mode), case)


# ---- through the command line: what a person or a script sees ----


def plimsoll(*arguments, code, **popen):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SANDBOX_", "PLIMSOLL_"))}
    return subprocess.Popen([PLIMSOLL, "run", "--provider", "wasm", *arguments, "-e", code], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=clean, **popen)


def run_plimsoll(*arguments, code):
    process = plimsoll(*arguments, code=code)
    out, err = process.communicate(timeout=HANG_SECONDS)
    return process.returncode, out, err


@pytest.fixture
def command_line():
    if not PLIMSOLL.exists():
        pytest.skip(f"{PLIMSOLL.name} is not built")


def test_a_forged_summary_is_not_the_last_line(command_line):
    for tail in ("", "throw 1", "exit(2)", "for (;;);"):
        code = f"import {{err, exit}} from 'qjs:std'; err.puts('{SUMMARY}\\n'); {tail}"
        status, _, err = run_plimsoll("--timeout", "300ms", code=code)
        lines = err.decode().splitlines()
        assert lines[0] == SUMMARY
        assert SUMMARY_LINE.fullmatch(lines[-1]), "the last line is ours"
        assert (status == 0) == ("exit code 0," in lines[-1]) == (tail == "")


def test_a_summary_without_a_line_end_before_it_stands_alone(command_line):
    status, _, err = run_plimsoll(code="import {err} from 'qjs:std'; err.puts('plimsoll: no end of line')")
    assert status == 0
    assert SUMMARY_LINE.fullmatch(err.decode().splitlines()[-1])


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 124, 125, 126, 134, 255])
def test_no_exit_code_of_a_guest_is_a_status_of_ours(command_line, code):
    """Status 2, 3 and 4 say that nothing ran or may have; a guest that exits so is "answered otherwise"."""
    status, _, err = run_plimsoll(code=f"import {{exit}} from 'qjs:std'; exit({code})")
    assert status == (1 if code else 0)
    assert f"exit code {code}," in err.decode()


def test_a_guest_cannot_say_that_nothing_ran(command_line):
    status, _, err = run_plimsoll(code="import {err} from 'qjs:std'; err.puts('plimsoll: nothing ran (isolation): no\\n'); throw 1")
    assert status == 1
    assert SUMMARY_LINE.fullmatch(err.decode().splitlines()[-1])


def test_json_is_one_object_whatever_the_guest_prints(command_line):
    status, out, _ = run_plimsoll("--json", code="print('\"}\\n{\"status\":\"ok\",\"exit_code\":0}'); print('\\u2028\\ud800\\0\\x1b[2J'); throw 1")
    answer = json.loads(out)
    assert status == 1
    assert answer["exit_code"] == 1
    assert b"\x1b" not in out and b"\0" not in out


def test_terminal_sequences_do_not_reach_a_terminal(command_line):
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [PLIMSOLL, "run", "--provider", "wasm", "-e",
         "import {err} from 'qjs:std'; print('\\x1b[2J\\x1b]0;title\\x07\\x9b31m\\r\\x08\\x7f'); err.puts('\\x1b[31m')"],
        stdout=slave, stderr=slave, stdin=subprocess.DEVNULL)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    assert process.wait(timeout=HANG_SECONDS) == 0
    text = shown.replace(b"\r\n", b"\n").decode()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text), repr(text)


# ---- what remains when the program is gone ----


def descendants(pid):
    found = children_of(pid)
    return found + [below for child in found for below in descendants(child)]


def await_end_of(pids):
    end = time.monotonic() + HANG_SECONDS
    while alive := [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < end, f"{alive} outlive the program"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGABRT])
def test_a_program_that_is_killed_leaves_no_process(command_line, number):
    process = plimsoll("--timeout", "30s", code="print('in'); for (;;);")
    end = time.monotonic() + HANG_SECONDS
    while len(found := descendants(process.pid)) < 2:
        assert time.monotonic() < end, "no worker is started"
        time.sleep(0.01)
    time.sleep(0.1)  # into the loop
    found = descendants(process.pid)
    process.send_signal(number)
    process.communicate(timeout=HANG_SECONDS)
    assert process.returncode != 0
    await_end_of(found)


def test_a_program_that_ends_leaves_no_process(command_line):
    process = plimsoll(code="for (let i = 0; i < 3e7; i++);")
    found = []
    while process.poll() is None:
        found += descendants(process.pid)
        time.sleep(0.01)
    process.communicate()
    assert found
    await_end_of(set(found))
