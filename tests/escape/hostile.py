"""A sandbox that is kept from snippet to snippet, and the form of a hostile snippet.

The driver holds one handle of one slot, so that the run after a hostile one is served by the same worker (or, with a
process for every run, by its replacement). After each hostile snippet the world of the next run is compared with that
of a sandbox that has never seen one.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DRIVER = ROOT / "build/release/tests/integration/run_driver"
WORKER = ROOT / "build/libexec/plimsoll-wasm-worker"
HANG_SECONDS = 60
SPARES = {"reused": 1, "fresh": 3}  # workers that are forked ahead of need
SLOTS = 1
OUTPUT_BYTES_MAX = 65536

# Every object that can be reached from the globals, by its own keys and its prototype: what it is, what its properties
# are, and for functions their text. Equal text means an equal world.
WORLD = """
const seen = new Map(), lines = [];
let queue = [["globalThis", globalThis]];
for (const [path, object] of queue) {
  if (seen.has(object)) continue;
  seen.set(object, path);
  lines.push(path + " " + Object.prototype.toString.call(object) + " " + Object.isExtensible(object));
  if (typeof object === "function") lines.push(Function.prototype.toString.call(object));
  const proto = Object.getPrototypeOf(object);
  if (proto) queue.push([path + ".__proto__", proto]);
  for (const key of Reflect.ownKeys(object)) {
    const d = Object.getOwnPropertyDescriptor(object, key);
    lines.push(String(key) + " " + d.writable + d.enumerable + d.configurable);
    for (const part of ["value", "get", "set"]) {
      const v = d[part];
      if (Object(v) === v) queue.push([path + "." + String(key) + "." + part, v]);
      else if (part in d) lines.push(part + " " + String(v));
    }
  }
}
let hash = 2166136261;
for (const c of lines.join("\\n")) hash = Math.imul(hash ^ c.codePointAt(0), 16777619) >>> 0;
console.log(seen.size, lines.length, hash, Date.now(), performance.now(), Math.random());
"""


@dataclasses.dataclass(frozen=True)
class Hostile:
    """A snippet, what must not happen, and what has to happen instead.

    `exit_code` is one or several codes, 124 being the deadline; `out` is the whole standard output, or a compiled pattern
    that matches all of it, or None; `err` is what standard error begins with, "" for nothing, or a pattern, or None.
    """

    name: str
    must_not: str
    code: str
    exit_code: int | tuple[int, ...] = 0
    out: str | re.Pattern | None = ""
    err: str | re.Pattern | None = ""
    timeout_ms: int = 10000
    memory_mb: int = 0

    def __str__(self):
        return self.name


@dataclasses.dataclass(frozen=True)
class Answer:
    raw: dict
    exit_code: int
    timed_out: bool
    stdout: bytes
    stderr: bytes

    @property
    def out(self):
        return self.stdout.decode(errors="surrogatepass")

    @property
    def err(self):
        return self.stderr.decode(errors="surrogateescape")


class Sandbox:
    """The driver, as a context manager."""

    def __init__(self, mode="reused", memory_mb=0):
        settings = {"SANDBOX_PROVIDER": "wasm", "SANDBOX_MAX_CONCURRENT": str(SLOTS)}
        if mode == "fresh":
            settings["SANDBOX_WASM_FRESH_PROCESS"] = "1"
        if memory_mb:
            settings["SANDBOX_MEMORY_MB"] = str(memory_mb)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SANDBOX_", "PLIMSOLL_"))}
        self.mode = mode
        self.process = subprocess.Popen([DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean | settings)
        self.world = self.run(WORLD).out

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(timeout=HANG_SECONDS) == 0, "the driver ends well"

    def ask(self, code, timeout_ms=10000, **more):
        self.process.stdin.write(json.dumps({"code": code, "timeout_ms": timeout_ms, **more}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the driver is gone"
        return json.loads(line)

    def run(self, code, timeout_ms=10000):
        raw = self.ask(code, timeout_ms)
        assert raw["status"] == "ok", raw
        assert (raw["provider"], raw["isolation"]) == ("wasm", "process")
        return Answer(raw, raw["exit_code"], raw["timed_out"], bytes.fromhex(raw["stdout"]), bytes.fromhex(raw["stderr"]))

    def workers(self):
        """Process ids of the workers: the children of the driver's only child, the worker host."""
        hosts = children_of(self.process.pid)
        assert len(hosts) <= 1, "one worker host, and nothing else"
        return [pid for host in hosts for pid in children_of(host)]


def children_of(parent):
    """Child processes, whichever thread started them, zombies too."""
    tasks = pathlib.Path(f"/proc/{parent}/task")
    try:
        return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return children_by_parent(parent)


def children_by_parent(parent):
    """The same for a kernel that keeps no list of children, or a process that is gone."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent:
            found.append(int(entry.parent.name))
    return found


def matches(expected, found):
    if isinstance(expected, re.Pattern):
        return expected.fullmatch(found) is not None
    return expected is None or found == expected


def begins(expected, found):
    if isinstance(expected, re.Pattern):
        return expected.search(found) is not None
    return expected is None or (found.startswith(expected) if expected else found == "")


def attack(sandbox: Sandbox, case: Hostile):
    """Runs the snippet, then looks at the world that the next runs find."""
    answer = sandbox.run(case.code, case.timeout_ms)
    codes = case.exit_code if isinstance(case.exit_code, tuple) else (case.exit_code,)
    shown = f"{case.must_not}\nfound exit code {answer.exit_code}\n{answer.out[:2000]!r}\n{answer.err[:2000]!r}"
    assert answer.exit_code in codes, shown
    assert answer.timed_out == (answer.exit_code == 124), shown
    assert matches(case.out, answer.out), shown
    assert begins(case.err, answer.err), shown
    assert len(answer.stdout) <= OUTPUT_BYTES_MAX and len(answer.stderr) <= OUTPUT_BYTES_MAX
    for _ in range(2):
        after = sandbox.run(WORLD)
        assert (after.exit_code, after.err) == (0, ""), after
        assert after.out == sandbox.world, f"{case.must_not}\nthe next run finds another world: {after.out!r}"
    assert_only_the_usual_workers(sandbox)
    return answer


def assert_only_the_usual_workers(sandbox: Sandbox):
    most = SLOTS + SPARES[sandbox.mode]
    end = time.monotonic() + HANG_SECONDS
    while len(sandbox.workers()) > most:  # one that was killed may not be reaped yet
        assert time.monotonic() < end, f"{len(sandbox.workers())} workers remain"
        time.sleep(0.02)
