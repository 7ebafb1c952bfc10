"""An Engine that is down, hangs, lies or answers 500: what starts anyway, what is refused, what is never believed."""

import json
import pathlib
import re
import tempfile
import time

import pytest
from fake_engine import Cut, FakeEngine, Hang, image

from daemon_harness import (ENVIRONMENT, PLIMSOLLD, ROOT, Daemon, clean_environment, in_background, reason_of,
                            start_and_fail, wait_until)

pytestmark = pytest.mark.skipif(not PLIMSOLLD.exists(), reason=f"{PLIMSOLLD.relative_to(ROOT)} is not built")

VARIABLES = {"SANDBOX_PROVIDER": "docker", "DOCKER_HOST": "", "DOCKER_CONTEXT": "", "DOCKER_CONFIG": "",
             "PLIMSOLL_INSECURE": "1", "PLIMSOLL_ADDR": "127.0.0.1:0", "PLIMSOLL_METRICS_ADDR": "off"}


@pytest.fixture()
def fake():
    with tempfile.TemporaryDirectory(prefix="plsm-fake-", dir="/tmp") as folder:
        with FakeEngine(pathlib.Path(folder) / "engine.sock") as engine:
            yield engine


def fails(**variables):
    status, text = start_and_fail(PLIMSOLLD, **{**VARIABLES, **variables})
    assert status != 0
    return text


def fails_on(fake, **variables):
    return fails(DOCKER_HOST=f"unix://{fake.path}", **variables)


def start(fake, **variables):
    return Daemon(PLIMSOLLD, **{**VARIABLES, "DOCKER_HOST": fake.path, "SANDBOX_PER_KEY_CONCURRENT": "0", **variables})


def run(daemon, timeout_ms=3000):
    return daemon.call("Run", {"protocol": 3, "timeoutMs": timeout_ms, "javascript": {"code": "1"}})


# At start.

def test_an_honest_engine_starts_and_runs(fake):
    with start(fake) as daemon:
        status, body = run(daemon)
        assert status == 200 and body["isolation"] == "container"
        assert daemon.get("/readyz")[0] == 200
    created = fake.called("POST /containers/create")
    deadline = time.monotonic() + 30
    while fake.containers and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(created) == 6 and not fake.containers


@pytest.mark.parametrize("host", ["tcp://127.0.0.1:2375", "ssh://root@host", "npipe:////./pipe/docker_engine", "relative"])
def test_an_engine_elsewhere_is_refused(host):
    assert "not a Unix socket of this machine" in fails(DOCKER_HOST=host)


def test_no_engine_is_refused():
    said = fails(DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert "cannot connect to the Engine at /nonexistent/docker.sock: No such file or directory; " in said
    assert "start Docker, or set DOCKER_HOST" in said
    said = fails(DOCKER_HOST="unix:///nonexistent/docker.sock", SANDBOX_DOCKER_IMAGE="-v")
    assert "not an image reference" in said and "nonexistent" not in said, "it is checked before the Engine is asked"


@pytest.mark.parametrize("length, what", [(100, "socket for the startup proof"), (300, "directory for a socket")])
def test_a_temporary_folder_with_too_long_a_name(fake, tmp_path, length, what):
    folder = tmp_path / "x"
    while len(str(folder)) < length:
        folder = folder / ("x" * min(200, length - len(str(folder))))
    folder.mkdir(parents=True)
    assert f"no {what} under TMPDIR: File name too long" in fails_on(fake, TMPDIR=folder)
    assert not list(folder.iterdir())


def write_context(folder, name, host):
    import hashlib
    place = pathlib.Path(folder) / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    place.mkdir(parents=True)
    (place / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))


def test_contexts_of_the_client(fake, tmp_path):
    write_context(tmp_path, "here", f"unix://{fake.path}")
    write_context(tmp_path, "there", "ssh://host")
    write_context(tmp_path, "empty", "")
    (tmp_path / "config.json").write_text(json.dumps({
        "currentContext": "here", "proxies": {"default": {"httpProxy": "http://secret.invalid"}}}))
    with start(fake, DOCKER_HOST="", DOCKER_CONFIG=tmp_path):
        assert "secret" not in json.dumps([c.body for c in fake.containers.values()])
    assert "not a Unix socket" in fails(DOCKER_CONFIG=tmp_path, DOCKER_CONTEXT="there")
    assert "names no endpoint" in fails(DOCKER_CONFIG=tmp_path, DOCKER_CONTEXT="empty")
    assert "cannot read" in fails(DOCKER_CONFIG=tmp_path, DOCKER_CONTEXT="unknown")
    (tmp_path / "config.json").write_text("{")
    assert "not a JSON object" in fails(DOCKER_CONFIG=tmp_path)


@pytest.mark.parametrize("variables, says", [
    ({"SANDBOX_DISK_MB": "32"}, "no room for /work"),
    ({"SANDBOX_GUEST_UID": "60001"}, "SANDBOX_GUEST_UID"),
    ({"SANDBOX_GUEST_UID": "61183"}, "SANDBOX_GUEST_UID"),
    ({"SANDBOX_GUEST_UID": "0"}, "SANDBOX_GUEST_UID"),
    ({"SANDBOX_GUEST_UID": "1"}, "/etc/passwd"),
    ({"SANDBOX_REQUIRE_PINNED_IMAGES": "1"}, "not pinned"),
    ({"SANDBOX_DOCKER_IMAGE": " x"}, "not an image reference"),
    ({"SANDBOX_DOCKER_IMAGE": "-v"}, "not an image reference"),
    ({"SANDBOX_DOCKER_SECCOMP": "/nonexistent"}, "SANDBOX_DOCKER_SECCOMP"),
    ({"SANDBOX_DOCKER_SECCOMP": "/etc/hostname"}, "not a JSON object"),
    ({"SANDBOX_DOCKER_RUNTIME": "absent"}, "not registered"),
    ({"SANDBOX_DOCKER_POOL": "9"}, "SANDBOX_DOCKER_POOL"),
    ({"SANDBOX_DOCKER_POOL": "2", "SANDBOX_TOTAL_MEMORY_MB": "512"}, "SANDBOX_DOCKER_POOL"),
    ({"DOCKER_DEFAULT_PLATFORM": "amd64"}, "os/arch"),
    ({"DOCKER_DEFAULT_PLATFORM": "linux/amd64"}, "for one platform"),
    ({"SANDBOX_MIN_ISOLATION": "kernel"}, "below SANDBOX_MIN_ISOLATION"),
])
def test_what_settings_ask_is_checked(fake, variables, says):
    assert says in fails_on(fake, **variables)


@pytest.mark.parametrize("provider", ["wasm", ""])
@pytest.mark.parametrize("name", ["SANDBOX_GUEST_UID", "SANDBOX_DOCKER_POOL"])
def test_settings_of_docker_alone_stop_every_other(provider, name):
    assert name in fails(SANDBOX_PROVIDER=provider, **{name: "61000" if "UID" in name else "1"})


@pytest.mark.parametrize("pattern, answer, says", [
    ("GET /_ping", (500, {"message": "no"}), "answered 500"),
    ("GET /_ping", b"HTTP/1.1 200 OK\r\nApi-Version: 1.40\r\nContent-Length: 2\r\n\r\nOK", "API 1.40"),
    ("GET /_ping", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", "API 1.0"),
    ("GET /_ping", b"SSH-2.0-OpenSSH\r\n\r\n", "ping"),
    ("GET /info", (500, {"message": "broken\x1b[31m"}), "info: the Engine answered 500: broken?[31m"),
    ("GET /info", (200, []), "info"),
    ("GET /version", (200, {}), "does not state its platform"),
    ("GET /images/", (404, {"message": "No such image"}), "image plimsoll/sandbox-js:latest"),
    ("GET /images/", (200, None), "cannot be read"),
    ("GET /images/", (200, "null"), "cannot be read"),
    ("GET /images/", (200, "{broken"), "cannot be read"),
    ("GET /images/", (200, {"Config": {}}), "no content ID"),
    ("GET /images/", (200, image(Id="ab" * 32)), "no content ID"),
    ("GET /images/", (200, image(Config={"Volumes": {"/data": {}}})), "/data"),
    ("GET /images/", (200, image(Config={"Env": ["LD_PRELOAD=x"]})), "LD_PRELOAD"),
    ("GET /images/", (200, "x" * (5 << 20)), "larger than its bound"),
    ("POST /containers/create", (500, {"message": "no space"}), "no space"),
    ("POST /containers/create", (201, {"Id": "../../x"}), "no container ID"),
    ("POST /containers/create", (201, None), "no container ID"),
    ("/start", (500, {"message": "runtime"}), "runtime"),
    ("/attach", (200, {}), "attach"),
    ("/wait", (200, {"StatusCode": "0"}), "had not begun"),
    ("/wait", (409, {"message": "x"}), "wait: the Engine answered 409"),
])
def test_lies_at_start_are_refused(fake, pattern, answer, says):
    fake.lie(pattern, lambda default: answer)
    assert says in fails_on(fake)


PROBE_LIES = {
    "rootWritable": (True, "its root can be written to"), "interfaces": (["lo", "eth0"], "network interface"),
    "uid": (["0"], "its user"), "groups": (["0"], "supplementary"), "pidsMax": ("max", "no process limit"),
    "mounts": ("", "/tmp is not in the mount table"), "writable": (["/tmp", "/dev/shm", "/x"], "/x can be written to"),
    "socket": ({"connected": False, "reply": ""}, "--host-uds=open"),
}


@pytest.mark.parametrize("member", PROBE_LIES)
def test_a_probe_that_sees_less_is_refused(fake, member):
    value, says = PROBE_LIES[member]
    honest = fake.probe
    fake.probe = lambda container: {**honest(container), member: value}
    text = fails_on(fake)
    assert says in text and "plimsoll/sandbox-js:latest" in text


def test_a_runsc_that_is_another_program_is_refused(fake):
    fake.lie("GET /info", lambda default: (200, {"ID": "x", "Runtimes": {"runsc": {"path": "/usr/bin/runc"}}}))
    assert "another program than runsc" in fails_on(fake, SANDBOX_DOCKER_RUNTIME="runsc")


def test_a_runsc_with_the_hosts_kernel_is_refused(fake):
    import platform
    fake.lie("GET /info", lambda default: (200, {"ID": "x", "Runtimes": {"runsc": {"path": "/usr/bin/runsc"}}}))
    honest = fake.probe
    fake.probe = lambda container: {**honest(container), "kernel": {
        "release": platform.release(), "version": platform.version(),
        "proc": pathlib.Path("/proc/version").read_text().strip()}}
    assert "is not gVisor" in fails_on(fake, SANDBOX_DOCKER_RUNTIME="runsc")


# While it serves.

@pytest.mark.parametrize("what", [lambda d: (500, {"message": "no"}), lambda d: (_ for _ in ()).throw(Cut()),
                                  lambda d: (200, "nonsense")], ids=["500", "cut", "nonsense"])
def test_a_failing_preflight_refuses_and_recovers(fake, what):
    with start(fake) as daemon:
        fake.lie("GET /info", what)
        time.sleep(5.1)
        status, body = run(daemon)
        assert (status, reason_of(body)) == (500, ENVIRONMENT)
        assert daemon.get("/readyz")[0] == 503
        fake.honest()
        assert run(daemon)[0] == 200
        assert daemon.get("/readyz")[0] == 200


def test_a_hanging_engine_is_a_refusal_of_capacity(fake):
    with start(fake) as daemon:
        fake.lie("GET /info", lambda default: (_ for _ in ()).throw(Hang()))
        time.sleep(5.1)
        began = time.monotonic()
        status, body = run(daemon)
        assert status == 500 and reason_of(body) == ENVIRONMENT
        assert time.monotonic() - began < 40


@pytest.mark.parametrize("pattern, what, reason", [
    ("POST /containers/create", lambda d: (500, {"message": "no"}), ENVIRONMENT),
    ("POST /containers/create", lambda d: (_ for _ in ()).throw(Cut()), None),
    ("/attach", lambda d: (500, {}), None),
    ("/attach", lambda d: b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nnot frames at all", None),
    ("/attach", lambda d: (_ for _ in ()).throw(Hang()), None),
    ("/start", lambda d: (500, {"message": "no"}), ENVIRONMENT),
    ("/start", lambda d: (_ for _ in ()).throw(Cut()), None),
    (r"/wait$", lambda d: (500, {"message": "no"}), None),
    (r"/wait$", lambda d: (_ for _ in ()).throw(Cut()), None),
    (r"/wait$", lambda d: (200, {"StatusCode": 0, "Error": {"Message": "x"}}), None),
    (r"/wait$", lambda d: (200, {"StatusCode": 70000}), None),
])
def test_faults_of_a_run_are_never_results(fake, pattern, what, reason):
    with start(fake) as daemon:
        fake.lie(pattern, what)
        status, body = run(daemon)
        assert (status, reason_of(body)) == (500, reason), body
        fake.honest()
        assert run(daemon)[0] == 200


def test_a_container_that_is_made_after_all_is_removed(fake):
    """The Engine goes on with a creation whose caller has left: a first look at the name finds nothing yet."""
    removals = lambda: fake.called("DELETE /containers/plsm-run-")

    def late(default):
        wait_until(removals, "the container is looked for")
        return default()

    with start(fake) as daemon:
        fake.lie("POST /containers/create", late)
        status, body = run(daemon, timeout_ms=300)
        assert status != 200 and reason_of(body) is None
        wait_until(lambda: len(removals()) > 1, "it is looked for again")
        wait_until(lambda: not fake.containers, "it is removed")


@pytest.mark.parametrize("most", ["1", "2", "3"])
def test_slow_removals_refuse_nobody_who_asks_one_by_one(fake, most):
    """A slot is held until its container is gone; the answer waits where that would take too many."""
    def slow(default):
        time.sleep(0.5)
        return default()

    with start(fake, SANDBOX_MAX_CONCURRENT=most) as daemon:
        fake.programs["supervise"] = lambda said, write: 1  # what did not end well is removed by force
        fake.lie("DELETE /containers/", slow)
        answers = [run(daemon, 20000) for _ in range(5)]
        assert [(status, body.get("javascript", {}).get("exitCode")) for status, body in answers] == [(200, 1)] * 5, answers


def test_no_marker_is_no_result(fake):
    with start(fake) as daemon:
        fake.play = lambda container, read, write: 0
        status, body = run(daemon)
        assert (status, reason_of(body)) == (500, None)


def test_text_before_the_marker_is_not_the_guests(fake):
    with start(fake) as daemon:
        def play(container, read, write):
            read()
            write(2, b"loader noise\n" + container.argv[5].encode() + b"guest")
            return 7
        fake.play = play
        status, body = run(daemon)
        assert status == 200 and body["javascript"]["exitCode"] == 7 and body["javascript"]["stderr"] == "Z3Vlc3Q="


REPORTS = {
    "none": (lambda said, write: 137, "PROTOCOL_ERROR", "the runner did not report (container exit 137)"),
    "unsigned": (lambda said, write: write(1, b"\n<<<PLIMSOLL_REPORT_V3>>> 2 %s\n{}" % (b"0" * 64)) and 0,
                 "PROTOCOL_ERROR", "no authenticated runner report"),
    "old": (lambda said, write: write(1, b"\n<<<PLIMSOLL_REPORT_V2>>> 2 %s\n{}" % (b"0" * 64)) and 0,
            "PROTOCOL_ERROR", "the runner did not report (container exit 0)"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_reports_that_are_not_the_runners(fake, name):
    program, outcome, detail = REPORTS[name]
    with start(fake) as daemon:
        fake.programs["run"] = program
        status, body = daemon.call("Run", {"protocol": 3, "project": {"steps": ["true"]}})
        assert status == 200
        assert body["project"]["outcome"] == f"PROJECT_OUTCOME_{outcome}"
        assert body["project"]["outcomeDetail"] == detail


def test_a_hundred_runs_across_an_expiry(fake):
    with start(fake, SANDBOX_MAX_CONCURRENT="64") as daemon:
        time.sleep(5.1)
        waits = [in_background(run, daemon, 20000) for _ in range(60)]
        assert {wait()[0] for wait in waits} == {200}, daemon.log


def test_a_changed_image_is_refused_until_a_restart(fake):
    with start(fake) as daemon:
        fake.image = image(Id="sha256:" + "cd" * 32)
        time.sleep(5.1)
        status, body = run(daemon)
        assert (status, reason_of(body)) == (500, ENVIRONMENT)
        assert daemon.get("/readyz")[0] == 503
        fake.image = image()
        time.sleep(5.1)
        assert run(daemon)[0] == 200


def test_the_endpoint_is_pinned(fake):
    with start(fake) as daemon:
        assert run(daemon)[0] == 200
    assert fake.called("GET /_ping")


def test_a_pool_of_liars_falls_back(fake):
    with start(fake, SANDBOX_DOCKER_POOL="2") as daemon:
        fake.lie(r"GET /containers/[0-9a-f]{64}/json", lambda default: (500, {}))
        assert run(daemon)[0] == 200
        fake.honest()
        assert run(daemon)[0] == 200
