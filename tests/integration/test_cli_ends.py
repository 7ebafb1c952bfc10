"""The command line `plimsoll` at its edges: terminals, output that cannot be delivered, signals."""

import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import time

import pytest

from cli_harness import ENDLESS, PLIMSOLL, SUMMARY, assert_nothing_ran, environment, wasm

# ---- terminals ----


def read_terminal(master, process):
    """Everything that a program writes to its terminal until it ends."""
    seen = b""
    while True:
        ready, _, _ = select.select([master], [], [], 0.1)
        if ready:
            try:
                seen += os.read(master, 65536)
            except OSError:  # the last descriptor of the other side is closed
                return seen
        elif process.poll() is not None:
            return seen


def on_terminal(*arguments, streams=("stdout", "stderr"), **settings):
    """Runs with the named streams on one terminal; what that shows, and the process."""
    master, slave = pty.openpty()
    attributes = {name: slave if name in streams else subprocess.PIPE for name in ("stdout", "stderr")}
    process = subprocess.Popen([PLIMSOLL, *arguments], stdin=subprocess.DEVNULL, **attributes,
                               env=environment(SANDBOX_PROVIDER="wasm", **settings))
    os.close(slave)
    shown = read_terminal(master, process)
    process.wait()
    os.close(master)
    return shown.replace(b"\r\n", b"\n"), process


CONTROLS = r"console.log('a\x1b]0;x\x07b\tc\rd\x7fe\x9bf\0g\ud800h')"
CONTROLS_RAW = b"a\x1b]0;x\x07b\tc\rd\x7fe\xc2\x9bf\0g\xed\xa0\x80h\n"


def test_a_pipe_gets_every_byte():
    assert wasm("run", "-e", CONTROLS).stdout == CONTROLS_RAW


def test_a_terminal_gets_no_control_but_tab_and_newline():
    shown, _ = on_terminal("run", "-e", CONTROLS, streams=("stdout",))
    assert shown.decode() == "a?]0;x?b\tc?d?e?f?g???h\n".replace("?", "\ufffd")


def test_a_terminal_of_another_locale_gets_a_question_mark():
    shown, _ = on_terminal("run", "-e", CONTROLS, streams=("stdout",), LANG="C")
    assert shown == b"a?]0;x?b\tc?d?e?f?g???h\n"


def test_letters_reach_a_terminal():
    shown, _ = on_terminal("run", "-e", "console.log('grün 文')", streams=("stdout",))
    assert shown.decode() == "grün 文\n"


def test_stderr_on_a_terminal_is_treated_alike():
    shown, process = on_terminal("run", "-e", r"throw 'x\x1b[31m'", streams=("stderr",))
    assert shown.decode().startswith("x\ufffd[31m\n")
    assert b"\x1b" not in shown and process.returncode == 1


def test_a_message_with_a_callers_text_reaches_no_terminal_raw():
    shown, _ = on_terminal("run", "/no/such\x1b[31mfile")
    assert b"\x1b" not in shown and "\ufffd[31mfile".encode() in shown


def test_the_last_line_starts_at_the_left_on_a_terminal():
    shown, _ = on_terminal("run", "-e", 'import {out} from "qjs:std"; out.puts("no newline")')
    assert SUMMARY.fullmatch(shown.decode().splitlines()[-1])


def test_doctor_draws_marks_on_a_utf_8_terminal_only():
    assert "  ✓  process " in on_terminal("doctor")[0].decode()
    assert "  ok process " in on_terminal("doctor", LANG="C")[0].decode()


# ---- output that cannot be delivered ----


def test_a_reader_that_went_away_is_status_1():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([PLIMSOLL, "run", "-e", "console.log(1)"], stdout=writer, stderr=subprocess.PIPE,
                          env=environment(SANDBOX_PROVIDER="wasm"))
    os.close(writer)
    assert done.returncode == 1
    assert b"plimsoll: cannot write to stdout: Broken pipe\n" in done.stderr


@pytest.mark.parametrize("arguments", [
    ["run", "-e", "console.log(1)"], ["run", "--json", "-e", "1"], ["describe"], ["describe", "--json"], ["doctor"],
    ["doctor", "--json"], ["help"], ["help", "--markdown"], ["-version"], ["run", "-help"],
])
@pytest.mark.parametrize("stdout", [">&-", ">/dev/full"])
def test_stdout_that_is_closed_or_full_is_status_1(arguments, stdout):
    done = subprocess.run(["sh", "-c", f'exec "$@" {stdout}', "sh", PLIMSOLL, *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, env=environment(SANDBOX_PROVIDER="wasm"))
    assert done.returncode == 1, done
    assert b"plimsoll: cannot write to stdout: " in done.stderr


def test_a_guest_that_writes_nothing_needs_no_stdout():
    done = subprocess.run(["sh", "-c", 'exec "$@" >&- <&-', "sh", PLIMSOLL, "run", "-e", "1"], capture_output=True,
                          env=environment(SANDBOX_PROVIDER="wasm"))
    assert done.returncode == 0


def test_closed_standard_descriptors_do_not_change_the_verdict():
    for arguments, status in ((["-e", "1"], 0), (["--floor", "vm", "-e", "1"], 3), (["--json", "--floor", "vm", "-e", "1"], 3)):
        done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", PLIMSOLL, "run", *arguments],
                              env=environment(SANDBOX_PROVIDER="wasm"))
        assert done.returncode == status


def test_closed_standard_input_has_no_code():
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", PLIMSOLL, "run", "-"], capture_output=True,
                          env=environment(SANDBOX_PROVIDER="wasm"))
    assert_nothing_ran(done, "request", "cannot read standard input")


# ---- signals ----


def stat_of(pid):
    """The fields of /proc/PID/stat after the name; the first is the state."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def children(pid):
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and int(stat_of(folder.name)[1]) == pid:
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
            continue
    return found


def ticks_of(pid):
    return int(stat_of(pid)[11])


def start_endless_run(*flags, **streams):
    """A run in the middle of its loop, and the pid of its worker host."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    process = subprocess.Popen([PLIMSOLL, "run", *flags, "--timeout", "25s", "-e", "console.log('in');" + ENDLESS],
                               env=environment(SANDBOX_PROVIDER="wasm"), **streams)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            for host in children(process.pid):
                if any(ticks_of(worker) > 30 for worker in children(host)):  # longer than any startup test
                    return process, host
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.02)
    process.kill()
    pytest.fail("the run did not start")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_the_run(number):
    process, host = start_endless_run()
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (4, b"")
    assert err.startswith(b"plimsoll: the code may have run (canceled): ")
    assert not pathlib.Path(f"/proc/{host}").exists()


def test_a_cancelled_run_with_pass_exit_and_json():
    process, _ = start_endless_run("--pass-exit", "--json")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    answer = json.loads(out)
    assert process.returncode == 126
    assert (answer["status"], answer["not_dispatched"], answer["may_have_run"]) == ("canceled", None, True)


def test_ctrl_c_at_a_terminal_cancels_the_run():
    """The terminal's signal goes to every process of the foreground group, so to any helper in it as well."""
    master, slave = pty.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY

    process, _ = start_endless_run(stdin=slave, stdout=slave, stderr=slave, preexec_fn=take_terminal)
    os.close(slave)
    os.write(master, b"\x03")
    shown = read_terminal(master, process)
    os.close(master)
    assert process.wait(timeout=10) == 4
    assert b"the code may have run (canceled)" in shown


def test_the_second_signal_kills():
    process, host = start_endless_run()
    os.kill(host, signal.SIGSTOP)  # so that ending it takes the program a while
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGINT
    for _ in range(100):
        if not pathlib.Path(f"/proc/{host}").exists():
            return
        time.sleep(0.05)
    os.kill(host, signal.SIGKILL)
    pytest.fail("the worker host outlived the program")


def test_a_signal_before_the_code_is_read_ends_the_program():
    process = subprocess.Popen([PLIMSOLL, "run", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment(SANDBOX_PROVIDER="wasm"))
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == -signal.SIGINT
