"""examples/providers as a user runs it: one program behind every wall of this machine, and a reason where there is none."""

import os
import re
import subprocess

import pytest
from docker_harness import HANG_SECONDS, ROOT, engine, has_runsc, lack  # noqa: F401

PROGRAM = ROOT / "build/examples/providers"
RAN = re.compile(r"^(?P<label>\S.*?)  +tier (?P<tier>\w+) +(?P<ms>\d+) ms  (?P<identity>\S+)  (?P<verdict>.+)$")
NOT_RUN = re.compile(r"^(?P<label>\S.*?)  +not run: (?P<reason>.+)$")


def rows(**variables):
    """Exit status and what it printed of each provider, by its label."""
    if not PROGRAM.exists():
        lack(f"{PROGRAM.relative_to(ROOT)} is not built")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SANDBOX_", "PLIMSOLL_"))}
    done = subprocess.run([PROGRAM], env={**kept, **variables}, capture_output=True, text=True, timeout=HANG_SECONDS)
    found = {}
    for line in done.stdout.splitlines():
        match = RAN.match(line) or NOT_RUN.match(line)
        assert match, f"a line of another shape: {line}"
        found[match["label"]] = match.groupdict()
    return done.returncode, found


def test_the_same_program_behind_every_wall(engine):  # noqa: F811
    status, found = rows()
    assert status == 0 and list(found) == ["wasm", "docker", "docker, runsc"]
    tiers = {"wasm": "process", "docker": "container", **({"docker, runsc": "kernel"} if has_runsc() else {})}
    assert {label: row["tier"] for label, row in found.items() if "tier" in row} == tiers
    assert all(row["verdict"] == "as expected" for row in found.values() if "tier" in row)
    assert found["wasm"]["identity"].startswith("quickjs-wasm:sha256:")
    content = engine.call("GET", "/images/plimsoll/sandbox-js:latest/json")[1]["Id"]
    assert found["docker"]["identity"] in f"docker-image:{content}"


def test_what_a_machine_lacks_is_said(tmp_path):
    """Without an Engine two rows give the reason, and the one that is left still makes it a success."""
    status, found = rows(DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert status == 0 and found["wasm"]["verdict"] == "as expected"
    for label in ("docker", "docker, runsc"):
        assert "cannot connect to the Engine" in found[label]["reason"]


def test_an_unregistered_runtime_is_said(own):
    """An Engine that knows runc alone runs two of the three."""
    own.stop()
    own.configure()
    try:
        own.start()
        status, found = rows(DOCKER_HOST=own.host)
        assert status == 0
        assert (found["wasm"]["tier"], found["docker"]["tier"]) == ("process", "container")
        assert "not registered" in found["docker, runsc"]["reason"]
    finally:
        own.stop()
        own.config.unlink()
