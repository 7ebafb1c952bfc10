"""`plimsoll run --daemon` and `describe --daemon`: exit statuses, the record, and a token that shows up nowhere."""

import http.server
import json
import socket
import threading

import pytest
from cli_harness import assert_nothing_ran, assert_usage, last_line, plimsoll
from daemon_harness import PLIMSOLLD, TOKEN_A, Daemon, write_registry
from tls_files import self_signed


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    registry = write_registry(tmp_path_factory.mktemp("callers") / "callers.json", a=TOKEN_A)
    with Daemon(PLIMSOLLD, SANDBOX_PROVIDER="wasm", PLIMSOLL_CLIENTS_FILE=registry) as running:
        host, port = running.address
        yield f"http://{host}:{port}"


def remote(url, *arguments, token=TOKEN_A, **settings):
    done = plimsoll(*arguments, "--daemon", url, PLIMSOLL_CALLER_TOKEN=token, **settings)
    assert token.encode() not in done.stdout + done.stderr
    return done


def test_a_run_prints_what_the_guest_printed_and_the_record_that_was_checked(url):
    done = remote(url, "run", "-e", "console.log(6*7)", "--floor", "process")
    assert (done.returncode, done.stdout) == (0, b"42\n")
    assert last_line(done).startswith("plimsoll: provider wasm, tier process, exit code 0, ")
    record = last_line(done).rpartition(", record ")[2]
    assert len(record) == 64 and set(record) <= set("0123456789abcdef")


def test_json_states_the_record(url):
    answer = json.loads(remote(url, "run", "--json", "-e", "console.log('a')").stdout)
    assert (answer["provider"], answer["isolation"], answer["stdout"]) == ("wasm", "process", "a\n")
    assert len(answer["record_sha256"]) == 64


def test_another_exit_code_is_an_answer(url):
    assert remote(url, "run", "-e", "import {exit} from 'qjs:std'; exit(7)").returncode == 1
    assert remote(url, "run", "--pass-exit", "-e", "import {exit} from 'qjs:std'; exit(7)").returncode == 7


def test_refusals_of_the_daemon_keep_their_reason(url):
    assert_nothing_ran(remote(url, "run", "-e", "1", "--floor", "kernel"), "isolation", "kernel")
    assert_nothing_ran(remote(url, "run", "-e", "1", token="no-such-token"), "permission")
    assert_nothing_ran(remote(url, "run", "-e", "1", "--grant", "unknown"), "permission")


def test_a_daemon_that_cannot_be_reached_ran_nothing():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert_nothing_ran(remote(f"http://127.0.0.1:{port}", "run", "-e", "1"), "environment", "Connection refused")
    assert_nothing_ran(remote("http://no.such.host.invalid", "run", "-e", "1", "--insecure-http"), "environment",
                       "no.such.host.invalid")


def test_a_missing_token_is_named(url):
    done = plimsoll("run", "--json", "-e", "1", "--daemon", url)
    assert done.returncode == 3
    assert json.loads(done.stdout)["message"].endswith("; PLIMSOLL_CALLER_TOKEN is not set")
    assert "PLIMSOLL_CALLER_TOKEN" not in last_line(remote(url, "run", "-e", "1", token="no-such-token"))


def test_tls_faults_say_what_is_wrong(url, tmp_path):
    certificate, key = self_signed(tmp_path)
    other, _ = self_signed(tmp_path, "other")
    https = url.replace("http:", "https:")
    assert_nothing_ran(remote(https, "run", "-e", "1"), "environment", "the TLS handshake failed")
    assert_nothing_ran(remote(https, "run", "-e", "1", "--ca-file", "/no/such.pem"), "environment", "/no/such.pem")
    with Daemon(PLIMSOLLD, SANDBOX_PROVIDER="disabled", PLIMSOLL_TLS_CERT=certificate, PLIMSOLL_TLS_KEY=key) as daemon:
        host, port = daemon.address
        secure = f"https://{host}:{port}"
        assert_nothing_ran(remote(secure, "run", "-e", "1"), "environment", "certificate")
        assert_nothing_ran(remote(secure, "run", "-e", "1", "--ca-file", other), "environment", "certificate")
        disabled = last_line(remote(secure, "run", "-e", "1", "--ca-file", certificate))
    assert disabled.startswith("plimsoll: nothing ran (unsupported): ")
    assert "--provider wasm" not in disabled, "the daemon's provider is not ours to choose"


def test_a_server_that_is_no_daemon(url):
    class Other(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass
    with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        ran, described = remote(address, "run", "-e", "1"), remote(address, "describe")
        server.shutdown()
    assert last_line(ran).startswith("plimsoll: the code may have run (unknown): HTTP 501 ")
    assert last_line(described).startswith("plimsoll: there is no description (unknown): HTTP 501 ")
    assert "is a daemon at this address?" in last_line(ran)
    assert (ran.returncode, described.returncode) == (4, 4)


def test_cleartext_to_another_machine_is_refused_unsent():
    assert_nothing_ran(remote("http://192.0.2.1", "run", "-e", "1"), "request", "cleartext")


def test_an_answer_that_is_lost_after_sending_may_have_run():
    with socket.create_server(("127.0.0.1", 0)) as server:
        def swallow():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
        reader = threading.Thread(target=swallow)
        reader.start()
        done = remote(f"http://127.0.0.1:{server.getsockname()[1]}", "run", "-e", "1")
        reader.join()
    assert done.returncode == 4 and done.stdout == b""
    assert last_line(done).startswith("plimsoll: the code may have run (unavailable): ")
    assert done.stderr.count(b"\n") == 1


def test_a_daemon_and_a_provider_are_one_too_many(url):
    assert_usage(remote(url, "run", "-e", "1", "--provider", "wasm"), "--daemon or --provider")


def test_describe_asks_the_daemon(url):
    described = json.loads(remote(url, "describe", "--json").stdout)
    assert (described["provider"], described["isolation"]) == ("wasm", "process")
    assert described["supports"]["javascript"]["supported"] and not described["sessions"]
