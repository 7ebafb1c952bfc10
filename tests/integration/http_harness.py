"""The http_echo program, and clients that say to it exactly what a test wants: HTTP/1.1 and HTTP/2 by hand."""

import contextlib
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest

from tls_files import self_signed

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PLIMSOLL_BUILD_DIR", ROOT / "build/release"))
PROGRAM = BUILD / "tests/integration/http_echo"
SANITIZED = BUILD.name in ("asan", "tsan")
HANG = 60  # seconds after which a wait is a failure, on any machine


class Server:
    """A running http_echo. `ports` are its listeners in order."""

    def __init__(self, *options, descriptors=None):
        def limit():
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        self.process = subprocess.Popen([PROGRAM, *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, preexec_fn=limit)
        self.ports = []
        for _ in range(sum(str(option).endswith("listen") for option in options)):
            line = self.process.stdout.readline()
            assert line.startswith("listening "), line + self.process.stderr.read()
            self.ports.append(int(line.rsplit(":", 1)[1]))

    def stop(self):
        """Drain; return what was printed last."""
        self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def finish(self):
        out, err = self.process.communicate(timeout=HANG)
        assert self.process.returncode == 0, err
        assert "Sanitizer" not in err, err
        return out

    def rss_mb(self):
        """0 under a sanitizer, which keeps what was freed."""
        if SANITIZED:
            return 0
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stats(self, port=None):
        text = ask(port or self.ports[0], get("/stats")).decode().rsplit("\r\n\r\n", 1)[1]
        return {key: int(value) for key, value in (pair.split("=") for pair in text.split())}

    def wait_for(self, **expected):
        """Until the program's counters say so."""
        eventually(lambda: all(self.stats()[key] == value for key, value in expected.items()))


def eventually(condition):
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@contextlib.contextmanager
def serving(*options, listen=("--listen", "127.0.0.1:0"), **more):
    server = Server(*options, *listen, **more)
    try:
        yield server
        server.stop()
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


@pytest.fixture(scope="module")
def plain():
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    cert, key = self_signed(tmp_path_factory.mktemp("tls"))
    return ["--cert", cert, "--key", key]


@pytest.fixture(scope="module")
def secure(certificate):
    with serving(*certificate, listen=("--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0")) as server:
        yield server


# ---- HTTP/1.1 by hand


def connect(port):
    sock = socket.create_connection(("127.0.0.1", port), timeout=HANG)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def get(path, *headers, version="1.1", method="GET"):
    lines = [f"{method} {path} HTTP/{version}", "Host: test", *headers, "", ""]
    return "\r\n".join(lines).encode()


def read_all(sock):
    """Until the server closes; a reset counts as closing."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(65536):
            data += piece
    return data


class Reader:
    """Reads answers one by one off a connection."""

    def __init__(self, sock):
        self.sock, self.data = sock, b""

    def more(self):
        piece = self.sock.recv(65536)
        assert piece, f"closed after {self.data[:200]!r}"
        self.data += piece

    def head(self):
        while b"\r\n\r\n" not in self.data:
            self.more()
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        status, *lines = head.decode().split("\r\n")
        return int(status.split()[1]), dict(line.split(": ", 1) for line in lines)

    def answer(self):
        status, headers = self.head()
        length = int(headers.get("content-length", 0))
        while len(self.data) < length:
            self.more()
        body, self.data = self.data[:length], self.data[length:]
        return status, headers, body


def ask(port, data):
    """Send, then read until the server closes, which is asked for."""
    with connect(port) as sock:
        sock.sendall(data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        return read_all(sock)


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer else None


# ---- HTTP/2 by hand

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM, ENHANCE_YOUR_CALM = 0, 1, 7, 11


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def integer(value, prefix):
    """HPACK's integer, the bits before the prefix zero."""
    if value < (1 << prefix) - 1:
        return bytes([value])
    out, value = [(1 << prefix) - 1], value - (1 << prefix) + 1
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def literal(name, value, index=0x00):
    return bytes([index]) + integer(len(name), 7) + name.encode() + integer(len(value), 7) + value.encode()


def headers(method, path, *more):
    pairs = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "test"), *more]
    return b"".join(literal(*pair) for pair in pairs)


class H2:
    """A client that sends what it is told and keeps every frame that came: (type, flags, stream, payload)."""

    def __init__(self, port, sock=None):
        self.sock = sock or connect(port)
        self.data, self.seen = b"", []
        self.send(PREFACE, frame(SETTINGS, 0, 0, struct.pack(">HI", 1, 0)))  # no header table: see status_in

    def send(self, *frames):
        self.sock.sendall(b"".join(frames))

    def request(self, stream, method, path, *more, end=True):
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, headers(method, path, *more)))

    def read(self):
        """One frame; None at the end."""
        while len(self.data) < 9 or len(self.data) < 9 + int.from_bytes(self.data[:3], "big"):
            try:
                piece = self.sock.recv(65536)
            except ConnectionError:
                piece = b""
            if not piece:
                return None
            self.data += piece
        length = int.from_bytes(self.data[:3], "big")
        kind, flags, stream = self.data[3], self.data[4], int.from_bytes(self.data[5:9], "big")
        payload, self.data = self.data[9:9 + length], self.data[9 + length:]
        if kind == SETTINGS and not flags & ACK:
            with contextlib.suppress(ConnectionError):
                self.send(frame(SETTINGS, ACK, 0))
        self.seen.append((kind, flags, stream, payload))
        return self.seen[-1]

    def wait(self, kind, stream=None):
        for seen in self.seen:
            if seen[0] == kind and stream in (None, seen[2]):
                return seen
        while got := self.read():
            if got[0] == kind and stream in (None, got[2]):
                return got
        return None

    def sync(self):
        """Until the server has handled all that was sent."""
        mark = os.urandom(8)
        self.send(frame(PING, 0, 0, mark))
        while got := self.read():
            if got[0] == PING and got[3] == mark:
                return
        raise AssertionError("closed")

    def answer(self, stream):
        """(status, trailing frames, body) of a stream; opens windows as it reads."""
        status, body, blocks = None, b"", []
        while got := self.read():
            kind, flags, of, payload = got
            if of != stream:
                continue
            if kind == HEADERS:
                blocks.append(payload)
                status = status or status_in(payload)
            elif kind == DATA:
                body += payload
                if payload:
                    credit = struct.pack(">I", len(payload))
                    self.send(frame(WINDOW_UPDATE, 0, 0, credit), frame(WINDOW_UPDATE, 0, stream, credit))
            elif kind == RST_STREAM:
                return status, ("reset", int.from_bytes(payload, "big")), body
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                return status, blocks[1:], body
        raise AssertionError(f"closed: {self.seen[-3:]}")

    def goaway(self):
        """The error code of the GOAWAY that must come."""
        got = self.wait(GOAWAY)
        assert got, "closed without GOAWAY"
        return int.from_bytes(got[3][4:8], "big")


def status_in(block):
    """The status a header block begins with: without a table of earlier ones, it is an index into the static table or
    a literal, perhaps Huffman-coded (digits are then 5 or 6 bits)."""
    while block[0] & 0xE0 == 0x20:  # a table size update
        block = block[1:]
    static = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}
    if block[0] in static:
        return static[block[0]]
    digits = {"00000": "0", "00001": "1", "00010": "2", "011001": "3", "011010": "4", "011011": "5", "011100": "6",
              "011101": "7", "011110": "8", "011111": "9"}
    length = block[1] & 0x7F
    if not block[1] & 0x80:
        return int(block[2:2 + length])
    bits, out = "".join(f"{byte:08b}" for byte in block[2:2 + length]), ""
    for _ in range(3):
        size = 5 if bits[:5] in digits else 6
        out, bits = out + digits[bits[:size]], bits[size:]
    return int(out)
