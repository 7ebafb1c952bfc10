"""Faults of a real Engine's world: containers killed, paused, changed and removed by somebody else, images that move,
programs that die, two daemons side by side."""

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import time

import pytest
from docker_harness import (engine, images, javascript, need_runtime, own_name, project,  # noqa: F401
                            settings_of, snippet, start_daemon, wait_until)
from daemon_harness import ENVIRONMENT, PLIMSOLLD, clean_environment, in_background, reason_of, start_and_fail


@pytest.fixture(scope="module")
def daemon(engine, images):
    with start_daemon(images) as running:
        yield running


def runs_node(engine, ident):
    status, found = engine.call("GET", f"/containers/{ident}/top?ps_args=-o%20pid,comm")
    return status == 200 and any("node" in words[-1] for words in found["Processes"])


def running_container(engine):
    """The one container of a run whose program has started."""
    return wait_until(lambda: next((c["Id"] for c in engine.containers("plsm-run-")
                                    if c["State"] == "running" and runs_node(engine, c["Id"])), None), "a run's program")


def start_endless(daemon, timeout_ms=30000):
    return in_background(snippet, daemon, "console.log('a'); setInterval(() => {}, 1000)", timeout_ms=timeout_ms)


def test_a_container_that_is_killed(daemon, engine):
    wait = start_endless(daemon)
    engine.call("POST", f"/containers/{running_container(engine)}/kill")
    status, body = wait()
    assert status == 200 and body["javascript"]["exitCode"] == 137
    assert "limitReached" not in body["javascript"]


def test_a_container_that_is_removed(daemon, engine):
    wait = start_endless(daemon)
    engine.remove(running_container(engine))
    status, body = wait()
    assert (status, body.get("javascript", {}).get("exitCode", 137)) in ((200, 137), (500, 137))
    assert status == 200 or reason_of(body) is None


def test_a_container_that_is_paused(daemon, engine):
    wait = start_endless(daemon, timeout_ms=8000)
    engine.call("POST", f"/containers/{running_container(engine)}/pause")
    status, body = wait()
    assert status == 200 and body["javascript"]["timedOut"]
    wait_until(lambda: engine.names("plsm-run-") == [], "the paused container is removed")


def test_a_container_that_is_changed(daemon, engine):
    wait = start_endless(daemon)
    ident = running_container(engine)
    engine.call("POST", f"/containers/{ident}/update", {"PidsLimit": 300})
    engine.call("POST", f"/containers/{ident}/kill")
    status, body = wait()
    assert status == 200 and body["javascript"]["exitCode"] == 137


def refused(daemon):
    """The answer to a run that is not a result, or None."""
    answer = snippet(daemon, "console.log(2)")
    return answer if answer[0] != 200 else None


def test_a_moved_tag_runs_nothing_until_it_is_back(engine, images):
    volume = own_name("volume")
    engine.change(images[0], volume, "VOLUME /data")
    moving = own_name("moving")
    engine.tag(images[0], moving)
    try:
        with start_daemon((moving, images[1])) as daemon:
            assert javascript(daemon, "console.log(1)")["out"] == b"1\n"
            engine.tag(volume, moving)
            status, body = wait_until(lambda: refused(daemon), "the moved tag is noticed")
            assert (status, reason_of(body)) == (500, ENVIRONMENT)
            assert daemon.get("/readyz")[0] == 503
            engine.tag(images[0], moving)
            wait_until(lambda: not refused(daemon), "the tag that is back is noticed")
            assert javascript(daemon, "console.log(3)")["out"] == b"3\n"
        engine.tag(volume, moving)
        status, text = start_and_fail(PLIMSOLLD, **settings_of((moving, images[1])), PLIMSOLL_INSECURE="1")
        assert status != 0 and "/data" in text
    finally:
        engine.untag(moving)
        engine.untag(volume)


def test_an_image_that_is_absent(images):
    status, text = start_and_fail(PLIMSOLLD, **settings_of(("plsm-test-absent:x", images[1])), PLIMSOLL_INSECURE="1")
    assert status != 0 and "plsm-test-absent:x" in text


def test_an_image_that_sets_what_a_loader_reads(engine, images):
    name = own_name("loader")
    engine.change(images[0], name, "ENV LD_PRELOAD=/x.so")
    try:
        status, text = start_and_fail(PLIMSOLLD, **settings_of((name, images[1])), PLIMSOLL_INSECURE="1")
        assert status != 0 and "LD_PRELOAD" in text
    finally:
        engine.untag(name)


def test_an_image_without_the_control_program(engine, images):
    """As a snippet image it works by a script; as a project image it is refused."""
    name = own_name("bare")
    made = engine.create({"Image": images[0], "User": "0", "NetworkDisabled": True,
                          "Cmd": ["rm", "-rf", "/usr/local/lib/plimsoll"], "HostConfig": {"NetworkMode": "none"}})
    try:
        engine.call("POST", f"/containers/{made}/start")
        engine.call("POST", f"/containers/{made}/wait")
        engine.call("POST", f"/commit?container={made}&repo={name.split(':')[0]}&tag=x", {})
        with start_daemon((name, images[1])) as daemon:
            found = javascript(daemon, "console.log(process.env.HOME, process.env.PATH); console.error('e'); process.exit(3)")
            assert (found["out"], found["err"], found["exit"]) == (
                b"/ /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", b"e\n", 3)
        status, text = start_and_fail(PLIMSOLLD, **settings_of((images[0], name)), PLIMSOLL_INSECURE="1")
        assert status != 0 and name in text
    finally:
        engine.remove(made)
        engine.untag(name)


def test_the_environment_of_an_image_reaches_the_guest_alone(engine, images):
    name = own_name("env")
    engine.change(images[1], name, "ENV COLOUR=blue", "ENV NODE_OPTIONS=--max-old-space-size=64", "ENV PATH=/opt/bin:/usr/bin:/bin")
    try:
        with start_daemon((name, name), SANDBOX_DOCKER_POOL="1") as daemon:
            code = "console.log(process.env.COLOUR, process.env.NODE_OPTIONS, process.env.PATH)"
            said = b"blue --max-old-space-size=64 /opt/bin:/usr/bin:/bin\n"
            assert javascript(daemon, code)["out"] == said
            found = project(daemon, ["node a.js", "tr '\\0' '\\n' < /proc/1/environ | grep COLOUR"], {"a.js": code})
            assert found["steps"][0]["out"] == said
            assert found["steps"][1]["exit"] != 0
    finally:
        engine.untag(name)


# Programs that die, and what is left.

def two_members(engine):
    """Once two members run; one that is still being made would be found by a sweep alone."""
    wait_until(lambda: [c["State"] for c in engine.containers("plsm-pool-")].count("running") >= 2, "two members run")


def labelled(engine, images, seconds, name):
    return engine.create({"Image": images[0], "Cmd": ["/bin/sleep", "300"], "HostConfig": {"NetworkMode": "none"},
                          "Labels": {"io.plimsoll.expires": str(seconds)}}, name)


def test_a_sweep_at_start_takes_what_is_long_over(engine, images):
    now = int(time.time())
    ages = {"over": now - 360, "recent": now - 60, "future": now + 600, "word": "soon"}
    made = {age: labelled(engine, images, label, f"plsm-test-{os.getpid()}-{age}") for age, label in ages.items()}
    try:
        with start_daemon(images):
            left = {c["Id"] for c in engine.containers("plsm-test-")}
        assert made["over"] not in left
        assert {made["recent"], made["future"], made["word"]} <= left
    finally:
        for ident in made.values():
            engine.remove(ident)


def test_two_daemons_leave_each_other_alone(daemon, engine, images):
    wait = start_endless(daemon)
    ident = running_container(engine)
    with start_daemon(images) as second:
        assert javascript(second, "console.log(2)")["out"] == b"2\n"
    assert [c["State"] for c in engine.containers("plsm-run-") if c["Id"] == ident] == ["running"]
    engine.call("POST", f"/containers/{ident}/kill")
    status, body = wait()
    assert status == 200 and body["javascript"]["exitCode"] == 137


def test_a_killed_daemon_leaves_no_waiting_member_and_a_labelled_run(engine, images):
    with start_daemon(images, SANDBOX_DOCKER_POOL="2") as daemon:
        two_members(engine)
        labels = [int(c["Labels"]["io.plimsoll.expires"]) for c in engine.containers("plsm-pool-")]
        assert all(0 < label - time.time() < 33 * 60 for label in labels)
        daemon.stop(signal.SIGKILL)
        wait_until(lambda: engine.names("plsm-pool-") == [], "the members are gone")


def test_a_drained_daemon_leaves_nothing(engine, images):
    with start_daemon(images, SANDBOX_DOCKER_POOL="2") as daemon:
        waits = [in_background(javascript, daemon, "console.log(1)") for _ in range(4)]
        assert [wait()["out"] for wait in waits] == [b"1\n"] * 4
        assert daemon.stop() == 0
    assert engine.names("plsm-pool-") == [] and engine.names("plsm-run-") == []


def test_dead_socket_directories_are_removed(engine, images, short_path):
    def directory(name, live=False, old=True):
        place = short_path / name
        place.mkdir()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(place / "s"))
        if live:
            listener.listen()
        else:
            listener.close()
        if old:
            os.utime(place, (time.time() - 120,) * 2)
        return place, listener

    dead, _ = directory("plsm-broker-dead")
    live, kept = directory("plsm-broker-live", live=True)
    young, _ = directory("plsm-broker-young", old=False)
    foreign, _ = directory("other")
    with start_daemon(images, TMPDIR=short_path, PLIMSOLL_TEST="1"):
        pass
    assert not dead.exists(), "the start's own sweep takes it"
    assert live.exists() and young.exists() and foreign.exists()
    kept.close()


# The pool.

@pytest.fixture()
def pooled(engine, images):
    with start_daemon(images, SANDBOX_DOCKER_POOL="2") as running:
        two_members(engine)
        yield running


def print_in(engine, ident):
    """Have the container print a byte. Its first process cannot be reached; the node that waits under it can."""
    status, made = engine.call("POST", f"/containers/{ident}/exec", {
        "Cmd": ["/bin/sh", "-c", "for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || echo x > $p/fd/1; done 2>/dev/null; true"]})
    assert status == 201, made
    engine.call("POST", f"/exec/{made['Id']}/start", {"Detach": False})
    # The daemon may have removed the container before the Engine could say how that ended.
    def asked():
        status, said = engine.call("GET", f"/exec/{made['Id']}/json")
        return (status, said) if status == 404 or not said["Running"] else None

    status, ended = wait_until(asked, "it ran")
    assert status == 404 or not ended["ExitCode"]


@pytest.mark.parametrize("spoil", ["pause", "kill", "stop?t=1", "update", "exec"])
def test_a_member_that_was_touched_serves_nobody(pooled, engine, spoil):
    members = [c["Id"] for c in engine.containers("plsm-pool-")]
    for ident in members:
        if spoil == "update":
            engine.call("POST", f"/containers/{ident}/update", {"PidsLimit": 300})
        elif spoil == "exec":
            print_in(engine, ident)
        else:
            engine.call("POST", f"/containers/{ident}/{spoil}")
    assert host_of_a_run(pooled) not in {ident[:12] for ident in members}
    wait_until(lambda: not {c["Id"] for c in engine.containers("plsm-pool-")} & set(members), "they are removed")


def host_of_a_run(daemon):
    return javascript(daemon, "console.log(require('os').hostname())")["out"].strip().decode()


def waiting(engine):
    return {c["Id"][:12] for c in engine.containers("plsm-pool-")}


def test_a_member_serves_one_run(pooled, engine):
    def served():
        members = waiting(engine)
        return members & {host_of_a_run(pooled)}

    # The first run may come before a member is ready.
    member, = wait_until(served, "a member serves a run")
    hosts = [host_of_a_run(pooled) for _ in range(2)]
    assert len({member, *hosts}) == 3
    wait_until(lambda: member not in waiting(engine), "it is gone")


def test_containers_never_exceed_the_pool_and_the_runs(pooled, engine):
    most = 0
    with concurrent.futures.ThreadPoolExecutor(6) as callers:
        runs = [callers.submit(javascript, pooled, "console.log(1)", timeout_ms=30000) for _ in range(6)]
        while not all(run.done() for run in runs):
            most = max(most, len(engine.names("plsm-pool-")))
    assert [run.result()["out"] for run in runs] == [b"1\n"] * 6
    assert most <= 2 + 6


def test_a_pool_follows_what_is_asked(engine, images):
    with start_daemon(images, SANDBOX_DOCKER_POOL="1") as daemon:
        for _ in range(3):
            assert project(daemon, ["echo 1"])["steps"][0]["out"] == b"1\n"
            assert javascript(daemon, "console.log(1)")["out"] == b"1\n"


# gVisor.

@pytest.mark.parametrize("runtime, floor, status", [("runsc", "kernel", 0), ("", "container", 0), ("", "kernel", 3), ("", "vm", 3)])
def test_a_first_run_of_the_command_line_is_held_to_what_was_proven(engine, images, runtime, floor, status):
    """Nothing is proven when it asks: the startup test decides, not what was stated before it."""
    need_runtime(runtime)
    settings = {"SANDBOX_PROVIDER": "docker", "SANDBOX_DOCKER_RUNTIME": runtime, "SANDBOX_DOCKER_IMAGE": images[0],
                "SANDBOX_DOCKER_PROJECT_IMAGE": images[1]}
    done = subprocess.run([PLIMSOLLD.parent.parent / "cli/plimsoll", "run", "--floor", floor, "-e", "console.log(42)"],
                          env=clean_environment(**settings), capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stdout) == (status, "" if status else "42\n"), done.stderr
    assert ("nothing ran (isolation)" in done.stderr) == (status == 3)


def test_the_kernel_tier_is_on_evidence(engine, images):
    need_runtime("runsc")
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME="runsc", SANDBOX_DOCKER_POOL="1", SANDBOX_MIN_ISOLATION="kernel",
                      SANDBOX_DOCKER_SECCOMP="unconfined") as daemon:
        assert daemon.listening["isolation"] == "kernel"
        found = javascript(daemon, "console.log(require('os').release()); process.exit(5)", minimumIsolation="kernel")
        assert (found["isolation"], found["exit"]) == ("kernel", 5)
        assert found["out"].decode().strip() != os.uname().release
        assert project(daemon, ["cat a"], {"a": "x"})["steps"][0]["out"] == b"x"
