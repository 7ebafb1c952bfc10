"""The http layer over real sockets: what is answered over HTTP/1.1, what is refused, and what a slow, broken or hostile
client can and cannot do. Limits are shortened by options of the program where a test would otherwise wait; nothing
asserts a duration."""

import contextlib
import os
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest

from http_harness import (HANG, HEADERS, PREFACE, PROGRAM, Reader, SETTINGS, Server, ask, connect, eventually, frame, get,
                          headers, plain, read_all, serving, status_of)  # noqa: F401, a fixture among them

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


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
