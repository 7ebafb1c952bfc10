"""Bad input in real containers: full disks, names of every kind, artifacts that are no files, images that move or lie."""

import json
import os
import time

import pytest
from docker_harness import (daemon, decoded, engine, images, javascript, project, runtime, settings_of, snippet,  # noqa: F401
                            start_daemon, wait_until)
from daemon_harness import PLIMSOLLD, in_background, reason_of, start_and_fail

MEBI = 1 << 20


def refused(daemon, **message):
    status, body = daemon.call("Run", {"protocol": 3, "project": {"steps": ["true"], "files": [], "artifacts": [], **message}})
    assert (status, body["code"]) == (400, "invalid_argument"), body


# Disks.

FILL = ("head -c 400000000 /dev/zero > {0}/fill 2>/tmp/why; find {0}/fill -printf '%s\\n'; cat /tmp/why; rm {0}/fill; "
        "echo again > {0}/small && cat {0}/small")


@pytest.mark.parametrize("place, mebibytes", [("/work", 128), ("/dev/shm", 16)])
def test_a_full_disk_is_the_steps_own(daemon, place, mebibytes):
    """It fails at the size that was asked for, is empty again after a removal, and the next step goes on."""
    found = project(daemon, [FILL.format(place), "echo next"])
    assert found["outcome"] == "COMPLETED", found
    lines = found["steps"][0]["out"].decode().splitlines()
    assert 0 < int(lines[0]) <= mebibytes * MEBI and "No space left" in lines[1] and lines[-1] == "again", lines
    assert found["steps"][1]["out"] == b"next\n"


def test_all_disks_full_at_once(daemon):
    """Together they are memory, of which there is still enough for the runner to report and bring back what fits."""
    fill = "for d in /tmp /dev/shm /work; do head -c 400000000 /dev/zero > $d/fill 2>/dev/null; done; echo full"
    found = project(daemon, [fill, "echo next; rm /work/fill; echo kept > kept"], artifacts=["kept"])
    assert found["outcome"] == "COMPLETED", found
    assert [step["out"] for step in found["steps"]] == [b"full\n", b"next\n"]
    assert found["artifacts"] == {"kept": b"kept\n"}


def test_a_flood_of_small_files_ends(daemon):
    """Names cost memory and no bytes of a disk: whatever ends it, it is this container alone."""
    code = ("const fs = require('fs'); let n = 0; try { for (; n < 60000; n++) fs.writeFileSync('/tmp/' + n, ''); "
            "console.log('made', n) } catch (e) { console.log(e.code, n) }")
    found = javascript(daemon, code, timeout_ms=30000)
    assert found["exit"] in (0, 137, 124), found
    assert javascript(daemon, "console.log(require('fs').readdirSync('/tmp').length)")["out"] == b"0\n"


def test_files_that_do_not_fit_end_the_plan(images, runtime):
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime, SANDBOX_DISK_MB="33") as daemon:
        found = project(daemon, ["echo never"], {"first": "1", "big": "x" * (2 * MEBI), "last": "2"})
        assert (found["outcome"], found["steps"]) == ("SETUP_FAILED", [])
        assert found["detail"] == "cannot write a file: big: No space left on device"
        assert project(daemon, ["df -k --output=size /work | tail -n 1"])["steps"][0]["out"].strip() == b"1024"


def test_a_budget_divides_as_the_contract_says(images, runtime):
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime, SANDBOX_DISK_MB="96") as daemon:
        sizes = "df -k --output=size /tmp /dev/shm /work | tail -n 3 | tr -s ' \\n' ' '"
        assert project(daemon, [sizes])["steps"][0]["out"].split() == [b"16384", b"16384", b"65536"]


# Steps that leave something behind.

@pytest.mark.parametrize("leave", [
    "sleep 60 & echo A",
    "(sleep 60; echo late) & echo A",
    "setsid sh -c 'sleep 60; echo late' & echo A",
    "nohup sh -c 'while :; do echo flood; sleep 0.05; done' >/dev/null 2>&1 & echo A",
    "sh -c 'trap \"\" HUP TERM INT; sleep 60 & wait' & echo A",
    "node -e \"require('child_process').spawn('sleep', ['60'], {detached: true, stdio: 'inherit'}).unref()\"; echo A",
], ids=["background", "late", "session", "quiet", "deaf", "detached"])
def test_what_holds_the_pipe_holds_nothing_up(daemon, leave):
    began = time.monotonic()
    found = project(daemon, [leave, "echo B"], timeout_ms=20000)
    assert [step["exit"] for step in found["steps"]] == [0, 0], found
    assert [step["out"] for step in found["steps"]] == [b"A\n", b"B\n"]
    assert time.monotonic() - began < 20, "a step waited for what it left"


def test_a_snippet_that_leaves_a_child_behind_ends(daemon, engine):
    found = javascript(daemon, "const c = require('child_process').spawn('sleep', ['60'], {detached: true, stdio: 'inherit'});"
                               "c.unref(); console.log('A')", timeout_ms=20000)
    assert (found["out"], found["exit"], found["timed_out"]) == (b"A\n", 0, False)
    wait_until(lambda: engine.names("plsm-run-") == [], "the container is gone")


# Names.

NAMES = ["名前.txt", "e\u0301.txt", "\u202egnp.exe", "🙂/🙂", "with space", " lead", "trail ", "-rf", "*", "?", "$(reboot)", "`id`",
         "'", '"', "%s%n", "#", "~", "...", "..a", "a..", ".hidden", "con", "n" * 200, "/".join("d" * 40)]


def test_names_of_every_kind_are_files_and_artifacts(daemon):
    files = {name: f"content of {i}" for i, name in enumerate(NAMES)}
    found = project(daemon, ["find . -type f | wc -l"], files, NAMES)
    assert found["outcome"] == "COMPLETED", found
    assert found["steps"][0]["out"].strip() == b"%d" % len(NAMES)
    assert found["artifacts"] == {name: content.encode() for name, content in files.items()}


def test_two_hundred_files(daemon):
    files = {f"d{i % 9}/e{i % 5}/f{i}": str(i) * 10 for i in range(200)}
    wanted = list(files)[::2]
    found = project(daemon, ["cat $(find . -type f | sort) | wc -c"], files, wanted)
    assert found["steps"][0]["out"].strip() == b"%d" % sum(map(len, files.values()))
    assert found["artifacts"] == {path: files[path].encode() for path in wanted}
    refused(daemon, files=[{"path": f"f{i}", "content": ""} for i in range(201)])
    refused(daemon, artifacts=list(files)[:101])


@pytest.mark.parametrize("path", ["new\nline", "a\rb", "\\", "a\\b", "nul\0", "tab\t", "esc\x1b[2J", "del\x7f", "", "/", ".", "..", "./a", "a/",
                                  "a//b", "a/./b", "a/../b", "../a", "/a", "a/.."])
def test_names_that_are_no_plain_paths_are_refused(daemon, path):
    refused(daemon, files=[{"path": path, "content": ""}])


@pytest.mark.parametrize("path", ["new\nline", "nul\0", "", "..", "../x", "/etc/passwd", "a/../../x", "/proc/self/environ"])
def test_artifacts_are_plain_paths_too(daemon, path):
    refused(daemon, artifacts=[path])


def test_names_that_a_step_makes_disturb_nothing(daemon):
    """They are only ever looked up, never listed: a name with a newline or a frame's marker is nobody's business."""
    step = ("touch \"$(printf 'new\\nline')\" \"$(printf '\\377\\376')\" '<<<PLIMSOLL_REPORT_V3>>> 0' -- -n '*'; "
            "mkdir -p \"$(printf 'dir\\nx')/y\"; echo fine > plain")
    found = project(daemon, [step, "ls | wc -l"], artifacts=["plain", "*"])
    assert found["outcome"] == "COMPLETED", found
    assert found["artifacts"] == {"plain": b"fine\n", "*": b""}


# Artifacts.

def test_what_is_no_plain_file_is_left_out(daemon):
    tricks = ("mkdir dir; mkfifo fifo; ln -s dir dirlink; ln -s fifo fifolink; ln -s loop loop; ln -s /work/plain absolute; "
              "ln -s ../work/plain relative; ln -s ../etc/passwd outside; ln -s / root; ln -s /proc/self proc; "
              "ln -s /dev/null null; ln -s /dev/zero zero; ln -s /dev/random random; ln -s /dev/fd/0 stdin; echo in > plain; "
              "node -e \"require('net').createServer().listen('socket').unref(); process.exit()\"; true")
    names = ["dir", "fifo", "dirlink", "fifolink", "loop", "outside", "root/etc/passwd", "proc/environ", "proc/mem", "null", "zero",
             "random", "stdin", "socket", "missing", "dir/missing", "plain/x", "absolute", "relative", "plain"]
    began = time.monotonic()
    found = project(daemon, [tricks], artifacts=names, timeout_ms=60000)
    assert found["outcome"] == "COMPLETED" and not found["artifacts_truncated"], found
    assert found["artifacts"] == dict.fromkeys(["absolute", "relative", "plain"], b"in\n")
    assert time.monotonic() - began < 60, "a FIFO or a device was waited for"


def test_a_parent_that_is_a_link_outside_is_left_out(daemon):
    found = project(daemon, ["rm -rf d; ln -s /etc d; echo x > e"], {"d/passwd": "mine"}, ["d/passwd", "e"])
    assert found["artifacts"] == {"e": b"x\n"}


def test_huge_artifacts_are_cut_and_said(daemon):
    """The first that does not fit ends the capture; a sparse one takes no time to be found too large."""
    steps = ["truncate -s 100G sparse 2>/dev/null || truncate -s 100M sparse; head -c 20000000 /dev/zero > big; echo a > a; echo b > b"]
    found = project(daemon, steps, artifacts=["a", "sparse", "b"], timeout_ms=60000)
    assert found["artifacts"] == {"a": b"a\n"} and found["artifacts_truncated"]
    found = project(daemon, steps, artifacts=["big"], timeout_ms=60000)
    assert found["artifacts"] == {} and found["artifacts_truncated"]


def test_an_artifact_that_grows_while_it_is_read(daemon):
    """Whatever is brought back is within the budget, and the report is still one."""
    step = "nohup sh -c 'while :; do head -c 100000 /dev/zero >> grows; done' >/dev/null 2>&1 & sleep 0.3; echo x > after"
    found = project(daemon, [step], artifacts=["grows", "after"], timeout_ms=30000)
    assert found["outcome"] in ("COMPLETED", "PROTOCOL_ERROR"), found
    assert sum(map(len, found["artifacts"].values())) <= 8 * MEBI


# Floods.

def test_a_flood_on_both_streams_of_a_step(daemon):
    found = project(daemon, ["yes out & yes err >&2", "echo never"], timeout_ms=30000)
    step, = found["steps"]
    assert step["out_truncated"] and step["err_truncated"] and step["limit"] == "output"
    assert len(step["out"]) + len(step["err"]) == MEBI


def test_a_flood_that_never_ends(daemon, engine):
    """A snippet's bytes past the cap are dropped, so it is its budget that ends it."""
    code = "const b = Buffer.alloc(65536, 121); for (;;) { require('fs').writeSync(1, b); require('fs').writeSync(2, b) }"
    found = javascript(daemon, code, timeout_ms=3000)
    assert (found["timed_out"], found["exit"]) == (True, 124)
    assert (len(found["out"]), len(found["err"])) == (65536, 65536) and found["out_truncated"] and found["err_truncated"]
    wait_until(lambda: engine.names("plsm-run-") == [], "the container is gone")


# Processes.

FORKS = {"": 192, "runsc": 96, "ptrace": 12}  # what a guest may count on with 256, on a busy machine too


def test_a_guest_may_count_on_its_processes(daemon, runtime, engine):
    arguments = engine.call("GET", "/info")[1]["Runtimes"].get(runtime, {}).get("runtimeArgs") or []
    count = FORKS["ptrace" if "--platform=ptrace" in arguments else runtime]
    step = (f"i=1; all=; while [ $i -lt {count} ]; do sleep 30 & all=\"$all $!\"; i=$((i+1)); done; n=1; "
            "for p in $all; do kill -0 $p && n=$((n+1)); done; echo $n; kill $all")
    found = project(daemon, [step], timeout_ms=60000)
    assert found["steps"][0]["out"].split()[:1] == [b"%d" % count], found


def test_a_fork_bomb_is_one_runs_own(daemon):
    step = "bomb() { bomb | bomb & }; bomb; sleep 2; echo survived"
    found = project(daemon, [step], timeout_ms=6000)
    assert found["outcome"] in ("COMPLETED", "TIMED_OUT", "PROTOCOL_ERROR"), found
    assert javascript(daemon, "console.log(1)")["out"] == b"1\n"


# Images.

def made_image(engine, source, name, script, *changes):
    """An image that is `source` after a shell script of root's, with Dockerfile lines."""
    ident = engine.create({"Image": source, "User": "0:0", "Entrypoint": ["/bin/sh", "-ec"], "Cmd": [script],
                           "HostConfig": {"NetworkMode": "none"}})
    try:
        engine.call("POST", f"/containers/{ident}/start")
        assert engine.call("POST", f"/containers/{ident}/wait")[1]["StatusCode"] == 0
        lines = "%0A".join(line.replace(" ", "%20") for line in ("ENTRYPOINT []", "CMD []", "USER 65534", *changes))
        status, made = engine.call("POST", f"/commit?container={ident}&repo={name.split(':')[0]}&tag={name.split(':')[1]}"
                                           f"&changes={lines}", {})
        assert status == 201, made
    finally:
        engine.remove(ident)


@pytest.fixture()
def name(engine):
    made = f"plsm-test-{os.getpid()}-input:x"
    yield made
    engine.untag(made)


def fails_to_start(images, runtime="", **variables):
    status, text = start_and_fail(PLIMSOLLD, **settings_of(images, SANDBOX_DOCKER_RUNTIME=runtime, **variables), PLIMSOLL_INSECURE="1")
    assert status != 0
    return text


def test_a_tag_that_moves_between_preflight_and_run(engine, images, runtime, name):
    """What was verified runs, whatever the name means by now."""
    moved = f"plsm-test-{os.getpid()}-moved:x"
    engine.tag(images[0], name)
    engine.change(images[0], moved, "VOLUME /data")
    content = engine.call("GET", f"/images/{name}/json")[1]["Id"]
    try:
        with start_daemon((name, images[1]), SANDBOX_DOCKER_RUNTIME=runtime) as daemon:
            time.sleep(5.2)
            assert javascript(daemon, "console.log(1)")["out"] == b"1\n"
            engine.tag(moved, name)
            found = javascript(daemon, "console.log(require('fs').existsSync('/data'))")
            assert (found["out"], found["environment"]) == (b"false\n", f"docker-image:{content}")
    finally:
        engine.untag(moved)


def test_a_control_program_that_can_be_read_fails_the_proof(engine, images, name):
    made_image(engine, images[1], name, "chmod 0755 /usr/local/lib/plimsoll/plimsoll-guest")
    text = fails_to_start((images[0], name))
    assert name in text and "/usr/local/lib/plimsoll/plimsoll-guest opened" in text


def test_an_image_without_node_fails_the_proof(engine, images, name):
    made_image(engine, images[0], name, "rm $(command -v node)")
    assert "did not print its word" in fails_to_start((name, images[1]))


def test_an_environment_that_loads_guest_files_reaches_only_the_guest(engine, images, runtime, name):
    """NODE_OPTIONS of an image makes node load a file that a guest wrote: in a guest's node, and in no program of ours."""
    script = "mkdir -p /opt; echo 'try { require(\"/work/x.js\") } catch { }' > /opt/load.js"
    made_image(engine, images[1], name, script, "ENV NODE_OPTIONS=--require=/opt/load.js")
    spy = "require('fs').appendFileSync('/tmp/loaded', process.pid + ' ' + process.argv.slice(1).join(' ') + '\\n')"
    with start_daemon((images[0], name), SANDBOX_DOCKER_RUNTIME=runtime) as daemon:
        found = project(daemon, ["node -e 1", "cat /tmp/loaded; tr '\\0' '\\n' < /proc/1/environ | grep NODE_OPTIONS"], {"x.js": spy})
        lines = found["steps"][1]["out"].decode().splitlines()
        assert len(lines) == 1 and lines[0].split()[0] != "1", found


def test_settings_of_the_docker_client_reach_no_guest(images, runtime, tmp_path):
    proxies = {"default": {"httpProxy": "http://user:secret@proxy.invalid:1", "noProxy": "secret.invalid"}}
    (tmp_path / "config.json").write_text(json.dumps({"proxies": proxies, "credsStore": "secret", "HttpHeaders": {"X": "secret"}}))
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME=runtime, DOCKER_CONFIG=tmp_path, HTTP_PROXY="http://secret.invalid") as daemon:
        assert set(json.loads(javascript(daemon, "console.log(JSON.stringify(process.env))")["out"])) <= {"PATH", "HOME", "HOSTNAME"}
        found = project(daemon, ["cat /proc/*/environ | tr '\\0' '\\n'"])
        assert b"secret" not in found["steps"][0]["out"] and b"PATH=" in found["steps"][0]["out"]


def test_the_module_image_is_checked_and_runs_nothing(engine, images, name):
    engine.change(images[0], name, "VOLUME /data")
    for reference, says in ((name, "/data"), ("plsm-test-absent:x", "plsm-test-absent:x"), ("-x", "SANDBOX_DOCKER_MODULE_IMAGE")):
        assert says in fails_to_start(images, SANDBOX_DOCKER_MODULE_IMAGE=reference)
    with start_daemon(images, SANDBOX_DOCKER_MODULE_IMAGE=images[1]) as daemon:
        status, body = daemon.call("Run", {"protocol": 3, "module": {"model": "lorenz", "rows": [{"values": [1]}], "endTime": 1,
                                                                     "step": 0.5}})
        assert (status, reason_of(body)) == (501, 4), body  # unsupported
        assert javascript(daemon, "console.log(1)")["out"] == b"1\n"


# Rights of a file's owner.

def test_a_program_of_roots_with_its_bit_set_gives_nobody_its_rights(engine, images, runtime, name):
    """In the root, where programs may run; on a writable mount it would not even start."""
    made_image(engine, images[1], name, "mkdir -p /opt; cp /usr/bin/id /opt/id; chown 0:0 /opt/id; chmod 6755 /opt/id")
    with start_daemon((images[0], name), SANDBOX_DOCKER_RUNTIME=runtime) as daemon:
        found = project(daemon, ["find /opt/id -printf '%m %U\\n'; /opt/id -u; /opt/id -g; /opt/id -G"])
        assert found["steps"][0]["out"].split() == [b"6755", b"0", b"61000", b"61000", b"61000"], found


def test_set_id_bits_on_a_writable_mount_mean_nothing(daemon):
    step = "for d in /tmp /dev/shm /work; do cp /usr/bin/id $d/id && chmod 6755 $d/id && $d/id -u; echo $?; done"
    found = project(daemon, [step])
    assert found["steps"][0]["out"].split() == [b"126"] * 3, found


def test_a_file_that_root_put_on_a_writable_mount_gives_no_rights(daemon, engine):
    """Another party with root's rights in the container puts one there while a run goes on."""
    message = {"steps": ["until [ -u /work/id ]; do sleep 0.1; done; /work/id -u; echo status=$?; "
                         "for l in /lib64/ld-linux*; do $l /work/id -u; done; true"], "files": [], "artifacts": []}
    running = lambda: {c["Id"] for c in engine.containers("plsm-run-") if c["State"] == "running"}
    before = running()
    wait = in_background(daemon.call, "Run", {"protocol": 3, "timeoutMs": 60000, "project": message})
    ident = wait_until(lambda: running() - before, "it runs").pop()
    status, made = engine.call("POST", f"/containers/{ident}/exec", {
        "User": "0:0", "Cmd": ["/bin/sh", "-c", "cp /usr/bin/id /work/i && chmod 4755 /work/i && mv /work/i /work/id"]})
    assert status == 201, made
    engine.call("POST", f"/exec/{made['Id']}/start", {"Detach": False})
    status, body = wait()
    assert status == 200, body
    step, = [decoded(body, one) for one in body["project"]["steps"]]
    lines = step["out"].split()
    assert lines[0] == b"status=126" and b"0" not in lines, step
