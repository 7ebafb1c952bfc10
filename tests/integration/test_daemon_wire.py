"""The wire of a running daemon: hostile bodies and their memory, strangers, output bytes, records that anybody can recompute."""

import base64
import gzip
import hashlib
import json
import pathlib
import random
import socket
import zlib

import pytest

from daemon_harness import HANG_SECONDS, PLIMSOLLD, SERVICE, TOKEN_A, UNSUPPORTED, Daemon, reason_of, write_registry

WASM = {"SANDBOX_PROVIDER": "wasm"}
JSON = {"content-type": "application/json"}
BODY_MAX = 8 << 20


def peak_mb(daemon):
    for line in pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no peak of memory")


# Bodies


def test_a_gzip_bomb_is_refused_in_little_memory():
    deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    bomb = b"".join(deflater.compress(zeros) for _ in range(1024)) + deflater.flush()
    with Daemon() as daemon:
        assert daemon.run("x")[0] == 200
        before = peak_mb(daemon)
        for _ in range(4):
            status, headers, body = daemon.request("POST", SERVICE + "Run", bomb, {**JSON, "content-encoding": "gzip"})
            assert status == 429 and json.loads(body)["code"] == "resource_exhausted"
            assert headers["plimsoll-not-dispatched"] == "request"
        if "san" not in PLIMSOLLD.parts[-4]:  # a sanitizer keeps memory of its own
            assert peak_mb(daemon) - before < 32
        assert daemon.metrics()["plimsoll_runs_total"] == 1


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:10], lambda b: b + b"x", lambda b: b[:-8] + bytes(8)])
def test_a_damaged_gzip_body_is_malformed(damage):
    body = gzip.compress(b'{"protocol":3,"javascript":{"code":"x"}}')
    with Daemon() as daemon:
        good = {**JSON, "content-encoding": "gzip"}
        assert daemon.request("POST", SERVICE + "Run", body, good)[0] == 200
        status, headers, answer = daemon.request("POST", SERVICE + "Run", damage(body), good)
        assert (status, json.loads(answer)["code"]) == (400, "invalid_argument")
        assert headers["plimsoll-not-dispatched"] == "request"
        assert daemon.metrics()["plimsoll_runs_total"] == 1


def test_a_body_past_the_cap_is_refused_whether_it_was_announced_or_not():
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    head = f"POST {SERVICE}Run HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n".encode()
    with Daemon() as daemon:
        for sent in (head + b"Content-Length: %d\r\n\r\n{\"" % (BODY_MAX + 1),
                     head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * (BODY_MAX // 65536) + b"1\r\n \r\n0\r\n\r\n"):
            with socket.create_connection(daemon.address, timeout=HANG_SECONDS) as client:
                client.sendall(sent)
                answer = client.recv(65536)
                assert answer.startswith(b"HTTP/1.1 429") and b"connection: close" in answer.lower()
        whole = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * (BODY_MAX // 65536) + b"0\r\n\r\n"
        with socket.create_connection(daemon.address, timeout=HANG_SECONDS) as client:
            client.sendall(whole)
            assert client.recv(65536).startswith(b"HTTP/1.1 400")  # it was decoded
        assert daemon.run("x")[0] == 200


# Strangers


def test_nothing_that_a_stranger_sends_is_a_run(tmp_path):
    random.seed(20)
    paths = ["Run", "Describe", "OpenSession", "SessionRun", "CloseSession", "Nothing", "../Run", "Run/", "Run?a"]
    types = ["application/json", "application/proto", "application/grpc", "application/grpc-web+proto", "text/plain", "", "a/b; c"]
    bodies = [b"", b"{}", b'{"protocol":3,"javascript":{"code":"1"}}', b"\x08\x03\x52\x03\x0a\x011", bytes(random.randbytes(300))]
    with Daemon(PLIMSOLL_CLIENTS_FILE=write_registry(tmp_path / "callers.json", a=TOKEN_A)) as daemon:
        for _ in range(400):
            headers = {"content-type": random.choice(types), "content-encoding": random.choice(["identity", "gzip", "br", ""]),
                       "authorization": random.choice(["", "Bearer", "Bearer x", "Basic YTpi", "Bearer " + "a" * 64])}
            method = random.choice(["POST", "POST", "GET", "PUT"])
            status, answered, _ = daemon.request(method, SERVICE + random.choice(paths), random.choice(bodies), headers)
            # gRPC says it in its trailers; everything else in the status.
            assert status in (401, 404) or (status == 200 and answered["content-type"].startswith("application/grpc")), status
        for _ in range(100):
            with socket.create_connection(daemon.address, timeout=HANG_SECONDS) as client:
                client.sendall(random.choice([b"", b"POST ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]) + random.randbytes(random.randrange(1, 2000)))
        metrics = daemon.metrics()
        assert metrics["plimsoll_runs_total"] == metrics["plimsoll_inflight"] == 0
        assert daemon.run("x", TOKEN_A)[0] == 200


# What comes back


def test_sessions_are_refused_marked():
    with Daemon() as daemon:
        for procedure in ("OpenSession", "SessionRun", "CloseSession"):
            status, body = daemon.call(procedure, {"protocol": 3})
            assert (status, body["code"], reason_of(body)) == (501, "unimplemented", UNSUPPORTED)
        assert daemon.call("Describe", {})[1].get("supportsSessions", False) is False


def test_every_byte_of_output_comes_back_over_both_encodings():
    # What is not UTF-8 a program cannot print here, so these are the bytes of characters of every length.
    text = "".join(map(chr, [*range(256), 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF])) + "\n"
    code = "console.log(%s)" % json.dumps(text[:-1])
    with Daemon(PLIMSOLLD, **WASM) as daemon:
        _, body = daemon.run(code)
        assert base64.b64decode(body["javascript"]["stdout"]) == text.encode()
        inner = code.encode()
        snippet = b"\x0a" + varint(len(inner)) + inner
        request = b"\x08\x03\x52" + varint(len(snippet)) + snippet
        status, _, answer = daemon.request("POST", SERVICE + "Run", request, {"content-type": "application/proto"})
        assert status == 200 and text.encode() in answer


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def value(content):
    if isinstance(content, bool):
        content = "true" if content else "false"
    content = content if isinstance(content, bytes) else str(content).encode()
    return len(content).to_bytes(8, "big") + content


def digest(domain, *fields):
    return hashlib.sha256(value(domain) + b"".join(value(name) + value(content) for name, content in fields)).hexdigest()


def test_a_record_is_what_its_description_says(tmp_path):
    """Recomputed here from nothing but docs/run-records.md."""
    with Daemon(PLIMSOLLD, **WASM) as daemon:
        for code, floor, timeout in (("console.log('a\\0b')", "process", 1500), ("throw 1", "", 0), ("for (;;);", "process", 100)):
            status, body = daemon.run(code, minimumIsolation=floor, timeoutMs=timeout, traceId="not-in-the-digest")
            record, result = body["record"], body["javascript"]
            assert status == 200 and record["version"] == 2
            assert record["requestSha256"] == digest(
                "plimsoll.run-request.v2", ("protocol", 3), ("minimum_isolation", floor), ("timeout_ms", timeout), ("software_mode", ""),
                ("software_identities", 0), ("kind", "javascript"), ("code", code), ("grant_profile", ""))
            assert record["resultSha256"] == digest(
                "plimsoll.run-result.v1", ("kind", "javascript"), ("exit_code", result.get("exitCode", 0)),
                ("timed_out", result.get("timedOut", False)), ("stdout", base64.b64decode(result.get("stdout", ""))),
                ("stderr", base64.b64decode(result.get("stderr", ""))), ("stdout_truncated", result.get("stdoutTruncated", False)),
                ("stderr_truncated", result.get("stderrTruncated", False)))
            assert (record["provider"], record["isolation"], record["environment"]) == (
                body["sandbox"], body["isolation"], body["environment"])
            assert not {"session", "sequence", "previousSha256", "unanswered", "softwareRuleId"} & set(record)
            assert int(record["startedUnixMs"]) <= int(record["endedUnixMs"])
            assert record["recordSha256"] == digest(
                "plimsoll.run-record.v2", ("request_sha256", record["requestSha256"]), ("result_sha256", record["resultSha256"]),
                ("provider", "wasm"), ("isolation", "process"), ("environment", record["environment"]), ("policy", ""),
                ("software_identity", ""), ("software_rule_id", ""), ("started_unix_ms", record["startedUnixMs"]),
                ("ended_unix_ms", record["endedUnixMs"]), ("session", ""), ("sequence", 0), ("previous_sha256", ""))


def test_a_refusal_has_no_record():
    with Daemon() as daemon:
        for message in ({"protocol": 3}, {"protocol": 3, "javascript": {"code": "refuse"}}, {"protocol": 4, "javascript": {"code": "x"}}):
            status, body = daemon.call("Run", message)
            assert status >= 400 and "record" not in body and reason_of(body) is not None
            assert [d["type"] for d in body["details"]] == ["plimsoll.v1.NotDispatched"]


def test_there_is_no_signing_key_to_configure():
    with Daemon(PLIMSOLL_ATTEST_KEY="-----BEGIN PRIVATE KEY-----") as daemon:
        (warning,) = daemon.events("unknown environment variable")
        assert warning["name"] == "PLIMSOLL_ATTEST_KEY" and "BEGIN PRIVATE" not in daemon.log
        assert daemon.run("x")[0] == 200
