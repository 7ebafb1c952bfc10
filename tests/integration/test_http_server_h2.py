"""The http layer over HTTP/2: streams, bodies, trailers, limits, floods and draining."""

import contextlib
import signal
import struct
import time

import pytest

from http_harness import (CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, H2, HEADERS,
                          NO_ERROR, PING, PREFACE, PRIORITY, PROGRAM, PROTOCOL_ERROR, REFUSED_STREAM, RST_STREAM,
                          SETTINGS, Server, WINDOW_UPDATE, ask, connect, eventually, frame, get, headers, literal, plain,
                          read_all, serving, status_in, status_of)  # noqa: F401, a fixture among them

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


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
