"""A real Engine that dies, is stopped, comes back, or hangs, at the start of a daemon and in the middle of a run."""

import contextlib
import pathlib
import signal
import socket
import tempfile
import threading

import pytest
from own_engine import process_state
from docker_harness import (JS, PROJECT, engine, engine_socket, images, javascript, project, settings_of, snippet,  # noqa: F401
                            start_daemon, wait_until)
from daemon_harness import CAPACITY, ENVIRONMENT, PLIMSOLLD, in_background, reason_of, start_and_fail

OWN_IMAGES = JS, PROJECT
ENDLESS = "console.log('begun'); setInterval(() => {}, 1000)"


def start_on(own, **variables):
    return start_daemon(OWN_IMAGES, DOCKER_HOST=own.host, **variables)


def begin_snippet(daemon, timeout_ms=20000):
    return in_background(snippet, daemon, ENDLESS, timeout_ms=timeout_ms)


def begin_project(daemon, timeout_ms=20000):
    message = {"steps": ["echo begun > /tmp/begun; sleep 60"], "files": [], "artifacts": []}
    return in_background(daemon.call, "Run", {"protocol": 3, "timeoutMs": timeout_ms, "project": message})


BEGIN = {"snippet": begin_snippet, "project": begin_project}


def commands(own, ident):
    status, listed = own.call("GET", f"/containers/{ident}/top")
    return {row[-1] for row in listed["Processes"]} if status == 200 else set()


def running(own):
    """The container whose guest is in the middle of its run."""
    def begun():
        return next((c["Id"] for c in own.containers("plsm-run-") if c["State"] == "running"
                     and any(line.startswith(("node ", "sleep ")) for line in commands(own, c["Id"]))), None)
    return wait_until(begun, "a guest runs")


def is_ready(daemon):
    return daemon.get("/readyz")[0] == 200


def answered(daemon, code="console.log(6 * 7)"):
    return javascript(daemon, code)["out"]


def lost(answer):
    """An error that says nothing of whether it ran: no result, and no mark that it did not."""
    status, body = answer
    return status == 500 and reason_of(body) is None and "javascript" not in body and "project" not in body


@pytest.mark.parametrize("kind", BEGIN)
def test_killed_in_the_middle_of_a_run(own, kind):
    with start_on(own) as daemon:
        wait = BEGIN[kind](daemon)
        running(own)
        own.kill()
        assert lost(wait())
        wait_until(lambda: not is_ready(daemon), "it is not ready")
        status, body = snippet(daemon, "1")
        assert (status, reason_of(body)) == (500, ENVIRONMENT), body
        own.start()
        wait_until(lambda: is_ready(daemon), "it is ready again by itself")
        assert answered(daemon) == b"42\n"
        wait_until(lambda: own.names() == [], "nothing is left")


def test_killed_under_a_pool(own):
    with start_on(own, SANDBOX_DOCKER_POOL="2") as daemon:
        waiting = lambda: [c["Id"] for c in own.containers("plsm-pool-") if c["State"] == "running"]
        before = set(wait_until(lambda: waiting() if len(waiting()) == 2 else None, "two members wait"))
        own.kill()
        wait_until(lambda: not is_ready(daemon), "it is not ready")
        status, body = snippet(daemon, "1")
        assert (status, reason_of(body)) == (500, ENVIRONMENT), body
        own.start()
        wait_until(lambda: is_ready(daemon), "it is ready again by itself")
        assert answered(daemon, "console.log(require('os').hostname())").decode().strip() not in {i[:12] for i in before}
        wait_until(lambda: len(waiting()) == 2 and not before & set(waiting()), "two new members wait")
    wait_until(lambda: own.names() == [], "nothing is left")


@pytest.mark.parametrize("kind", BEGIN)
def test_killed_together_with_the_daemon(own, kind):
    with start_on(own, SANDBOX_DOCKER_POOL="1") as daemon:
        BEGIN[kind](daemon, 8000)
        wait_until(lambda: [c for c in own.containers() if c["State"] == "running"], "something runs")
        own.kill()
        daemon.stop(signal.SIGKILL)
    own.start()
    with start_on(own) as second:
        assert answered(second) == b"42\n"
        wait_until(lambda: own.names() == [], "the Engine and the sweep leave nothing")


def test_stopped_and_started_between_runs(own):
    with start_on(own) as daemon:
        assert answered(daemon) == b"42\n"
        own.stop()
        wait_until(lambda: not is_ready(daemon), "it is not ready")
        status, body = snippet(daemon, "1")
        assert (status, reason_of(body)) == (500, ENVIRONMENT), body
        assert "cannot connect to the Engine" in daemon.log
        own.start()
        wait_until(lambda: is_ready(daemon), "it is ready again by itself")
        assert answered(daemon) == b"42\n"
        assert project(daemon, ["echo 1"])["steps"][0]["out"] == b"1\n"


def test_restarted_between_runs_faster_than_anybody_looks(own):
    """The connections that were kept are dead, and the last preflight is still believed."""
    with start_on(own) as daemon:
        assert answered(daemon) == b"42\n"
        own.stop()
        own.start()
        status, body = snippet(daemon, "console.log(6 * 7)")
        assert status == 200 or reason_of(body) in (ENVIRONMENT, None), body
        wait_until(lambda: is_ready(daemon), "it is ready")
        assert answered(daemon) == b"42\n"
        wait_until(lambda: own.names() == [], "nothing is left")


def test_stopped_in_the_middle_of_a_run(own):
    """It takes its containers along, politely: the guest's end is a result if it was heard, else the run is lost."""
    with start_on(own) as daemon:
        wait = begin_snippet(daemon, 30000)
        running(own)
        own.stop()
        status, body = wait()
        assert lost((status, body)) or (status == 200 and body["javascript"]["exitCode"] in (137, 143)), body
        own.start()
        wait_until(lambda: is_ready(daemon), "it is ready again by itself")
        wait_until(lambda: own.names() == [], "nothing is left")


def test_killed_during_the_startup_proof(own):
    wait = in_background(start_and_fail, PLIMSOLLD, **settings_of(OWN_IMAGES, DOCKER_HOST=own.host), PLIMSOLL_INSECURE="1")
    wait_until(lambda: own.names("plsm-smoke-"), "the proof has begun")
    own.kill()
    status, text = wait()
    assert status != 0 and "plimsoll/sandbox" in text
    own.start()
    with start_on(own) as daemon:
        assert answered(daemon) == b"42\n"
        wait_until(lambda: own.names() == [], "nothing is left")


@contextlib.contextmanager
def hanging(own):
    own.signal(signal.SIGSTOP)
    wait_until(lambda: process_state(own.pid()) == "T", "every thread of it stands still")
    try:
        yield
    finally:
        own.signal(signal.SIGCONT)


def test_hanging_at_the_start(own):
    with hanging(own):
        status, text = start_and_fail(PLIMSOLLD, **settings_of(OWN_IMAGES, DOCKER_HOST=own.host), PLIMSOLL_INSECURE="1")
    assert status != 0 and "did not answer in time" in text
    with start_on(own) as daemon:
        assert answered(daemon) == b"42\n"


def test_hanging_in_the_middle_of_a_run(own):
    """What had begun ends at its own budget; nothing new is believed to run; all is as before when it answers again."""
    with start_on(own) as daemon:
        wait = begin_snippet(daemon, 6000)
        ident = running(own)
        with hanging(own):
            status, body = wait()
            assert status == 200 and body["javascript"]["timedOut"] and body["javascript"]["exitCode"] == 124
            wait_until(lambda: not is_ready(daemon), "it is not ready")
            status, body = snippet(daemon, "1")
            assert (status, reason_of(body)) == (500, ENVIRONMENT), body
            status, body = snippet(daemon, "1", timeout_ms=1000)
            assert status != 200 and reason_of(body) in (ENVIRONMENT, CAPACITY), body
        wait_until(lambda: is_ready(daemon), "it is ready again by itself")
        assert answered(daemon) == b"42\n"
        wait_until(lambda: ident not in {c["Id"] for c in own.containers()}, "the container is removed")
        wait_until(lambda: own.names() == [], "nothing is left")


def test_hanging_while_a_container_is_made(own):
    """With evidence that is still fresh the run is on its way: it is an error of its deadline, never a result. What the
    Engine makes of the request after all is removed, although it was not there when its removal was first asked for."""
    with start_on(own) as daemon:
        assert answered(daemon) == b"42\n"
        with hanging(own):
            status, body = snippet(daemon, "1", timeout_ms=2000)
            assert status != 200 and "javascript" not in body
            assert reason_of(body) in (None, CAPACITY, ENVIRONMENT), body
        wait_until(lambda: is_ready(daemon), "it is ready again by itself")
        assert answered(daemon) == b"42\n"
        wait_until(lambda: own.names() == [], "what was made late is removed too")


def test_hanging_under_a_pool(own):
    with start_on(own, SANDBOX_DOCKER_POOL="1") as daemon:
        wait_until(lambda: [c for c in own.containers("plsm-pool-") if c["State"] == "running"], "a member waits")
        with hanging(own):
            status, body = snippet(daemon, "1", timeout_ms=3000)
            assert status != 200 and "javascript" not in body, body
        wait_until(lambda: is_ready(daemon), "it is ready again by itself")
        assert answered(daemon) == b"42\n"
    wait_until(lambda: own.names() == [], "nothing is left")


def test_an_engine_whose_default_is_an_init(own):
    """The runner is process 1 all the same."""
    own.stop()
    own.configure(init=True)
    try:
        own.start()
        with start_on(own) as daemon:
            assert answered(daemon) == b"42\n"
            found = project(daemon, ["echo $PLIMSOLL_RUNNER_PID; tr '\\0' ' ' < /proc/1/cmdline"])
            assert found["steps"][0]["out"].startswith(b"1\n/usr/local/lib/plimsoll/plimsoll-guest run ")
    finally:
        own.stop()
        own.config.unlink()


# A connection that is cut while the Engine itself goes on.

class Relay:
    """A socket of our own before an Engine's: it passes everything on until it is told to cut what is open."""

    def __init__(self, path, target):
        self.target, self.pairs, self.lock = target, [], threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.target)
                with self.lock:
                    self.pairs.append((client, server))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    @staticmethod
    def _pass(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def cut(self):
        with self.lock:
            for pair in self.pairs:
                for end in pair:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
            self.pairs = []

    def close(self):
        self.listener.close()
        self.cut()


@pytest.mark.parametrize("kind", BEGIN)
def test_connections_that_are_cut_in_the_middle_of_a_run(engine, images, kind):  # noqa: F811
    with tempfile.TemporaryDirectory(prefix="plsm-relay-", dir="/tmp") as folder:
        relay = Relay(pathlib.Path(folder) / "engine.sock", engine_socket())
        try:
            with start_daemon(images, DOCKER_HOST=f"{folder}/engine.sock") as daemon:
                wait = BEGIN[kind](daemon)
                running(engine)
                relay.cut()
                assert lost(wait())
                wait_until(lambda: engine.names("plsm-run-") == [], "no container remains", seconds=33)
                assert answered(daemon) == b"42\n"
        finally:
            relay.close()
