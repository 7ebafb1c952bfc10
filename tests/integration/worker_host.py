"""Speaks the worker host's protocol (src/providers/wasm/protocol.h) directly, with nothing of the library between."""

from __future__ import annotations

import array
import dataclasses
import os
import pathlib
import select
import signal
import socket
import struct
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("PLIMSOLL_BUILD_DIR", "build/release")
GUEST = BUILD / "guest"
WORKER = GUEST / "plimsoll-wasm-worker"

SINGLE_USE, PROBE = 1, 2
PAGES_DEFAULT = 4096
PACKET_MAX = 32768
OUTBOX_HEAD = 12  # u64 sent, u32 length
HANG_S = 60  # no wait in these tests is long; this only ends a hang


class Gone(Exception):
    """The other side closed its socket."""


@dataclasses.dataclass
class Result:
    """One run as the parent sees it."""

    exit_code: int | None = None
    trap: str | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    frames: list[tuple[bytes, int]] = dataclasses.field(default_factory=list)


class Worker:
    def __init__(self, host: "Host", ident: int, pid: int, sock: socket.socket, pidfd: int, outbox: int) -> None:
        self.host, self.id, self.pid, self.sock, self.pidfd, self.outbox = host, ident, pid, sock, pidfd, outbox
        self.sock.settimeout(HANG_S)
        self.received = 0  # bytes, of which the last are still in `unread`
        self.unread = bytearray()

    def close(self) -> None:
        self.sock.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            os.close(self.outbox)
            self.pidfd = self.outbox = -1

    def kill(self) -> None:
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def wait_dead(self) -> None:
        ready, _, _ = select.select([self.pidfd], [], [], HANG_S)
        assert ready, "the worker did not end"

    def receive_exactly(self, length: int) -> bytes:
        while len(self.unread) < length:
            packet = self.sock.recv(PACKET_MAX)
            if not packet:
                raise Gone
            self.received += len(packet)
            self.unread += packet
        data, self.unread = bytes(self.unread[:length]), self.unread[length:]
        return data

    def receive(self) -> tuple[bytes, bytes]:
        tag, length = struct.unpack("<cI", self.receive_exactly(5))
        return tag, self.receive_exactly(length)

    def waiting(self) -> bytes:
        """What it has said and not sent. Exact once it is dead or stuck, as long as all that it sent is received."""
        sent, length = struct.unpack("<QI", os.pread(self.outbox, OUTBOX_HEAD, 0))
        return os.pread(self.outbox, length, OUTBOX_HEAD)[max(self.received - sent, 0) :]

    def await_waiting(self, said: bytes) -> None:
        """Until it waits in the outbox, for a run that comes to no end."""
        deadline = time.monotonic() + HANG_S
        while self.waiting() != said:
            assert time.monotonic() < deadline, f"it said {self.waiting()!r}"
            time.sleep(0.001)

    def expect(self, tag: bytes) -> bytes:
        got, payload = self.receive()
        assert got == tag, f"expected {tag!r}, got {got!r} {payload[:200]!r}"
        return payload

    def send(self, tag: bytes, payload: bytes = b"") -> None:
        data = struct.pack("<cI", tag, len(payload)) + payload
        for at in range(0, len(data), PACKET_MAX):
            self.sock.sendall(data[at : at + PACKET_MAX])

    def start(self, source: str | bytes, pages: int = PAGES_DEFAULT) -> None:
        data = source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")
        self.send(b"R", struct.pack("<I", pages) + data)

    def finish(self, answer=None) -> Result:
        """Collects a run from its S to its D or T; `answer(envelope) -> (status, body)` serves host calls."""
        result = Result()
        self.expect(b"S")
        outputs = {b"O": bytearray(), b"E": bytearray()}
        while True:
            tag, payload = self.receive()
            result.frames.append((tag, len(payload)))
            if tag in outputs:
                assert 1 <= len(payload) <= 65536
                outputs[tag] += payload
            elif tag == b"H":
                assert answer is not None, "unexpected host call"
                status, body = answer(payload)
                self.send(b"h", struct.pack("<I", status) + body)
            else:
                assert tag in (b"D", b"T"), f"unexpected frame {tag!r}"
                if tag == b"D":
                    (result.exit_code,) = payload
                else:
                    result.trap = payload.decode()
                result.stdout, result.stderr = bytes(outputs[b"O"]), bytes(outputs[b"E"])
                return result

    def run(self, source: str | bytes, pages: int = PAGES_DEFAULT, answer=None) -> Result:
        """One run on an idle worker; the idle frame that follows it stays unread."""
        self.start(source, pages)
        return self.finish(answer)


class Host:
    """A worker host of our own; use as a context manager."""

    def __init__(
        self,
        executable: pathlib.Path = WORKER,
        environment: dict | None = None,
        extra_fds: bool = False,
        arguments: tuple[str, ...] = (),
        socket_type: int = socket.SOCK_SEQPACKET,
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket_type)
        null = os.open("/dev/null", os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
        actions.append((os.POSIX_SPAWN_DUP2, theirs.fileno(), 3))
        if extra_fds:
            actions += [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (7, 100)]
        # A child of the posix_spawn keeps a descriptor only where DUP2 cleared its close-on-exec flag.
        high = [theirs.fileno(), null]
        assert min(high) > 3
        self.pid = os.posix_spawn(
            str(executable), ["plimsoll-wasm-worker", *arguments], environment or {}, file_actions=actions
        )
        theirs.close()
        os.close(null)
        self.control = ours
        self.control.settimeout(HANG_S)
        self.exits: dict[int, int] = {}
        self.next_id = 1
        self.status: int | None = None
        self.workers: list[Worker] = []

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.control.close()
        self.wait()

    def wait(self) -> int:
        """Wait status of the host."""
        deadline = time.monotonic() + HANG_S
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
            elif time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError("the host did not end")
            else:
                time.sleep(0.005)
        return self.status

    def packet(self) -> tuple[bytes, bytes, list[int]]:
        data, ancillary, _, _ = self.control.recvmsg(4096, socket.CMSG_SPACE(16))
        fds = array.array("i")
        for level, kind, payload in ancillary:
            assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
            fds.frombytes(payload)
        if not data:
            raise Gone
        return data[:1], data[1:], list(fds)

    def ready(self) -> dict:
        tag, payload, fds = self.packet()
        assert tag == b"V" and not fds, (tag, payload)
        version, snapshot, maximum, walls, identity = struct.unpack("<IIII64s", payload)
        return {
            "version": version,
            "snapshot_pages": snapshot,
            "module_max_pages": maximum,
            "walls": walls,
            "identity": identity.decode(),
        }

    def refusal(self) -> str:
        tag, payload, _ = self.packet()
        assert tag == b"!", (tag, payload)
        return payload.decode()

    def _other(self, tag: bytes, payload: bytes) -> None:
        assert tag == b"X", (tag, payload)
        ident, status = struct.unpack("<Ii", payload)
        self.exits[ident] = status

    def fork(self, flags: int = 0, idle: bool = True) -> Worker:
        ident, self.next_id = self.next_id, self.next_id + 1
        self.control.send(struct.pack("<cIB", b"F", ident, flags))
        while True:
            tag, payload, fds = self.packet()
            if tag != b"W":
                self._other(tag, payload)
                continue
            got, pid = struct.unpack("<II", payload)
            assert got == ident and len(fds) == 3
            worker = Worker(self, ident, pid, socket.socket(fileno=fds[0]), fds[1], fds[2])
            self.workers.append(worker)
            if idle:
                worker.expect(b"I")
            return worker

    def exit_status(self, worker: Worker) -> int:
        """Wait status of a worker that has ended or is about to."""
        while worker.id not in self.exits:
            tag, payload, _ = self.packet()
            self._other(tag, payload)
        return self.exits[worker.id]


def status_of(pid: int) -> dict[str, str]:
    return dict(
        line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )


# ---- fixtures, for test modules to import ----


@pytest.fixture(scope="module")
def host():
    with Host() as h:
        h.facts = h.ready()
        yield h


class Runner:
    """Serves run() with one worker as long as it stays usable: every run but the first is on a reused one."""

    def __init__(self, host: Host) -> None:
        self.host, self.worker = host, host.fork()

    def __call__(self, source, pages=PAGES_DEFAULT, answer=None):
        result = self.worker.run(source, pages, answer)
        try:
            self.worker.expect(b"I")
        except Gone:
            allowed = 10 if result.trap else 0
            assert (
                os.WEXITSTATUS(self.host.exit_status(self.worker)) == allowed
            ), "only a trap or much growth ends a worker"
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
