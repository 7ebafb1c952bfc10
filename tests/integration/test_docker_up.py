"""What scripts/docker-up and the docker suite say where no Engine can be started, and that an Engine of somebody else is
used and left alone."""

import os
import pathlib
import subprocess
import tempfile

import pytest
from daemon_harness import ROOT
from fake_engine import FakeEngine

NO_ROOT = ["unshare", "--user"]
NO_MOUNT = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
HANG_SECONDS = 300  # the suite's build tree is looked at


@pytest.fixture()
def folder():
    with tempfile.TemporaryDirectory(prefix="plsm-up-", dir="/tmp") as name:
        yield pathlib.Path(name)


def run(folder, *command):
    variables = {"PLIMSOLL_ENGINE_ROOT": str(folder / "data"), "PLIMSOLL_ENGINE_SOCKET": str(folder / "engine.sock")}
    kept = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    return subprocess.run(command, cwd=ROOT, env={**kept, **variables}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=HANG_SECONDS)


def need(words):
    """Tests that take a right away need to have it."""
    if subprocess.run([*words, "true"], capture_output=True).returncode != 0 or os.getuid() != 0:
        pytest.skip(f"{' '.join(words)} is not allowed here")


@pytest.mark.parametrize("without, reason", [(NO_ROOT, "starting one needs root"),
                                             (NO_MOUNT, "none can start where nobody may mount")])
def test_where_no_engine_can_start_the_reason_is_said_and_nothing_is_installed(folder, without, reason):
    need(without)
    ran = run(folder, *without, "scripts/docker-up", "start", "runsc")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"error: no Engine answers on {folder}/engine.sock, and {reason}\n"


@pytest.mark.parametrize("require, status, counts", [([], 0, "0 passed, 0 failed, 1 skipped"),
                                                     (["--require-all"], 1, "0 passed, 1 failed, 0 skipped")])
def test_the_suite_is_skipped_with_that_reason_or_fails(folder, require, status, counts):
    need(NO_MOUNT)
    ran = run(folder, *NO_MOUNT, "tests/run", "--only", "docker", *require)
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == counts
    assert "none can start where nobody may mount" in ran.stdout


@pytest.mark.parametrize("asked", [[], ["runc"]])
def test_an_engine_that_answers_is_used_and_left_alone(folder, asked):
    with FakeEngine(folder / "engine.sock") as engine:
        ran = run(folder, "scripts/docker-up", "start", *asked)
        assert (ran.returncode, ran.stdout) == (0, f"DOCKER_HOST=unix://{engine.path}\n"), ran.stderr
        stopped = run(folder, "scripts/docker-up", "stop")
        assert (stopped.returncode, stopped.stdout) == (0, "no Engine of ours runs\n")
        assert run(folder, "scripts/docker-up", "status").returncode == 0


def test_an_engine_without_a_runtime_is_used_where_no_other_can_start(folder):
    need(NO_MOUNT)
    with FakeEngine(folder / "engine.sock") as engine:
        ran = run(folder, *NO_MOUNT, "scripts/docker-up", "start", "runsc")
        assert (ran.returncode, ran.stdout) == (0, f"DOCKER_HOST=unix://{engine.path}\n"), ran.stderr
