"""What the tests of the docker provider share: an Engine spoken to directly, images of their own, a daemon.

Others may use the same Engine at the same time. The images of a test file carry a label, every container of theirs
inherits it, and nothing else is counted or waited for. It names the process, so that the next run of the tests removes
what a killed one has left.
"""

import base64
import contextlib
import http.client
import io
import itertools
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tarfile
import time
import urllib.parse

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
from daemon_harness import PLIMSOLLD, ROOT, Daemon  # noqa: E402

JS, PROJECT, PYTHON = "plimsoll/sandbox-js:latest", "plimsoll/sandbox:latest", "plimsoll/sandbox-python:latest"
LABEL = "io.plimsoll.test"  # on our images, and so on all their containers: PROCESS.NUMBER
HANG_SECONDS = 90
REQUIRED = os.environ.get("SANDBOX_TEST_REQUIRE_DOCKER") == "1"


def engine_socket():
    """Where the Engine of these tests listens: a worker beside the first has one of its own (conftest.py)."""
    return os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("engine", timeout=HANG_SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    """The Engine's API, as another party on the same host uses it."""

    def __init__(self, path=None):
        self.path = path or engine_socket()
        self.label = None  # when set, only containers that have it are listed

    def call(self, method, target, body=None, kind="application/json"):
        connection = UnixConnection(self.path)
        try:
            data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
            connection.request(method, "/v1.41" + target, data, {"Content-Type": kind} if data else {})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text[:1] in (b"{", b"[") and b"\n{" not in text else text
        finally:
            connection.close()

    def containers(self, prefix="plsm-", **filters):
        filters.setdefault("name", [prefix])
        if self.label:
            filters.setdefault("label", [f"{LABEL}={self.label}"])
        query = urllib.parse.quote(json.dumps(filters))
        status, found = self.call("GET", f"/containers/json?all=true&filters={query}")
        assert status == 200
        return found

    def names(self, prefix="plsm-"):
        return sorted(c["Names"][0].lstrip("/") for c in self.containers(prefix))

    def tag(self, source, name):
        repo, _, tag = name.partition(":")
        status, text = self.call("POST", f"/images/{source}/tag?repo={repo}&tag={tag}")
        assert status == 201, text

    def untag(self, name):
        self.call("DELETE", f"/images/{name}?noprune=true")

    def change(self, source, name, *changes):
        """An image of that name which is `source` with Dockerfile lines such as `VOLUME /data`."""
        status, made = self.call("POST", "/containers/create", {"Image": source, "Cmd": ["true"]})
        assert status == 201, made
        try:
            query = urllib.parse.urlencode({"container": made["Id"], "repo": name.split(":")[0],
                                            "tag": name.split(":")[1], "changes": "\n".join(changes)})
            status, answer = self.call("POST", f"/commit?{query}", {})
            assert status == 201, answer
            return answer["Id"]
        finally:
            self.call("DELETE", f"/containers/{made['Id']}?force=true")

    def create(self, body, name=None):
        status, made = self.call("POST", "/containers/create" + (f"?name={name}" if name else ""), body)
        assert status == 201, made
        return made["Id"]

    def remove(self, name):
        self.call("DELETE", f"/containers/{name}?force=true&v=true")

    def import_files(self, name, files):
        """An image of nothing but those files."""
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            for path, text in files.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(text)
                tar.addfile(entry, io.BytesIO(text))
        repo, _, tag = name.partition(":")
        status, text = self.call("POST", f"/images/create?fromSrc=-&repo={repo}&tag={tag}", data.getvalue(),
                                 "application/x-tar")
        assert status == 200, text


def why_not():
    """Why the tests cannot run here, or None."""
    if not PLIMSOLLD.exists():
        return f"{PLIMSOLLD.relative_to(ROOT)} is not built"
    try:
        engine = Engine()
        if engine.call("GET", "/version")[0] != 200:
            return f"the Engine at {engine_socket()} does not answer; scripts/docker-up starts one"
        for image in (JS, PROJECT):
            if engine.call("GET", f"/images/{image}/json")[0] != 200:
                return f"there is no image {image}; make images builds it"
    except OSError as error:
        return f"no Engine at {engine_socket()} ({error.strerror}); scripts/docker-up starts one"
    return None


def has_runsc():
    return "runsc" in Engine().call("GET", "/info")[1]["Runtimes"]


def lack(reason):
    """What a test needs is not here: it is skipped, or fails where containers are required."""
    if REQUIRED:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def need_engine():
    reason = why_not()
    if reason:
        lack(reason)


def need_runtime(name):
    if name == "runsc" and not has_runsc():
        lack("the Engine has no runtime runsc; scripts/install-gvisor installs it")


def own_name(what):
    """A name for an image, by which the next run knows whose it was."""
    return f"plsm-test-{os.getpid()}-{what}:x"


def is_over(process):
    return not pathlib.Path(f"/proc/{process}").exists()


def remove_leftovers(engine):
    """What a run of the tests that was killed has left: its containers and its images."""
    for found in engine.containers("", label=[LABEL]):
        if is_over(found["Labels"][LABEL].partition(".")[0]):
            engine.remove(found["Id"])
    for image in engine.call("GET", "/images/json")[1]:
        for name in image["RepoTags"] or ():
            owner = re.match(r"plsm-test-(\d+)-", name)
            if owner and is_over(owner[1]):
                engine.untag(name)


numbers = itertools.count()


@contextlib.contextmanager
def own_images(engine):
    """Images of our own, so that a build beside the tests does not move them, and our containers are known by them."""
    label = f"{os.getpid()}.{next(numbers)}"
    names = own_name("js"), own_name("project")
    for source, name in zip((JS, PROJECT), names):
        engine.change(source, name, f"LABEL {LABEL}={label}")
    engine.label = label
    try:
        yield names
    finally:
        for left in engine.containers(""):
            engine.remove(left["Id"])
        engine.label = None
        for name in names:
            engine.untag(name)


@pytest.fixture(scope="module")
def engine():
    need_engine()
    remove_leftovers(Engine())
    return Engine()


@pytest.fixture(scope="module")
def images(engine):
    with own_images(engine) as names:
        yield names


@pytest.fixture(scope="module", params=["", "runsc"], ids=["runc", "runsc"])
def runtime(engine, request):
    """The default one and gVisor's; `daemon` runs under it."""
    need_runtime(request.param)
    return request.param


@pytest.fixture(scope="module")
def daemon(images, runtime):
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime) as running:
        yield running


def settings_of(images, **variables):
    return {"SANDBOX_PROVIDER": "docker", "SANDBOX_DOCKER_IMAGE": images[0],
            "SANDBOX_DOCKER_PROJECT_IMAGE": images[1], "SANDBOX_PER_KEY_CONCURRENT": "0",
            "PLIMSOLL_ADDR": "127.0.0.1:0", "PLIMSOLL_METRICS_ADDR": "127.0.0.1:0", **variables}


def start_daemon(images, **variables):
    return Daemon(PLIMSOLLD, **settings_of(images, **variables))


def snippet(daemon, code, timeout_ms=15000, **fields):
    return daemon.call("Run", {"protocol": 3, "timeoutMs": timeout_ms, "javascript": {"code": code}, **fields})


def javascript(daemon, code, **fields):
    """The result of a snippet that must be answered, with its streams as bytes."""
    status, body = snippet(daemon, code, **fields)
    assert status == 200, body
    return decoded(body, body["javascript"])


def decoded(body, result):
    return {"exit": result.get("exitCode", 0), "timed_out": result.get("timedOut", False),
            "out": base64.b64decode(result.get("stdout", "")), "err": base64.b64decode(result.get("stderr", "")),
            "out_truncated": result.get("stdoutTruncated", False), "limit": result.get("limitReached", ""),
            "err_truncated": result.get("stderrTruncated", False), "isolation": body.get("isolation"),
            "environment": body.get("environment", "")}


def project(daemon, steps, files=None, artifacts=(), timeout_ms=30000):
    message = {"steps": list(steps), "artifacts": list(artifacts),
               "files": [{"path": p, "content": c} for p, c in (files or {}).items()]}
    status, body = daemon.call("Run", {"protocol": 3, "timeoutMs": timeout_ms, "project": message})
    assert status == 200, body
    found = body["project"]
    return {"outcome": found["outcome"].removeprefix("PROJECT_OUTCOME_"), "detail": found.get("outcomeDetail", ""),
            "steps": [decoded(body, step) for step in found.get("steps", [])],
            "artifacts": {a["path"]: base64.b64decode(a.get("content", "")) for a in found.get("artifacts", [])},
            "artifacts_truncated": found.get("artifactsTruncated", False)}


def wait_until(condition, what, seconds=HANG_SECONDS):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)
    return found
