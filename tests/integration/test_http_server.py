"""The http layer alone, driven over real sockets through the http_echo program: what is answered, what is refused,
and what a slow, broken or hostile client can and cannot do. Limits are shortened by options of the program where a
test would otherwise wait; nothing asserts a duration."""

import contextlib
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PLIMSOLL_BUILD_DIR", ROOT / "build/release"))
PROGRAM = BUILD / "tests/integration/http_echo"
SANITIZED = BUILD.name in ("asan", "tsan")
HANG = 60  # seconds after which a wait is a failure, on any machine

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


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
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", cert], check=True,
                   capture_output=True)
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


def test_answers_over_http1(plain):
    answer = ask(plain.ports[0], get("/"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\nhello\n")
    assert re.search(rb"\r\ndate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n", answer)
    assert b"\r\nconnection: close\r\n" in answer


def test_request_is_seen_as_sent(plain):
    text = ask(plain.ports[0], get("/about?a=1&b?c", "X: 1", "x:  two\t")).decode()
    assert "GET /about [a=1&b?c] 1.1 clear\n" in text
    assert "\nx=1\n" in text and "\nx=two\n" in text and "\nx-count 2\n" in text
    assert re.search(r"\npeer 127\.0\.0\.1:\d+\n", text)
    assert "GET /about [] 1.1" in ask(plain.ports[0], get("http://elsewhere/about")).decode()


def test_head_has_no_body(plain):
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/", method="HEAD") + get("/"))
        reader = Reader(sock)
        status, headers = reader.head()
        assert (status, headers["content-length"]) == (200, "6")
        assert reader.answer()[2] == b"hello\n"


def test_upgrade_to_h2c_is_ignored(plain):
    answer = ask(plain.ports[0], get("/", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
                                     "HTTP2-Settings: AAMAAABkAAQAAP__"))
    assert answer.startswith(b"HTTP/1.1 200 ") and b"101" not in answer.split(b"\r\n")[0]


def test_keep_alive_is_reused(plain):
    with connect(plain.ports[0]) as sock:
        reader = Reader(sock)
        for i in range(50):
            body = b"x" * i
            sock.sendall(get("/", f"Content-Length: {i}", method="POST") + body)
            assert reader.answer()[::2] == (200, body or b"hello\n")


def test_pipelined_requests_are_answered_in_order(plain):
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/slow?200") + get("/about?second") + get("/", "Content-Length: 3", method="POST") + b"abc" +
                     get("/large?300000") + get("/nowhere"))
        reader = Reader(sock)
        assert reader.answer()[2] == b"slept\n"
        assert b"[second]" in reader.answer()[2]
        assert reader.answer()[2] == b"abc"
        assert len(reader.answer()[2]) == 300000
        assert reader.answer()[0] == 404


def test_a_flood_of_pipelined_requests(plain):
    count = 20000
    with connect(plain.ports[0]) as sock:
        pid = os.fork()
        if pid == 0:  # the requests are more than the buffers hold, so both directions must move
            sock.sendall(get("/") * count)
            os._exit(0)
        reader = Reader(sock)
        for _ in range(count):
            assert reader.answer()[2] == b"hello\n"
        os.waitpid(pid, 0)


def test_http_1_0(plain):
    with connect(plain.ports[0]) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = read_all(sock)
    assert answer.endswith(b"hello\n") and b"connection: close" in answer
    with connect(plain.ports[0]) as sock:
        reader = Reader(sock)
        for _ in range(2):
            sock.sendall(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert reader.answer()[1]["connection"] == "keep-alive"
    with connect(plain.ports[0]) as sock:
        sock.sendall(b"GET /trailers HTTP/1.0\r\n\r\n")
        answer = read_all(sock)
    assert answer.endswith(b"\r\n\r\nmessage") and b"chunked" not in answer


def test_trailers_are_chunked(plain):
    answer = ask(plain.ports[0], get("/trailers"))
    assert b"transfer-encoding: chunked" in answer and b"content-length" not in answer
    assert answer.endswith(b"\r\n\r\n7\r\nmessage\r\n0\r\ngrpc-status: 0\r\ngrpc-message: fine\r\n\r\n")
    assert ask(plain.ports[0], get("/trailers?0")).endswith(
        b"\r\n\r\n0\r\ngrpc-status: 0\r\ngrpc-message: fine\r\n\r\n")


@pytest.mark.parametrize("size", [0, 1, 16384, 16385, 65535, 65536, 65537, 8 << 20])
def test_bodies_of_every_size(plain, size):
    body = random.Random(size).randbytes(size)
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/", "Transfer-Encoding: chunked", method="POST"))
        for at in range(0, size, 100000):
            piece = body[at:at + 100000]
            sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        sock.sendall(b"0\r\n\r\n")
        assert Reader(sock).answer()[::2] == (200, body)
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/", f"Content-Length: {size}", method="POST") + body)
        assert Reader(sock).answer()[2] == (body or b"hello\n")


# ---- refusals


@pytest.mark.parametrize("request_bytes", [
    get("/", "Content-Length: 1", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    get("/", "Content-Length: 1", "Content-Length: 1") + b"x",
    get("/", "Content-Length: +1") + b"x",
    get("/", "Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    get("/", "X: a\r\n b"),
    get("/", "X : a"),
    get("/", "X: a\nY: b"),
    get("/", "Host: again"),
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /\r\nHost: a b\r\n\r\n",
    b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
])
def test_malformed_request_is_refused_and_the_connection_closed(plain, request_bytes):
    with connect(plain.ports[0]) as sock:
        sock.sendall(request_bytes + get("/"))
        answer = read_all(sock)
    assert status_of(answer) in (400, 505) and answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer and b"x-refused: " in answer


def test_own_refusals_carry_the_handlers_headers(plain):
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/", "Host: again", "X-Id: 7"))
        answer = read_all(sock)
    assert status_of(answer) == 400 and b"x-refused: head\r\n" in answer and b"x-id: 7\r\n" in answer


def test_version_not_supported(plain):
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/", version="1.2"))
        assert status_of(read_all(sock)) == 505


def test_header_block_too_large(plain):
    block = get("/", "X: " + "v" * 40000)
    with connect(plain.ports[0]) as sock:
        sock.sendall(block)
        answer = read_all(sock)
    assert status_of(answer) == 431 and b"x-refused: bytes" in answer
    fits = get("/", "X: ")
    fits = get("/", "X: " + "v" * (32768 - len(fits)))
    assert status_of(ask(plain.ports[0], fits.replace(b"vvvvvvvvvvvvvvvvvvv", b"", 1))) == 200


def test_header_flood(plain):
    with connect(plain.ports[0]) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
            for i in range(100000):
                sock.sendall(b"x%d: y\r\n" % i)
        assert status_of(read_all(sock)) in (431, None)
    assert status_of(ask(plain.ports[0], get("/"))) == 200


@pytest.mark.parametrize("framing", ["Content-Length: 8388609", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path, status", [("/refuse", 403), ("/slow?1", None), ("/nowhere", 404)])
def test_unread_body_closes_after_the_answer(plain, framing, path, status):
    with connect(plain.ports[0]) as sock:
        sock.sendall(get(path, framing, method="POST") + b"2\r\n")
        if status is None:  # its body is awaited: nothing may come before it
            return
        status_got, headers, _ = Reader(sock).answer()
        assert status_got == status and headers["connection"] == "close"
        assert read_all(sock) == b""


def test_answer_survives_a_client_that_keeps_sending(plain):
    """Closing with input unread would reset the connection and could destroy the answer on its way."""
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/refuse", "Content-Length: 100000000", method="POST"))
        with contextlib.suppress(ConnectionError):
            for _ in range(16):
                sock.sendall(b"x" * 65536)
        assert Reader(sock).answer()[0] == 403


@pytest.mark.parametrize("request_bytes", [
    get("/limit?10", "Content-Length: 11", method="POST"),
    get("/limit?10", "Transfer-Encoding: chunked", method="POST") + b"6\r\nabcdef\r\n6\r\nabcdef\r\n",
    get("/", "Content-Length: 8388609", method="POST") + b"xx",
])
def test_body_past_its_limit(plain, request_bytes):
    with connect(plain.ports[0]) as sock:
        sock.sendall(request_bytes)
        status, headers, body = Reader(sock).answer()
    assert (status, body, headers["connection"]) == (429, b"too large", "close")


def test_body_at_its_limit(plain):
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/limit?3", "Content-Length: 3", method="POST") + b"abc")
        assert Reader(sock).answer()[::2] == (200, b"abc")


def test_malformed_chunk(plain):
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/", "Transfer-Encoding: chunked", method="POST") + b"zz\r\n")
        assert Reader(sock).answer()[::2] == (400, b"malformed")
        assert read_all(sock) == b""


def test_100_continue_is_sent_only_for_a_body_that_is_read(plain):
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/", "Content-Length: 3", "Expect: 100-continue", method="POST"))
        reader = Reader(sock)
        assert reader.head() == (100, {})
        sock.sendall(b"abc")
        assert reader.answer()[2] == b"abc"
        sock.sendall(get("/refuse", "Content-Length: 3", "Expect: 100-continue", method="POST"))
        assert reader.answer()[0] == 403
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/limit?1", "Content-Length: 3", "Expect: 100-continue", method="POST"))
        assert Reader(sock).answer()[0] == 429


@pytest.mark.parametrize("which", range(6))
def test_an_answer_that_may_not_be_sent_becomes_500(plain, which):
    with connect(plain.ports[0]) as sock:
        sock.sendall(get(f"/bad?{which}", "X-Id: 7") + get("/"))
        reader = Reader(sock)
        status, headers, body = reader.answer()
        assert (status, body, headers["x-id"]) == (500, b"", "7") and "x-b" not in headers
        assert reader.answer()[0] == 200


# ---- clients that leave, stall or half-close


def test_half_closed_client_is_answered(plain):
    with connect(plain.ports[0]) as sock:
        sock.sendall(get("/") + get("/about?2"))
        sock.shutdown(socket.SHUT_WR)
        answer = read_all(sock)
    assert answer.count(b"HTTP/1.1 200 OK") == 2


def test_closing_cancels_the_work():
    with serving() as server:
        with connect(server.ports[0]) as sock:  # half: the answer is still written
            sock.sendall(get("/slow?60000"))
            sock.shutdown(socket.SHUT_WR)
            assert status_of(read_all(sock)) == 499
        with connect(server.ports[0]) as sock:  # whole
            sock.sendall(get("/slow?60000"))
        with connect(server.ports[0]) as sock:  # by a reset
            sock.sendall(get("/slow?60000"))
            server.wait_for(canceled=2)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with connect(server.ports[0]) as sock:  # with a request pipelined behind it
            sock.sendall(get("/slow?60000") + get("/"))
        server.wait_for(canceled=4, handled=4)


def test_leaving_within_a_body_is_told():
    with serving() as server:
        with connect(server.ports[0]) as sock:
            sock.sendall(get("/", "Content-Length: 10", method="POST") + b"abc")
        with connect(server.ports[0]) as sock:
            sock.sendall(get("/", "Transfer-Encoding: chunked", method="POST") + b"5\r\nab")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.wait_for(gone=2)


def test_slow_header_is_closed_without_an_answer():
    with serving("--limit", "header_ms=300") as server:
        with connect(server.ports[0]) as idle, connect(server.ports[0]) as partial, connect(server.ports[0]) as reused:
            partial.sendall(b"GET / HT")
            reused.sendall(get("/"))
            Reader(reused).answer()
            reused.sendall(b"G")
            assert read_all(idle) == read_all(partial) == read_all(reused) == b""


def test_slow_drip_of_a_header_is_closed():
    with serving("--limit", "header_ms=300") as server, connect(server.ports[0]) as sock:
        with pytest.raises(ConnectionError):
            for byte in get("/") * 1000:
                sock.sendall(bytes([byte]))
                time.sleep(0.05)
                if byte == 10:
                    break
            for _ in range(1000):
                sock.sendall(b"x")
                time.sleep(0.05)


def test_stalled_body_is_answered_by_the_handler_and_closed():
    with serving("--limit", "request_ms=300") as server, connect(server.ports[0]) as sock:
        sock.sendall(get("/", "Content-Length: 10", method="POST") + b"abc")
        assert Reader(sock).answer()[::2] == (408, b"timeout")
        assert read_all(sock) == b""


def test_idle_connection_is_closed():
    with serving("--limit", "idle_ms=300") as server, connect(server.ports[0]) as sock:
        sock.sendall(get("/"))
        assert Reader(sock).answer()[0] == 200
        assert read_all(sock) == b""


def test_answer_that_takes_too_long_is_cancelled():
    with serving("--limit", "answer_ms=300") as server:
        with connect(server.ports[0]) as sock:
            sock.sendall(get("/slow?60000"))
            assert read_all(sock) == b""
        server.wait_for(canceled=1)


def test_slow_reader_holds_no_more_than_the_answer():
    size = 64 << 20
    with serving("--limit", "answer_ms=3000") as server:
        before = server.rss_mb()
        socks = [connect(server.ports[0]) for _ in range(2)]
        for sock in socks:
            sock.sendall(get(f"/large?{size}"))
            sock.recv(1)
        time.sleep(0.5)
        assert server.rss_mb() - before < 2 * (size >> 20) + 16
        for sock in socks:
            eventually(lambda s=sock: len(read_all(s)) < size)
            sock.close()
        eventually(lambda: server.rss_mb() - before < 16)


# ---- many connections


def test_connections_past_the_cap_wait_and_are_served():
    with serving("--limit", "connections_max=2") as server:
        first, second, third = (connect(server.ports[0]) for _ in range(3))
        for sock in (first, second):
            sock.sendall(get("/"))
            assert Reader(sock).answer()[0] == 200
        third.sendall(get("/"))
        third.settimeout(0.3)
        with pytest.raises(TimeoutError):
            third.recv(1)
        first.close()
        third.settimeout(HANG)
        assert Reader(third).answer()[0] == 200
        second.close()
        third.close()


def test_out_of_descriptors_waits_without_spinning():
    with serving(descriptors=32) as server:
        socks = [connect(server.ports[0]) for _ in range(64)]
        for sock in socks:
            sock.sendall(get("/"))
        before = server.cpu_seconds()
        time.sleep(1)
        assert server.cpu_seconds() - before < 0.5
        for sock in socks:  # each that closes makes room for one that waits
            assert Reader(sock).answer()[0] == 200
            sock.close()


@pytest.mark.parametrize("count", [1000, 10000])
def test_idle_connections_cost_little(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 500:
        pytest.skip(f"the descriptor limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 500), hard))
    with serving("--limit", "header_ms=600000") as server:
        before = server.rss_mb()
        socks = []
        for i in range(count):
            socks.append(connect(server.ports[0]))
            socks[-1].sendall(get("/"))
            assert Reader(socks[-1]).answer()[0] == 200
        assert status_of(ask(server.ports[0], get("/"))) == 200
        assert (server.rss_mb() - before) * 1024 / count < 8, "KiB per idle connection"
        for sock in socks:
            sock.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_random_bytes_do_no_harm(plain):
    rng = random.Random(1)
    seeds = [get("/", "Content-Length: 5", method="POST") + b"hello",
             get("/", "Transfer-Encoding: chunked", method="POST") + b"5\r\nhello\r\n0\r\n\r\n",
             PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 5, 1, headers("GET", "/"))]
    for _ in range(300):
        data = bytearray(rng.choice(seeds) if rng.random() < 0.8 else rng.randbytes(200))
        for _ in range(rng.randrange(5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with connect(plain.ports[0]) as sock, contextlib.suppress(ConnectionError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            read_all(sock)
    assert status_of(ask(plain.ports[0], get("/"))) == 200


def test_listeners_have_limits_of_their_own():
    with serving("--listen", "127.0.0.1:0", "--limit", "header_bytes_max=1000") as server:
        block = get("/", "X: " + "v" * 2000, "Connection: close")
        for port, status in zip(server.ports, (200, 431)):
            with connect(port) as sock:
                sock.sendall(block)
                assert status_of(read_all(sock)) == status


def test_address_in_use_fails_the_start(plain):
    done = subprocess.run([PROGRAM, "--listen", f"127.0.0.1:{plain.ports[0]}"], capture_output=True, text=True,
                          timeout=HANG)
    assert done.returncode == 1 and "in use" in done.stderr


@pytest.mark.parametrize("address", ["127.0.0.1", "1:2:3", "[::1]", "127.0.0.1:70000", "127.0.0.1:x", "127.0.0.1:",
                                     "no.such.host.invalid:1"])
def test_bad_address_fails_the_start(address):
    done = subprocess.run([PROGRAM, "--listen", address], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 1 and address in done.stderr


def test_every_interface():
    with serving(listen=("--listen", ":0")) as server:
        assert status_of(ask(server.ports[0], get("/"))) == 200


# ---- draining


def test_drain_finishes_what_is_in_flight():
    server = Server("--listen", "127.0.0.1:0", "--drain-ms", "60000")
    idle, busy, half = (connect(server.ports[0]) for _ in range(3))
    idle.sendall(get("/"))
    assert Reader(idle).answer()[0] == 200
    busy.sendall(get("/slow?1500") + get("/"))
    half.sendall(get("/", "Content-Length: 3", method="POST") + b"a")
    time.sleep(0.3)
    server.process.send_signal(signal.SIGTERM)
    assert read_all(idle) == b""
    with pytest.raises(ConnectionError):
        connect(server.ports[0])
    half.sendall(b"bc")
    assert Reader(half).answer()[2] == b"abc"
    answer = read_all(busy)
    assert answer.count(b"HTTP/1.1 ") == 1 and b"slept" in answer and b"connection: close" in answer
    assert server.finish() == "drained clean\n"


def test_drain_closes_hard_when_its_time_is_over():
    server = Server("--drain-ms", "300", "--listen", "127.0.0.1:0")
    with connect(server.ports[0]) as sock:
        sock.sendall(get("/slow?60000"))
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        assert read_all(sock) == b""
    assert server.finish() == "drained hard\n"


def test_drain_of_http2_says_goaway():
    server = Server("--drain-ms", "60000", "--listen", "127.0.0.1:0")
    busy, idle = H2(server.ports[0]), H2(server.ports[0])
    busy.request(1, "GET", "/slow?1000")
    idle.sync()
    busy.sync()
    server.process.send_signal(signal.SIGTERM)
    assert idle.wait(GOAWAY)
    assert read_all(idle.sock) == b""
    assert busy.answer(1)[::2] == (200, b"slept\n")
    assert any(kind == GOAWAY for kind, *_ in busy.seen)
    assert read_all(busy.sock) == b""
    assert server.finish() == "drained clean\n"


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


def test_http2_answers(plain):
    h2 = H2(plain.ports[0])
    h2.request(1, "GET", "/")
    assert h2.answer(1) == (200, [], b"hello\n")
    h2.request(3, "GET", "/nowhere")
    assert h2.answer(3)[0] == 404
    h2.request(5, "POST", "/", end=False)
    h2.send(frame(DATA, 0, 5, b"ab"), frame(DATA, END_STREAM, 5, b"c"))
    assert h2.answer(5)[::2] == (200, b"abc")
    h2.request(7, "GET", "/about?q", ("x", "1"), ("x", "2"))
    body = h2.answer(7)[2]
    assert b"GET /about [q] 2 clear\n" in body and b"x-count 2" in body and b":path" not in body


def test_http2_answers_out_of_order(plain):
    h2 = H2(plain.ports[0])
    h2.request(1, "GET", "/slow?300")
    h2.request(3, "GET", "/")
    assert h2.answer(3)[2] == b"hello\n"
    assert h2.answer(1)[2] == b"slept\n"


@pytest.mark.parametrize("path", ["/trailers", "/trailers?0"])
def test_http2_trailers(plain, path):
    h2 = H2(plain.ports[0])
    h2.request(1, "GET", path)
    status, trailers, body = h2.answer(1)
    assert status == 200 and len(trailers) == 1
    assert body == (b"" if "?" in path else b"message")


def test_http2_large_answer_under_flow_control(plain):
    h2 = H2(plain.ports[0])
    h2.request(1, "GET", "/large?3000000")
    body = h2.answer(1)[2]
    assert len(body) == 3000000 and body[:24] == b"abcdefghijklmnopqrstuvwa"


def test_http2_unread_body_ends_with_reset_no_error(plain):
    h2 = H2(plain.ports[0])
    h2.request(1, "POST", "/refuse", end=False)
    h2.send(frame(DATA, 0, 1, b"x" * 1000))
    status, trailing, body = h2.answer(1)
    assert (status, trailing, body) == (403, [], b"refused")
    got = h2.wait(RST_STREAM, 1)
    assert int.from_bytes(got[3], "big") == NO_ERROR
    h2.request(3, "GET", "/")
    assert h2.answer(3)[0] == 200


def test_http2_body_past_its_limit(plain):
    h2 = H2(plain.ports[0])
    h2.request(1, "POST", "/limit?10", ("content-length", "11"), end=False)
    assert h2.answer(1)[2] == b"too large"
    h2.request(3, "POST", "/limit?10", end=False)
    h2.send(frame(DATA, 0, 3, b"x" * 6), frame(DATA, 0, 3, b"x" * 6))
    assert h2.answer(3)[2] == b"too large"
    h2.request(5, "POST", "/limit?3", end=False)
    h2.send(frame(DATA, END_STREAM, 5, b"abc"))
    assert h2.answer(5)[2] == b"abc"


def test_http2_refused_bodies_do_not_shut_the_connection_window(plain):
    """More than the connection's window is sent to streams that do not read it."""
    h2 = H2(plain.ports[0])
    for i in range(40):
        stream = 2 * i + 1
        h2.request(stream, "POST", "/refuse", end=False)
        h2.send(*[frame(DATA, 0, stream, b"x" * 16000) for _ in range(3)])
        assert h2.answer(stream)[0] == 403
    h2.request(101, "GET", "/")
    assert h2.answer(101)[0] == 200


def test_http2_100_continue(plain):
    h2 = H2(plain.ports[0])
    h2.request(1, "POST", "/", ("expect", "100-continue"), end=False)
    got = h2.wait(HEADERS, 1)
    assert status_in(got[3]) == 100 and not got[1] & END_STREAM
    h2.send(frame(DATA, END_STREAM, 1, b"abc"))
    assert h2.answer(1)[2] == b"abc"


def test_http2_reset_and_disconnect_cancel_the_work():
    with serving() as server:
        h2 = H2(server.ports[0])
        h2.request(1, "GET", "/slow?60000")
        h2.request(3, "GET", "/slow?60000")
        h2.sync()
        h2.send(frame(RST_STREAM, 0, 1, struct.pack(">I", 8)))
        server.wait_for(canceled=1)
        h2.sock.close()
        server.wait_for(canceled=2)
        h2 = H2(server.ports[0])
        h2.request(1, "POST", "/", end=False)
        h2.send(frame(DATA, 0, 1, b"a"), frame(RST_STREAM, 0, 1, struct.pack(">I", 8)))
        server.wait_for(gone=1)
        h2.sock.close()


def test_http2_header_block_too_large_is_a_stream_refusal(plain):
    h2 = H2(plain.ports[0])
    block = headers("GET", "/", *[(f"x{i}", "v" * 4000) for i in range(10)])
    pieces = [block[at:at + 16384] for at in range(0, len(block), 16384)]
    h2.send(frame(HEADERS, END_STREAM, 1, pieces[0]),
            *[frame(CONTINUATION, END_HEADERS if piece is pieces[-1] else 0, 1, piece) for piece in pieces[1:]])
    got = h2.wait(RST_STREAM, 1)
    assert int.from_bytes(got[3], "big") == REFUSED_STREAM
    h2.request(3, "GET", "/")
    assert h2.answer(3)[0] == 200


def test_http2_refuses_streams_past_the_limit():
    with serving("--limit", "h2_streams_max=4") as server:
        h2 = H2(server.ports[0])
        h2.wait(SETTINGS)
        h2.sync()
        for i in range(6):
            h2.request(2 * i + 1, "GET", "/slow?500")
        assert h2.goaway() == PROTOCOL_ERROR  # the limit was acknowledged, so this client cannot count
    with serving("--limit", "h2_streams_max=4") as server:
        h2 = H2(server.ports[0])
        for i in range(40):
            h2.request(2 * i + 1, "GET", "/")
            assert h2.answer(2 * i + 1)[0] == 200


def test_http2_stalled_body_and_late_answer():
    with serving("--limit", "request_ms=300") as server:
        h2 = H2(server.ports[0])
        h2.request(1, "POST", "/", end=False)
        assert h2.answer(1)[::2] == (408, b"timeout")
        h2.request(3, "GET", "/")
        assert h2.answer(3)[0] == 200
    with serving("--limit", "answer_ms=300") as server:
        h2 = H2(server.ports[0])
        h2.request(1, "GET", "/slow?60000")
        assert h2.answer(1)[1][0] == "reset"
        server.wait_for(canceled=1)


def test_http2_slow_starts_and_idle_ends():
    with serving("--limit", "header_ms=300") as server:
        for start in (b"PRI ", PREFACE, PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 0, 1, headers("GET", "/"))):
            with connect(server.ports[0]) as sock:
                sock.sendall(start)
                read_all(sock)
    with serving("--limit", "idle_ms=300") as server:
        h2 = H2(server.ports[0])
        h2.request(1, "GET", "/")
        h2.answer(1)
        assert h2.goaway() == NO_ERROR
        assert read_all(h2.sock) == b""


def flood(server, make, count=20000, batch=50):
    """Send frames until the server gives up on the connection; its GOAWAY code."""
    h2 = H2(server.ports[0])
    h2.sync()
    with contextlib.suppress(ConnectionError):
        for at in range(0, count, batch):
            h2.send(*[make(i) for i in range(at, at + batch)])
    code = h2.goaway()
    h2.sock.close()
    assert status_of(ask(server.ports[0], get("/"))) == 200
    return code


@pytest.mark.parametrize("make", [
    lambda i: frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, headers("GET", "/slow?60000"))
    + frame(RST_STREAM, 0, 2 * i + 1, struct.pack(">I", 8)),
    lambda i: frame(PING, 0, 0, b"12345678"),
    lambda i: frame(SETTINGS, 0, 0),
    lambda i: frame(PRIORITY, 0, 1, b"\0\0\0\3\1"),
    lambda i: (frame(HEADERS, END_HEADERS, 1, headers("POST", "/")) if i == 0 else b"") + frame(DATA, 0, 1),
    lambda i: frame(HEADERS, END_STREAM, 1, headers("GET", "/")) if i == 0
    else frame(CONTINUATION, 0, 1, literal("x", "y")),
    lambda i: frame(HEADERS, END_STREAM, 1, headers("GET", "/")) if i == 0 else frame(CONTINUATION, 0, 1),
], ids=["rapid reset", "ping", "settings", "priority", "empty data", "continuation", "empty continuation"])
def test_http2_floods_end_the_connection(plain, make):
    assert flood(plain, make) in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR, 2)


def test_http2_rapid_reset_leaves_no_work_behind():
    with serving() as server:
        flood(server, lambda i: frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, headers("GET", "/slow?60000"))
              + frame(RST_STREAM, 0, 2 * i + 1, struct.pack(">I", 8)))
        eventually(lambda: server.stats()["canceled"] == server.stats()["handled"] > 0)


def test_http2_hpack_bomb_is_bounded(plain):
    """One large entry in the table, then a block of one-byte references to it."""
    before = plain.rss_mb()
    h2 = H2(plain.ports[0])
    h2.request(1, "GET", "/")
    h2.answer(1)
    bomb = headers("GET", "/") + literal("x", "v" * 3900, index=0x40) + b"\xbe" * 10000
    for stream in range(3, 3 + 2 * 20, 2):
        with contextlib.suppress(ConnectionError):
            h2.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, bomb))
    assert h2.goaway() == ENHANCE_YOUR_CALM
    assert plain.rss_mb() - before < 16


def test_http2_pings_are_earned_by_requests(plain):
    """A client that measures its bandwidth sends a ping an answer; that is no flood."""
    h2 = H2(plain.ports[0])
    for i in range(3000):
        h2.request(2 * i + 1, "GET", "/")
        assert h2.answer(2 * i + 1)[0] == 200
        h2.sync()


def test_http2_slow_reader_holds_little():
    with serving("--limit", "answer_ms=3000") as server:
        before = server.rss_mb()
        h2 = H2(server.ports[0])
        window = struct.pack(">HI", 4, 0x7FFFFFFF)
        h2.send(frame(SETTINGS, 0, 0, window), frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFF0000)))
        for i in range(4):
            h2.request(2 * i + 1, "GET", f"/large?{16 << 20}")
        time.sleep(0.5)
        assert server.rss_mb() - before < 4 * 16 + 16
        eventually(lambda: server.rss_mb() - before < 16)
        h2.sock.close()


# ---- TLS


def tls(port, alpn=(), lowest=None, highest=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if highest:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = lowest or highest, highest
    return context.wrap_socket(connect(port))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_serves_http1(secure, version):
    for alpn in ((), ("http/1.1",)):
        with tls(secure.ports[1], alpn, highest=version) as sock:
            sock.sendall(get("/about") + get("/large?200000"))
            reader = Reader(sock)
            assert b" 1.1 tls\n" in reader.answer()[2]
            assert len(reader.answer()[2]) == 200000
            assert sock.selected_alpn_protocol() == (alpn[0] if alpn else None)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_serves_http2(secure, version):
    sock = tls(secure.ports[1], ("http/1.1", "h2"), highest=version)
    assert sock.selected_alpn_protocol() == "h2"
    h2 = H2(None, sock)
    h2.request(1, "GET", "/about")
    assert b" 2 tls\n" in h2.answer(1)[2]
    h2.request(3, "GET", "/large?2000000")
    assert len(h2.answer(3)[2]) == 2000000
    sock.close()


def test_tls_below_1_2_is_refused(secure):
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        with pytest.raises(ssl.SSLError):
            tls(secure.ports[1], highest=version)


def test_tls_without_a_common_protocol_is_refused(secure):
    with pytest.raises(ssl.SSLError):
        tls(secure.ports[1], ("spdy/3",))


def test_tls_with_prior_knowledge_preface_is_http1(secure):
    with tls(secure.ports[1]) as sock:
        sock.sendall(PREFACE)
        assert status_of(read_all(sock)) == 400


def test_tls_closed_work_is_cancelled(certificate):
    with serving(*certificate, listen=("--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0")) as server:
        with tls(server.ports[1]) as sock:
            sock.sendall(get("/slow?60000"))
        server.wait_for(canceled=1)
        with tls(server.ports[1]) as sock:  # close_notify alone, the socket stays open
            sock.sendall(get("/slow?60000"))
            sock.settimeout(0.2)
            with contextlib.suppress(OSError):
                sock.unwrap()
            server.wait_for(canceled=2)


def test_tls_unread_body_still_gets_the_answer(secure):
    with tls(secure.ports[1]) as sock:
        sock.sendall(get("/refuse", "Content-Length: 100000", method="POST") + b"x" * 50000)
        assert Reader(sock).answer()[0] == 403


def test_tls_slow_handshake_is_closed(certificate):
    with serving("--limit", "header_ms=300", *certificate, listen=("--tls-listen", "127.0.0.1:0")) as server:
        for start in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"):
            with connect(server.ports[0]) as sock:
                sock.sendall(start)
                read_all(sock)


def test_cleartext_on_a_tls_port_is_closed(secure):
    with connect(secure.ports[1]) as sock:
        sock.sendall(get("/"))
        assert b"HTTP/" not in read_all(sock)


def test_tls_renegotiation_is_refused(secure):
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{secure.ports[1]}", "-tls1_2"],
                          input=b"R\n", capture_output=True, timeout=HANG)
    assert b"no renegotiation" in done.stderr + done.stdout
    assert status_of(ask(secure.ports[0], get("/"))) == 200


def test_key_that_does_not_match_fails_the_start(certificate, tmp_path):
    other = tmp_path / "other.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out",
                    other], check=True, capture_output=True)
    for cert, key in ((certificate[1], other), (certificate[1], tmp_path / "none"), (other, certificate[3])):
        done = subprocess.run([PROGRAM, "--cert", cert, "--key", key, "--tls-listen", "127.0.0.1:0"],
                              capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 1 and "TLS" in done.stderr


# ---- clients that others wrote


CURL = [["--http1.1"], ["--http2-prior-knowledge"], ["--http1.1", "tls"], ["--http2", "tls"], ["--http1.0"]]


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("options", CURL, ids=" ".join)
def test_curl(secure, options, tmp_path):
    scheme, port = ("https", secure.ports[1]) if "tls" in options else ("http", secure.ports[0])
    options = [option for option in options if option != "tls"]
    upload = tmp_path / "upload"
    upload.write_bytes(random.Random(7).randbytes(3 << 20))

    def curl(path, *more):
        return subprocess.run(["curl", "-sSk", "--max-time", str(HANG), *options, *more,
                               f"{scheme}://127.0.0.1:{port}{path}"], check=True, capture_output=True).stdout
    assert curl("/") == b"hello\n"
    assert curl("/", "-d", "abc") == b"abc"
    assert curl("/", "--data-binary", f"@{upload}") == upload.read_bytes()
    assert curl("/", "--data-binary", f"@{upload}", "-H", "Expect: 100-continue") == upload.read_bytes()
    assert len(curl("/large?5000000")) == 5000000
    assert curl("/slow?50") == b"slept\n"
    assert curl("/trailers") == b"message"
    assert b"403" in curl("/refuse", "-i", "--data-binary", f"@{upload}")
    if "--http1.0" not in options:
        assert curl("/", "-d", "abc", "-H", "Transfer-Encoding: chunked") == b"abc"


@pytest.mark.skipif(not shutil.which("h2load"), reason="h2load is not installed")
@pytest.mark.parametrize("options", [["-m", "32"], ["--h1"], ["-m", "32", "tls"], ["--h1", "tls"]], ids=" ".join)
def test_h2load(secure, options):
    url = f"https://127.0.0.1:{secure.ports[1]}/" if "tls" in options else f"http://127.0.0.1:{secure.ports[0]}/"
    options = [option for option in options if option != "tls"]
    for path, count in (("", 20000), ("slow?1", 500), ("large?100000", 500)):
        done = subprocess.run(["h2load", "-n", str(count), "-c", "10", *options, url + path], check=True,
                              capture_output=True, text=True, timeout=HANG)
        assert f"{count} succeeded, 0 failed, 0 errored" in done.stdout, done.stdout
