"""Arguments, environment and startup of the daemon: what it refuses, and that it says so in one line."""

import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess

import pytest

from daemon_harness import (HANG_SECONDS, PLIMSOLLD, ROOT, SCRIPTED, TOKEN_A, Daemon, clean_environment, free_port,
                            start_and_fail, variables_of_help, write_registry)
from tls_files import self_signed

LOOPBACK = {"PLIMSOLL_ADDR": "127.0.0.1:0", "PLIMSOLL_METRICS_ADDR": "off"}


def plimsolld(*arguments, **variables):
    return subprocess.run([PLIMSOLLD, *arguments], env=clean_environment(**variables), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=HANG_SECONDS)


def refused(*says, program=None, **variables):
    """The daemon must exit with 1 after one ERROR line that holds every text; returns the line."""
    status, log = start_and_fail(program, **{**LOOPBACK, **variables})
    assert status == 1, log
    errors = [line for line in log.splitlines() if '"level":"ERROR"' in line]
    assert len(errors) == 1 and log.splitlines()[-1] == errors[0]
    for text in says:
        assert text in errors[0]
    assert "listening" not in log
    return json.loads(errors[0])


# Arguments


@pytest.mark.parametrize("argument", ["-h", "--help", "help"])
def test_help_is_the_reference(argument):
    done = plimsolld(argument)
    assert done.returncode == 0 and done.stderr == ""
    assert {"PLIMSOLL_ADDR", "SANDBOX_PROVIDER", "SANDBOX_TOTAL_MEMORY_MB"} <= variables_of_help(done.stdout)


@pytest.mark.parametrize("arguments, named", [
    (["-x"], "-x"), (["--hlep"], "--hlep"), (["-h", "extra"], "extra"), (["run", "-h"], "run"), ([""], '""')])
def test_another_argument_is_named(arguments, named):
    done = plimsolld(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert named in done.stderr.splitlines()[0]
    assert "SANDBOX_PROVIDER" in done.stderr


def test_help_on_a_full_disk_is_not_a_success():
    with open("/dev/full", "w") as full:
        assert subprocess.run([PLIMSOLLD, "-h"], stdout=full, timeout=HANG_SECONDS).returncode == 1


def test_reference_table_and_source_name_the_same_variables():
    """What -h prints, what the table holds, and what the source reads are one set."""
    printed = set(re.findall(r"^  ([A-Z0-9_]+)", plimsolld("-h").stdout, re.MULTILINE))
    table = set(re.findall(r'X\((?:SANDBOX|DAEMON), \w+,\s*"([A-Z0-9_]+)"', (ROOT / "src/core/settings.h").read_text()))
    assert printed == table and len(table) > 15
    sources = [p for p in (ROOT / "src").rglob("*.c")]
    readers = [p.relative_to(ROOT) for p in sources if re.search(r"\bgetenv\(", p.read_text())]
    assert readers and {str(p) for p in readers} <= {"src/core/settings.c", "src/daemon/environment.c"} | {
        str(p) for p in readers if str(p).startswith(("src/cli/", "src/providers/"))}
    named = set()
    for path in sources:
        named |= set(re.findall(r'"((?:PLIMSOLL|SANDBOX)_[A-Z0-9_]{2,})"', path.read_text()))
    assert named <= table | {"PLIMSOLL_CALLER_TOKEN", "PLIMSOLL_ATTEST_KEY"}


# Environment


def test_unknown_variables_are_warned_of_and_ignored():
    unknown = {"SANDBOX_MAX_CONCURENT": "4", "PLIMSOLL_GUARD_ADDR": "x", "SANDBOX_MAX_SESSIONS": "9",
               "SANDBOX_PAID_SECONDS_PER_DAY": "5", "PLIMSOLL_GRANTS_FILE": "/none"}
    with Daemon(**unknown) as daemon:
        assert [e["name"] for e in daemon.events("unknown environment variable")] == sorted(unknown)
        assert all(e["level"] == "WARN" for e in daemon.events("unknown environment variable"))
        assert daemon.listening["max_concurrent"] == 8


@pytest.mark.parametrize("name", [
    "SANDBOX_MEMORY_MB", "SANDBOX_PIDS", "SANDBOX_DISK_MB", "SANDBOX_MAX_CONCURRENT", "SANDBOX_PER_KEY_CONCURRENT",
    "SANDBOX_RATE_PER_MIN", "SANDBOX_RATE_BURST", "SANDBOX_TOTAL_MEMORY_MB"])
@pytest.mark.parametrize("value", ["abc", "1.5", "-1", "99999999999999999999"])
def test_bad_integers_are_named(name, value):
    refused(name, value, **{name: value})


@pytest.mark.parametrize("name, value", [
    ("SANDBOX_MAX_CONCURRENT", "0"), ("SANDBOX_MAX_CONCURRENT", "1025"), ("SANDBOX_PER_KEY_CONCURRENT", "9"),
    ("SANDBOX_CPUS", "NaN"), ("SANDBOX_CPUS", "inf"), ("SANDBOX_CPUS", "-1"), ("SANDBOX_CPUS", "0x1"),
    ("PLIMSOLL_HARDENED", "yes"), ("PLIMSOLL_METRICS_ADDR", "9464"), ("PLIMSOLL_ADDR", "8746"),
    ("SANDBOX_MIN_ISOLATION", "none"), ("SANDBOX_MIN_ISOLATION", "unknown"), ("SANDBOX_MIN_ISOLATION", "fortress"),
    ("SANDBOX_WASM_FRESH_PROCESS", "maybe")])
def test_bad_values_are_named(name, value):
    refused(name, value, **{name: value})


def test_blank_values_are_defaults():
    names = ["SANDBOX_MEMORY_MB", "SANDBOX_CPUS", "SANDBOX_MAX_CONCURRENT", "SANDBOX_PER_KEY_CONCURRENT",
             "SANDBOX_RATE_PER_MIN", "SANDBOX_RATE_BURST", "SANDBOX_TOTAL_MEMORY_MB", "PLIMSOLL_HARDENED",
             "PLIMSOLL_TLS_CERT", "PLIMSOLL_LOG_FORMAT", "SANDBOX_MIN_ISOLATION"]
    with Daemon(**{name: "  " for name in names}) as daemon:
        got = {k: daemon.listening[k] for k in ("max_concurrent", "per_key_concurrent", "rate_per_min", "rate_burst")}
        assert got == {"max_concurrent": 8, "per_key_concurrent": 4, "rate_per_min": 30, "rate_burst": 30}


def test_an_unknown_provider_is_an_error_that_lists_the_names():
    error = refused("doker", program=PLIMSOLLD, SANDBOX_PROVIDER="doker")
    assert "disabled" in error["error"] and "wasm" in error["error"]


def test_the_memory_budget_lowers_the_runs_in_flight():
    with Daemon(SANDBOX_TOTAL_MEMORY_MB=600) as daemon:
        assert daemon.listening["max_concurrent"] == 2 and daemon.listening["per_key_concurrent"] == 1
        (warning,) = daemon.events("SANDBOX_TOTAL_MEMORY_MB lowers the runs in flight")
        assert (warning["level"], warning["requested"], warning["effective"]) == ("WARN", 8, 2)
    refused("SANDBOX_TOTAL_MEMORY_MB", "200", SANDBOX_TOTAL_MEMORY_MB=200)
    refused("SANDBOX_PER_KEY_CONCURRENT", SANDBOX_TOTAL_MEMORY_MB=600, SANDBOX_PER_KEY_CONCURRENT=3)


@pytest.mark.parametrize("value, is_text", [("TEXT", True), (" text ", True), ("yaml", False), ("json", False)])
def test_the_log_format(value, is_text):
    status, log = start_and_fail(PLIMSOLL_LOG_FORMAT=value, **LOOPBACK)
    assert status == 1
    assert log.startswith("time=" if is_text else '{"time":"')


# Listeners


def test_two_listeners_on_one_address():
    address = f"127.0.0.1:{free_port()}"
    refused("metrics", address, PLIMSOLL_INSECURE=1, PLIMSOLL_ADDR=address, PLIMSOLL_METRICS_ADDR=address)


def test_an_address_in_use():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        refused("rpc", address, PLIMSOLL_INSECURE=1, PLIMSOLL_ADDR=address)


def test_metrics_off_and_metrics_elsewhere():
    with Daemon(PLIMSOLL_METRICS_ADDR="OFF") as daemon:
        assert daemon.listening["metrics_addr"] == "off" and daemon.listening["guard_addr"] == "none"
    with Daemon(PLIMSOLL_METRICS_ADDR=":0") as daemon:
        warnings = [line for line in daemon.lines if line["level"] == "WARN" and "metrics" in line["msg"]]
        assert len(warnings) == 1
        assert daemon.get("/metrics", ("127.0.0.1", daemon.metrics_address[1]))[0] == 200


@pytest.fixture(scope="session")
def key_pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    for name in ("one", "two"):
        self_signed(folder, name)
    return folder


def test_half_a_key_pair_or_a_wrong_one(key_pair, tmp_path):
    cert, key, other = key_pair / "one.pem", key_pair / "one.key", key_pair / "two.key"
    refused("PLIMSOLL_TLS_CERT", "PLIMSOLL_TLS_KEY", PLIMSOLL_INSECURE=1, PLIMSOLL_TLS_CERT=cert)
    refused("PLIMSOLL_TLS_CERT", "PLIMSOLL_TLS_KEY", PLIMSOLL_INSECURE=1, PLIMSOLL_TLS_KEY=key)
    refused("key values mismatch", PLIMSOLL_INSECURE=1, PLIMSOLL_TLS_CERT=cert, PLIMSOLL_TLS_KEY=other)
    refused("none.pem: No such file or directory", PLIMSOLL_INSECURE=1, PLIMSOLL_TLS_CERT=tmp_path / "none.pem",
            PLIMSOLL_TLS_KEY=key)
    refused("the certificate", "none in PEM form", PLIMSOLL_INSECURE=1, PLIMSOLL_TLS_CERT=key, PLIMSOLL_TLS_KEY=key)
    refused("the key", "none in PEM form", PLIMSOLL_INSECURE=1, PLIMSOLL_TLS_CERT=cert, PLIMSOLL_TLS_KEY=cert)


def test_a_key_under_a_passphrase_is_refused_and_not_asked_about(key_pair, tmp_path):
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "ec", "-in", key_pair / "one.key", "-aes256", "-passout", "pass:secret", "-out", locked],
                   check=True, capture_output=True)
    refused("locked.key", "passphrase", PLIMSOLL_INSECURE=1, PLIMSOLL_TLS_CERT=key_pair / "one.pem", PLIMSOLL_TLS_KEY=locked)


@pytest.mark.parametrize("name", ["SANDBOX_RATE_PER_MIN", "SANDBOX_RATE_BURST"])
def test_a_rate_beyond_the_range_names_the_range(name):
    refused(name, "0-2147483647", **{name: "2147483648"})


def test_tls_on_every_listener(key_pair):
    context = ssl.create_default_context(cafile=key_pair / "one.pem")
    with Daemon(PLIMSOLL_TLS_CERT=key_pair / "one.pem", PLIMSOLL_TLS_KEY=key_pair / "one.key") as daemon:
        assert daemon.listening["tls"] is True
        for address, path in ((daemon.address, "/healthz"), (daemon.metrics_address, "/metrics")):
            with socket.create_connection(address, timeout=HANG_SECONDS) as plain:
                with context.wrap_socket(plain, server_hostname="localhost") as secure:
                    secure.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
                    assert secure.recv(64).startswith(b"HTTP/1.1 200 ")


# Who may call


def test_a_provider_that_runs_code_needs_authentication():
    refused("PLIMSOLL_CLIENTS_FILE", "PLIMSOLL_INSECURE")
    refused("PLIMSOLL_CLIENTS_FILE", PLIMSOLL_INSECURE="true")
    with Daemon(PLIMSOLL_INSECURE="1") as daemon:
        assert daemon.listening["auth"] is False
        assert any(line["level"] == "WARN" and "not authenticated" in line["msg"] for line in daemon.lines)


def test_a_short_token():
    error = refused("PLIMSOLL_TOKEN", PLIMSOLL_TOKEN="secret-of-thirty-one-characters")
    assert "secret-of" not in error["error"]


GOOD = '{"id":"a","token_sha256":"%s"}' % ("0" * 64)


@pytest.mark.parametrize("text", [
    '{"clients":[%s],"more":1}' % GOOD, '{"clients":[%s,%s]}' % (GOOD, GOOD.replace("0", "1")),
    '{"clients":[%s,%s]}' % (GOOD, GOOD.replace('"a"', '"b"')), '{"clients":[%s]}' % GOOD.replace("00", "0", 1),
    '{"clients":[%s]}' % GOOD.replace('"a"', '"*"'), '{"clients":[%s]}' % GOOD.replace('"a"', '"a\\nb"'),
    '{"clients":[%s]}' % GOOD.replace("}", ',"scopes":["a b"]}'),
    '{"clients":[%s]}' % GOOD.replace("}", ',"paid_seconds_per_day":-1}'),
    '{"clients":[%s]}x' % GOOD, '{"clients":null}', '{"clients":[]}', "", "{"])
def test_a_registry_that_is_refused(tmp_path, text):
    path = tmp_path / "clients.json"
    path.write_text(text)
    refused("PLIMSOLL_CLIENTS_FILE", str(path), PLIMSOLL_CLIENTS_FILE=path, PLIMSOLL_INSECURE=1)


def test_a_registry_that_cannot_be_read(tmp_path):
    refused(str(tmp_path), PLIMSOLL_CLIENTS_FILE=tmp_path, PLIMSOLL_INSECURE=1)
    refused("none.json", PLIMSOLL_CLIENTS_FILE=tmp_path / "none.json", PLIMSOLL_INSECURE=1)


def test_the_token_is_not_in_the_environment_of_the_process():
    with Daemon(PLIMSOLL_TOKEN=TOKEN_A) as daemon:
        with open(f"/proc/{daemon.process.pid}/environ", "rb") as environment:
            assert TOKEN_A.encode() not in environment.read()
        assert TOKEN_A not in daemon.log


# Proof


def words(tmp_path, text):
    path = tmp_path / "scripted"
    path.write_text(text)
    return path


@pytest.mark.parametrize("word", ["preflight-fails", "smoke-fails"])
def test_a_failed_proof_serves_nothing(tmp_path, word):
    port = free_port()
    refused("told to fail", PLIMSOLL_INSECURE=1, SCRIPT_FILE=words(tmp_path, word), PLIMSOLL_ADDR=f"127.0.0.1:{port}")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=HANG_SECONDS)


def test_the_operators_minimum(tmp_path):
    refused("SANDBOX_MIN_ISOLATION", PLIMSOLL_INSECURE=1, SANDBOX_MIN_ISOLATION="vm",
            SCRIPT_FILE=words(tmp_path, "tier=process"))
    with Daemon(SANDBOX_MIN_ISOLATION=" KERNEL ", SCRIPT_FILE=words(tmp_path, "tier=kernel")) as daemon:
        assert daemon.listening["isolation"] == "kernel"


# Hardened


def hardened(tmp_path, **changed):
    """A configuration that meets every rule, but for what is changed; None takes a variable away."""
    registry = write_registry(tmp_path / "clients.json", a=TOKEN_A)
    return {"PLIMSOLL_HARDENED": "1", "PLIMSOLL_CLIENTS_FILE": registry, "PLIMSOLL_INSECURE": None,
            "SANDBOX_MEMORY_MB": "64", "SANDBOX_CPUS": "1", "SANDBOX_DISK_MB": "10", "SANDBOX_RATE_PER_MIN": "30", **changed}


def violations(tmp_path, **changed):
    error = refused(**hardened(tmp_path, **changed))
    assert error["msg"] == "hardened mode refuses this configuration"
    return [int(n) for n in re.findall(r"rule (\d+):", error["violations"])], error["violations"]


def test_hardened_starts_when_every_rule_is_met(tmp_path):
    with Daemon(**hardened(tmp_path)) as daemon:
        assert daemon.events("hardened mode is in force")


@pytest.mark.parametrize("rules, changed", [
    ([2], {"PLIMSOLL_CLIENTS_FILE": None, "PLIMSOLL_TOKEN": TOKEN_A}),
    ([3], {"PLIMSOLL_INSECURE": "0"}),
    ([4], {"PLIMSOLL_ADDR": ":0"}),
    ([5], {"PLIMSOLL_METRICS_ADDR": "0.0.0.0:0"}),
    ([11], {"SANDBOX_MEMORY_MB": None}),
    ([11], {"SANDBOX_CPUS": "0"}),
    ([12], {"SANDBOX_RATE_PER_MIN": "0"}),
    ([12], {"SANDBOX_RATE_BURST": "31"}),
    ([13], {"SANDBOX_PER_KEY_CONCURRENT": "8"}),
    ([13], {"SANDBOX_PER_KEY_CONCURRENT": "0"}),
    ([13], {"SANDBOX_MAX_CONCURRENT": "1"}),
    ([2, 4, 11, 12], {"PLIMSOLL_CLIENTS_FILE": None, "PLIMSOLL_TOKEN": TOKEN_A, "PLIMSOLL_ADDR": ":0",
                      "SANDBOX_DISK_MB": "", "SANDBOX_RATE_BURST": "99"})])
def test_hardened_names_every_rule_that_is_broken(tmp_path, rules, changed):
    assert violations(tmp_path, **changed)[0] == rules


def test_hardened_looks_at_the_proven_tier_last(tmp_path):
    script = words(tmp_path, "tier=container")
    assert violations(tmp_path, SCRIPT_FILE=script)[0] == [1]
    assert violations(tmp_path, SCRIPT_FILE=script, PLIMSOLL_INSECURE="1")[0] == [3]


def test_the_document_lists_the_rules_of_the_program():
    listed = re.findall(r"^\| (\d+) \| (.+) \|$", (ROOT / "docs/hardened-mode.md").read_text(), re.MULTILINE)
    source = re.sub(r'"\s*\\\n\s*"', "", (ROOT / "src/daemon/hardened.h").read_text()).replace("\\\n", " ")
    table = re.findall(r'X\((\d+), \w+,\s*"([^"]+)"\)', source)
    assert listed == table and len(table) == 10


# The end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_clean_stop(number):
    with Daemon() as daemon:
        assert daemon.stop(number) == 0
        assert daemon.events("plimsolld stopped")


def test_the_log_of_startup_has_one_form():
    with Daemon() as daemon:
        keys = list(daemon.listening)
        assert keys == ["time", "level", "msg", "addr", "provider", "isolation", "auth", "max_concurrent",
                        "per_key_concurrent", "rate_per_min", "rate_burst", "mem_mb", "cpus", "pids", "disk_mb", "tls",
                        "metrics_addr", "guard_addr", "max_connections"]


def test_the_daemon_writes_no_file(tmp_path):
    before = os.stat(tmp_path)[stat.ST_MTIME]
    with Daemon(TMPDIR=tmp_path, HOME=tmp_path) as daemon:
        daemon.get("/healthz")
        daemon.stop()
    assert os.listdir(tmp_path) == [] and os.stat(tmp_path)[stat.ST_MTIME] == before
