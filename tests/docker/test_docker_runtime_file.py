"""The program behind the name runsc: what is proven is one file, and no other ever carries the tier `kernel`."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest
from docker_harness import (JS, PROJECT, javascript, lack, need_runtime, project, settings_of, snippet, start_daemon,  # noqa: F401
                            wait_until)
from daemon_harness import ENVIRONMENT, PLIMSOLLD, in_background, reason_of, start_and_fail

OWN_IMAGES = JS, PROJECT
FRESH_SECONDS = 5.2  # a preflight that is younger is believed
WAYS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def program(name):
    found = shutil.which(name, path=WAYS)
    if not found:
        lack(f"there is no program {name}; scripts/install-gvisor installs runsc")
    return pathlib.Path(found)


def flags(engine):
    """How runsc is registered here: with what its release and this machine need."""
    need_runtime("runsc")
    return engine.call("GET", "/info")[1]["Runtimes"]["runsc"].get("runtimeArgs", [])


@pytest.fixture()
def words(own):
    return flags(own)


@pytest.fixture()
def place(own, tmp_path, words):
    """A copy of runsc that the Engine of our own has been given; the registration is put back."""
    made = tmp_path / "runsc"
    shutil.copy2(program("runsc"), made)
    own.register(runsc=(made, words))
    yield made
    own.register(runsc=(program("runsc"), words))


def start_on(own, **variables):
    return start_daemon(OWN_IMAGES, DOCKER_HOST=own.host, SANDBOX_DOCKER_RUNTIME="runsc", **variables)


def refused_start(own):
    status, text = start_and_fail(PLIMSOLLD, **settings_of(OWN_IMAGES, DOCKER_HOST=own.host, SANDBOX_DOCKER_RUNTIME="runsc"),
                                  PLIMSOLL_INSECURE="1")
    assert status != 0
    return text


def tier(daemon):
    status, body = daemon.call("Describe", {"protocol": 3})
    assert status == 200, body
    return body.get("isolation")


def replace(path, source):
    """Another file under the same name, as an upgrade does it."""
    beside = path.with_name("runsc.new")
    shutil.copy2(source, beside)
    os.replace(beside, path)


def nothing_runs(daemon, own):
    """From the next look at the Engine on, and no waiting member is handed out either."""
    assert daemon.get("/readyz")[0] == 503
    before = set(own.names())
    status, body = snippet(daemon, "console.log(1)")
    assert (status, reason_of(body)) == (500, ENVIRONMENT), body
    assert "was replaced" in daemon.log
    assert tier(daemon) != "kernel"
    assert set(own.names("plsm-run-")) <= before


@pytest.mark.parametrize("pool", ["0", "1"])
def test_a_replaced_file_runs_nothing_until_a_restart(own, place, pool):
    """Even when the bytes are those that were proven, and even when the proven file comes back: only a proof counts."""
    kept = place.with_name("kept")
    with start_on(own, SANDBOX_DOCKER_POOL=pool) as daemon:
        assert tier(daemon) == "kernel"
        found = javascript(daemon, "console.log(1)", minimumIsolation="kernel")
        assert (found["out"], found["isolation"]) == (b"1\n", "kernel")
        os.link(place, kept)
        replace(place, kept)
        time.sleep(FRESH_SECONDS)
        nothing_runs(daemon, own)
        os.replace(kept, place)
        time.sleep(FRESH_SECONDS)
        nothing_runs(daemon, own)
    with start_on(own) as daemon:
        assert javascript(daemon, "console.log(1)")["isolation"] == "kernel"


def change_in_place(path):
    with path.open("ab") as file:
        file.write(b"\0")


@pytest.mark.parametrize("change", [change_in_place, lambda path: os.utime(path, (1, 1)), os.unlink],
                         ids=["longer", "time", "gone"])
def test_a_changed_file_runs_nothing(own, place, change):
    with start_on(own) as daemon:
        assert tier(daemon) == "kernel"
        change(place)
        time.sleep(FRESH_SECONDS)
        nothing_runs(daemon, own)


def test_a_registration_that_moves_to_another_file(own, place, words):
    """The name stays, the Engine is told another path: that file was never proven."""
    other = place.parent / "elsewhere"
    other.mkdir()
    shutil.copy2(place, other / "runsc")
    with start_on(own) as daemon:
        assert tier(daemon) == "kernel"
        own.register(runsc=(other / "runsc", words))
        time.sleep(FRESH_SECONDS)
        nothing_runs(daemon, own)


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)


def test_runc_by_the_name_of_runsc(own, place):
    replace(place, program("runc"))
    own.register(runsc=(place, []))
    text = refused_start(own)
    assert "is not gVisor" in text and str(place) in text


def test_a_script_that_starts_runc(own, place):
    script(place, f'#!/bin/sh\nexec {program("runc")} "$@"\n')
    own.register(runsc=(place, []))
    text = refused_start(own)
    assert "is not gVisor" in text and str(place) in text


def test_a_link_to_runc(own, place):
    place.unlink()
    place.symlink_to(program("runc"))
    own.register(runsc=(place, []))
    assert "is not gVisor" in refused_start(own)


def test_another_name_of_the_program_is_refused(own, place, words):
    other = place.with_name("runsc2")
    os.link(place, other)
    own.register(runsc=(other, words))
    assert "another program than runsc" in refused_start(own)


@pytest.mark.parametrize("name, behind", [("other", "runc"), ("gvisor", "runsc")])
def test_another_name_of_the_runtime_is_never_the_tier(own, place, words, name, behind):
    """Whatever is behind it. gVisor by another name is not started at all: its programs would lack what they need."""
    own.register(**{name: (program("runc"), []) if behind == "runc" else (place, words)})
    variables = {"DOCKER_HOST": own.host, "SANDBOX_DOCKER_RUNTIME": name}
    try:
        if behind == "runc":
            with start_daemon(OWN_IMAGES, **variables) as daemon:
                assert (daemon.listening["isolation"], javascript(daemon, "1")["isolation"]) == ("container", "container")
        status, text = start_and_fail(PLIMSOLLD, **settings_of(OWN_IMAGES, SANDBOX_MIN_ISOLATION="kernel", **variables),
                                      PLIMSOLL_INSECURE="1")
        assert status != 0 and '"isolation":"kernel"' not in text
    finally:
        own.register(runsc=(place, words))


def test_without_host_sockets_the_flag_is_named(own, place, words):
    own.register(runsc=(place, [word for word in words if "host-uds" not in word]))
    assert "--host-uds=open" in refused_start(own)


def test_the_copy_is_what_runs(own, place):
    """What the tests above change is really what the Engine starts."""
    script(place, "#!/bin/sh\nexit 1\n")
    done = subprocess.run(["docker", "--host", own.host, "run", "--rm", "--runtime", "runsc", JS, "true"], capture_output=True,
                          timeout=60)
    assert done.returncode != 0


def test_a_caller_that_hangs_up_takes_no_tier_away(own, place):
    """It leaves in the middle of a preflight that it caused; the Engine answers late, and the tier is what it was."""
    with start_on(own) as daemon:
        time.sleep(FRESH_SECONDS)
        own.signal(signal.SIGSTOP)
        try:
            connection = daemon.connect()
            connection.request("POST", "/plimsoll.v1.SandboxService/Run",
                               json.dumps({"protocol": 3, "javascript": {"code": "1"}}), {"content-type": "application/json"})
            time.sleep(1)
            connection.close()
            assert tier(daemon) == "kernel"
        finally:
            own.signal(signal.SIGCONT)
        assert daemon.get("/readyz")[0] == 200 and tier(daemon) == "kernel"
        assert javascript(daemon, "console.log(1)", minimumIsolation="kernel")["out"] == b"1\n"


# What a guest tries on the runtime's own program while the runtime is in the container (CVE-2019-5736). The copy is
# nobody's but this test's, so whatever changes it was the guest.

HUNT = """
const fs = require('fs'), end = Date.now() + 12000;
let seen = 0, written = 0;
while (Date.now() < end) for (const p of fs.readdirSync('/proc')) {
  if (!/^\\d+$/.test(p) || p === '1' || p === String(process.pid)) continue;
  for (const f of ['exe', 'fd/3', 'fd/4', 'fd/5', 'fd/6', 'fd/7']) {
    let name = '';
    try { name = fs.readlinkSync(`/proc/${p}/${f}`); } catch { continue; }
    if (!/runc|runsc/.test(name)) continue;
    seen++;
    try { fs.writeSync(fs.openSync(`/proc/${p}/${f}`, fs.constants.O_WRONLY), '#!/bin/sh\\n'); written++; } catch { }
    try { fs.appendFileSync(`/proc/${p}/${f}`, 'x'); written++; } catch { }
  }
}
console.log(seen, written);
"""


def fingerprint(path):
    found = path.stat()
    return hashlib.sha256(path.read_bytes()).hexdigest(), found.st_ino, found.st_size, found.st_mtime_ns


@pytest.mark.parametrize("name", ["runc", "runsc"])
def test_a_guest_does_not_reach_the_runtimes_program(own, words, tmp_path, name):
    copy = tmp_path / name
    shutil.copy2(program(name), copy)
    registered = f"copy-{name}" if name == "runc" else name
    own.register(**{registered: (copy, words if name == "runsc" else []), **({} if name == "runsc" else {"runsc": (program("runsc"), words)})})
    before = fingerprint(copy)
    try:
        with start_daemon(OWN_IMAGES, DOCKER_HOST=own.host, SANDBOX_DOCKER_RUNTIME=registered) as daemon:
            wait = in_background(project, daemon, ["node hunt.js"], {"hunt.js": HUNT}, timeout_ms=60000)
            ident = wait_until(lambda: [c for c in own.containers("plsm-run-") if c["State"] == "running"], "it runs")[0]["Id"]
            for _ in range(8):
                status, made = own.call("POST", f"/containers/{ident}/exec", {"User": "0:0", "Cmd": ["/proc/self/exe", "--version"]})
                if status == 201:
                    own.call("POST", f"/exec/{made['Id']}/start", {"Detach": False})
            found = wait()
        assert found["outcome"] in ("COMPLETED", "PROTOCOL_ERROR"), found
        if found["outcome"] == "COMPLETED":
            assert found["steps"][0]["out"].split()[1:] == [b"0"], found
    finally:
        own.register(runsc=(program("runsc"), words))
    assert fingerprint(copy) == before
    with copy.open("ab") as file:
        file.write(b"x")
    assert fingerprint(copy) != before, "a change would be seen"
