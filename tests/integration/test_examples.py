"""The example programs: what they print, and how they end when something is wrong."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MINIMAL = ROOT / "build/examples/minimal"

OUTPUT = re.compile(r"""provider   wasm
isolation  process
exit code  0
timed out  false
truncated  stdout=false stderr=false
duration   \d+ms
stdout     \{"Engineering":59000000,"Sales":20300000,"Operations":9800000\}
""")


def minimal(*arguments, stdout=subprocess.PIPE, **settings):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SANDBOX_", "PLIMSOLL_"))}
    return subprocess.run([MINIMAL, *arguments], cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True,
                          env=clean | settings)


@pytest.mark.parametrize("settings", [{}, {"SANDBOX_PROVIDER": ""}, {"SANDBOX_PROVIDER": "wasm"}])
def test_minimal_prints_the_result_and_its_tier(settings):
    done = minimal(**settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert OUTPUT.fullmatch(done.stdout)


@pytest.mark.parametrize("settings, words", [
    ({"SANDBOX_PROVIDER": "disabled"}, "no provider is enabled"),
    ({"SANDBOX_PROVIDER": "mars"}, '"mars"'),
    ({"SANDBOX_MEMORY_MB": "1"}, "SANDBOX_MEMORY_MB"),
    ({"SANDBOX_MIN_ISOLATION": "kernel"}, "SANDBOX_MIN_ISOLATION"),
])
def test_minimal_fails_with_the_reason_when_nothing_can_run(settings, words):
    done = minimal(**settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("minimal: nothing ran: ") and words in done.stderr and done.stderr.count("\n") == 1


def test_minimal_takes_no_arguments():
    done = minimal("x")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("usage: minimal")


def test_minimal_says_when_its_output_is_lost():
    with open("/dev/full", "w") as full:
        done = minimal(stdout=full)
    assert done.returncode == 1 and "cannot write to stdout" in done.stderr


def example(name, cwd=ROOT):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SANDBOX_", "PLIMSOLL_"))}
    return subprocess.run([ROOT / "build/examples" / name], cwd=cwd, capture_output=True, text=True, env=clean)


def test_daemon_checks_each_refusal():
    done = example("daemon")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["auth", "describe", "run", "floor", "auth"]
    assert lines[2].endswith('{"sum":10}') and "reason isolation" in lines[3] and "unauthenticated" in lines[4]


@pytest.mark.parametrize("name", ["daemon", "placement"])
def test_a_missing_program_is_named(tmp_path, name):
    done = example(name, cwd=tmp_path)
    assert done.returncode == 1 and "build/bin/plimsoll: No such file or directory" in done.stderr


def test_placement_passes_on_what_did_not_run_and_nothing_else():
    done = example("placement")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "1 | floor process: ran on wasm, tier process; nobody refused it"
    assert lines[1].startswith("2 | floor kernel: nothing ran (unsupported): ") and lines[1].count("below the floor") == 3
    assert lines[2] == "3 | wasm is gone, floor process: ran on spare, tier process; refused before by wasm (environment)"
    assert lines[3].startswith("4 | spare is killed during a run: it may have run on spare, and nobody else was asked: ")
    assert len(lines) == 4
