"""libplimsoll inside another program: what that program's end, its limits and its habits do to runs, and what is exported."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DRIVER = ROOT / "build/release/tests/integration/run_driver"
WORKER = ROOT / "build/libexec/plimsoll-wasm-worker"
LIBRARY = ROOT / "build/lib/libplimsoll.so"
INSTALLED_WORKER = pathlib.Path("/usr/local/libexec/plimsoll") / WORKER.name
HANG_SECONDS = 60
MODES = {"reused": {}, "fresh": {"SANDBOX_WASM_FRESH_PROCESS": "1"}}

pytestmark = pytest.mark.skipif(not DRIVER.exists() or not WORKER.exists(), reason=f"{DRIVER.name} or {WORKER.name} is not built")


def start(driver=DRIVER, **options):
    settings = {"SANDBOX_PROVIDER": "wasm", "SANDBOX_MAX_CONCURRENT": "2"} | options.pop("settings", {})
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SANDBOX_", "PLIMSOLL_"))}
    return subprocess.Popen([driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean | settings, **options)


def send(process, code, timeout_ms=20000):
    process.stdin.write(json.dumps({"code": code, "timeout_ms": timeout_ms}).encode() + b"\n")
    process.stdin.flush()


def ask(process, code, timeout_ms=20000):
    send(process, code, timeout_ms)
    return json.loads(process.stdout.readline())


def stdout_of(answer):
    assert answer["status"] == "ok", answer
    return bytes.fromhex(answer["stdout"])


def finish(process):
    process.stdin.close()
    assert process.wait(timeout=HANG_SECONDS) == 0


def children_of(parent):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent:
            found.append(int(entry.parent.name))
    return found


def descendants(pid):
    return [below for child in children_of(pid) for below in [child, *descendants(child)]]


def wait_until(done, what):
    end = time.monotonic() + HANG_SECONDS
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def await_end_of(pids):
    wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids), "processes outlive the program")


# ---- the end of the program ----


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("busy", [True, False], ids=["in-a-run", "idle"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_program_that_dies_leaves_no_process(number, busy, mode):
    process = start(settings=MODES[mode])
    assert stdout_of(ask(process, "console.log(1)")) == b"1\n"
    if busy:
        send(process, "for (;;);")
        time.sleep(0.1)
    found = descendants(process.pid)
    assert len(found) >= 2, "a worker host and a worker"
    process.send_signal(number)
    assert process.wait(timeout=HANG_SECONDS) == -number
    await_end_of(found)


def test_a_program_that_exits_with_an_open_handle_leaves_no_process():
    process = start()
    ask(process, "1")
    found = descendants(process.pid)
    process.stdin.close()
    process.wait(timeout=HANG_SECONDS)
    await_end_of(found)


def test_a_stopped_host_does_not_hold_up_a_run_past_its_deadline():
    process = start()
    ask(process, "1")
    host = children_of(process.pid)[0]
    os.kill(host, signal.SIGSTOP)
    try:
        answer = ask(process, "for (;;);", 300)
        assert answer["status"] != "ok" or answer["timed_out"]
    finally:
        os.kill(host, signal.SIGCONT)
    wait_until(lambda: ask(process, "console.log('next')").get("stdout") == b"next\n".hex(), "no run works again")
    finish(process)


# ---- a program with habits ----


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def block_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))


def close_standard_error():
    os.close(2)


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))


def small_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def strict_umask():
    os.umask(0o777)


def lost_directory():
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


@pytest.mark.parametrize("habit", [ignore_children, block_signals, close_standard_error, few_descriptors, small_stack, strict_umask,
                                   lost_directory])
def test_a_program_of_odd_habits_runs_code(habit):
    process = start(preexec_fn=habit)
    for i in range(5):
        assert stdout_of(ask(process, f"console.log({i})")) == b"%d\n" % i
    assert ask(process, "for (;;);", 100)["timed_out"]
    assert stdout_of(ask(process, "console.log('next')")) == b"next\n"
    found = descendants(process.pid)
    finish(process)
    await_end_of(found)


def links_of(pid):
    """What the descriptors of a process stand for; nothing when it may not be looked at, as it is not dumpable, or is gone."""
    folder, links = pathlib.Path(f"/proc/{pid}/fd"), []
    try:
        for entry in folder.iterdir():
            links.append(os.readlink(entry))
    except (PermissionError, FileNotFoundError, ProcessLookupError):
        pass
    return links


def test_inherited_descriptors_do_not_reach_a_worker(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    fd = os.open(secret, os.O_RDONLY)
    os.set_inheritable(fd, True)
    process = start(pass_fds=[fd])
    ask(process, "1")
    looked_at = 0
    for pid in descendants(process.pid):
        links = links_of(pid)
        looked_at += bool(links)
        assert not any("secret" in link for link in links)
        assert all(link == "/dev/null" or link.startswith(("socket:", "anon_inode:[signalfd]", "anon_inode:[pidfd]"))
                   for link in links), links
    assert looked_at or os.geteuid() != 0
    os.close(fd)
    finish(process)


def test_the_environment_of_the_program_does_not_reach_a_worker():
    process = start(settings={"MY_SECRET": "hunter2"})
    ask(process, "1")
    for pid in descendants(process.pid):
        try:
            assert pathlib.Path(f"/proc/{pid}/environ").read_bytes() == b""
        except PermissionError:
            assert os.geteuid() != 0, "not dumpable: only a privileged user may look"
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended since
    finish(process)


def test_without_a_descriptor_left_nothing_runs():
    process = start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5)))
    answer = ask(process, "console.log(1)")
    assert (answer["status"], answer["reason"], answer["may_have_run"]) == ("remote", "environment", False), answer
    assert "Too many open files" in answer["message"]
    assert descendants(process.pid) == []
    finish(process)


def test_a_program_without_its_worker_host_runs_nothing(tmp_path):
    """No other program is taken for it: not one beside the program, not one of the environment."""
    copy = tmp_path / "run_driver"
    shutil.copy(DRIVER, copy)
    bait = tmp_path / WORKER.name
    bait.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    bait.chmod(0o755)
    if INSTALLED_WORKER.exists():
        pytest.skip(f"{INSTALLED_WORKER} is installed, and would be the right one")
    process = start(driver=copy, cwd=tmp_path, settings={"PATH": str(tmp_path), "PLIMSOLL_WASM_WORKER": str(bait)})
    answer = ask(process, "console.log(1)")
    assert (answer["reason"], answer["may_have_run"]) == ("environment", False), answer
    assert WORKER.name in answer["message"]
    assert not (tmp_path / "started").exists()
    finish(process)


# ---- what others build against ----


def test_the_shared_library_exports_its_interface_only():
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY.name} is not built")
    listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].partition("@")[0] for line in listed.splitlines()}
    assert {"plim_sandbox_local", "plim_run_javascript", "plim_result_free", "plim_may_have_run"} <= names
    assert {name for name in names if not name.startswith("plim_")} == set()


HEADERS = sorted(p.name for p in (ROOT / "include/plimsoll").glob("*.h"))


@pytest.mark.parametrize("compiler", ["cc -std=c11", "c++ -std=c++17"])
@pytest.mark.parametrize("header", HEADERS)
def test_each_header_stands_alone_in_c_and_c_plus_plus(header, compiler, tmp_path):
    name, standard = compiler.split()
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    source = tmp_path / ("a.c" if name == "cc" else "a.cc")
    source.write_text(f"#include <plimsoll/{header}>\n#include <plimsoll/{header}>\n")
    subprocess.run([name, standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}",
                    f"-I{ROOT / 'build/release/include'}", source], check=True)
