"""Another party on the same Engine: what it does to a run's container, and what dead daemons leave for living ones."""

import os
import pathlib
import signal
import subprocess
import time

import pytest
from docker_harness import (daemon, decoded, engine, images, javascript, project, runtime, snippet,  # noqa: F401
                            start_daemon, wait_until)
from daemon_harness import in_background, reason_of

ENDLESS = "console.log('begun'); setInterval(() => {}, 1000)"
MARGIN_SECONDS = 300  # after its label, before a sweep takes it


def send_snippet(daemon, timeout_ms):
    return in_background(snippet, daemon, ENDLESS, timeout_ms=timeout_ms)


def send_project(daemon, timeout_ms):
    message = {"steps": ["echo begun; sleep 100"], "files": [], "artifacts": []}
    return in_background(daemon.call, "Run", {"protocol": 3, "timeoutMs": timeout_ms, "project": message})


SEND = {"snippet": send_snippet, "project": send_project}


def runs(engine, state=None):
    return {c["Id"] for c in engine.containers("plsm-run-") if state in (None, c["State"])}


def begin(engine, daemon, send, timeout_ms):
    """A run in the middle of itself: what waits for its answer, and its container."""
    before = runs(engine)
    wait = send(daemon, timeout_ms)
    ident = wait_until(lambda: runs(engine, "running") - before, "a run's container").pop()
    time.sleep(1.5)  # its marker is out, and the guest waits
    return wait, ident


def is_gone(engine, ident):
    return ident not in runs(engine)


def is_lost(status, body):
    """An error that does not say that nothing ran."""
    return status == 500 and reason_of(body) is None and "javascript" not in body and "project" not in body


@pytest.fixture(params=SEND)
def kind(request):
    return request.param


def test_killed(daemon, engine, kind):
    wait, ident = begin(engine, daemon, SEND[kind], 20000)
    engine.call("POST", f"/containers/{ident}/kill")
    status, body = wait()
    assert status == 200, body
    if kind == "snippet":
        assert (body["javascript"]["exitCode"], body["javascript"].get("limitReached", "")) == (137, "")
        assert not body["javascript"].get("timedOut")
    else:
        assert body["project"]["outcome"] == "PROJECT_OUTCOME_PROTOCOL_ERROR"
        assert body["project"]["outcomeDetail"] == "the runner did not report (container exit 137)"
        assert not body["project"].get("steps")
    wait_until(lambda: is_gone(engine, ident), "it is removed")


def test_removed(daemon, engine, kind):
    wait, ident = begin(engine, daemon, SEND[kind], 20000)
    engine.remove(ident)
    status, body = wait()
    if status == 200 and kind == "snippet":
        assert body["javascript"]["exitCode"] == 137 and not body["javascript"].get("timedOut")
    elif status == 200:
        assert body["project"]["outcome"] == "PROJECT_OUTCOME_PROTOCOL_ERROR"
    else:
        assert is_lost(status, body), body
    assert is_gone(engine, ident)


def test_stopped_politely(daemon, engine, kind):
    """Process 1 has no handler for SIGTERM, so the Engine kills it after its grace: the end of a guest like any other."""
    wait, ident = begin(engine, daemon, SEND[kind], 20000)
    engine.call("POST", f"/containers/{ident}/stop?t=1")
    status, body = wait()
    assert status == 200 or is_lost(status, body), body
    if status == 200 and kind == "snippet":
        assert body["javascript"]["exitCode"] in (137, 143)
    wait_until(lambda: is_gone(engine, ident), "it is removed")


def test_paused(daemon, engine, kind):
    """A container that stands still is ended by its budget, from outside, and removed as it stands."""
    wait, ident = begin(engine, daemon, SEND[kind], 10000)
    engine.call("POST", f"/containers/{ident}/pause")
    status, body = wait()
    assert status == 200, body
    if kind == "snippet":
        assert (body["javascript"]["timedOut"], body["javascript"]["exitCode"]) == (True, 124)
    else:
        assert body["project"]["outcome"] == "PROJECT_OUTCOME_TIMED_OUT"
        assert body["project"]["outcomeDetail"] == "run exceeded the time budget"
    wait_until(lambda: is_gone(engine, ident), "the paused container is removed")


def test_paused_for_a_moment(daemon, engine):
    code = "console.log(1); setTimeout(() => console.log(2), 3000)"
    wait, ident = begin(engine, daemon, lambda *_: in_background(snippet, daemon, code, timeout_ms=30000), 0)
    engine.call("POST", f"/containers/{ident}/pause")
    time.sleep(0.5)
    engine.call("POST", f"/containers/{ident}/unpause")
    status, body = wait()
    found = decoded(body, body["javascript"])
    assert (status, found["exit"], found["out"]) == (200, 0, b"1\n2\n")


def test_given_other_limits(daemon, engine):
    """What a cold run does is not changed by it, and the next container has the configured limits."""
    code = "setTimeout(() => console.log(1), 3000)"
    wait, ident = begin(engine, daemon, lambda *_: in_background(snippet, daemon, code, timeout_ms=30000), 0)
    engine.call("POST", f"/containers/{ident}/update", {"PidsLimit": 300})
    status, body = wait()
    found = decoded(body, body["javascript"])
    assert (status, found["exit"], found["out"]) == (200, 0, b"1\n")
    wait, ident = begin(engine, daemon, send_snippet, 6000)
    assert engine.call("GET", f"/containers/{ident}/json")[1]["HostConfig"]["PidsLimit"] == 256
    assert wait()[0] == 200


def test_renamed(daemon, engine):
    """The name is how it is removed, so that one is taken away: the Engine's own removal and the label remain."""
    wait, ident = begin(engine, daemon, send_snippet, 4000)
    engine.call("POST", f"/containers/{ident}/rename?name=plsm-test-renamed-{os.getpid()}")
    status, body = wait()
    assert status == 200 and body["javascript"]["timedOut"]
    labels = [c["Labels"] for c in engine.containers("plsm-test-renamed-")]
    engine.remove(ident)
    assert all("io.plimsoll.expires" in found for found in labels)


# Two daemons on one Engine.

def test_two_daemons_use_one_engine_at_once(daemon, engine, images, runtime):
    waits = []
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime, SANDBOX_DOCKER_POOL="1") as second:
        for i in range(4):
            for one in (daemon, second):
                waits.append((i, in_background(javascript, one, f"console.log({i})", timeout_ms=30000)))
        assert all(wait()["out"] == b"%d\n" % i for i, wait in waits)
        wait, ident = begin(engine, daemon, send_project, 100000)
        assert second.stop() == 0
        assert not is_gone(engine, ident), "a drain removes only its own"
    engine.call("POST", f"/containers/{ident}/kill")
    assert wait()[0] == 200


def test_a_dying_daemon_takes_nothing_of_another_along(daemon, engine, images, runtime):
    wait, ident = begin(engine, daemon, send_project, 100000)
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime, SANDBOX_DOCKER_POOL="1") as second:
        second.stop(signal.SIGKILL)
        with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime):
            assert not is_gone(engine, ident)
    engine.call("POST", f"/containers/{ident}/kill")
    assert wait()[0] == 200


# What a killed daemon leaves, and a clock that has moved on.

def test_the_next_sweep_takes_what_a_killed_daemon_left(engine, images, runtime, clock):
    """A daemon whose clock has passed the label by the margin takes it; one whose clock has not leaves it."""
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime) as first:
        _, ident = begin(engine, first, send_snippet, 20000)
        began = time.time()
        first.stop(signal.SIGKILL)
    label = next(int(c["Labels"]["io.plimsoll.expires"]) for c in engine.containers("plsm-run-") if c["Id"] == ident)
    assert began < label < began + 25
    shifted = {"LD_PRELOAD": str(clock), "SANDBOX_DOCKER_RUNTIME": runtime}
    early = int(label + MARGIN_SECONDS - 60 - time.time())
    with start_daemon(images, CLOCK_SHIFT=str(early), **shifted):
        assert not is_gone(engine, ident)
    with start_daemon(images, CLOCK_SHIFT=str(label + MARGIN_SECONDS + 60 - int(time.time())), **shifted) as second:
        assert second.wait_for("orphans removed")["count"] >= 1
        assert is_gone(engine, ident)
        assert javascript(second, "console.log(1)")["out"] == b"1\n"


def test_a_paused_one_is_taken_too(engine, images, runtime, clock):
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime) as first:
        _, ident = begin(engine, first, send_project, 20000)
        engine.call("POST", f"/containers/{ident}/pause")
        first.stop(signal.SIGKILL)
    with start_daemon(images, LD_PRELOAD=str(clock), CLOCK_SHIFT="600", SANDBOX_DOCKER_RUNTIME=runtime):
        assert is_gone(engine, ident)


def test_clocks_that_differ_by_minutes_take_nothing(daemon, engine, images, runtime, clock):
    """The margin is for two daemons that do not agree what time it is."""
    wait, ident = begin(engine, daemon, send_project, 100000)
    with start_daemon(images, LD_PRELOAD=str(clock), CLOCK_SHIFT="240", SANDBOX_DOCKER_RUNTIME=runtime):
        assert not is_gone(engine, ident)
    engine.call("POST", f"/containers/{ident}/kill")
    assert wait()[0] == 200


@pytest.mark.parametrize("shift", ["86400", "-86400"])
def test_a_clock_that_is_wrong_by_a_day_runs_snippets(images, runtime, clock, shift):
    with start_daemon(images, LD_PRELOAD=str(clock), CLOCK_SHIFT=shift, SANDBOX_DOCKER_RUNTIME=runtime) as daemon:
        assert javascript(daemon, "console.log(1)")["out"] == b"1\n"


def test_a_killed_daemon_leaves_sockets_that_the_next_removes(images, runtime, short_path):
    """A directory of the startup proof, as a daemon that dies in the middle of it leaves it."""
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime, TMPDIR=short_path):
        assert list(short_path.iterdir()) == []
    dead = short_path / "plsm-smoke-sock-abcdef"
    dead.mkdir(mode=0o700)
    script = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()"
    subprocess.run(["python3", "-c", script, dead / "host-api.sock"], check=True)
    os.utime(dead, (time.time() - 120,) * 2)
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime, TMPDIR=short_path):
        assert list(pathlib.Path(short_path).iterdir()) == []
