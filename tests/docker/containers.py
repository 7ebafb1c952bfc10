"""Containers for tests: the lockdown of a run, under each runtime that the Engine here has, and the control program inside."""

import functools
import hashlib
import hmac
import json
import os
import pathlib
import re
import shutil
import subprocess

from docker_harness import LABEL, lack

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONTRACT = (ROOT / "guest/ctl/ctl.h").read_text()
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MARKER = "plimsoll-started:0123456789abcdef\n"
FRAME = re.compile(rb"\n<<<PLIMSOLL_REPORT_V3>>> (0|[1-9]\d*) ([0-9a-f]{64})\n", re.ASCII)
KEY = bytes(range(32))
RUNTIMES = ("runc", "runsc")
CONTAINER_SECONDS = 120


def contract(name):
    """The text of a #define of ctl.h."""
    return re.search(rf'^#define {name}\s+"(.*)"$', CONTRACT, re.MULTILINE)[1]


def docker(*arguments, **rest):
    if arguments[0] == "run":
        arguments = ("run", "--label", f"{LABEL}={os.getpid()}.run", *arguments[1:])
    return subprocess.run(["docker", *arguments], capture_output=True, timeout=CONTAINER_SECONDS, **rest)


@functools.cache
def engine():
    """What the Engine says of itself, or None."""
    asked = docker("info", "--format", "{{json .}}")
    info = json.loads(asked.stdout) if asked.returncode == 0 else {}
    return info if info.get("ServerVersion") else None


@functools.cache
def has_image(name):
    return docker("image", "inspect", f"plimsoll/{name}:latest").returncode == 0


def missing(images, runtime):
    """What is not here of what a test needs, or None."""
    if not shutil.which("docker"):
        return "the client of Docker, the program docker, is not installed"
    if not engine():
        return "no Docker Engine answers: scripts/docker-up starts one"
    if runtime not in engine()["Runtimes"]:
        return f"the Engine has no runtime called {runtime}"
    return next((f"plimsoll/{name}:latest is missing: run make images" for name in images if not has_image(name)), None)


def need(*images, runtime="runc"):
    """Skip the test where the Engine, the runtime or an image is missing; fail it where containers are required."""
    reason = missing(images, runtime)
    if reason:
        lack(reason)


def lockdown(runtime="runc", work=True):
    words = ["--rm", "--interactive", "--runtime", runtime, "--network", "none", "--user", "61000:61000", "--read-only",
             "--memory", "256m", "--memory-swap", "256m", "--pids-limit", "256", "--cpus", "1", "--cap-drop", "ALL",
             "--security-opt", "no-new-privileges", "--ulimit", "core=0:0", "--ulimit", "nofile=4096:4096",
             "--ipc", "private", "--log-driver", "none",
             "--tmpfs", "/tmp:rw,noexec,nosuid,size=16m", "--tmpfs", "/dev/shm:rw,noexec,nosuid,size=16m"]
    if work:
        words += ["--tmpfs", "/work:rw,noexec,nosuid,size=128m,mode=1777", "--workdir", "/work"]
    return words


def control(*arguments, runtime="runc", image="sandbox", stdin=b"", options=(), work=True, env=()):
    """Run the control program as the provider does, and return the finished docker command."""
    need(image, runtime=runtime)
    program = contract("CTL_PROGRAM_RUNSC" if runtime == "runsc" else "CTL_PROGRAM")
    return docker("run", *lockdown(runtime, work), *options, "--entrypoint", "/usr/bin/env", f"plimsoll/{image}:latest",
                  "-i", f"PATH={PATH}", *env, program, *arguments, input=stdin)


def plan(steps, files=(), artifacts=(), env=(), timeout_ms=20000, key=KEY, **more):
    listed = [{"path": path, "content": content} for path, content in dict(files).items()]
    return json.dumps({"files": listed, "steps": list(steps), "artifacts": list(artifacts), "env": list(env),
                       "stepTimeoutMs": timeout_ms, "reportKey": key.hex(), **more}).encode()


def frames(output, key=KEY):
    """The bodies of all frames in a runner's output whose MAC is right."""
    found = []
    for match in FRAME.finditer(output):
        body = output[match.end():match.end() + int(match[1])]
        if hmac.compare_digest(hmac.new(key, body, hashlib.sha256).hexdigest().encode(), match[2]):
            found.append(json.loads(body))
    return found
