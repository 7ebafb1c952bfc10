"""An Engine that a test may kill, stop, hang and configure: nobody else's containers are in it.

scripts/docker-up starts it, with its data in a temporary folder, and its images are copied from the Engine of the other
tests. It is ended by the ID that docker-up recorded, and by no name. Run as a program, this file removes those that killed
runs of the tests have left.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from docker_harness import ROOT, Engine, UnixConnection, wait_until

DOCKER_UP = ROOT / "scripts/docker-up"
START_SECONDS = 120
PIECE = 1 << 20


class OwnEngine(Engine):
    def __init__(self, root=None):
        self.root = root or pathlib.Path(tempfile.mkdtemp(prefix=f"plsm-engine-{os.getpid()}-", dir="/tmp"))
        super().__init__(str(self.root / "engine.sock"))
        self.state = pathlib.Path("/run/plimsoll-engine" + str(self.root / "data").replace("/", "-"))
        self.config = self.root / "daemon.json"

    @property
    def host(self):
        return f"unix://{self.path}"

    def _docker_up(self, verb):
        variables = {"PLIMSOLL_ENGINE_ROOT": str(self.root / "data"), "PLIMSOLL_ENGINE_SOCKET": self.path}
        if self.config.exists():
            variables["PLIMSOLL_ENGINE_CONFIG"] = str(self.config)
        done = subprocess.run([DOCKER_UP, verb], env={**os.environ, **variables}, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=START_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self):
        self._docker_up("start")

    def stop(self):
        self._docker_up("stop")

    def configure(self, **members):
        """What the next start, or a reload, configures it with."""
        self.config.write_text(json.dumps(members))

    def register(self, **runtimes):
        """Give it those runtimes, of name to (path, arguments); it reads them again without a restart."""
        self.configure(runtimes={name: {"path": str(path), "runtimeArgs": list(words)}
                                 for name, (path, words) in runtimes.items()})
        shutil.copy(self.config, self.state / "daemon.json")
        self.signal(signal.SIGHUP)
        wait_until(lambda: all(self.call("GET", "/info")[1]["Runtimes"].get(name, {}).get("path") == str(path)
                               for name, (path, _) in runtimes.items()), "the Engine has read its runtimes")

    def pid(self):
        return int((self.state / "started").read_text().split()[0])

    def signal(self, number):
        os.kill(self.pid(), number)

    def kill(self):
        """As a crash does: the containers and what holds them are left as they are."""
        pid = self.pid()
        self.signal(signal.SIGKILL)
        wait_until(lambda: ended(pid), "the Engine has ended")

    def answers(self):
        try:
            return self.call("GET", "/_ping")[0] == 200
        except OSError:
            return False

    def load(self, source, *images):
        """Copy images from another Engine, as one stream."""
        names = "&".join(f"names={name}" for name in images)
        reading, writing = UnixConnection(source.path), UnixConnection(self.path)
        try:
            reading.request("GET", f"/v1.41/images/get?{names}")
            answer = reading.getresponse()
            assert answer.status == 200
            writing.request("POST", "/v1.41/images/load?quiet=1", iter(lambda: answer.read(PIECE), b""),
                            {"Content-Type": "application/x-tar"}, encode_chunked=True)
            loaded = writing.getresponse()
            assert loaded.status == 200 and b'"error' not in loaded.read()
        finally:
            reading.close()
            writing.close()

    def close(self):
        """End it and remove what it had, whatever a test did to it."""
        try:
            if (self.state / "started").exists() and not ended(self.pid()):
                self.signal(signal.SIGCONT)
            self.start()
            for found in self.containers(""):
                self.remove(found["Id"])
            self.stop()
        finally:
            self.unmount()
            shutil.rmtree(self.root, ignore_errors=True)
            shutil.rmtree(self.state, ignore_errors=True)

    def unmount(self):
        """One that was killed leaves its data mounted on itself, once for each time."""
        while os.path.ismount(self.root / "data"):
            subprocess.run(["umount", self.root / "data"], check=True)


def process_state(pid):
    """The letter that /proc shows, or None when there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def ended(pid):
    return process_state(pid) in (None, "Z")


def remove_engines_left():
    """Those of processes that are over: of a run of the tests that was killed."""
    for root in pathlib.Path("/tmp").glob("plsm-engine-*-*"):
        if ended(int(root.name.split("-")[2])):
            OwnEngine(root).close()


def own_engine(source, *images):
    """A started one that has those images of another."""
    remove_engines_left()
    made = OwnEngine()
    try:
        made.start()
        made.load(source, *images)
        return made
    except BaseException:
        made.close()
        raise


if __name__ == "__main__":
    remove_engines_left()
