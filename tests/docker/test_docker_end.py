"""How a run ends: told by the first process of its container in frames that only it can sign, before the Engine says so,
with the limits that it has evidence for. Every test holds for a container that was made for the run and for one that
waited; under gVisor too, where that is said."""

import contextlib
import time

import pytest
from docker_harness import (engine, images, javascript, need_runtime, project, start_daemon, wait_until)  # noqa: F401

CAP = 65536
CODE_MAX = 1 << 18  # of a snippet

FORGED = r"""
const crypto = require('crypto'), fs = require('fs');
const text = '<<<PLIMSOLL_END_V1>>> 00000000 00000000 00000000 00000000 ';
const sign = (key, name) => crypto.createHmac('sha256', key).update(name + text).digest('hex');
const frames = [];
for (const key of [Buffer.alloc(32), Buffer.from(require('os').hostname().padEnd(32))])
  for (const name of ['end of stdout ', 'end of stderr ', ''])
    frames.push(`\n${text}${sign(key, name)}\n`);
const all = frames.join('');
"""


@pytest.fixture(scope="module", params=["runc-cold", "runc-pool", "runsc-cold", "runsc-pool"])
def daemon(engine, images, request):
    runtime, how = request.param.split("-")
    need_runtime(runtime)
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime, SANDBOX_DOCKER_POOL="2" if how == "pool" else "0") as running:
        running.runsc = runtime == "runsc"
        yield running


# gVisor's own tasks count under the limit of processes, and what the kernel kills for memory is a part of the sandbox.
UNDER_RUNC = pytest.mark.parametrize("daemon", ["runc-cold", "runc-pool"], indirect=True, scope="module")
UNDER_GVISOR = pytest.mark.parametrize("daemon", ["runsc-cold", "runsc-pool"], indirect=True, scope="module")


@contextlib.contextmanager
def soon(seconds=10):
    """Not a test of speed: what must not wait for a process that sleeps for a minute has not waited for it."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def test_a_snippet_that_kills_itself(daemon):
    found = javascript(daemon, "console.log('before'); process.kill(process.pid, 'SIGKILL'); setInterval(() => {}, 1000)")
    assert (found["exit"], found["out"], found["limit"], found["timed_out"]) == (137, b"before\n", "", False)


@pytest.mark.parametrize("name, status", [("SIGTERM", 143), ("SIGABRT", 134), ("SIGUSR2", 140)])
def test_a_snippet_that_ends_by_a_signal(daemon, name, status):
    assert javascript(daemon, f"process.kill(process.pid, '{name}'); setInterval(() => {{}}, 1000)")["exit"] == status


def test_forged_frames_are_output(daemon):
    found = javascript(daemon, FORGED + "fs.writeSync(1, all); fs.writeSync(2, all); process.exitCode = 9;")
    assert found["exit"] == 9
    assert found["out"] == found["err"] and found["out"].count(b"<<<PLIMSOLL_END_V1>>>") == 6
    assert not found["out_truncated"] and not found["err_truncated"]


def test_a_forged_frame_ends_nothing(daemon):
    found = javascript(daemon, FORGED + "fs.writeSync(1, all); fs.writeSync(2, all);"
                                        "setTimeout(() => { console.log('later'); process.exit(3) }, 700)")
    assert found["exit"] == 3 and found["out"].endswith(b"later\n")


@pytest.mark.parametrize("size", [CAP - 1, CAP, CAP + 1])
def test_output_at_its_cap_is_exact_on_both_streams(daemon, size):
    found = javascript(daemon, f"const fs = require('fs'), all = Buffer.alloc({size}, 'x');"
                               "for (const fd of [1, 2]) for (let at = 0; at < all.length; )"
                               "at += fs.writeSync(fd, all, at);")
    for stream in ("out", "err"):
        assert (found[stream], found[f"{stream}_truncated"]) == (b"x" * min(size, CAP), size > CAP)
    assert found["exit"] == 0


def test_a_child_that_holds_the_streams_ends_with_the_snippet(daemon):
    with soon(30):
        found = javascript(daemon, "require('child_process').spawn('/bin/sh', ['-c', 'trap \"\" TERM; sleep 60; echo late'],"
                                   "{stdio: 'inherit', detached: true}).unref(); console.log('done')", timeout_ms=30000)
    assert (found["exit"], found["out"], found["timed_out"]) == (0, b"done\n", False)


def test_a_child_that_floods_ends_with_the_snippet(daemon):
    with soon(30):
        found = javascript(daemon, "require('child_process').spawn('/bin/sh', ['-c', 'while :; do echo y; done'],"
                                   "{stdio: 'inherit', detached: true}).unref();"
                                   "setTimeout(() => process.exit(6), 300)", timeout_ms=30000)
    assert found["exit"] == 6 and set(found["out"]) <= set(b"y\n")


def test_the_first_process_cannot_be_used(daemon):
    """Its streams and memory, its key, a trace of it: none may give a guest a false end."""
    found = javascript(daemon, r"""
const fs = require('fs'), tried = [];
for (const [path, flags] of [['/proc/1/mem', 'r'], ['/proc/1/mem', 'r+'], ['/proc/1/environ', 'r'], ['/proc/1/maps', 'r']])
  try { const fd = fs.openSync(path, flags), got = Buffer.alloc(64);
        tried.push(fs.readSync(fd, got, 0, 64, 4096) >= 0 ? 'read' : 'empty') } catch (e) { tried.push(e.code) }
console.log(tried.join(' '));
process.exit(4);
""")
    mem, written, *_ = found["out"].decode().split()
    assert {mem, written} <= {"EACCES", "EPERM"}, found
    assert found["exit"] == 4


def test_a_snippet_that_kills_the_first_process(daemon):
    found = javascript(daemon, "console.log('a'); for (const s of ['SIGTERM', 'SIGSTOP', 'SIGKILL']) process.kill(1, s);"
                               "setTimeout(() => { console.log('alive'); process.exit(5) }, 700)")
    if daemon.runsc:  # gVisor lets it: the run is what the Engine says of it
        assert found["exit"] == 137 or found["timed_out"], found
    else:
        assert (found["exit"], found["out"]) == (5, b"a\nalive\n")


def test_streams_that_are_closed_early(daemon):
    found = javascript(daemon, "const fs = require('fs'); fs.writeSync(1, 'o'); fs.writeSync(2, 'e');"
                               "for (const fd of [0, 1, 2]) fs.closeSync(fd); process.exitCode = 8;")
    assert (found["exit"], found["out"], found["err"]) == (8, b"o", b"e")


def test_a_stream_left_non_blocking_and_full(daemon):
    """A frame must come through whatever a guest does to the open file that it shares with our process."""
    found = javascript(daemon, "process.stdout._handle && process.stdout._handle.setBlocking(false);"
                               "process.stdout.write(Buffer.alloc(1 << 20, 'z'), () => process.exit(2))")
    assert found["exit"] == 2 and found["out_truncated"] and found["out"] == b"z" * CAP


@pytest.mark.parametrize("size", [1, 24, 39, 40, 41, 65536, CODE_MAX])
def test_code_of_every_size_is_taken_whole(daemon, size):
    code = ";" if size == 1 else "console.log('whole');".rjust(size)
    found = javascript(daemon, code)
    assert (len(code), found["exit"], found["out"]) == (size, 0, b"whole\n" if size > 1 else b"")


def test_no_code_is_refused_or_does_nothing(daemon):
    status, body = daemon.call("Run", {"protocol": 3, "timeoutMs": 15000, "javascript": {"code": ""}})
    assert status == 400 or body["javascript"].get("exitCode", 0) == 0


def test_a_snippet_that_does_not_read_all_of_its_own_code(daemon):
    """Node reads its code to the end before it runs any of it, so the guest finds its stdin at its end."""
    found = javascript(daemon, "console.log(require('fs').readSync(0, Buffer.alloc(10)))")
    assert (found["exit"], found["out"]) == (0, b"0\n")


@UNDER_RUNC
def test_orphans_are_reaped_while_it_runs(daemon):
    found = javascript(daemon, "const { execFileSync } = require('child_process');"
                               "for (let i = 0; i < 6; i++) execFileSync('/bin/sh', ['-c',"
                               "'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31"
                               " 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50; do (true &) ; done']);"
                               "console.log('ok')", timeout_ms=30000)
    assert (found["exit"], found["out"], found["limit"]) == (0, b"ok\n", "")


@pytest.mark.parametrize("code, status", [
    ("const { spawnSync } = require('child_process'); process.exitCode ="
     " [0, 3, 255].every(n => spawnSync('/bin/sh', ['-c', `exit ${n}`]).status === n) ? 7 : 1", 7),
    ("const { spawnSync } = require('child_process'); process.exitCode ="
     " spawnSync('/bin/sh', ['-c', 'kill -9 $$']).signal === 'SIGKILL' ? 7 : 1", 7),
    ("const { Worker } = require('worker_threads'); new Worker('process.exit(9)', { eval: true })"
     ".on('exit', status => process.exit(status))", 9),
    ("process.on('exit', () => process.exit(6))", 6), ("process.exit(256 + 4)", 4), ("process.reallyExit(8)", 8),
    ("process.abort()", 134), ("process.on('exit', () => process.kill(process.pid, 'SIGKILL'))", 137)],
    ids=["children", "killed child", "worker", "exit in exit", "more than a byte", "at once", "abort", "killed at its exit"])
def test_an_end_is_the_guests_own(daemon, code, status):
    """The first process hears of every end before it is over (watch.h); only the guest's own counts, and no other is changed."""
    found = javascript(daemon, code, timeout_ms=30000)
    assert (found["exit"], found["limit"], found["timed_out"]) == (status, "", False)


def test_all_output_before_the_end_is_there(daemon):
    found = javascript(daemon, "const fs = require('fs'); for (let i = 0; i < 60; i++) {"
                               "fs.writeSync(1, 'o'.repeat(999) + '\\n'); fs.writeSync(2, 'e'.repeat(999) + '\\n'); }"
                               "process.stdout.write('last'); process.stderr.write('last'); process.exit(3)")
    assert (found["exit"], len(found["out"]), len(found["err"])) == (3, 60004, 60004)
    assert found["out"].endswith(b"last") and found["err"].endswith(b"last")


WRITERS = """
const { Worker } = require('worker_threads');
let ready = 0;
for (let i = 0; i < 4; i++)
  new Worker(`const fs = require('fs'); require('worker_threads').parentPort.postMessage(0);
    for (;;) fs.writeSync(1, 'x')`, { eval: true }).on('message', () => {
      if (++ready === 4) { setTimeout(() => process.exit(5), 20); }
    });
"""


@pytest.mark.parametrize("turn", range(6))
def test_threads_that_write_when_the_end_comes(daemon, turn):
    """Whatever they still write is output, and before our own last word or not at all."""
    found = javascript(daemon, WRITERS, timeout_ms=30000)
    assert (found["exit"], set(found["out"]), found["err"]) == (5, {ord("x")}, b"")


STATE = """[process.argv.length, process.execArgv, Object.keys(require.cache), module.children, module.paths,
  process.eventNames().map(name => [name, process.listenerCount(name)]), process._getActiveHandles().length,
  Object.getOwnPropertyNames(globalThis), Object.keys(process.env)]"""


def test_nothing_is_loaded_that_a_snippet_would_see(daemon):
    """Node compiles what prints before it reads the code (warm.js), and leaves no trace that another node would not have."""
    found = javascript(daemon, f"const said = JSON.stringify({STATE}); console.log(said);"
                               "const { spawnSync } = require('child_process'); const input = "
                               f"`console.log(JSON.stringify({STATE}))`;"
                               "process.stdout.write(spawnSync(process.execPath, ['-'], { input }).stdout)", timeout_ms=30000)
    ours, of_a_node_alone = found["out"].decode().splitlines()
    assert ours == of_a_node_alone and ours.startswith("[2,[],[],[],")


# Limits, on evidence.

def test_a_memory_bomb(daemon):
    found = javascript(daemon, "const all = []; for (;;) all.push(Buffer.alloc(1 << 24, 1))", timeout_ms=8000)
    assert found["limit"] == "memory"
    # gVisor may lose no more than a part of itself to the kernel, and then stands still until its time is over.
    assert found["exit"] == 137 or (daemon.runsc and found["timed_out"])


MEMORY_BOMB_IN_A_CHILD = """
const { spawnSync } = require('child_process');
const r = spawnSync('node', ['-e', 'const a = []; for (;;) a.push(Buffer.alloc(1 << 24, 1))']);
console.log(r.signal)
"""


@UNDER_RUNC
def test_a_child_that_is_killed_for_memory(daemon):
    found = javascript(daemon, MEMORY_BOMB_IN_A_CHILD, timeout_ms=30000)
    assert (found["exit"], found["out"], found["limit"]) == (0, b"SIGKILL\n", "memory")


@UNDER_GVISOR
def test_a_child_that_is_killed_for_memory_takes_the_run_along(daemon):
    found = javascript(daemon, MEMORY_BOMB_IN_A_CHILD, timeout_ms=30000)
    assert (found["exit"], found["timed_out"], found["limit"]) == (137, False, "memory")


def test_a_fork_bomb(daemon):
    found = javascript(daemon, "const { spawn } = require('child_process');"
                               "for (let i = 0; i < 400; i++) spawn('/bin/sleep', ['60']).on('error', () => {});"
                               "setTimeout(() => process.exit(1), 1000)", timeout_ms=30000)
    # gVisor may end as a whole at its own limit, with status 2; what was counted is gone with it.
    assert found["limit"] == "pids" or (daemon.runsc and found["exit"] == 2 and found["limit"] == "")


@UNDER_RUNC
def test_a_fork_bomb_that_ends_well_or_not_at_all(daemon):
    bomb = "const { spawn } = require('child_process');" \
           "for (let i = 0; i < 400; i++) spawn('/bin/sleep', ['60']).on('error', () => {});"
    found = javascript(daemon, bomb + "setTimeout(() => process.exit(0), 1000)", timeout_ms=30000)
    assert (found["exit"], found["limit"]) == (0, "pids")
    found = javascript(daemon, bomb, timeout_ms=15000)
    assert (found["timed_out"], found["limit"]) == (True, "pids")


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_a_full_place_ends_a_snippet(daemon, place):
    fill = f"const fs = require('fs'), f = fs.openSync('{place}/x', 'w'); for (;;) fs.writeSync(f, Buffer.alloc(1 << 20));"
    found = javascript(daemon, fill)
    assert (found["exit"], found["limit"]) == (1, "disk") and b"ENOSPC" in found["err"]
    found = javascript(daemon, f"try {{ {fill} }} catch (e) {{ console.log(e.code) }}")
    assert (found["exit"], found["out"], found["limit"]) == (0, b"ENOSPC\n", "")


def test_an_exit_that_no_limit_caused(daemon):
    for code in ("process.exit(137)", "process.exit(1)", "throw new Error('x')"):
        assert javascript(daemon, code)["limit"] == ""


def test_limits_of_a_project(daemon):
    step, = project(daemon, ["dd if=/dev/zero of=big bs=1M count=1000"])["steps"]
    assert (step["exit"], step["limit"]) == (1, "disk") and b"No space left" in step["err"]
    step, = project(daemon, ["exit 137"])["steps"]
    assert (step["exit"], step["limit"]) == (137, "")
    if not daemon.runsc:
        step, = project(daemon, ["node -e 'const a = []; for (;;) a.push(Buffer.alloc(1 << 24, 1))'"])["steps"]
        assert (step["exit"], step["limit"]) == (137, "memory")
        found = project(daemon, ["for i in $(seq 400); do sleep 60 & done; exit 1"])
        assert found["steps"][0]["limit"] == "pids"


def test_a_project_of_every_end(daemon):
    for step, code in (("exit 3", 3), ("kill -9 $$", -1), ("true", 0)):
        with soon(30):
            found = project(daemon, ["sleep 60 & setsid sleep 60 &", step])
        assert (found["outcome"], found["steps"][-1]["exit"]) == ("COMPLETED", code)


# The same answers with a pool and without.

CORPUS = [
    "console.log(6 * 7)", "console.error('e'); process.exit(3)", "throw new Error('x')", "syntax error here",
    "process.stdout.write(Buffer.from([0, 255, 10]))", "console.log(process.argv, process.cwd(), process.ppid)",
    "console.log(JSON.stringify(process.env).replace(require('os').hostname(), 'HOST'))",
    "console.log(process.getuid(), process.getgid(), process.getgroups(), process.umask())",
    "console.log(require('fs').readFileSync('/proc/self/status', 'latin1').match(/^(Cap|NoNew|Seccomp|Sig).*$/gm).join())",
    "console.log(require('fs').readdirSync('/proc/self/fd').length)",
    "console.log(require('fs').readFileSync('/proc/self/cmdline', 'latin1'))",
    "console.log(require('fs').readFileSync('/proc/mounts', 'latin1').match(/^tmpfs.*$/gm)?.sort().join())",
    "process.stdout.write('x'.repeat(70000))", "import fs from 'node:fs'; console.log(typeof fs)", "await 1",
    "process.kill(process.pid, 'SIGTERM'); setInterval(() => {}, 100)",
    "console.log(require('child_process').execFileSync('/bin/sh', ['-c', 'id; echo $0']).toString())",
    "for (;;);",
]
PROJECTS = [
    (["cat a; pwd; id", "exit 3", "echo never"], {"a": "1\n"}, ["a"]),
    (["env | grep -v HOSTNAME | sort; ls -la | wc -l"], {"d/e": ""}, ["missing"]),
    (["sleep 60 & echo x"], {}, []), (["head -c 1200000 /dev/zero"], {}, []), (["kill -9 $$"], {}, []),
    (["true"], {"only": "file"}, ["only"]),
]


@pytest.fixture(scope="module")
def answers(engine, images):
    """Those of each size of pool, in the order of the corpus."""
    found = {}
    for size in ("0", "2"):
        with start_daemon(images, SANDBOX_DOCKER_POOL=size) as running:
            found[size] = ([javascript(running, code, timeout_ms=3000) for code in CORPUS],
                           [project(running, *one) for one in PROJECTS])
    return found


def test_a_pool_changes_no_snippet(answers):
    for code, cold, pooled in zip(CORPUS, answers["0"][0], answers["2"][0]):
        assert cold == pooled, code


def test_a_pool_changes_no_project(answers):
    for one, cold, pooled in zip(PROJECTS, answers["0"][1], answers["2"][1]):
        assert cold == pooled, one
