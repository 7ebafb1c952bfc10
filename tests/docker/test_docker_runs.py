"""Snippets and projects in real containers, without a pool, with one, and under our seccomp profile: the answers must not
differ."""

import json
import os

import pytest
from docker_harness import (ROOT, engine, images, javascript, project, snippet, start_daemon, wait_until)  # noqa: F401
from daemon_harness import ENVIRONMENT, ISOLATION, UNSUPPORTED, in_background, reason_of


@pytest.fixture(scope="module", ids=["cold", "pool", "profile"], params=[
    {}, {"SANDBOX_DOCKER_POOL": "2"}, {"SANDBOX_DOCKER_SECCOMP": ROOT / "packaging/seccomp.json"}])
def daemon(engine, images, request):
    with start_daemon(images, **request.param, NODE_OPTIONS="--require /work/x.js",
                      HTTP_PROXY="http://secret:secret@proxy.invalid:1") as running:
        yield running
        members = set(engine.names("plsm-pool-"))
    wait_until(lambda: not members & set(engine.names("plsm-pool-")), "its members are gone")


def test_a_snippet_prints(daemon, engine, images):
    found = javascript(daemon, "console.log(6 * 7)")
    content = engine.call("GET", f"/images/{images[0]}/json")[1]["Id"]
    assert (found["out"], found["err"], found["exit"], found["timed_out"]) == (b"42\n", b"", 0, False)
    assert found["isolation"] == "container"
    assert found["environment"] == f"docker-image:{content}"


@pytest.mark.parametrize("code", [0, 1, 3, 125, 126, 127, 255])
def test_exit_codes_of_a_guest_are_results(daemon, code):
    assert javascript(daemon, f"process.exit({code})")["exit"] == code


def test_bytes_come_back_as_they_were_written(daemon):
    found = javascript(daemon, "process.stdout.write(Buffer.from([0, 255, 10, 128]));"
                               "process.stderr.write(Buffer.from([0, 254]))")
    assert (found["out"], found["err"]) == (b"\x00\xff\n\x80", b"\x00\xfe")


@pytest.mark.parametrize("size", [65535, 65536, 65537, 70000])
def test_output_is_cut_at_its_cap_with_a_flag(daemon, size):
    found = javascript(daemon, f"process.stdout.write('x'.repeat({size}))")
    assert (found["out"], found["out_truncated"]) == (b"x" * min(size, 65536), size > 65536)
    assert not found["err_truncated"]


def test_a_module_is_what_node_takes_it_for(daemon):
    found = javascript(daemon, "import { EOL } from 'node:os'; console.log(typeof EOL, await 7, typeof require)")
    assert (found["out"], found["exit"]) == (b"string 7 undefined\n", 0)
    assert javascript(daemon, "console.log(typeof require, this === module.exports)")["out"] == b"function false\n"


def test_a_flood_on_both_streams_ends(daemon):
    found = javascript(daemon, "const b = 'y'.repeat(65536); let n = 0;"
                               "for (let i = 0; i < 200; i++) { require('fs').writeSync(1, b);"
                               "require('fs').writeSync(2, b) }")
    assert (len(found["out"]), len(found["err"]), found["exit"]) == (65536, 65536, 0)
    assert found["out_truncated"] and found["err_truncated"]


def test_an_endless_snippet_is_timed_out_and_gone(daemon, engine):
    found = javascript(daemon, "console.log('a'); for (;;);", timeout_ms=6000)
    assert (found["timed_out"], found["exit"], found["out"]) == (True, 124, b"a\n")
    wait_until(lambda: engine.names("plsm-run-") == [], "the container is gone")


def test_a_printed_marker_changes_nothing(daemon):
    found = javascript(daemon, "console.error('plimsoll-started:0123456789abcdef'); process.exit(4)")
    assert (found["err"], found["exit"]) == (b"plimsoll-started:0123456789abcdef\n", 4)


def test_the_environment_is_ours_alone(daemon):
    found = json.loads(javascript(daemon, "console.log(JSON.stringify(process.env))")["out"])
    assert set(found) <= {"PATH", "HOME", "HOSTNAME"}
    assert found["PATH"].startswith("/usr/local/sbin:") and found["HOME"] == "/"


def test_the_code_is_in_no_argument_or_file(daemon):
    found = javascript(daemon, "/* needle-17 */ const fs = require('fs');"
                               "console.log(fs.readFileSync('/proc/1/cmdline', 'latin1').includes('needle' + '-17'),"
                               "process.argv.length, process.pid > 1, process.ppid)")
    assert found["out"] == b"false 2 true 1\n"


def test_memory_is_a_limit_with_evidence(daemon):
    found = javascript(daemon, "const all = []; for (;;) all.push(Buffer.alloc(1 << 24, 1))")
    assert (found["exit"], found["limit"]) == (137, "memory")


def test_a_fork_bomb_stays_inside(daemon):
    found = javascript(daemon, "const { spawn } = require('child_process'); let refused = 0, n = 0;"
                               "for (let i = 0; i < 400; i++) { const c = spawn('/bin/sleep', ['9']); n++;"
                               "c.on('error', () => refused++); }"
                               "setTimeout(() => { console.log(refused > 0); process.exit(0) }, 1500)")
    assert found["out"] == b"true\n" or found["exit"] != 0
    assert javascript(daemon, "console.log(1)")["out"] == b"1\n"


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_a_full_disk_is_the_guests_own(daemon, place):
    found = javascript(daemon, "const fs = require('fs'); try { const f = fs.openSync('%s/x', 'w');"
                               "for (;;) fs.writeSync(f, Buffer.alloc(1 << 20)) } catch (e) { console.log(e.code) }"
                       % place)
    assert found["out"] == b"ENOSPC\n"


def test_an_unmet_floor_and_rule_run_nothing(daemon):
    status, body = snippet(daemon, "1", minimumIsolation="kernel")
    assert (status, reason_of(body)) == (400, ISOLATION)
    rule = {"mode": "SOFTWARE_MODE_EXACT", "identities": ["oci-manifest:linux/amd64@sha256:" + "0" * 64]}
    status, body = snippet(daemon, "1", softwareRule=rule)
    assert status == 400


def test_other_kinds_are_refused(daemon):
    module = {"model": "lorenz", "rows": [{"values": [1]}], "endTime": 1, "step": 0.5}
    status, body = daemon.call("Run", {"protocol": 3, "module": module})
    assert (status, reason_of(body)) == (501, UNSUPPORTED)


def test_a_caller_that_leaves_frees_its_place(daemon, engine):
    connection = daemon.connect()
    connection.request("POST", "/plimsoll.v1.SandboxService/Run",
                       json.dumps({"protocol": 3, "timeoutMs": 30000, "javascript": {"code": "for (;;);"}}),
                       {"content-type": "application/json"})
    wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == 1, "the run is in flight")
    connection.close()
    wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == 0, "its place is free")
    wait_until(lambda: engine.names("plsm-run-") == [], "its container is gone")


def test_runs_at_once_are_apart(daemon):
    waits = [in_background(javascript, daemon, f"require('fs').writeFileSync('/tmp/x', '{i}', {{flag: 'wx'}});"
                                               "console.log(require('fs').readFileSync('/tmp/x', 'latin1'))",
                           timeout_ms=30000) for i in range(5)]
    assert [wait()["out"] for wait in waits] == [b"%d\n" % i for i in range(5)]


def test_two_runs_share_no_container(daemon):
    code = "console.log(require('os').hostname())"
    assert javascript(daemon, code)["out"] != javascript(daemon, code)["out"]


# Projects.

def test_files_steps_and_artifacts(daemon):
    found = project(daemon, ["cat dir/a.txt > out.bin", "printf '\\377\\000' >> out.bin; pwd"],
                    {"dir/a.txt": "hé\n"}, ["out.bin", "missing"])
    assert (found["outcome"], found["detail"]) == ("COMPLETED", "")
    assert [step["exit"] for step in found["steps"]] == [0, 0]
    assert found["steps"][1]["out"] == b"/work\n"
    assert found["artifacts"] == {"out.bin": "hé\n".encode() + b"\xff\x00"}


def test_a_failing_step_ends_the_plan_but_not_the_capture(daemon):
    found = project(daemon, ["echo kept > a", "exit 3", "echo never"], artifacts=["a"])
    assert found["outcome"] == "COMPLETED"
    assert [step["exit"] for step in found["steps"]] == [0, 3]
    assert found["artifacts"] == {"a": b"kept\n"}


def test_a_step_that_floods_is_killed(daemon):
    found = project(daemon, ["head -c 600000 /dev/zero; head -c 600000 /dev/zero >&2; sleep 20"])
    step, = found["steps"]
    assert step["out_truncated"] and step["err_truncated"] and step["exit"] != 0
    assert step["limit"] == "output"


def test_a_step_ends_at_its_budget(daemon):
    found = project(daemon, ["trap '' TERM; echo started; sleep 60; sleep 60"], timeout_ms=3000)
    assert (found["outcome"], found["detail"]) == ("TIMED_OUT", "step 1 exceeded its time budget")
    assert (found["steps"][0]["exit"], found["steps"][0]["timed_out"]) == (124, True)
    assert found["steps"][0]["out"] == b"started\n"


def test_a_daemonised_child_holds_nothing_up(daemon):
    found = project(daemon, ["sleep 60 & echo STARTED", "echo next"], timeout_ms=20000)
    assert [step["out"] for step in found["steps"]] == [b"STARTED\n", b"next\n"]
    found = project(daemon, ["setsid sleep 60 </dev/null & echo A", "echo B"], timeout_ms=20000)
    assert [step["out"] for step in found["steps"]] == [b"A\n", b"B\n"]


def test_artifacts_never_leave_the_work_directory(daemon):
    found = project(daemon, ["ln -s /etc/passwd link; mkfifo fifo; mkdir dir; ln -s / root; ln -s /dev/zero zero;"
                             "echo in > plain; ln -s plain inner"],
                    artifacts=["link", "fifo", "dir", "root/etc/passwd", "zero", "plain", "inner"])
    assert found["outcome"] == "COMPLETED"
    assert found["artifacts"].keys() <= {"plain", "inner"} and found["artifacts"]["plain"] == b"in\n"


def test_an_artifact_past_the_budget_sets_the_flag(daemon):
    found = project(daemon, ["head -c 9437184 /dev/zero > big; echo small > small"], artifacts=["big", "small"])
    assert found["artifacts_truncated"]
    assert "big" not in found["artifacts"]


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 18433, 65535, 65536, 65537, 1048577])
def test_sizes_are_exact(daemon, size):
    found = project(daemon, [f"wc -c < f; head -c {size} /dev/zero > g"], {"f": "z" * size}, ["f", "g"])
    assert found["steps"][0]["out"].strip() == b"%d" % size
    assert (found["artifacts"]["f"], found["artifacts"]["g"]) == (b"z" * size, bytes(size))


def test_two_hundred_files_and_names_of_every_kind(daemon):
    files = {f"d{i % 7}/f{i}": str(i) for i in range(197)}
    files |= {"名前.txt": "unicode", "with space": "space", "-rf": "dash"}
    found = project(daemon, ["find . -type f | wc -l"], files, ["名前.txt", "with space", "-rf"])
    assert found["steps"][0]["out"].strip() == b"200"
    assert found["artifacts"] == {"名前.txt": b"unicode", "with space": b"space", "-rf": b"dash"}
    status, body = daemon.call("Run", {"protocol": 3, "project": {
        "steps": ["true"], "files": [{"path": "new\nline", "content": ""}]}})
    assert status == 400


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a//b", "./a"])
def test_paths_outside_are_refused(daemon, path):
    status, body = daemon.call("Run", {"protocol": 3, "project": {
        "steps": ["true"], "files": [{"path": path, "content": ""}]}})
    assert status == 400 and body["code"] == "invalid_argument"


def test_forged_reports_change_nothing(daemon):
    forged = json.dumps({"steps": [], "artifacts": [], "artifactsTruncated": False})
    frame = f"<<<PLIMSOLL_REPORT_V3>>> {len(forged)} {'0' * 64}"
    found = project(daemon, [f"printf '\\n%s\\n%s' '{frame}' '{forged}'; "
                             f"printf '\\n%s\\n%s' '{frame}' '{forged}' > /proc/1/fd/1; exit 0"])
    assert found["outcome"] == "COMPLETED" and len(found["steps"]) == 1


def test_a_step_cannot_reach_its_runner(daemon):
    found = project(daemon, ["cat /proc/1/environ /proc/1/fd/0 /proc/1/mem /usr/local/lib/plimsoll/plimsoll-guest"
                             " > /dev/null; kill -9 1; echo alive"])
    assert found["steps"][0]["out"] == b"alive\n"
    assert found["steps"][0]["err"].count(b"ermission denied") == 4


def test_memory_of_a_step_is_a_limit(daemon):
    found = project(daemon, ["node -e 'const a = []; for (;;) a.push(Buffer.alloc(1 << 24, 1))'; exit $?"])
    assert found["steps"] == [] or found["steps"][0]["limit"] == "memory"
    assert found["outcome"] in ("COMPLETED", "PROTOCOL_ERROR")


def test_a_missing_module_is_the_guests_own(daemon):
    found = project(daemon, ["node a.mjs"], {"a.mjs": "import 'nothing-of-that-name'"})
    assert found["steps"][0]["exit"] == 1 and b"ERR_MODULE_NOT_FOUND" in found["steps"][0]["err"]


def test_the_work_directory_cannot_execute(daemon):
    found = project(daemon, ["cp /bin/true x; chmod +x x; ./x"])
    assert found["steps"][0]["exit"] == 126
