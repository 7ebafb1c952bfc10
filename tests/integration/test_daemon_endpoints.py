"""Health, metrics and the log: what an operator sees, and what nobody may see there."""

import json
import re
import socket

import pytest

from daemon_harness import (HANG_SECONDS, ISOLATION, PLIMSOLLD, SERVICE, TOKEN_A, UNSUPPORTED, Daemon, in_background,
                            reason_of, stdout_of, wait_until, write_registry)

ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "scripted"
    path.write_text("")
    return path


# Endpoints


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
def test_health_answers_any_method(method):
    with Daemon() as daemon:
        assert daemon.request(method, "/healthz")[::2] == (200, b"ok\n")
        assert daemon.request(method, "/readyz")[::2] == (200, b"ready\n")
        assert daemon.request(method, "/metrics", address=daemon.metrics_address)[0] == 200


def test_health_needs_no_credential(tmp_path):
    with Daemon(PLIMSOLL_CLIENTS_FILE=write_registry(tmp_path / "clients.json", a=TOKEN_A)) as daemon:
        assert daemon.get("/healthz")[0] == 200 and daemon.get("/readyz")[0] == 200
        assert daemon.get("/nonsense")[0] == 404
        assert daemon.call("Describe", {})[0] == 401


def test_each_listener_serves_its_own():
    with Daemon() as daemon:
        for path in ("/metrics", "/", "/healthz/", "/Healthz", "//healthz", "/healthz%20"):
            assert daemon.get(path)[0] == 404
        for path in ("/healthz", "/readyz", "/", "/metrics/", SERVICE + "Describe"):
            assert daemon.get(path, daemon.metrics_address)[0] == 404
        assert daemon.request("POST", SERVICE + "Run", "{}", {"content-type": "application/json"},
                              daemon.metrics_address)[0] == 404


def test_every_answer_is_bound_to_its_request(script):
    with Daemon(SCRIPT_FILE=script) as daemon:
        for path, status in (("/healthz", 200), ("/readyz", 200), ("/nonsense", 404)):
            got, headers, _ = daemon.get(path, **{"Plimsoll-Request-Id": ID})
            assert got == status and headers.get_all("plimsoll-request-id") == [ID]
            assert headers.get("plimsoll-not-dispatched") == ("unsupported" if status == 404 else None)
        script.write_text("preflight-fails")
        got, headers, _ = daemon.get("/readyz", **{"Plimsoll-Request-Id": ID})
        assert (got, headers["plimsoll-request-id"], headers["plimsoll-not-dispatched"]) == (503, ID, "request")
        assert "plimsoll-request-id" not in daemon.get("/healthz", **{"Plimsoll-Request-Id": ID.upper()})[1]
        with socket.create_connection(daemon.address, timeout=HANG_SECONDS) as client:
            client.sendall(f"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nPlimsoll-Request-Id: {ID}\r\n\r\n".encode())
            assert b"plimsoll-not-dispatched: request" in client.recv(65536).lower()


def test_readiness_tells_no_cause_and_logs_it_once(script):
    with Daemon(SCRIPT_FILE=script) as daemon:
        script.write_text("preflight-fails")
        for _ in range(100):
            status, headers, body = daemon.get("/readyz")
            assert (status, body) == (503, b"not ready\n") and headers["content-type"].startswith("text/plain")
            assert not any("SECRET" in value for value in headers.values())
        (line,) = daemon.events("not ready")
        assert line["level"] == "WARN" and "told to fail its preflight" in line["error"]
        script.write_text("")
        assert daemon.get("/readyz")[::2] == (200, b"ready\n")


def test_readiness_never_runs_the_smoke_test(script):
    with Daemon(SCRIPT_FILE=script) as daemon:
        script.write_text("smoke-fails")
        assert daemon.get("/readyz")[0] == 200


def test_many_ask_at_once():
    with Daemon() as daemon:
        waiting = [in_background(lambda: [daemon.get("/readyz")[0] for _ in range(20)]) for _ in range(20)]
        assert all(set(wait()) == {200} for wait in waiting)


# Metrics


def test_every_series_is_there_from_the_start():
    with Daemon() as daemon:
        status, headers, body = daemon.get("/metrics", daemon.metrics_address)
        assert status == 200 and headers["content-type"] == "text/plain; version=0.0.4"
        assert daemon.metrics() == {
            "plimsoll_runs_total": 0, "plimsoll_runs_failed_total": 0, "plimsoll_inflight": 0,
            **{f'plimsoll_shed_total{{reason="{r}"}}': 0
               for r in ("at_capacity", "per_key", "rate", "paid_caller", "paid_daemon")}}
        text = body.decode()
        for name in ("runs_total", "runs_failed_total", "inflight", "shed_total"):
            assert len(re.findall(rf"^# HELP plimsoll_{name} ", text, re.MULTILINE)) == 1
            assert len(re.findall(rf"^# TYPE plimsoll_{name} (counter|gauge)$", text, re.MULTILINE)) == 1


def test_what_counts_as_a_failure():
    with Daemon() as daemon:
        assert daemon.run("exit 3")[1]["javascript"]["exitCode"] == 3
        status, body = daemon.call("Run", {"protocol": 3, "project": {"steps": ["true"]}})
        assert (status, reason_of(body)) == (501, UNSUPPORTED)
        assert daemon.run("refuse")[0] == 400
        assert daemon.metrics()["plimsoll_runs_failed_total"] == 0
        assert daemon.metrics()["plimsoll_runs_total"] == 3
        status, body = daemon.run("fault")
        assert (status, body["code"], reason_of(body)) == (500, "internal", None)
        assert daemon.metrics()["plimsoll_runs_failed_total"] == 1
        assert daemon.metrics()["plimsoll_runs_total"] == 4


def test_refusals_before_dispatch_are_no_runs():
    with Daemon() as daemon:
        daemon.run("", protocol=3)
        daemon.call("Run", {"protocol": 1, "javascript": {"code": "x"}})
        daemon.run("x", minimumIsolation="fortress")
        assert daemon.metrics()["plimsoll_runs_total"] == 0
        assert daemon.stop() == 0
        assert not [line for line in daemon.lines if line and "op" in line]


# Audit


HEAD = ["time", "level", "msg", "op", "caller"]


def test_the_line_of_a_snippet():
    with Daemon() as daemon:
        daemon.run("exit 7", traceId="req-1:2")
        line = daemon.wait_for("code run")
        assert list(line) == HEAD + ["code_bytes", "grant_profile", "sandbox", "isolation", "exit_code", "timed_out",
                                     "duration_ms", "trace_id"]
        assert {k: line[k] for k in line if k not in ("time", "duration_ms")} == {
            "level": "INFO", "msg": "code run", "op": "javascript", "caller": "anon", "code_bytes": 6,
            "grant_profile": "", "sandbox": "scripted", "isolation": "vm", "exit_code": 7, "timed_out": False,
            "trace_id": "req-1:2"}


def test_the_line_of_a_snippet_that_failed():
    with Daemon() as daemon:
        _, body = daemon.run("fault", traceId="a/b")
        line = daemon.wait_for("code run failed")
        assert list(line) == HEAD + ["code_bytes", "grant_profile", "sandbox", "isolation", "duration_ms", "error",
                                     "trace_id_rejected"]
        assert line["level"] == "ERROR" and line["trace_id_rejected"] is True and "told to fail" in line["error"]
        assert "a/b" not in daemon.log and "SECRET" not in json.dumps(body)


def test_an_internal_error_is_found_by_its_id():
    with Daemon() as daemon:
        _, body = daemon.run("fault")
        (error_id,) = re.findall(r"\b[0-9a-f]{16}\b", body["message"])
        assert daemon.stop() == 0
        found = [line for line in daemon.lines if line and line.get("error_id") == error_id]
        assert len(found) == 1 and found[0]["level"] == "WARN" and "SECRET-CAUSE" in found[0]["error"]


def test_the_line_of_a_project_that_nothing_here_runs():
    with Daemon() as daemon:
        daemon.call("Run", {"protocol": 3, "project": {"files": [{"path": "f", "content": "12345"}], "steps": ["a", "b"]}})
        line = daemon.wait_for("project run failed")
        assert list(line) == HEAD + ["files", "steps", "total_bytes", "grant_profile", "sandbox", "isolation",
                                     "duration_ms", "error"]
        assert (line["files"], line["steps"], line["total_bytes"]) == (1, 2, 5)


def test_the_line_of_a_project(tmp_path):
    (tmp_path / "words").write_text("projects")
    with Daemon(SCRIPT_FILE=tmp_path / "words") as daemon:
        status, body = daemon.call("Run", {"protocol": 3, "traceId": "t", "project": {
            "files": [{"path": "f", "content": "12345"}], "steps": ["a", "exit 4"], "artifacts": ["f"]}})
        assert status == 200 and body["project"]["outcome"] == "PROJECT_OUTCOME_COMPLETED"
        line = daemon.wait_for("project run")
        assert list(line) == HEAD + ["files", "steps", "total_bytes", "grant_profile", "sandbox", "isolation", "outcome",
                                     "outcome_detail", "steps_ran", "exit_code", "timed_out", "duration_ms", "trace_id"]
        assert (line["outcome"], line["steps_ran"], line["exit_code"]) == ("completed", 2, 4)


def test_the_line_of_a_module_that_nothing_here_runs():
    with Daemon() as daemon:
        daemon.call("Run", {"protocol": 3, "module": {"model": "tank", "rows": [{"values": [1, 2]}], "endTime": 10,
                                                      "step": 0.3}})
        line = daemon.wait_for("module run failed")
        assert list(line) == HEAD + ["model", "rows", "row_width", "max_steps", "sandbox", "isolation", "duration_ms",
                                     "error"]
        assert (line["model"], line["rows"], line["row_width"], line["max_steps"]) == ("tank", 1, 2, 35)


def test_no_line_holds_what_was_sent_or_answered(tmp_path):
    marker, token = "MARKER-f00d", "MARKER-f00d-token-0123456789abcdef"
    registry = write_registry(tmp_path / "clients.json", a=token)
    with Daemon(PLIMSOLL_CLIENTS_FILE=registry) as daemon:
        status, body = daemon.run(f"'{marker}'", token, traceId=f"{marker}/")
        assert status == 200 and marker.encode() in stdout_of(body)
        project = {"files": [{"path": marker, "content": marker}], "steps": [marker], "artifacts": [marker]}
        daemon.call("Run", {"protocol": 3, "project": project}, token)
        daemon.call("Run", {"protocol": 3, "project": {**project, "files": [{"path": f"/{marker}", "content": ""}]}}, token)
        daemon.call("Run", {"protocol": 3, "minimumIsolation": marker, "javascript": {"code": marker}}, token)
        daemon.call("Run", {"protocol": 3, "javascript": {"code": "x", "grantProfile": marker}}, token)
        daemon.call("CloseSession", {"protocol": 3, "sessionId": marker}, token)
        daemon.call("OpenSession", {"protocol": 3, "owner": marker}, token)
        daemon.request("POST", SERVICE + "Run", "{" + marker, {"content-type": "application/json",
                                                              "authorization": f"Bearer {token}"})
        daemon.get(f"/{marker}?{marker}", **{"Plimsoll-Request-Id": marker, "X-" + marker: marker})
        daemon.run("x", marker)
        assert daemon.stop() == 0
        assert marker not in daemon.log


def test_every_line_is_one_object():
    with Daemon() as daemon:
        waiting = [in_background(lambda: [daemon.run("exit 1")[0] for _ in range(10)]) for _ in range(8)]
        for wait in waiting:
            wait()
        assert daemon.stop() == 0
        assert not any(line.get("raw") for line in daemon.lines if line)


# Providers as they are


def test_without_a_provider_nothing_runs():
    with Daemon(PLIMSOLLD, SANDBOX_PROVIDER=None, PLIMSOLL_INSECURE=None) as daemon:
        assert (daemon.listening["provider"], daemon.listening["isolation"]) == ("disabled", "none")
        status, body = daemon.run("1")
        assert (status, body["code"], reason_of(body)) == (400, "failed_precondition", UNSUPPORTED)
        status, body = daemon.run("1", minimumIsolation="process")
        assert (status, body["code"], reason_of(body)) == (400, "failed_precondition", ISOLATION)


def test_wasm_runs_code():
    with Daemon(PLIMSOLLD, SANDBOX_PROVIDER=" WASM ") as daemon:
        status, body = daemon.run("console.log([1,2,3,4].reduce((a, b) => a + b))", minimumIsolation="process")
        assert status == 200 and stdout_of(body) == b"10\n" and body["isolation"] == "process"
        status, body = daemon.run("1", minimumIsolation="kernel")
        assert (status, body["code"], reason_of(body)) == (400, "failed_precondition", ISOLATION)
        line = daemon.wait_for("code run")
        assert (line["sandbox"], line["isolation"], line["exit_code"]) == ("wasm", "process", 0)
        assert daemon.get("/readyz")[0] == 200


@pytest.mark.parametrize("name", ["SANDBOX_CPUS", "SANDBOX_PIDS", "SANDBOX_DISK_MB"])
def test_wasm_refuses_a_bound_that_it_cannot_hold(name):
    with pytest.raises(AssertionError, match="the daemon ended") as failure:
        Daemon(PLIMSOLLD, SANDBOX_PROVIDER="wasm", **{name: "1"})
    assert name in str(failure.value)
