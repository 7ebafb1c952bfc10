"""The control program as the first process of a snippet's container: what it takes in, and the frames that it ends with."""

import hashlib
import hmac
import re

import pytest

import containers
from containers import KEY, MARKER, RUNTIMES, control, frames, plan

FRAME = re.compile(rb"\n(<<<PLIMSOLL_END_V1>>> ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8}) )([0-9a-f]{64})\n\Z", re.ASCII)


@pytest.fixture(params=RUNTIMES)
def runtime(request):
    return request.param


def head(length, key=KEY):
    return key + length.to_bytes(8, "big")


def supervise(*command, stdin, runtime="runc"):
    return control("supervise", MARKER, *command, runtime=runtime, image="sandbox-js", work=False, stdin=stdin)


def end_of(stream, name, key=KEY):
    """What precedes a true frame at the end of a stream, and its numbers."""
    found = FRAME.search(stream)
    assert found, stream
    mac = hmac.new(key, name + found[1], hashlib.sha256).hexdigest().encode()
    assert hmac.compare_digest(mac, found[6]), stream
    return stream[:found.start()], [int(number, 16) for number in found.groups()[1:5]]


def both_ends(ran):
    out, numbers = end_of(ran.stdout, b"end of stdout ")
    err, same = end_of(ran.stderr, b"end of stderr ")
    assert numbers == same and err.startswith(MARKER.encode())
    return out, err[len(MARKER):], numbers


def test_it_passes_the_input_on_and_ends_both_streams(runtime):
    ran = supervise("A=1", "sh", "-c", "cat; echo $A >&2; exit 9", stdin=head(6) + b"in\0put", runtime=runtime)
    out, err, numbers = both_ends(ran)
    assert (out, err, numbers[0], ran.returncode) == (b"in\0put", b"1\n", 9, 9)


def test_input_past_its_length_is_not_passed_on(runtime):
    out, _, numbers = both_ends(supervise("cat", stdin=head(3) + b"abcdef", runtime=runtime))
    assert (out, numbers[0]) == (b"abc", 0)


@pytest.mark.parametrize("stdin", [b"", b"x", KEY, head(1)[:39], head(1), head(20) + b"console.log(1)"])
def test_input_that_is_cut_runs_nothing(runtime, stdin):
    """As when the daemon dies while a container waits, or in the middle of the code."""
    ran = supervise("node", "-", stdin=stdin, runtime=runtime)
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, b"", MARKER.encode())


def test_a_command_that_is_not_there_ends_without_a_frame(runtime):
    """It has ended before there is a key."""
    ran = supervise("no-such", stdin=b"", runtime=runtime)
    assert ran.returncode in (3, 127) and ran.stdout == b""
    assert b"END_V1" not in ran.stderr


def test_a_signal_is_told_as_a_shell_does(runtime):
    _, _, numbers = both_ends(supervise("sh", "-c", "read x; kill -9 $$", stdin=head(2) + b"x\n", runtime=runtime))
    assert numbers[0] == 137


def test_counters_are_the_kernels():
    _, _, numbers = both_ends(supervise("sh", "-c", "read x; for i in $(seq 300); do sleep 60 & done 2>/dev/null; exit 1",
                                        stdin=head(2) + b"x\n"))
    assert numbers[1] == 0 and numbers[2] > 0 and numbers[3] == 0
    _, _, numbers = both_ends(supervise("sh", "-c", "read x; cat /dev/zero > /tmp/full", stdin=head(2) + b"x\n"))
    assert numbers == [1, 0, 0, 1]


def test_nobody_is_left_when_it_ends(runtime):
    """What the command leaves writes until it is killed, and never behind a frame."""
    script = "read x; for i in 1 2 3 4; do (trap '' TERM HUP; while :; do echo y; echo z >&2; done &) ; done; sleep 0.3; exit 2"
    ran = supervise("sh", "-c", script, stdin=head(2) + b"x\n", runtime=runtime)
    out, err, numbers = both_ends(ran)
    assert numbers[0] == 2 and set(out) == set(b"y\n") and set(err) == set(b"z\n")


def test_a_key_is_nowhere_in_the_container(runtime):
    key = hashlib.sha256(b"nowhere").digest()
    script = ("read x; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/1/mem /proc/1/fd/* 2>/dev/null | head -c 100000;"
              "exit 0")
    ran = supervise("timeout", "5", "sh", "-c", script, stdin=head(2, key) + b"x\n", runtime=runtime)
    assert key not in ran.stdout and key.hex().encode() not in ran.stdout


def test_isolation_that_cannot_be_proven_starts_nothing():
    """As root with the right to trace, everything can be opened: it ends before the marker, and so before any guest."""
    containers.need("sandbox-js")
    ran = containers.docker("run", "--rm", "--interactive", "--network", "none", "--user", "0:0", "--cap-add", "SYS_PTRACE",
                            "--entrypoint", containers.contract("CTL_PROGRAM"), "plimsoll/sandbox-js:latest",
                            "supervise", MARKER, "node", "-", input=head(14) + b"console.log(1)")
    assert (ran.returncode, ran.stdout) == (5, b"") and MARKER.encode() not in ran.stderr
    assert b"isolation could not be proven" in ran.stderr


def test_a_runner_ends_its_streams_too(runtime):
    ran = control("run", MARKER, runtime=runtime, stdin=plan(["setsid sleep 60 & echo 1", "exit 4"]))
    out, err, numbers = both_ends(ran)
    (report,) = frames(out)
    assert [step["exitCode"] for step in report["steps"]] == [0, 4]
    assert (err, numbers[0], ran.returncode) == (b"", 0, 0)
