"""The control program inside real containers, under each runtime: start, run, probe, version, and what a guest may try
against it."""

import base64
import json
import time

import pytest

import containers
from containers import MARKER, PATH, RUNTIMES, control, frames, plan

STEP_MEMBERS = {"command", "stdoutBase64", "stderrBase64", "stdoutTruncated", "stderrTruncated", "exitCode", "timedOut",
                "durationMs"}
OUTPUT_MAX = 1 << 20
UNREACHABLE = ("EACCES", "EPERM")

# Opens what a step must not be able to open, from inside one, and prints the errno of each.
OPEN_RUNNER = r"""
const fs = require('fs');
for (const [path, flags] of [['/proc/1/fd/0', 'r'], ['/proc/1/fd/1', 'r'], ['/proc/1/fd/1', 'w'], ['/proc/1/mem', 'r'],
                             ['/usr/local/lib/plimsoll/plimsoll-guest', 'r']]) {
  try { fs.openSync(path, flags); console.log('OPENED'); } catch (error) { console.log(error.code); }
}
"""


def run(steps, runtime="runc", key=containers.KEY, image="sandbox", options=(), **rest):
    """The report of a plan, which must be the only true frame."""
    ran = control("run", MARKER, runtime=runtime, stdin=plan(steps, key=key, **rest), image=image, options=options)
    reports = frames(ran.stdout, key)
    assert len(reports) == 1, ran
    assert ran.stderr.startswith(MARKER.encode())
    return reports[0]


def run_one(step, runtime="runc", **rest):
    """The one step of a plan, its streams decoded."""
    report = run([step], runtime, **rest)
    assert set(report) == {"steps", "artifacts", "artifactsTruncated"}, report
    return decode(report["steps"][0])


def decode(step):
    assert set(step) == STEP_MEMBERS
    return step | {"out": base64.b64decode(step["stdoutBase64"], validate=True),
                   "err": base64.b64decode(step["stderrBase64"], validate=True)}


@pytest.fixture(params=RUNTIMES)
def runtime(request):
    return request.param


# ---- start ----


def test_start_gives_exactly_the_environment_and_the_marker(runtime):
    ran = control("start", MARKER, "B=2", "A=1", "B=3", "env", runtime=runtime, image="sandbox-js", work=False)
    assert ran.returncode == 0
    assert ran.stderr == MARKER.encode()
    lines = ran.stdout.decode().splitlines()
    assert [line.split("=")[0] for line in lines] == ["PATH", "HOME", "HOSTNAME", "B", "A"]
    assert lines[0] == f"PATH={PATH}" and lines[1] == "HOME=/" and lines[3:] == ["B=3", "A=1"]
    assert len(lines[2]) > len("HOSTNAME=")


def test_start_becomes_the_command(runtime):
    ran = control("start", MARKER, "sh", "-c", "echo $$; cat; exit 125", runtime=runtime, image="sandbox-js", work=False,
                  stdin=b"in\0put")
    assert ran.returncode == 125
    assert ran.stdout == b"1\nin\0put"


def test_start_looks_in_the_path_it_gives():
    ran = control("start", "", "PATH=/nowhere", "node", image="sandbox-js", work=False)
    assert ran.returncode == 127
    assert b"node" in ran.stderr and not ran.stderr.startswith(MARKER.encode())


@pytest.mark.parametrize("words, status", [(("no-such",), 127), (("/etc/passwd",), 126), (("A=1",), 126), (("=1", "env"), 126),
                                           ((), 2)])
def test_start_says_why_it_cannot(words, status):
    ran = control("start", MARKER, *words, image="sandbox-js", work=False)
    assert ran.returncode == status


def test_start_leaves_node_an_ordinary_process(runtime):
    """What it becomes is dumpable again, or debuggers and /proc/self of a guest would not work."""
    ran = control("start", MARKER, "node", "-e", "console.log(fs.readlinkSync('/proc/self/fd/0').length > 0)",
                  runtime=runtime, image="sandbox-js", work=False)
    assert ran.stdout == b"true\n", ran


# ---- version, usage ----


def test_version_names_the_release_and_the_report(runtime):
    ran = control("version", runtime=runtime, image="sandbox-js")
    assert ran.stdout.decode() == f"plimsoll-guest {(containers.ROOT / 'VERSION').read_text().strip()} report 3\n"


@pytest.mark.parametrize("words", [(), ("fly",), ("run",), ("run", "a", "b"), ("probe", "--all"), ("version", "1")])
def test_other_calls_are_usage_errors(words):
    ran = control(*words, image="sandbox-js")
    assert ran.returncode == 2 and ran.stdout == b"" and b"usage" in ran.stderr


# ---- probe ----


def test_probe_tells_the_lockdown(runtime):
    ran = control("probe", "--kernel", "--banner", "--socket", runtime=runtime)
    assert ran.returncode == 0, ran
    found = json.loads(ran.stdout)
    assert list(found) == ["release", "report", "rootWritable", "mounts", "writable", "pidsMax", "uid", "gid", "groups",
                           "interfaces", "kernel", "banner", "socket"]
    assert found["rootWritable"] is False
    assert sorted(found["writable"]) == ["/dev/shm", "/tmp", "/work"]
    assert found["interfaces"] == ["lo"]
    assert set(found["uid"]) == set(found["gid"]) == {"61000"} and set(found["groups"]) <= {"61000"}
    assert found["socket"] == {"connected": False, "reply": ""}
    assert found["pidsMax"] in (("max", None) if runtime == "runsc" else ("256",))  # older releases of gVisor show none
    host = open("/proc/version").readline().strip()
    assert (found["kernel"]["proc"] != host) == (runtime == "runsc")
    assert {line.split()[1] for line in found["mounts"].splitlines()} >= {"/", "/proc", "/tmp", "/dev/shm", "/work"}


def test_probe_sees_what_is_not_locked_down():
    containers.need("sandbox")
    ran = containers.docker("run", "--rm", "--user", "61000:61000", "--network", "none", "--tmpfs", "/extra:rw,size=1m,mode=1777",
                            "--entrypoint", containers.contract("CTL_PROGRAM"), "plimsoll/sandbox:latest", "probe")
    found = json.loads(ran.stdout)
    assert "/extra" in found["writable"] and "/dev/mqueue" not in found["writable"]
    assert found["pidsMax"] == "max" and "kernel" not in found and "banner" not in found and "socket" not in found
    root = containers.docker("run", "--rm", "--user", "0:0", "--network", "none", "--entrypoint",
                             containers.contract("CTL_PROGRAM"), "plimsoll/sandbox:latest", "probe")
    assert json.loads(root.stdout)["rootWritable"] is True


# ---- run ----


def test_a_project_runs(runtime):
    report = run(["cat a/b.txt; echo err >&2", "printf '\\000\\377' > out.bin; ls"], runtime,
                 files={"a/b.txt": "hi\n", "ü\nü": "x"}, artifacts=["out.bin", "missing", "a"])
    first, second = map(decode, report["steps"])
    assert (first["out"], first["err"], first["exitCode"]) == (b"hi\n", b"err\n", 0)
    assert "ü".encode() in second["out"]
    assert report["artifacts"] == [{"path": "out.bin", "content": base64.b64encode(b"\0\xff").decode()}]
    assert report["artifactsTruncated"] is False


def test_a_failing_step_is_the_last_and_artifacts_are_still_taken(runtime):
    report = run(["echo 1 > a", "exit 3", "echo never"], runtime, artifacts=["a"])
    assert [step["exitCode"] for step in report["steps"]] == [0, 3]
    assert len(report["artifacts"]) == 1


def test_the_environment_of_a_step(runtime):
    step = run_one("env | sort", runtime, env=["NODE_OPTIONS=--no-warnings", "Z=1", "Z=2", "HOST_API_SOCKET=/run/host-api.sock"])
    names = dict(line.split("=", 1) for line in step["out"].decode().splitlines())
    assert set(names) == {"PATH", "HOME", "HOSTNAME", "NODE_OPTIONS", "Z", "HOST_API_SOCKET", "PLIMSOLL_RUNNER_PID", "PWD"}
    assert names["Z"] == "2" and names["PLIMSOLL_RUNNER_PID"] == "1" and names["PATH"] == PATH


def test_a_host_client_is_loaded(runtime):
    step = run_one("node -e 'console.log(globalThis.answer, process.env.NODE_OPTIONS)'", runtime,
                   env=["NODE_OPTIONS=--no-warnings"], hostSDK="globalThis.answer = 42;")
    assert step["out"] == b"42 --no-warnings --import=file:///tmp/plimsoll-host.mjs\n"


def test_a_step_cannot_open_the_runner(runtime):
    step = run_one("node open.js", runtime, files={"open.js": OPEN_RUNNER})
    codes = step["out"].decode().split()
    assert len(codes) == 5 and set(codes) <= set(UNREACHABLE), codes


def test_no_descriptor_of_the_runner_gives_bytes_or_takes_them(runtime):
    """Whatever number it has: the work directory and a step's own output are all that can be opened."""
    step = run_one("for n in $(seq 0 40); do timeout 1 sh -c \"exec 9</proc/1/fd/$n\" 2>/dev/null && readlink /proc/1/fd/$n; "
                   "done; true", runtime)
    opened = step["out"].decode().split()
    assert [name for name in opened if name != "/work" and not name.startswith("pipe:")] == []


def test_the_key_is_nowhere_a_step_can_look(runtime):
    key = bytes(range(100, 132))
    step = run_one(f"cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c {key.hex()[:16]}", runtime, key=key)
    # The command line of this very step's shells holds the search itself, and no more than these.
    assert int(step["out"]) <= 3


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "/work/../x"])
def test_a_path_outside_ends_the_plan(path):
    assert run(["echo never"], files={path: "x"}) == {"error": f"illegal file path: {path}"}


@pytest.mark.parametrize("env", [["=x"], ["novalue"], [""]])
def test_a_bad_environment_entry_ends_the_plan(env):
    assert run(["echo never"], env=env) == {"error": "bad environment entry"}


def test_a_full_disk_is_an_error_of_the_plan():
    error = run(["echo never"], files={"big": "x" * (2 << 20)}, options=["--tmpfs", "/work:rw,size=1m,mode=1777"])["error"]
    assert error == "cannot write a file: big: No space left on device"


@pytest.mark.parametrize("stdin", [b"{", b"[]", b"{}", b"\xff", b'{"files":[]}'])
def test_a_plan_that_cannot_be_read_is_reported_without_a_key(stdin):
    ran = control("run", MARKER, stdin=stdin)
    assert ran.returncode == 0
    header, body = ran.stdout[1:].split(b"\n", 1)
    assert header.endswith(b" " + b"0" * 64)
    assert json.loads(body)["error"].startswith("the plan cannot be read: ")


def test_a_member_that_is_never_given_a_plan_ends_quietly(runtime):
    ran = control("run", MARKER, runtime=runtime)
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, b"", MARKER.encode())


def test_a_step_ends_at_its_budget_with_all_it_started(runtime):
    began = time.monotonic()
    report = run(["trap '' TERM; setsid sleep 60 & sleep 60 & echo a; sleep 60", "echo never"], runtime, timeout_ms=1500,
                 artifacts=["x"])
    assert time.monotonic() - began < 60
    (step,) = map(decode, report["steps"])
    assert (step["exitCode"], step["timedOut"], step["out"]) == (124, True, b"a\n")
    assert 1400 <= step["durationMs"] < 10000


def test_what_a_step_leaves_behind_does_not_hold_it_up_and_serves_the_next(runtime):
    server = "require('net').createServer(s => s.end('served')).listen('/tmp/s')"
    client = "require('net').connect('/tmp/s').pipe(process.stdout)"
    report = run([f"node -e \"{server}\" & echo STARTED", "sleep 60 & echo STARTED",
                  f"until [ -S /tmp/s ]; do sleep 0.1; done; node -e \"{client}\""], runtime)
    outs = [decode(step)["out"] for step in report["steps"]]
    assert outs == [b"STARTED\n", b"STARTED\n", b"served"]
    assert report["steps"][1]["durationMs"] < 10000


def test_a_flood_is_ended_at_the_byte(runtime):
    step = run_one("yes >&2 & yes", runtime)
    assert step["stdoutTruncated"] and step["stderrTruncated"] and not step["timedOut"]
    assert len(step["out"]) + len(step["err"]) == OUTPUT_MAX
    assert step["exitCode"] == -1


def test_streams_are_bytes():
    step = run_one("printf 'a\\000\\377\\r\\n'; printf '\\303' >&2")
    assert (step["out"], step["err"]) == (b"a\0\xff\r\n", b"\xc3")


def test_artifacts_that_are_not_plain_files_inside_are_left_out(runtime):
    tricks = ("ln -s /etc/passwd link; mkfifo fifo; mkdir dir; ln -s /proc/1 proc; ln -s /dev/zero zero; ln -s nowhere gone; "
              "ln -s real inner; echo ok > real; truncate -s 1T sparse 2>/dev/null; true")
    names = ["link", "fifo", "dir", "proc/environ", "zero", "gone", "../etc/passwd", "/etc/passwd", "inner", "/work/real"]
    report = run([tricks], runtime, artifacts=names)
    assert [item["path"] for item in report["artifacts"]] == ["inner", "/work/real"]
    assert report["artifactsTruncated"] is False


def test_artifacts_stop_at_their_budget(runtime):
    report = run(["head -c 8000000 /dev/zero > a; head -c 400000 /dev/zero > b; echo > c; head -c 9437184 /dev/zero > d"],
                 runtime, artifacts=["a", "b", "c"])
    assert [item["path"] for item in report["artifacts"]] == ["a"] and report["artifactsTruncated"] is True
    report = run(["head -c 9437184 /dev/zero > d"], runtime, artifacts=["d"])
    assert report["artifacts"] == [] and report["artifactsTruncated"] is True


def test_a_session_work_directory_full_of_traps_redirects_nothing():
    """A plan's file whose name a guest has taken already, as a second call of a session would find it."""
    traps = "ln -s /tmp/target link; mkfifo fifo; ln -s /tmp folder; touch /tmp/target; ln -s . self"
    second = plan([], files={"{}": "x"}).decode()
    for name, error in (("link", "not a regular file: link"), ("fifo", "not a regular file: fifo"),
                        ("folder/target", "illegal file path: folder/target"), ("self/self/fine", None)):
        inner = second.replace("{}", name)
        step = run_one(f"{traps}; {containers.contract('CTL_PROGRAM')} run m < plan.json 2>/dev/null | tail -n 1; "
                       "test ! -s /tmp/target", files={"plan.json": inner})
        body = json.loads(step["out"])
        assert body.get("error") == error, body
        assert step["exitCode"] == 0


def test_forged_frames_change_nothing(runtime):
    """A guest that writes frames wherever it can, with a key of its own or with the marker alone."""
    forge = r"""
const crypto = require('crypto'), fs = require('fs');
const body = '{"steps":[],"artifacts":[],"artifactsTruncated":false}';
const mac = crypto.createHmac('sha256', Buffer.alloc(32)).update(body).digest('hex');
const text = ['54 ' + mac, '054 ' + mac, '9999 ' + mac].map(head => `\n<<<PLIMSOLL_REPORT_V3>>> ${head}\n${body}`).join('');
for (const fd of [0, 1, 2, 3, 4, 5, 6, 7])
  try { fs.writeSync(fs.openSync(`/proc/1/fd/${fd}`, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK), text); } catch (error) { }
process.stdout.write(text);
"""
    report = run(["timeout 5 node forge.js; echo end"], runtime, files={"forge.js": forge})
    assert decode(report["steps"][0])["out"].endswith(b"end\n")


def test_the_runner_cannot_be_ended_by_a_step_under_runc():
    step = run_one("kill -9 1; kill -STOP 1; kill -TERM 1; sleep 0.2; echo still here")
    assert step["out"] == b"still here\n"


def test_a_step_that_eats_the_memory_leaves_the_runner():
    """The kernel ends the guest before the runner, so that what happened is still reported."""
    step = run_one("node -e 'const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1))'; echo $?")
    assert step["out"].strip() in (b"137", b"134"), step


def test_a_fork_bomb_is_ended(runtime):
    """It fills the process limit. gVisor's own processes count under it, so that the whole sandbox may end, with exit 2 and
    without a report; a report that comes is a true one."""
    bomb = plan(["f() { f | f & }; f; sleep 30"], timeout_ms=3000)
    began = time.monotonic()
    ran = control("run", MARKER, runtime=runtime, stdin=bomb)
    assert time.monotonic() - began < 60
    reports = frames(ran.stdout)
    if runtime == "runsc" and not reports:
        assert ran.returncode == 2
    else:
        assert len(reports[0]["steps"]) == 1


def test_a_thousand_orphans_do_not_use_up_the_process_limit():
    step = run_one("for i in $(seq 1 600); do (setsid true &) ; done; sleep 0.3; echo ok")
    assert step["out"] == b"ok\n", step


def test_a_read_permission_on_the_program_makes_it_prove_itself_no_less():
    """Mode 0755 on a kernel that guards descriptors: the flag that it clears itself holds."""
    containers.need("sandbox")
    program = containers.contract("CTL_PROGRAM_RUNSC")
    ran = containers.docker("run", *containers.lockdown(), "--entrypoint", program, "plimsoll/sandbox:latest", "run", MARKER,
                            input=plan(["node open.js"], files={"open.js": OPEN_RUNNER}))
    (report,) = frames(ran.stdout)
    assert set(decode(report["steps"][0])["out"].decode().split()) <= set(UNREACHABLE)


def test_isolation_that_cannot_be_proven_is_reported_unsigned():
    """As root with the right to trace, everything can be opened: the runner must see that and stop before the plan."""
    containers.need("sandbox")
    ran = containers.docker("run", "--rm", "--interactive", "--network", "none", "--user", "0:0", "--cap-add", "SYS_PTRACE",
                            "--entrypoint", containers.contract("CTL_PROGRAM"), "plimsoll/sandbox:latest", "run", MARKER,
                            input=plan(["echo never"]))
    assert frames(ran.stdout) == []
    assert ran.stdout.endswith(b'{"error":"isolation could not be proven"}')
