"""`plimsoll run --daemon` and `describe --daemon`: exit statuses, the record, and a token that shows up nowhere."""

import json
import socket
import threading

import pytest
from cli_harness import assert_nothing_ran, assert_usage, last_line, plimsoll
from daemon_harness import PLIMSOLLD, TOKEN_A, Daemon, write_registry


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
    assert_nothing_ran(remote(f"http://127.0.0.1:{port}", "run", "-e", "1"), "environment")


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
