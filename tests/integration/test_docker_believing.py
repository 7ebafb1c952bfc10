"""What a lying, changing or chatty Engine must not bring about: another endpoint, another tier, a report that is believed."""

import hashlib
import hmac
import json
import time

import pytest
from test_docker_engine import fails_on, fake, run, start, write_context  # noqa: F401
from fake_engine import FakeEngine

from daemon_harness import ENVIRONMENT, PLIMSOLLD, ROOT, UNSUPPORTED, in_background, reason_of

pytestmark = pytest.mark.skipif(not PLIMSOLLD.exists(), reason=f"{PLIMSOLLD.relative_to(ROOT)} is not built")

FRESH_SECONDS = 5.1  # a preflight that is younger is believed


def test_a_client_configuration_that_changes_later_changes_nothing(fake, tmp_path):
    """The endpoint is found once: another context, and then none at all, are not even read."""
    with FakeEngine(tmp_path / "other.sock") as other:
        write_context(tmp_path, "first", f"unix://{fake.path}")
        write_context(tmp_path, "second", f"unix://{other.path}")
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"currentContext": "first"}))
        with start(fake, DOCKER_HOST="", DOCKER_CONFIG=tmp_path) as daemon:
            for text in (json.dumps({"currentContext": "second"}), "{"):
                config.write_text(text)
                time.sleep(FRESH_SECONDS)
                assert run(daemon)[0] == 200
            assert not other.calls


def test_a_failed_preflight_does_not_move_the_endpoint(fake, tmp_path):
    with FakeEngine(tmp_path / "other.sock") as other:
        write_context(tmp_path, "first", f"unix://{fake.path}")
        write_context(tmp_path, "second", f"unix://{other.path}")
        (tmp_path / "config.json").write_text(json.dumps({"currentContext": "first"}))
        with start(fake, DOCKER_HOST="", DOCKER_CONFIG=tmp_path) as daemon:
            (tmp_path / "config.json").write_text(json.dumps({"currentContext": "second"}))
            fake.lie("GET /info", lambda default: (500, {"message": "no"}))
            time.sleep(FRESH_SECONDS)
            status, body = run(daemon)
            assert (status, reason_of(body)) == (500, ENVIRONMENT)
            fake.honest()
            assert run(daemon)[0] == 200 and not other.calls


def test_settings_of_the_client_are_in_no_request(fake, tmp_path):
    """Proxies, credentials and headers of the Docker client stay where they are."""
    write_context(tmp_path, "here", f"unix://{fake.path}")
    (tmp_path / "config.json").write_text(json.dumps({
        "currentContext": "here", "credsStore": "secret", "HttpHeaders": {"X-Secret": "secret"},
        "auths": {"secret.invalid": {"auth": "secret"}}, "proxies": {"default": {"httpProxy": "http://secret.invalid"}}}))
    honest = fake.answer
    seen = []
    fake.answer = lambda method, path, query, body: seen.append(json.dumps([path, query, body])) or honest(method, path, query, body)
    with start(fake, DOCKER_HOST="", DOCKER_CONFIG=tmp_path, HTTP_PROXY="http://secret.invalid",
               https_proxy="http://secret.invalid") as daemon:
        assert run(daemon)[0] == 200
    assert len([text for text in seen if "/containers/create" in text]) == 6
    assert "secret" not in "".join(seen)


def test_a_banner_changes_no_tier(fake):
    """Any program can print it; under runc it is not even asked for."""
    honest = fake.probe
    fake.probe = lambda container: {**honest(container), "banner": "Starting gVisor...\n", "kernel": {
        "release": "4.4.0", "version": "#1 SMP", "proc": "Linux version 4.4.0"}}
    with start(fake) as daemon:
        assert daemon.listening["isolation"] == "container"
        assert run(daemon)[1]["isolation"] == "container"
    assert "Starting gVisor" not in daemon.log


def signed(said, write, body, version=3):
    key = bytes.fromhex(json.loads(said)["reportKey"])
    mac = hmac.new(key, body, hashlib.sha256).hexdigest()
    write(1, b"\n<<<PLIMSOLL_REPORT_V%d>>> %d %s\n%s" % (version, len(body), mac.encode(), body))
    return 0


STEP = {"command": "x", "stdoutBase64": "amF2YXNjcmlwdAo=", "stderrBase64": "", "stdoutTruncated": False,
        "stderrTruncated": False, "exitCode": 0, "timedOut": False, "durationMs": 1}
PLAIN = {**{k: v for k, v in STEP.items() if "Base64" not in k}, "stdout": "javascript\n", "stderr": ""}
OTHER_RUNNERS = {
    "another version": (2, {"steps": [STEP], "artifacts": [], "artifactsTruncated": False}, "the runner did not report"),
    "a later version": (4, {"steps": [STEP], "artifacts": [], "artifactsTruncated": False}, "the runner did not report"),
    "plain output": (3, {"steps": [PLAIN], "artifacts": [], "artifactsTruncated": False}, "could not parse sandbox result"),
    "an extra field": (3, {"steps": [{**STEP, "x": 1}], "artifacts": [], "artifactsTruncated": False}, "could not parse"),
    "a missing field": (3, {"steps": [STEP], "artifacts": []}, "could not parse"),
    "a failed step": (3, {"steps": [{**STEP, "exitCode": 1}], "artifacts": [], "artifactsTruncated": False},
                      "a step can reach the project runner"),
    "two steps": (3, {"steps": [STEP, STEP], "artifacts": [], "artifactsTruncated": False}, "the project runner answered"),
    "an error": (3, {"error": "isolation could not be proven"}, "isolation could not be proven"),
}


@pytest.mark.parametrize("name", OTHER_RUNNERS)
def test_a_runner_of_another_release_fails_the_proof(fake, name):
    version, body, says = OTHER_RUNNERS[name]
    fake.programs["run"] = lambda said, write: signed(said, write, json.dumps(body).encode(), version)
    text = fails_on(fake)
    assert says in text and "plimsoll/sandbox:latest" in text


def test_a_listing_that_is_too_long_is_read_in_no_part(fake):
    """The sweep fails as a whole and says so; a container in the part that fits would be one to remove."""
    orphan = {"Id": "ab" * 32, "Names": ["/plsm-run-x"], "Labels": {"io.plimsoll.expires": "1"}}
    rest = [{**orphan, "Id": f"{i:064x}", "Labels": {"io.plimsoll.expires": "x" * 1000}} for i in range(6000)]
    fake.lie("GET /containers/json", lambda default: (200, [orphan, *rest]))
    with start(fake) as daemon:
        assert "larger than its bound" in daemon.wait_for("orphans were not looked for")["error"]
    assert not fake.called("DELETE /containers/" + "ab" * 32)


def test_a_hundred_runs_at_once_across_an_expiry(fake):
    with start(fake, SANDBOX_MAX_CONCURRENT="128") as daemon:
        time.sleep(FRESH_SECONDS)
        waits = [in_background(run, daemon, 20000) for _ in range(100)]
        assert {wait()[0] for wait in waits} == {200}, daemon.log


def test_callers_that_leave_take_no_evidence_along(fake):
    """A preflight belongs to nobody: the one who caused it may hang up, and its finding counts all the same."""
    with start(fake) as daemon:
        time.sleep(FRESH_SECONDS)
        fake.lie("GET /info", lambda default: time.sleep(1.5) or default())
        asked = len(fake.called("GET /info"))
        connection = daemon.connect()
        connection.request("POST", "/plimsoll.v1.SandboxService/Run", json.dumps({"protocol": 3, "javascript": {"code": "1"}}),
                           {"content-type": "application/json"})
        time.sleep(0.5)
        connection.close()
        time.sleep(1.5)
        assert daemon.get("/readyz")[0] == 200
        assert len(fake.called("GET /info")) == asked + 1


MODULE = {"model": "lorenz", "rows": [{"values": [1]}], "endTime": 1, "step": 0.5}


def test_a_module_image_is_checked_and_runs_nothing(fake):
    with start(fake, SANDBOX_DOCKER_MODULE_IMAGE="modules:1") as daemon:
        assert fake.called("GET /images/modules:1/json")
        status, body = daemon.call("Run", {"protocol": 3, "module": MODULE})
        assert (status, reason_of(body)) == (501, UNSUPPORTED)
    assert all("modules" not in json.dumps(c.body) for c in fake.containers.values())
    assert "SANDBOX_DOCKER_MODULE_IMAGE" in fails_on(fake, SANDBOX_DOCKER_MODULE_IMAGE="-x")
    pinned = "x@sha256:" + "0" * 64
    assert "SANDBOX_DOCKER_MODULE_IMAGE is not pinned" in fails_on(
        fake, SANDBOX_REQUIRE_PINNED_IMAGES="1", SANDBOX_DOCKER_IMAGE=pinned, SANDBOX_DOCKER_PROJECT_IMAGE=pinned,
        SANDBOX_DOCKER_MODULE_IMAGE="modules:1")
    fake.lie("GET /images/modules", lambda default: (404, {"message": "No such image"}))
    assert "image modules:1" in fails_on(fake, SANDBOX_DOCKER_MODULE_IMAGE="modules:1")
