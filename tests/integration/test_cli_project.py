"""`plimsoll run --step`: what is read below a folder, what is written below another, and through no link."""

import json
import os
import pathlib
import socket
import tempfile
import threading

import pytest
from cli_harness import assert_nothing_ran, assert_usage, last_line, plimsoll, wasm
from daemon_harness import Daemon


@pytest.fixture(scope="module")
def words():
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(folder, "words")


@pytest.fixture(scope="module")
def daemon(words):
    words.write_text("projects")
    with Daemon(SCRIPT_FILE=words) as running:
        yield running


@pytest.fixture
def project(daemon, tmp_path):
    """Runs a project of a folder with two files on the daemon."""
    folder = tmp_path / "in"
    (folder / "a").mkdir(parents=True)
    (folder / "a/b").write_bytes(b"content of b\n")
    (folder / "main.txt").write_bytes(b"main\0\n")

    def run(*arguments, **rest):
        return plimsoll("run", "--daemon", "http://%s:%d" % daemon.address, *arguments, str(folder), **rest)

    run.folder, run.out = folder, tmp_path / "out"
    return run


def runs_of(daemon):
    return daemon.metrics()["plimsoll_runs_total"]


def test_steps_run_and_say_how_they_ended(project):
    done = project("--step", "one\n", "--step", "two\n")
    assert (done.returncode, done.stdout) == (0, b"one\ntwo\n")
    line = last_line(done)
    assert line.startswith("plimsoll: provider scripted, tier vm, outcome completed, steps 2, exit code 0, ")
    assert len(line.rpartition(", record ")[2]) == 64


@pytest.mark.parametrize("steps, status, passed, says", [
    (["exit 7"], 1, 7, "exit code 7"), (["exit 0", "exit 3", "exit 4"], 1, 3, "exit code 3"),
    (["a", "time"], 1, 124, "outcome timed_out, steps 2, timed out")])
def test_another_end_is_an_answer(project, steps, status, passed, says):
    flags = [f"--step={step}" for step in steps]
    done = project(*flags)
    assert done.returncode == status and says in last_line(done)
    assert project("--pass-exit", *flags).returncode == passed


def test_artifacts_are_written_below_out(project):
    done = project("--step", "x", "--artifact", "a/b", "--artifact", "main.txt", "--out", str(project.out))
    assert done.returncode == 0, done.stderr
    assert (project.out / "a/b").read_bytes() == b"content of b\n"
    assert (project.out / "main.txt").read_bytes() == b"main\0\n"
    assert sorted(p.name for p in project.out.rglob("*")) == ["a", "b", "main.txt"]


def test_nothing_is_written_over(project):
    project.out.mkdir()
    (project.out / "main.txt").write_text("kept")
    done = project("--step", "x", "--artifact", "main.txt", "--artifact", "a/b", "--out", str(project.out))
    assert done.returncode == 1 and b"cannot write the artifact main.txt: File exists" in done.stderr
    assert (project.out / "main.txt").read_text() == "kept"
    assert (project.out / "a/b").read_bytes() == b"content of b\n"


@pytest.mark.parametrize("planted", ["out/a", "out/main.txt"])
def test_nothing_is_written_through_a_link(project, tmp_path, planted):
    project.out.mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / planted).symlink_to(target if planted == "out/a" else target / "file")
    artifact = "a/b" if planted == "out/a" else "main.txt"
    done = project("--step", "x", "--artifact", artifact, "--out", str(project.out))
    assert done.returncode == 1 and f"cannot write the artifact {artifact}: ".encode() in done.stderr
    assert list(target.iterdir()) == []


def test_what_was_not_asked_for_is_not_written(project, words):
    words.write_text("projects surplus")
    try:
        done = project("--step", "x", "--artifact", "a/b", "--out", str(project.out))
    finally:
        words.write_text("projects")
    assert done.returncode == 1 and b"an artifact came that was not asked for" in done.stderr
    assert sorted(p.name for p in project.out.rglob("*")) == ["a", "b"]


# What may not be below the folder


@pytest.mark.parametrize("kind", ["link", "link to a folder", "dangling link", "pipe", "socket"])
def test_what_is_no_file_is_refused_unsent(project, daemon, kind):
    odd = project.folder / "a/odd"
    before = runs_of(daemon)
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "pipe":
            os.mkfifo(odd)
        elif kind == "socket":
            listening.bind(str(odd))
        else:
            odd.symlink_to({"link": "/etc/hostname", "link to a folder": "/etc", "dangling link": "/none"}[kind])
        assert_nothing_ran(project("--step", "x"), "request", "a/odd is a link or a special file")
    assert runs_of(daemon) == before


def test_more_than_a_request_may_hold_is_refused_unsent(project, daemon):
    before = runs_of(daemon)
    (project.folder / "big").write_bytes(b"x" * (4 << 20))
    assert_nothing_ran(project("--step", "x"), "request", "more than 200 files or 4194304 bytes")
    (project.folder / "big").unlink()
    for i in range(199):
        (project.folder / f"f{i}").write_bytes(b"")
    assert_nothing_ran(project("--step", "x"), "request", "more than 200 files")
    (project.folder / "f0").unlink()
    assert project("--step", "x").returncode == 0
    for depth in ("d" * 200 + "/") * 6,:
        place = project.folder / depth
        place.mkdir(parents=True)
    (project.folder / "f1").unlink()
    assert_nothing_ran(project("--step", "x"), "request", "longer than 1024 bytes")
    assert runs_of(daemon) == before + 1


def test_content_that_is_not_text_is_refused_unsent(project, daemon):
    before = runs_of(daemon)
    (project.folder / "raw").write_bytes(b"\xff")
    assert_nothing_ran(project("--step", "x"), "request", "UTF-8")
    assert runs_of(daemon) == before


def test_a_folder_that_is_not_there(project, tmp_path):
    done = plimsoll("run", "--step", "x", str(tmp_path / "none"), SANDBOX_PROVIDER="wasm")
    assert_nothing_ran(done, "request", "No such file or directory")
    assert_nothing_ran(wasm("run", "--step", "x", str(project.folder / "main.txt")), "request", "Not a directory")


def test_an_out_that_cannot_be_is_refused_before_anything_runs(project, daemon):
    before = runs_of(daemon)
    done = project("--step", "x", "--artifact", "a/b", "--out", str(project.folder / "main.txt"))
    assert_nothing_ran(done, "request", "cannot write below")
    assert runs_of(daemon) == before


def test_a_provider_without_projects_refuses_them(project):
    assert_nothing_ran(wasm("run", "--step", "x", str(project.folder)), "unsupported")


# The command line


@pytest.mark.parametrize("arguments, says", [
    (["--step", "x"], "a project is a folder"), (["--step", "x", "-e", "1", "in"], "a project is a folder"),
    (["--artifact", "a", "--out", "o", "in"], "are for projects"), (["--out", "o", "-e", "1"], "are for projects"),
    (["--step", "x", "--artifact", "a", "in"], "both or neither"), (["--step", "x", "--out", "o", "in"], "both or neither"),
    (["--step"], "needs a value")])
def test_wrong_arguments(arguments, says):
    assert_usage(wasm("run", *arguments), says)


def test_json_has_every_step(project):
    done = project("--json", "--step", "a", "--step", "exit 2", "--artifact", "a/b", "--out", str(project.out))
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert (answer["outcome"], answer["provider"], answer["artifacts_truncated"]) == ("completed", "scripted", False)
    assert [(s["command"], s["exit_code"], s["stdout"]) for s in answer["steps"]] == [("a", 0, "a"), ("exit 2", 2, "exit 2")]
    assert answer["artifacts"] == [{"path": "a/b", "bytes": 13}]
    assert len(answer["record_sha256"]) == 64 and "stdout" not in answer


def test_an_answer_that_is_lost_may_have_run(project):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def swallow():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
        reader = threading.Thread(target=swallow)
        reader.start()
        done = plimsoll("run", "--daemon", f"http://127.0.0.1:{server.getsockname()[1]}", "--step", "x", "--artifact", "a/b",
                        "--out", str(project.out), str(project.folder))
        reader.join()
    assert done.returncode == 4 and list(project.out.iterdir()) == []
