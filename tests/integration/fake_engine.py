"""An Engine that answers as a test wants: honest by default, and per call able to lie, hang, cut off or answer 500.

It speaks enough of the API for the provider's whole startup proof, and plays the programs of a container: the probe,
a snippet's node (any snippet prints `plimsoll`), and the project runner with its authenticated report.
"""

import hashlib
import hmac
import json
import re
import socketserver
import struct
import threading
import time
import urllib.parse

IMAGE = "sha256:" + "ab" * 32
MEBI = 1024
UNTIL_CLOSED = 3600


def image(**changes):
    return {"Id": IMAGE, "Os": "linux", "Architecture": "amd64", "Config": {"Env": ["A=1"], "Volumes": None}, **changes}


def frame(stream, data):
    return struct.pack(">BxxxI", stream, len(data)) + data


class Hang(Exception):
    """The connection is kept and never answered."""


class Cut(Exception):
    """The connection is closed without an answer."""


class Container:
    def __init__(self, ident, name, body):
        self.id, self.name, self.body = ident, name, body
        self.argv = body["Entrypoint"] + body["Cmd"]
        self.stream, self.started, self.ended, self.exit = None, threading.Event(), threading.Event(), None

    def listing(self):
        return {"Id": self.id, "Names": ["/" + self.name], "Labels": self.body["Labels"]}

    def inspection(self):
        running = self.started.is_set() and not self.ended.is_set()
        return {"Id": self.id, "Image": self.body["Image"], "Config": self.body, "HostConfig": self.body["HostConfig"],
                "Mounts": [], "NetworkSettings": {"Networks": {"none": {}}},
                "State": {"Status": "running" if running else "created", "Running": running, "Paused": False,
                          "Restarting": False, "Dead": False, "OOMKilled": False, "Pid": 0,
                          "StartedAt": "2026-01-01T00:00:00Z" if self.started.is_set() else "0001-01-01T00:00:00Z"}}

    def mounts(self):
        sizes = {path: re.search(r"size=(\d+)m", options)[1] for path, options in
                 self.body["HostConfig"]["Tmpfs"].items()}
        return sizes, "".join(f"tmpfs {path} tmpfs rw,nosuid,noexec,size={int(size) * MEBI}k 0 0\n"
                              for path, size in sizes.items())


class FakeEngine(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path):
        super().__init__(str(path), Handler)
        self.path = str(path)
        self.containers, self.calls, self.lies, self.lock, self.count = {}, [], {}, threading.Lock(), 0
        self.image, self.programs = image(), {}
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.shutdown()
        self.server_close()

    def lie(self, pattern, what):
        """Calls such as `POST /containers/create` that match are answered by what(default), which may raise."""
        self.lies[pattern] = what

    def honest(self):
        self.lies.clear()

    def called(self, pattern):
        with self.lock:
            return [call for call in self.calls if re.search(pattern, call)]

    # What the programs in a container say.

    def probe(self, container):
        sizes, table = container.mounts()
        return {"release": "x", "report": 3, "rootWritable": False, "mounts": table, "writable": list(sizes),
                "pidsMax": str(container.body["HostConfig"]["PidsLimit"]), "uid": ["61000"], "gid": ["61000"],
                "groups": [], "interfaces": ["lo"], "socket": {"connected": True, "reply": "pong"}}

    def play(self, container, read, write):
        """The program of a container; returns its exit status."""
        verb = container.argv[4]
        if verb == "probe":
            write(1, json.dumps(self.probe(container)).encode())
            return 0
        write(2, container.argv[5].encode())
        said = read()
        if verb in self.programs:
            return self.programs[verb](said, write)
        if verb == "supervise":
            write(1, b"plimsoll\n")
            return 0
        if not said:
            return 3
        plan = json.loads(said)
        steps = [{"command": step, "stdoutBase64": "amF2YXNjcmlwdAo=", "stderrBase64": "", "stdoutTruncated": False,
                  "stderrTruncated": False, "exitCode": 0, "timedOut": False, "durationMs": 1} for step in plan["steps"]]
        body = json.dumps({"steps": steps, "artifacts": [], "artifactsTruncated": False}).encode()
        mac = hmac.new(bytes.fromhex(plan["reportKey"]), body, hashlib.sha256).hexdigest()
        write(1, b"\n<<<PLIMSOLL_REPORT_V3>>> %d %s\n%s" % (len(body), mac.encode(), body))
        return 0

    # The calls.

    def answer(self, method, path, query, body):
        """Status and JSON of a call that is not a stream."""
        if path == "/_ping":
            return 200, "OK"
        if path == "/info":
            return 200, {"ID": "fake", "Runtimes": {"runc": {"path": "runc"}}, "DriverStatus": []}
        if path == "/version":
            return 200, {"Os": "linux", "Arch": "amd64"}
        if path.startswith("/images/"):
            return 200, self.image
        if path == "/containers/create":
            with self.lock:
                self.count += 1
                ident = f"{self.count:064x}"
                self.containers[ident] = Container(ident, query["name"][0], body)
            return 201, {"Id": ident, "Warnings": []}
        if path == "/containers/json":
            return 200, self.listed(json.loads(query["filters"][0]))
        ident = path.split("/")[2]
        found = next((c for c in list(self.containers.values()) if ident in (c.id, c.name)), None)
        if not found:
            return 404, {"message": "No such container"}
        if method == "DELETE":
            self.end(found, 137)
            self.containers.pop(found.id, None)
            return 204, None
        if path.endswith("/start"):
            found.started.set()
            return 204, None
        if path.endswith("/wait"):
            if query.get("condition") == ["removed"]:
                return 200, {"StatusCode": found.exit or 0, "Error": None}
            return 200, found
        return 200, found.inspection()

    def listed(self, filters):
        name = filters.get("name", [""])[0]
        return [c.listing() for c in list(self.containers.values())
                if not name or re.search(name.replace("^/", "^"), c.name)]

    def end(self, container, status):
        if not container.ended.is_set():
            container.exit = status
            container.ended.set()
            if container.body["HostConfig"]["AutoRemove"]:
                self.containers.pop(container.id, None)


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        try:
            while self.one_request():
                pass
        except (ConnectionError, ValueError, Cut):
            pass
        except Hang:
            time.sleep(UNTIL_CLOSED)

    def read_head(self):
        lines = []
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            lines.append(line.decode().rstrip())
        return lines

    def one_request(self):
        lines = self.read_head()
        if not lines:
            return False
        method, target, _ = lines[0].split(" ")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:])
        data = self.rfile.read(int(fields.get("content-length", 0)))
        path, _, query = re.sub(r"^/v1\.\d+", "", target).partition("?")
        query = urllib.parse.parse_qs(query)
        call = f"{method} {path}"
        with self.server.lock:
            self.server.calls.append(call)
        lie = next((what for pattern, what in self.server.lies.items() if re.search(pattern, call)), None)
        if path.endswith("/attach") and not lie:
            self.attach(path.split("/")[2])
            return False
        default = lambda: self.server.answer(method, path, query, json.loads(data) if data else None)
        told = lie(default) if lie else default()
        if isinstance(told[1], Container):
            self.wait(told[1])
            return True
        if isinstance(told, bytes):
            self.wfile.write(told)
            return False
        self.send(*told)
        return True

    def send(self, status, document):
        text = b"" if document is None else (document.encode() if isinstance(document, str)
                                             else json.dumps(document).encode())
        length = "" if status == 204 else f"Content-Length: {len(text)}\r\n"
        self.wfile.write(f"HTTP/1.1 {status} X\r\nApi-Version: 1.41\r\n{length}\r\n".encode() + text)

    def wait(self, container):
        """As the Engine does: the head at once, the body at the end."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        container.ended.wait(UNTIL_CLOSED)
        text = json.dumps({"StatusCode": container.exit, "Error": None}).encode()
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text))

    def attach(self, ident):
        container = self.server.containers[ident]
        self.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        if not container.started.wait(UNTIL_CLOSED):
            return
        status = self.server.play(container, self.rfile.read, lambda n, data: self.wfile.write(frame(n, data)))
        self.connection.close()
        self.server.end(container, status)
