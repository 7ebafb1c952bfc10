"""Starts plimsolld, or the same daemon with a provider that follows a test's orders, and talks to it."""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PLIMSOLL_BUILD_DIR", ROOT / "build/release"))
PLIMSOLLD = BUILD / "src/daemon/plimsolld"
SCRIPTED = BUILD / "tests/integration/daemon_scripted"
SERVICE = "/plimsoll.v1.SandboxService/"
HANG_SECONDS = 60  # whatever takes longer hangs

TOKEN_A = "token-of-caller-a-0123456789abcdef"
TOKEN_B = "token-of-caller-b-0123456789abcdef"
TOKEN_C = "token-of-caller-c-0123456789abcdef"


def clean_environment(**variables):
    """The variables of this process without any of ours, and these."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PLIMSOLL_", "SANDBOX_"))}
    return {**kept, **{k: str(v) for k, v in variables.items() if v is not None}}


def fingerprint(token):
    return hashlib.sha256(token.encode()).hexdigest()


def write_registry(path, **tokens):
    """A registry of callers with code:run; a value may also be (token, scopes)."""
    clients = []
    for name, value in tokens.items():
        token, scopes = value if isinstance(value, tuple) else (value, ["code:run"])
        clients.append({"id": name, "token_sha256": fingerprint(token), "scopes": scopes})
    path.write_text(json.dumps({"clients": clients}))
    return path


def start_and_fail(program=None, **variables):
    """Starts a daemon that must not come up; returns its exit status and what it wrote."""
    done = subprocess.run([program or SCRIPTED], env=clean_environment(**{"SANDBOX_PROVIDER": "scripted", **variables}),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.stdout == "" and "Sanitizer" not in done.stderr, done.stderr
    return done.returncode, done.stderr


class Daemon:
    """A running daemon on loopback; stopped and waited for at the end of a `with` block."""

    def __init__(self, program=None, **variables):
        self.lines, self.log, self.grown = [], "", threading.Condition()
        settings = {"SANDBOX_PROVIDER": "scripted", "PLIMSOLL_ADDR": "127.0.0.1:0", "PLIMSOLL_METRICS_ADDR": "127.0.0.1:0",
                    "PLIMSOLL_INSECURE": None if {"PLIMSOLL_CLIENTS_FILE", "PLIMSOLL_TOKEN"} & set(variables) else "1",
                    "SANDBOX_RATE_PER_MIN": "0", **variables}
        command = program if isinstance(program, list) else [program or SCRIPTED]
        self.process = subprocess.Popen(command, env=clean_environment(**settings), stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, errors="replace")
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.listening = self.wait_for("plimsolld listening")
        self.address = self._split(self.listening["addr"])
        self.metrics_address = self._split(self.listening["metrics_addr"])

    @staticmethod
    def _split(text):
        host, _, port = text.rpartition(":")
        return (host.strip("[]"), int(port)) if port.isdigit() else None

    def _read(self):
        for line in self.process.stderr:
            with self.grown:
                self.log += line
                try:
                    self.lines.append(json.loads(line))
                except ValueError:
                    self.lines.append({"msg": line, "raw": True})
                self.grown.notify_all()
        with self.grown:
            self.lines.append(None)
            self.grown.notify_all()

    def events(self, message):
        with self.grown:
            return [line for line in self.lines if line and line["msg"] == message]

    def wait_for(self, message, count=1):
        """The count-th log line with that message, once it is there."""
        deadline = time.monotonic() + HANG_SECONDS
        with self.grown:
            while True:
                found = [line for line in self.lines if line and line["msg"] == message]
                if len(found) >= count:
                    return found[count - 1]
                assert self.lines[-1:] != [None], f"the daemon ended:\n{self.log}"
                assert self.grown.wait(deadline - time.monotonic()), f"no \"{message}\" in:\n{self.log}"

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(HANG_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self.reader.join(HANG_SECONDS)
        assert "Sanitizer" not in self.log, self.log

    def stop(self, number=signal.SIGTERM):
        """Sends a signal and waits for the end; returns the exit status."""
        self.process.send_signal(number)
        status = self.process.wait(HANG_SECONDS)
        self.reader.join(HANG_SECONDS)
        return status

    def connect(self, address=None):
        return http.client.HTTPConnection(*(address or self.address), timeout=HANG_SECONDS)

    def request(self, method, path, body=None, headers=None, address=None):
        """One request on a connection of its own; returns status, headers and body."""
        connection = self.connect(address)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path, address=None, **headers):
        return self.request("GET", path, headers=headers, address=address)

    def call(self, procedure, message, token=None, headers=None):
        """A Connect call in JSON; returns HTTP status and decoded body."""
        sent = {"content-type": "application/json", **(headers or {})}
        if token:
            sent["authorization"] = f"Bearer {token}"
        status, _, body = self.request("POST", SERVICE + procedure, json.dumps(message), sent)
        return status, json.loads(body)

    def run(self, code, token=None, **fields):
        return self.call("Run", {"protocol": 3, "javascript": {"code": code}, **fields}, token)

    def metrics(self):
        """Every sample of /metrics by its name with labels."""
        status, _, body = self.get("/metrics", self.metrics_address)
        assert status == 200
        samples = [line for line in body.decode().splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in samples)}


def reason_of(body):
    """The not-dispatched reason of a Connect error as its number, or None when there is no mark."""
    for detail in body.get("details", []):
        if detail["type"] == "plimsoll.v1.NotDispatched":
            value = base64.b64decode(detail["value"] + "==")
            return value[1] if value else 0
    return None


REQUEST, PERMISSION, PROTOCOL, UNSUPPORTED, ISOLATION, CAPACITY, ENVIRONMENT = range(1, 8)


def stdout_of(body):
    return base64.b64decode(body["javascript"].get("stdout", ""))


def wait_until(condition, what):
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def in_background(function, *arguments, **named):
    """Starts a call on a thread; the returned function waits for it and gives its result."""
    box = {}

    def work():
        try:
            box["result"] = function(*arguments, **named)
        except BaseException as error:
            box["error"] = error

    thread = threading.Thread(target=work)
    thread.start()

    def wait():
        thread.join(HANG_SECONDS)
        assert not thread.is_alive(), "the call hangs"
        if "error" in box:
            raise box["error"]
        return box["result"]

    return wait


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def variables_of_help(text):
    return set(re.findall(r"\b(?:PLIMSOLL|SANDBOX)_[A-Z0-9_]+\b", text))
