"""The few calls of the Docker Engine API that building images needs, over its local socket."""

import http.client
import json
import os
import socket
import urllib.parse

API = "/v1.41"
TIMEOUT_S = 600  # loading the largest image onto a slow disk


def socket_path():
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    path = host.removeprefix("unix://")
    if not path.startswith("/"):
        raise SystemExit(f"error: DOCKER_HOST is {host}; images are built on a local Engine only")
    return path


class Connection(http.client.HTTPConnection):
    def __init__(self):
        super().__init__("engine", timeout=TIMEOUT_S)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(socket_path())


def call(method, path, body=None, headers=None):
    """Status and body of an answer."""
    connection = Connection()
    try:
        connection.request(method, API + path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError as error:
        raise SystemExit(f"error: no Engine answers on {socket_path()} ({error}); scripts/docker-up starts one") from None
    finally:
        connection.close()


def ask(method, path, body=None, headers=None):
    """The JSON of an answer, or None for 404; any other failure ends the program with the Engine's words."""
    status, text = call(method, path, body, headers)
    if status == 404:
        return None
    if status >= 400:
        raise SystemExit(f"error: {method} {path}: the Engine answers {status}: {text[:500].decode(errors='replace')}")
    return json.loads(text) if text else {}


def inspect(reference):
    return ask("GET", f"/images/{urllib.parse.quote(reference, safe='')}/json")


def load(path):
    """Load an archive of images; the Engine answers with a stream of progress, in which an error may stand."""
    with path.open("rb") as archive:
        headers = {"Content-Type": "application/x-tar", "Content-Length": str(path.stat().st_size)}
        status, text = call("POST", "/images/load?quiet=1", archive, headers)
    faults = [entry["error"] for entry in map(json.loads, filter(None, text.splitlines())) if "error" in entry]
    if status >= 400 or faults:
        raise SystemExit(f"error: the Engine did not load the image: {faults or text[:500].decode(errors='replace')}")
