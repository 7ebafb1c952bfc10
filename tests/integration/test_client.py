"""The library's client and placement against real daemons: what is believed, what is refused, and what runs twice (nothing)."""

import json
import signal
import ssl
import subprocess

import pytest

from daemon_harness import (HANG_SECONDS, PLIMSOLLD, ROOT, TOKEN_A, Daemon, clean_environment, free_port, in_background,
                            wait_until, write_registry)
from tls_files import self_signed

PROBE = ROOT / "build/release/tests/integration/client_probe"
WASM = {"SANDBOX_PROVIDER": "wasm"}
ENDLESS = "for (;;) {}"


class Probe:
    """The test program over the library: one command a line, one JSON answer a line."""

    def __init__(self):
        self.process = subprocess.Popen([PROBE], env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        try:
            assert self.process.wait(HANG_SECONDS) == 0, self.process.stderr.read()
        finally:
            self.process.kill()
            self.process.wait()

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def open(self, name, daemon, token="-", ca_file="", scheme="http"):
        host, port = daemon.address
        assert self.ask("open", name, f"{scheme}://{host}:{port}", token, ca_file)["status"] == "ok"


@pytest.fixture
def probe():
    with Probe() as started:
        yield started


@pytest.fixture(scope="module")
def wasm():
    with Daemon(PLIMSOLLD, **WASM) as started:
        yield started


def runs_of(daemon):
    """How many runs the daemon has written to its audit log."""
    return sum(1 for line in daemon.lines if line and line.get("op") == "javascript")


# One daemon


def test_a_run_is_answered_with_a_record_that_checks(wasm, probe):
    probe.open("d", wasm)
    answer = probe.ask("run", "d", "process", "console.log(6 * 7)")
    assert (answer["status"], answer["stdout"], answer["exit_code"]) == ("ok", "42\n", 0)
    record = answer["record"]
    assert record["version"] == 2
    assert record["own_sha256"] == record["record_sha256"]
    assert (record["provider"], record["isolation"]) == ("wasm", "process")
    assert record["environment"].startswith("quickjs-wasm:sha256:")
    assert 0 <= record["ended_unix_ms"] - record["started_unix_ms"] < HANG_SECONDS * 1000


def test_a_guests_failure_is_a_result(wasm, probe):
    probe.open("d", wasm)
    assert probe.ask("run", "d", "-", "throw new Error('no')")["exit_code"] != 0
    assert probe.ask("run", "d", "-", "console.log('\\u00e9')")["stdout"] == "\u00e9\n"


def test_a_description_says_what_the_daemon_is(wasm, probe):
    probe.open("d", wasm)
    answer = probe.ask("describe", "d")
    assert (answer["status"], answer["provider"], answer["tier"], answer["project"]) == ("ok", "wasm", "process", False)
    assert answer["environment"] == probe.ask("run", "d", "-", "1")["record"]["environment"]


def test_a_floor_is_refused_before_anything_runs(wasm, probe):
    probe.open("d", wasm)
    answer = probe.ask("run", "d", "kernel", "1")
    assert (answer["status"], answer["mark"], answer["code"]) == \
        ("insufficient_isolation", "isolation", "failed_precondition")
    assert not answer["may_have_run"]


def test_an_empty_snippet_is_not_sent(wasm, probe):
    probe.open("d", wasm)
    answer = probe.ask("run", "d", "-")
    assert (answer["status"], answer["mark"], answer["http"]) == ("invalid_request", "request", 0)


def test_a_token_opens_the_daemon_and_is_not_repeated(tmp_path, probe):
    registry = write_registry(tmp_path / "callers.json", a=TOKEN_A)
    with Daemon(PLIMSOLLD, PLIMSOLL_CLIENTS_FILE=registry, **WASM) as daemon:
        probe.open("good", daemon, TOKEN_A)
        probe.open("bad", daemon, "another-token-0123456789abcdef")
        probe.open("none", daemon)
        assert probe.ask("run", "good", "-", "console.log(1)")["stdout"] == "1\n"
        for name in ("bad", "none"):
            answer = probe.ask("run", name, "-", "1")
            assert (answer["code"], answer["mark"], answer["http"]) == ("unauthenticated", "permission", 401)
            assert not answer["not_bound"]
            assert "another-token" not in json.dumps(answer)


def test_a_daemon_without_a_provider_refuses(probe):
    with Daemon(PLIMSOLLD, SANDBOX_PROVIDER=None) as daemon:
        probe.open("d", daemon)
        answer = probe.ask("run", "d", "-", "1")
        assert (answer["status"], answer["mark"]) == ("disabled", "unsupported")
        assert probe.ask("run", "d", "process", "1")["mark"] == "isolation"


def test_many_threads_share_one_handle(probe):
    with Daemon(PLIMSOLLD, SANDBOX_MAX_CONCURRENT=64, SANDBOX_PER_KEY_CONCURRENT=0, **WASM) as daemon:
        probe.open("d", daemon)
        answer = probe.ask("crowd", "d", 64, 10)
        assert answer["good"] + answer["refused"] == 640
        assert answer["good"] > 0


def test_a_full_daemon_refuses_marked(probe):
    with Daemon(PLIMSOLLD, SANDBOX_MAX_CONCURRENT=1, **WASM) as daemon, Probe() as other:
        probe.open("d", daemon)
        other.open("d", daemon)
        busy = in_background(other.ask, "cancel", "d", 3000, ENDLESS)
        wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == 1, "a run in flight")
        answer = probe.ask("run", "d", "-", "1")
        assert (answer["status"], answer["mark"]) == ("at_capacity", "capacity")
        assert busy()["status"] == "canceled"


def test_a_cancelled_run_may_have_run_and_ends_there(wasm, probe):
    probe.open("d", wasm)
    answer = probe.ask("cancel", "d", 300, ENDLESS)
    assert (answer["status"], answer["code"], answer["mark"]) == ("canceled", "canceled", "")
    assert answer["may_have_run"]
    wait_until(lambda: wasm.metrics()["plimsoll_inflight"] == 0, "the end of the cancelled run")
    assert probe.ask("run", "d", "-", "console.log(2)")["stdout"] == "2\n"


def test_a_killed_daemon_leaves_no_mark_and_no_second_run(probe):
    with Daemon(PLIMSOLLD, **WASM) as daemon:
        probe.open("d", daemon)
        assert probe.ask("run", "d", "-", "1")["status"] == "ok"  # so that a kept connection is cut
        running = in_background(probe.ask, "run", "d", "-", ENDLESS)
        wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == 1, "a run in flight")
        daemon.stop(signal.SIGKILL)
        answer = running()
        assert (answer["status"], answer["mark"]) == ("transport", "")
        answer = probe.ask("run", "d", "-", "1")
        assert (answer["status"], answer["code"], answer["mark"]) == ("transport", "unavailable", "environment")


def test_tls_is_verified(tmp_path, probe):
    certificate, key = self_signed(tmp_path)
    with Daemon(PLIMSOLLD, PLIMSOLL_TLS_CERT=certificate, PLIMSOLL_TLS_KEY=key, **WASM) as daemon:
        probe.open("trusting", daemon, ca_file=certificate, scheme="https")
        probe.open("stranger", daemon, scheme="https")
        probe.open("clear", daemon)
        for _ in range(2):
            assert probe.ask("run", "trusting", "-", "console.log(1)")["stdout"] == "1\n"
        assert probe.ask("run", "stranger", "-", "1")["mark"] == "environment"
        # A TLS port answers cleartext with an alert or nothing: the request was written, so there is no mark.
        assert probe.ask("run", "clear", "-", "1")["mark"] == ""


# Several daemons


def test_placement_over_three_daemons(probe):
    """examples.md 9.5: filtered, refused by all, passed over while dead, and lost without a second run."""
    with Daemon(PLIMSOLLD, SANDBOX_PROVIDER=None) as off, Daemon(PLIMSOLLD, **WASM) as wasm, \
            Daemon(PLIMSOLLD, **WASM) as spare:
        for name, daemon in (("off", off), ("wasm", wasm), ("spare", spare)):
            probe.open(name, daemon)
        assert probe.ask("pool", "off", "wasm", "spare")["status"] == "ok"

        answer = probe.ask("place", "process", "-", "console.log(1)")
        assert (answer["status"], answer["backend"], answer["refused"], answer["stdout"]) == ("ok", "wasm", [], "1\n")

        before = [runs_of(daemon) for daemon in (off, wasm, spare)]
        answer = probe.ask("place", "kernel", "-", "1")
        assert (answer["status"], answer["code"], answer["mark"]) == ("no_backend", "unimplemented", "unsupported")
        for name in ("off: ", "wasm: ", "spare: "):
            assert name in answer["message"]
        assert [runs_of(daemon) for daemon in (off, wasm, spare)] == before

        wasm.stop(signal.SIGKILL)
        answer = probe.ask("place", "process", "-", "console.log(3)")
        assert (answer["status"], answer["backend"], answer["refused"]) == ("ok", "spare", [["wasm", "environment"]])

        running = in_background(probe.ask, "place", "process", "-", ENDLESS)
        wait_until(lambda: spare.metrics()["plimsoll_inflight"] == 1, "a run in flight")
        before = runs_of(off)
        spare.stop(signal.SIGKILL)
        answer = running()
        assert (answer["status"], answer["mark"], answer["backend"]) == ("transport", "", "spare")
        assert answer["may_have_run"]
        assert runs_of(off) == before


def test_a_named_backend_has_no_substitute(wasm, probe):
    probe.open("good", wasm)
    assert probe.ask("open", "dead", f"http://127.0.0.1:{free_port()}")["status"] == "ok"
    assert probe.ask("pool", "dead", "good")["status"] == "ok"
    answer = probe.ask("place", "-", "dead", "1")
    assert (answer["status"], answer["mark"], answer["may_have_run"]) == ("no_backend", "unsupported", False)
    assert probe.ask("place", "-", "-", "console.log(1)")["backend"] == "good"
