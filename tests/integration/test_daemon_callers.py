"""Who is let in, and how much each may do."""

import json
import socket
import time

import pytest

from daemon_harness import (CAPACITY, HANG_SECONDS, PERMISSION, SERVICE, TOKEN_A, TOKEN_B, TOKEN_C, Daemon, fingerprint,
                            in_background, reason_of, stdout_of, wait_until, write_registry)

SHARED = "shared-token-0123456789abcdefghijkl"


@pytest.fixture
def registry(tmp_path):
    return write_registry(tmp_path / "clients.json", a=TOKEN_A, b=TOKEN_B, c=(TOKEN_C, []))


# Authentication


def test_only_callers_of_the_registry_are_let_in(registry):
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry, PLIMSOLL_TOKEN=SHARED, PLIMSOLL_INSECURE="1") as daemon:
        assert daemon.listening["auth"] is True
        assert daemon.events("callers loaded")[0]["callers"] == 3
        for token in (None, SHARED, "x", TOKEN_A + "x", TOKEN_A.upper(), fingerprint(TOKEN_A)):
            status, body = daemon.run("hello", token)
            assert (status, body["code"], reason_of(body)) == (401, "unauthenticated", PERMISSION)
        status, body = daemon.run("hello", TOKEN_A)
        assert status == 200 and stdout_of(body) == b"hello"
        assert daemon.wait_for("code run")["caller"] == "a"
        assert daemon.metrics()["plimsoll_runs_total"] == 1


def test_a_missing_and_an_unknown_token_differ_only_in_their_text(registry):
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry) as daemon:
        missing, unknown = daemon.run("x")[1], daemon.run("x", "nobody-has-this-token-at-all-0123")[1]
        assert {k: v for k, v in missing.items() if k != "message"} == {k: v for k, v in unknown.items() if k != "message"}


def test_a_caller_without_the_scope(registry):
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry) as daemon:
        for procedure in ("Run", "Describe", "OpenSession", "SessionRun", "CloseSession", "Nonsense"):
            status, body = daemon.call(procedure, {}, TOKEN_C)
            assert (status, body["code"], reason_of(body)) == (403, "permission_denied", PERMISSION)


def test_a_caller_with_every_scope(tmp_path):
    with Daemon(PLIMSOLL_CLIENTS_FILE=write_registry(tmp_path / "clients.json", a=(TOKEN_A, ["*"]))) as daemon:
        assert daemon.run("x", TOKEN_A)[0] == 200


def test_a_shared_token_is_one_caller():
    with Daemon(PLIMSOLL_TOKEN=SHARED) as daemon:
        assert daemon.run("x", SHARED)[0] == 200
        assert daemon.run("x", SHARED[:-1])[0] == 401
        assert daemon.wait_for("code run")["caller"] == "static"
        assert SHARED not in daemon.log and fingerprint(SHARED) not in daemon.log


def test_without_authentication_everybody_is_anon():
    with Daemon() as daemon:
        assert daemon.run("x")[0] == 200 and daemon.run("x", "any-token")[0] == 200
        assert daemon.wait_for("code run", 2)["caller"] == "anon"


def test_ids_and_fingerprints_are_normalised(tmp_path):
    path = tmp_path / "clients.json"
    path.write_text(json.dumps({"clients": [
        {"id": "  padded\t", "token_sha256": f" {fingerprint(TOKEN_A).upper()}\n", "scopes": ["code:run"]}]}))
    with Daemon(PLIMSOLL_CLIENTS_FILE=path) as daemon:
        assert daemon.run("x", TOKEN_A)[0] == 200
        assert daemon.wait_for("code run")["caller"] == "padded"


def test_an_edit_changes_nothing_until_a_restart(registry):
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry) as daemon:
        write_registry(registry, b=TOKEN_B)
        assert daemon.run("x", TOKEN_A)[0] == 200
        registry.unlink()
        assert daemon.run("x", TOKEN_A)[0] == 200
    write_registry(registry, b=TOKEN_B)
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry) as daemon:
        assert daemon.run("x", TOKEN_A)[0] == 401 and daemon.run("x", TOKEN_B)[0] == 200


def test_the_daemon_follows_a_symbolic_link(registry, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(registry)
    with Daemon(PLIMSOLL_CLIENTS_FILE=link) as daemon:
        assert daemon.run("x", TOKEN_A)[0] == 200


def test_a_thousand_bad_tokens_are_a_line_or_two(registry):
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry) as daemon:
        connection = daemon.connect()
        for number in range(1000):
            connection.request("POST", SERVICE + "Describe", "{}", {
                "content-type": "application/json", "authorization": f"Bearer bad-token-number-{number}"})
            answer = connection.getresponse()
            assert answer.status == 401
            answer.read()
            if answer.headers.get("connection") == "close":
                connection.close()
        connection.close()
        assert 1 <= len(daemon.events("credentials refused")) <= 2
        assert daemon.stop() == 0
        lines = daemon.events("credentials refused")
        assert sum(line["count"] for line in lines) == 1000 and len(lines) <= 3
        assert all(list(line) == ["time", "level", "msg", "count", "window_ms"] for line in lines)
        assert "bad-token" not in daemon.log


def test_no_byte_of_a_body_is_awaited_for_a_stranger(registry):
    head = f"POST {SERVICE}Run HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry) as daemon:
        for credential, status in ((None, b"401"), ("nobody-0123456789abcdefghijklmnop", b"401"), (TOKEN_C, b"403")):
            with socket.create_connection(daemon.address, timeout=HANG_SECONDS) as client:
                line = f"Authorization: Bearer {credential}\r\n" if credential else ""
                client.sendall((head + line + "\r\n{\"").encode())
                answer = client.recv(65536)
                assert answer.startswith(b"HTTP/1.1 " + status) and b"connection: close" in answer.lower()


# Admission


def test_slots_of_all_and_slots_of_one(registry, tmp_path):
    write_registry(registry, a=TOKEN_A, b=TOKEN_B, c=TOKEN_C)
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry, SANDBOX_MAX_CONCURRENT=2, SANDBOX_PER_KEY_CONCURRENT=1) as daemon:
        first = in_background(daemon.run, "sleep 3000", TOKEN_A)
        wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == 1, "the first run holds a slot")
        status, body = daemon.run("x", TOKEN_A)
        assert (status, body["code"], reason_of(body)) == (429, "resource_exhausted", CAPACITY)
        second = in_background(daemon.run, "sleep 3000", TOKEN_B)
        wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == 2, "both runs hold slots")
        status, body = daemon.run("x", TOKEN_C)
        assert (status, body["code"], reason_of(body)) == (429, "resource_exhausted", CAPACITY)
        assert first()[0] == 200 and second()[0] == 200
        metrics = daemon.metrics()
        assert metrics['plimsoll_shed_total{reason="per_key"}'] == 1
        assert metrics['plimsoll_shed_total{reason="at_capacity"}'] == 1
        assert metrics['plimsoll_shed_total{reason="rate"}'] == 0
        assert metrics["plimsoll_runs_total"] == 2 and metrics["plimsoll_inflight"] == 0


def test_a_slot_comes_back_when_what_ran_is_gone():
    with Daemon(SANDBOX_MAX_CONCURRENT=2, SANDBOX_PER_KEY_CONCURRENT=0) as daemon:
        assert daemon.run("linger 1500")[0] == 200
        assert daemon.metrics()["plimsoll_inflight"] == 1
        other = in_background(daemon.run, "sleep 3000")
        wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == 2, "the other run holds a slot")
        status, body = daemon.run("x")
        assert (status, reason_of(body)) == (429, CAPACITY)
        wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == 1, "the slot is given back")
        assert daemon.run("x")[0] == 200
        assert other()[0] == 200


def test_an_answer_waits_where_its_slot_is_the_only_one():
    """So that whoever asks one by one is not refused for what is left of his own run."""
    with Daemon(SANDBOX_MAX_CONCURRENT=1) as daemon:
        for _ in range(3):
            assert daemon.run("linger 400")[0] == 200
            assert daemon.metrics()["plimsoll_inflight"] == 0


def test_a_burst_and_then_a_rate(registry):
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry, SANDBOX_RATE_PER_MIN=20, SANDBOX_RATE_BURST=2) as daemon:
        assert daemon.listening["rate_burst"] == 2
        assert [daemon.run("x", TOKEN_A)[0] for _ in range(2)] == [200, 200]
        status, body = daemon.run("x", TOKEN_A)
        assert (status, reason_of(body)) == (429, CAPACITY)
        assert daemon.run("x", TOKEN_B)[0] == 200
        start = time.monotonic()
        wait_until(lambda: daemon.run("x", TOKEN_A)[0] == 200, "a token comes back")
        assert daemon.metrics()['plimsoll_shed_total{reason="rate"}'] >= 1
        # One token takes 3 s; it must not come back at once.
        assert time.monotonic() - start > 0.5


def test_a_refusal_for_want_of_a_slot_costs_no_token(registry):
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry, SANDBOX_MAX_CONCURRENT=1, SANDBOX_RATE_PER_MIN=1,
                SANDBOX_RATE_BURST=2) as daemon:
        first = in_background(daemon.run, "sleep 2000", TOKEN_A)
        wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == 1, "the run holds the slot")
        for _ in range(5):
            assert daemon.run("x", TOKEN_A)[0] == 429
        assert first()[0] == 200
        assert daemon.run("x", TOKEN_A)[0] == 200
        assert daemon.run("x", TOKEN_A)[0] == 429
        metrics = daemon.metrics()
        assert metrics['plimsoll_shed_total{reason="at_capacity"}'] == 5
        assert metrics['plimsoll_shed_total{reason="rate"}'] == 1


def test_a_floor_above_the_tier_costs_no_token(registry, tmp_path):
    script = tmp_path / "scripted"
    script.write_text("tier=container")
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry, SANDBOX_RATE_PER_MIN=1, SANDBOX_RATE_BURST=1, SCRIPT_FILE=script) as daemon:
        status, body = daemon.run("x", TOKEN_A, minimumIsolation="vm")
        assert (status, body["code"]) == (400, "failed_precondition")
        assert daemon.run("x", TOKEN_A)[0] == 200
        assert daemon.run("x", TOKEN_A, minimumIsolation="vm")[1]["code"] == "failed_precondition"


def test_a_long_run_holds_no_decode_slot():
    with Daemon(SANDBOX_MAX_CONCURRENT=1) as daemon:
        run = in_background(daemon.run, "sleep 3000")
        wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == 1, "the run holds the slot")
        # The caller's one decode slot is free: these are decoded, and refused by admission or answered.
        for _ in range(3):
            assert daemon.run("x")[0] == 429
            assert daemon.call("Describe", {})[0] == 200
        assert daemon.metrics()['plimsoll_shed_total{reason="at_capacity"}'] == 3
        assert run()[0] == 200
