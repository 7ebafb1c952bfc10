"""Workers as processes: limits, host calls, protocol, confinement."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

import worker_host
from worker_host import (
    PROBE,
    SINGLE_USE,
    WORKER,
    Gone,
    Host,
    clean,
    status_of,
    host,
    run,
    worker,
)  # noqa: F401 - fixtures are used by name

pytestmark = pytest.mark.skipif(not WORKER.exists(), reason=f"{WORKER} is not built")


def frame(tag: bytes, payload: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("<cI", tag, len(payload) if length is None else length) + payload


WALLS_REQUIRED = 0x1F
WALL_EMPTY_ROOT, WALL_NET_NS, WALL_OTHER_UID = 0x100, 0x200, 0x2000


# ---- limits --------------------------------------------------------------------------------------------------------

ARRAYS = "const a = []; for (let i = 0; i < 128; i++) a.push(new Uint8Array(1 << 20).fill(i)); console.log(a.length)"


def test_memory_cap(host):
    clean(host.fork().run(ARRAYS), "128\n")
    result = host.fork().run(ARRAYS, pages=512)
    assert (result.exit_code, result.stdout) == (1, b"") and result.stderr.startswith(b"InternalError: out of memory\n")
    clean(host.fork().run("console.log('ok')", pages=65536), "ok\n")
    clean(
        host.fork().run("try { new Uint8Array(1 << 26) } catch (e) { console.log(e.name, e.message) }", pages=512),
        "InternalError out of memory\n",
    )


def test_a_source_larger_than_the_memory(host, worker):
    pages = host.facts["snapshot_pages"] + 64
    result = worker.run("/*" + "x" * (16 << 20) + "*/", pages=pages)
    assert (result.exit_code, result.stderr) == (1, b"InternalError: out of memory\n\n")
    worker.expect(b"I")
    clean(worker.run("console.log(1)", pages=pages), "1\n")


def test_endless_loop_is_killed(host, worker):
    worker.start("console.log('before'); while (true) {}")
    worker.await_waiting(frame(b"S") + frame(b"O", b"before\n"))
    worker.kill()
    worker.wait_dead()
    with pytest.raises(Gone):
        worker.receive()
    assert worker.waiting() == frame(b"S") + frame(b"O", b"before\n")
    assert os.WTERMSIG(host.exit_status(worker)) == signal.SIGKILL


def test_output(host, run):
    clean(run("console.log('x'.repeat(69999))"), "x" * 69999 + "\n")
    assert run("console.log('x'.repeat(200000))").frames == [(b"O", 65536)] * 3 + [
        (b"O", 200001 - 3 * 65536),
        (b"D", 1),
    ]
    flood = host.fork()
    flood.start("for (;;) console.log('x'.repeat(10000))")
    flood.expect(b"S")
    for _ in range(100):
        assert flood.receive()[0] == b"O"
    rss = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{flood.pid}/status").read_text())[1])
    assert rss < 64 << 10  # KiB: a reader that stops leaves the worker blocked, not growing
    flood.kill()
    flood.wait_dead()


# ---- what is said passes through the outbox ------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 4078, 4079, 4080, 4084, 4085, 32763, 32764, 65536])
def test_frames_about_the_sizes_of_outbox_and_packet(run, length):
    text = "x" * (length - 1)
    result = run(f"const s = 'x'.repeat({length - 1}); for (let i = 0; i < 5; i++) {{ console.log(s); print(i) }}")
    clean(result, "".join(f"{text}\n{i}\n" for i in range(5)))
    assert result.frames == [(b"O", length), (b"O", 2)] * 5 + [(b"D", 1)]


@pytest.mark.skipif(os.geteuid() != 0, reason="looks at a worker's system calls, which only root may")
def test_a_short_run_is_one_packet(worker):
    worker.start("console.log(1); console.log(2); import('qjs:std').then(m => m.err.puts('e'))")
    said = frame(b"S") + frame(b"O", b"1\n") + frame(b"O", b"2\n") + frame(b"E", b"e") + frame(b"D", b"\0")
    assert worker.sock.recv(worker_host.PACKET_MAX) == said
    assert worker.sock.recv(worker_host.PACKET_MAX) == frame(b"I")


def test_a_worker_killed_at_any_point_said_a_beginning_once(host):
    """What was received and what waits in the outbox are the frames in order, none cut, none twice."""
    for turn in range(60):
        worker = host.fork()
        worker.start("for (let i = 0; ; i++) console.log('line ' + i)")
        said = worker.receive_exactly(1 + turn * 797)  # so that it ends at another point each time
        worker.kill()
        worker.wait_dead()
        while packet := worker.sock.recv(worker_host.PACKET_MAX):
            worker.received += len(packet)
            worker.unread += packet
        said += worker.unread + worker.waiting()
        lines, at = [], 0
        while at < len(said):
            tag, length = struct.unpack_from("<cI", said, at)
            text, at = bytes(said[at + 5 : at + 5 + length]), at + 5 + length
            assert at <= len(said) and tag in b"SO", "a frame is cut"
            if tag == b"O":
                lines.append(text)
        assert said.startswith(frame(b"S")) and said.count(frame(b"S")) == 1
        assert lines == [b"line %d\n" % i for i in range(len(lines))]
        worker.close()


def test_killed_from_outside(host, worker):
    worker.start("console.log(1); for (;;);")
    worker.await_waiting(frame(b"S") + frame(b"O", b"1\n"))
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait_dead()
    assert os.WTERMSIG(host.exit_status(worker)) == signal.SIGKILL


def test_a_fault_outside_the_guests_memory_is_a_crash(host, worker):
    """No guest can cause one, so the signal is sent; what counts is that it is not reported as a trap."""
    worker.start("console.log(1); for (;;);")
    worker.await_waiting(frame(b"S") + frame(b"O", b"1\n"))
    os.kill(worker.pid, signal.SIGSEGV)
    with pytest.raises(Gone):
        worker.receive()
    assert os.WIFSIGNALED(host.exit_status(worker))


def test_host_killed_takes_its_workers():
    with Host() as host:
        host.ready()
        idle, busy = host.fork(), host.fork()
        busy.start("for (;;);")
        busy.await_waiting(frame(b"S"))
        os.kill(host.pid, signal.SIGKILL)
        for worker in (idle, busy):
            worker.wait_dead()
            with pytest.raises(Gone):
                worker.receive()


# ---- host calls ----------------------------------------------------------------------------------------------------


def test_envelope_lengths(run):
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
    for text in (
        '{"method":"GET","path":"/a","x":1}',
        '{"method":"GET","path":"/a"}{}',
        '"GET"',
        '{"body":null, "é": "\\u0000"}',
    ):
        seen.clear()
        clean(run(f"__plimsoll_host_call({json.dumps(text)})", answer=answer), "")
        assert seen == [text.encode()]


def test_host_call_replies(run):
    ask = """try { const r = __plimsoll_host_call('{}');
      console.log(Object.keys(r), r.status, r.body.length, r.body.slice(0, 8)) } catch (e) { console.log(e.name) }"""
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
    clean(
        run(
            "let n = 0; for (let i = 0; i < 50; i++) n += __plimsoll_host_call('{\"i\":' + i + '}').body.length;"
            "console.log(n)",
            answer=lambda envelope: (200, envelope),
        ),
        f"{sum(len(str(i)) + 6 for i in range(50))}\n",
    )


# ---- the protocol --------------------------------------------------------------------------------------------------


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
    worker.expect(b"S")
    worker.expect(b"H")
    worker.sock.sendall(data)
    with pytest.raises((Gone, ConnectionResetError)):
        worker.receive()
    assert os.WEXITSTATUS(host.exit_status(worker)) == 11


def test_a_message_in_pieces(worker):
    data = frame(b"R", struct.pack("<I", 4096) + b"console.log(1)")
    for i in range(len(data)):
        worker.sock.sendall(data[i : i + 1])
    clean(worker.finish(), "1\n")


@pytest.mark.parametrize(
    "packet", [b"X", b"F", b"F\0\0\0\0", b"F\0\0\0\0\0\0", b"F\0\0\0\0\x04", b"V" * 85, b"F" * 2000]
)
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


def test_one_pid_serves_many_runs_and_none_after_a_trap(host, worker):
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
    assert host.facts["version"] == 2
    assert host.facts["walls"] & WALLS_REQUIRED == WALLS_REQUIRED
    assert host.facts["snapshot_pages"] < host.facts["module_max_pages"] <= 65536
    if os.geteuid() == 0:
        assert host.facts["walls"] & WALL_OTHER_UID


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into a non-dumpable process, which only root may")
def test_what_a_worker_has(host, worker):
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
    maps = (proc / "maps").read_text().splitlines()
    assert not any("rwx" in line or "-wx" in line for line in maps)
    shared = [line for line in maps if line.split()[1].endswith("s")]
    assert len(shared) == 1 and "plimsoll-outbox" in shared[0]
    start, end = (int(x, 16) for x in shared[0].split()[0].split("-"))
    assert end - start == os.fstat(worker.outbox).st_size == 4096
    if host.facts["walls"] & WALL_EMPTY_ROOT:
        assert os.listdir(proc / "root") == []
        with pytest.raises(OSError):
            (proc / "root" / "x").mkdir()
    if host.facts["walls"] & WALL_NET_NS:
        assert os.readlink(proc / "ns" / "net") != os.readlink("/proc/self/ns/net")
    limits = (proc / "limits").read_text()
    for pattern in (
        r"Max open files +4 +4 ",
        r"Max processes +0 +0 ",
        r"Max file size +0 +0 ",
        r"Max core file size +0 +0 ",
        r"Max stack size +8388608 +8388608 ",
        r"Max cpu time +unlimited",
    ):
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
    for arguments in (("--help",), ("0",), ("64k",), ("64", "64"), ("-1",), ("18446744073709551616",), ("18446744073709551614",)):
        with Host(arguments=arguments) as host:
            assert "argument" in host.refusal()
            assert os.WEXITSTATUS(host.wait()) == 1
    with Host(socket_type=socket.SOCK_STREAM) as host:
        assert os.WEXITSTATUS(host.wait()) == 2


def test_closing_control_ends_everything():
    host = Host()
    host.ready()
    busy = host.fork()
    busy.start("for (;;);")
    busy.await_waiting(frame(b"S"))
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


def test_parent_killed_leaves_nothing():
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(pathlib.Path(__file__).parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
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
            "host.ready()", "print(host.ready()['walls'], flush=True)"
        )
        shutil.copy(pathlib.Path(worker_host.__file__), folder / "worker_host.py")
        child = subprocess.Popen(
            ["/usr/bin/python3", "-c", code, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user=65534,
            group=65534,
            extra_groups=[],
            cwd="/",
        )
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
