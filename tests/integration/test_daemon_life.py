"""How the daemon ends, and what does not end it: signals, lost callers, lost evidence, full disks, full tables."""

import ctypes
import http.client
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from daemon_harness import (CAPACITY, HANG_SECONDS, ISOLATION, PLIMSOLLD, ROOT, SERVICE, SCRIPTED, Daemon, clean_environment, free_port,
                            in_background, reason_of, stdout_of, wait_until)

WASM = {"SANDBOX_PROVIDER": "wasm"}
ENDLESS = "for (;;) {}"
SYS_PIDFD_GETFD = 438  # on every machine


def raw_run(daemon, code):
    """A connection on which a run was asked for and not waited for."""
    body = '{"protocol":3,"timeoutMs":30000,"javascript":{"code":"%s"}}' % code
    client = socket.create_connection(daemon.address, timeout=HANG_SECONDS)
    client.sendall(f"POST {SERVICE}Run HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return client


def in_flight(daemon, count):
    wait_until(lambda: daemon.metrics()["plimsoll_inflight"] == count, f"{count} runs in flight")


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def descendants(pid):
    """Every process below this one."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(") ", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
    found, wave = [], [pid]
    while wave:
        wave = [child for child, parent in parents.items() if parent in wave]
        found += wave
    return found


# Shutdown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_in_flight_is_answered_before_the_end(number):
    with Daemon() as daemon:
        idle = daemon.connect()
        idle.request("GET", "/healthz")
        idle.getresponse().read()
        run = in_background(daemon.run, "sleep 2000")
        in_flight(daemon, 1)
        daemon.process.send_signal(number)

        def refused():
            try:
                socket.create_connection(daemon.address, timeout=HANG_SECONDS).close()
            except ConnectionRefusedError:
                return True
            return False

        wait_until(refused, "new connections are refused")
        assert daemon.metrics()["plimsoll_inflight"] == 1
        assert idle.sock is None or idle.sock.recv(1) == b""
        status, body = run()
        assert status == 200 and stdout_of(body) == b"sleep 2000"
        assert daemon.process.wait(HANG_SECONDS) == 0
    assert daemon.events("plimsolld stopped")


def test_a_run_that_does_not_end_in_time_is_cut_off():
    with Daemon(SCRIPT_DRAIN_MS=300) as daemon:
        client = raw_run(daemon, "sleep 29000")
        in_flight(daemon, 1)
        start = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - start < 20
        assert daemon.events("calls in flight did not end in time; their connections were closed")[0]["level"] == "ERROR"
        assert daemon.events("code run failed") and daemon.events("plimsolld stopped")
        try:
            assert client.recv(4096) == b""
        except ConnectionResetError:
            pass
        client.close()


def test_a_second_signal_kills_at_once():
    with Daemon() as daemon:
        client = raw_run(daemon, "sleep 30000")
        in_flight(daemon, 1)
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not caught(daemon.process.pid, signal.SIGTERM), "the signal is given back")
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(HANG_SECONDS) == -signal.SIGTERM
        client.close()


def caught(pid, number):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_the_daemon(number):
    with Daemon(PLIMSOLLD, **WASM) as daemon:
        client = raw_run(daemon, ENDLESS)
        in_flight(daemon, 1)
        workers = descendants(daemon.process.pid)
        assert workers
        if number == signal.SIGTERM:
            client.close()
        daemon.process.send_signal(number)
        assert daemon.process.wait(HANG_SECONDS) == (0 if number == signal.SIGTERM else -number)
        wait_until(lambda: not any(map(alive, workers)), "every worker is gone")
        client.close()


# Listeners that fail


def break_listener(daemon, address):
    """Shuts a listening socket of the daemon down, from outside: its next accept fails for good."""
    port = "%04X" % address[1]
    rows = [line.split() for name in ("tcp", "tcp6") for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]]
    inodes = {row[9] for row in rows if row[1].endswith(":" + port) and row[3] == "0A"}
    folder = pathlib.Path(f"/proc/{daemon.process.pid}/fd")
    numbers = [int(entry.name) for entry in folder.iterdir() if os.readlink(entry)[8:-1] in inodes]
    assert len(numbers) == 1, "the listening socket"
    pidfd = os.pidfd_open(daemon.process.pid)
    copy = ctypes.CDLL(None, use_errno=True).syscall(SYS_PIDFD_GETFD, pidfd, numbers[0], 0)
    os.close(pidfd)
    if copy < 0:
        pytest.skip(f"no access to the daemon's descriptors: {os.strerror(ctypes.get_errno())}")
    with socket.socket(fileno=copy) as listening:
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("name", ["rpc", "metrics"])
def test_a_listener_that_fails_drains_the_daemon_and_fails_it(name):
    with Daemon() as daemon:
        address = daemon.address if name == "rpc" else daemon.metrics_address
        kept = daemon.connect(daemon.metrics_address)
        kept.request("GET", "/metrics")
        kept.getresponse().read()
        run = in_background(daemon.run, "sleep 2000")
        in_flight(daemon, 1)
        break_listener(daemon, address)
        line = daemon.wait_for("a listener failed; plimsolld stops serving")
        assert (line["level"], line["listener"], line["addr"]) == ("ERROR", name, "%s:%d" % address)
        assert "Invalid argument" in line["error"]
        wait_until(lambda: not caught(daemon.process.pid, signal.SIGTERM), "the signal is given back")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(daemon.address, timeout=HANG_SECONDS)
        assert daemon.process.poll() is None
        status, body = run()
        assert status == 200 and stdout_of(body) == b"sleep 2000"
        assert daemon.process.wait(HANG_SECONDS) == 1
        kept.close()
    assert daemon.events("code run") and daemon.events("plimsolld stopped")


def test_the_metrics_of_a_failed_rpc_listener_are_served_to_the_end():
    with Daemon() as daemon:
        run = in_background(daemon.run, "sleep 2000")
        in_flight(daemon, 1)
        break_listener(daemon, daemon.address)
        daemon.wait_for("a listener failed; plimsolld stops serving")
        assert daemon.metrics()["plimsoll_inflight"] == 1
        assert run()[0] == 200
        assert daemon.process.wait(HANG_SECONDS) == 1


# What a child inherits


def descriptor_limits(pid):
    """The soft and the hard limit; nothing of a process that has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        lines = []
    return next((tuple(map(int, line.split()[3:5])) for line in lines if line.startswith("Max open files")), ())


def test_a_child_gets_the_descriptor_limit_that_the_daemon_was_started_with():
    soft, hard = 200, 4000
    with Daemon(["prlimit", f"--nofile={soft}:{hard}", PLIMSOLLD], **WASM) as daemon:
        assert daemon.run("1")[0] == 200
        assert descriptor_limits(daemon.process.pid) == (hard, hard)
        assert daemon.listening["max_connections"] == hard // 2
        host = descendants(daemon.process.pid)[0]
        assert descriptor_limits(host) == (soft, hard)
        wait_until(lambda: {descriptor_limits(worker) for worker in descendants(host)} == {(4, 4)}, "workers confine themselves")
        os.kill(host, signal.SIGKILL)
        # A worker of the old host may still answer, so the new one is what is waited for.
        def hosts():
            return [child for child in descendants(daemon.process.pid)[:1] if child != host]

        wait_until(hosts, "a new host")
        wait_until(lambda: [descriptor_limits(new) for new in hosts()] == [(soft, hard)], "it has the limit")
        assert daemon.run("1")[0] == 200


# Callers who leave


@pytest.mark.parametrize("program, variables, code, sent_ahead", [
    (SCRIPTED, {}, "sleep 29000", 0), (PLIMSOLLD, WASM, ENDLESS, 0), (PLIMSOLLD, WASM, ENDLESS, 60000)])
def test_a_caller_who_leaves_takes_the_run_along(program, variables, code, sent_ahead):
    with Daemon(program, **variables) as daemon:
        client = raw_run(daemon, code)
        # More than the daemon reads ahead of an answer.
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * (sent_ahead // 30))
        in_flight(daemon, 1)
        client.close()
        start = time.monotonic()
        line = daemon.wait_for("code run failed")
        in_flight(daemon, 0)
        assert time.monotonic() - start < 20  # the run's own end would come after 29 s
        assert "cancel" in line["error"]
        assert daemon.metrics()["plimsoll_runs_failed_total"] == 0
        assert daemon.run("1" if variables else "x")[0] == 200


def test_a_deadline_of_the_caller_frees_the_worker():
    with Daemon(PLIMSOLLD, **WASM) as daemon:
        status, body = daemon.call("Run", {"protocol": 3, "timeoutMs": 30000, "javascript": {"code": ENDLESS}},
                                   headers={"connect-timeout-ms": "300"})
        assert (status, body["code"], reason_of(body)) == (504, "deadline_exceeded", None)
        in_flight(daemon, 0)
        assert daemon.run("console.log(1)")[0] == 200


def test_a_deadline_of_the_caller_is_no_fault_of_a_slow_host():
    run = {"protocol": 3, "timeoutMs": 30000, "javascript": {"code": ENDLESS}}
    with Daemon(PLIMSOLLD, **WASM, SANDBOX_MAX_CONCURRENT="1", SANDBOX_RATE_PER_MIN="0") as daemon:
        host = min(descendants(daemon.process.pid))
        os.kill(host, signal.SIGSTOP)
        try:
            # Each costs a worker, and none takes its place.
            answers = [daemon.call("Run", run, headers={"connect-timeout-ms": "300"}) for _ in range(4)]
        finally:
            os.kill(host, signal.SIGCONT)
        assert {(status, body["code"]) for status, body in answers} == {(504, "deadline_exceeded")}
        assert (reason_of(answers[0][1]), reason_of(answers[-1][1])) == (None, CAPACITY)
        assert daemon.metrics()["plimsoll_runs_failed_total"] == 0
        wait_until(lambda: daemon.run("console.log(1)")[0] == 200, "a run works again")


# Evidence that is lost


def test_a_lost_tier_is_refused_and_comes_back_by_itself(tmp_path):
    script = tmp_path / "scripted"
    script.write_text("")
    with Daemon(SCRIPT_FILE=script) as daemon:
        assert daemon.run("x", minimumIsolation="vm")[0] == 200
        script.write_text("lost")
        status, body = daemon.run("x", minimumIsolation="process")
        assert (status, body["code"], reason_of(body)) == (400, "failed_precondition", ISOLATION)
        assert daemon.run("x")[0] == 200
        warning = daemon.wait_for("isolation below proven")
        assert (warning["level"], warning["isolation"], warning["proven"]) == ("WARN", "unknown", "vm")
        script.write_text("")
        wait_until(lambda: daemon.run("x", minimumIsolation="vm")[0] == 200, "the tier is back")


# Logs that cannot be written


@pytest.mark.parametrize("how", ["2>/dev/full", "2>&-", "2>&1 | true"])
def test_a_log_that_cannot_be_written_ends_nothing(how, tmp_path):
    port = free_port()
    pid_file = tmp_path / "pid"
    shell = subprocess.Popen(
        ["sh", "-c", f'sh -c \'echo $$ > "{pid_file}"; exec "{SCRIPTED}"\' {how}'], stdin=subprocess.DEVNULL,
        env=clean_environment(SANDBOX_PROVIDER="scripted", PLIMSOLL_INSECURE="1", PLIMSOLL_ADDR=f"127.0.0.1:{port}",
                              PLIMSOLL_METRICS_ADDR="off", SANDBOX_RATE_PER_MIN="0"))

    def up():
        try:
            socket.create_connection(("127.0.0.1", port), timeout=HANG_SECONDS).close()
        except ConnectionRefusedError:
            return False
        return True

    try:
        wait_until(up, "the daemon listens")
        for _ in range(20):
            assert run_at(("127.0.0.1", port), "x") == 200
        os.kill(int(pid_file.read_text()), signal.SIGTERM)
        status = shell.wait(HANG_SECONDS)
        assert status == 0
    finally:
        shell.kill()
        shell.wait()


def run_at(address, code):
    connection = http.client.HTTPConnection(*address, timeout=HANG_SECONDS)
    connection.request("POST", SERVICE + "Run", '{"protocol":3,"javascript":{"code":"%s"}}' % code,
                       {"content-type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    return status


# Tables that are full


def test_connections_past_the_cap_wait_their_turn():
    cap = 24
    with Daemon(["prlimit", f"--nofile={2 * cap}:{2 * cap}", SCRIPTED]) as daemon:
        assert daemon.listening["max_connections"] == cap
        run = in_background(daemon.run, "sleep 1500")
        in_flight(daemon, 1)
        idle = [socket.create_connection(daemon.address, timeout=HANG_SECONDS) for _ in range(2 * cap)]
        status, body = run()
        assert status == 200 and stdout_of(body) == b"sleep 1500"
        late = in_background(daemon.get, "/healthz")
        for client in idle:
            client.close()
        assert late()[0] == 200
        assert daemon.run("x")[0] == 200


def test_slow_clients_are_closed_and_disturb_nobody():
    with Daemon() as daemon:
        slow = [socket.create_connection(daemon.address, timeout=HANG_SECONDS) for _ in range(50)]
        for client in slow:
            client.sendall(f"POST {SERVICE}Run HTTP/1.1\r\nHo".encode())
        assert daemon.run("x")[0] == 200
        for client in slow:
            while client.recv(4096):
                pass
            client.close()
        assert daemon.run("x")[0] == 200


def test_the_daemon_holds_no_more_after_many_runs():
    with Daemon(PLIMSOLLD, **WASM) as daemon:
        def descriptors():
            return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

        for _ in range(20):
            assert daemon.run("console.log(1)")[0] == 200
        before = descriptors()
        for _ in range(200):
            assert daemon.run("console.log(1)")[0] == 200
        # Threads that started meanwhile may hold a few; a leak would be one a run.
        wait_until(lambda: descriptors() < before + 50, "descriptors are given back")


# The example


def test_the_example_shows_what_it_claims():
    done = subprocess.run([ROOT / "build/examples/daemon"], cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    assert [line.split("|")[0].strip() for line in done.stdout.splitlines()] == ["auth", "describe", "run", "floor", "auth"]
    assert '{"sum":10}' in done.stdout and "unauthenticated" in done.stdout
    assert not re.search(r"[0-9a-f]{32}|127\.0\.0\.1|/tmp", done.stdout)
    assert '"msg":"code run"' in done.stderr and '"msg":"plimsolld stopped"' in done.stderr
