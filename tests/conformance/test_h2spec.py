"""h2spec, the public HTTP/2 conformance suite, unchanged, against the http layer: every case of every section passes,
in cleartext and under TLS."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
from tls_files import self_signed  # noqa: E402

BUILD = pathlib.Path(os.environ.get("PLIMSOLL_BUILD_DIR", ROOT / "build/release"))
PROGRAM = BUILD / "tests/integration/http_echo"
TOOLS = ROOT / "build/conformance/bin"
MODULE, VERSION = "github.com/summerwind/h2spec/cmd/h2spec", "v2.2.1+incompatible"
CASES = {"generic": 44, "hpack": 7, "http2": 94}  # fewer would mean that some were not run
HANG = 280  # seconds

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


@pytest.fixture(scope="module")
def h2spec():
    tool = TOOLS / "h2spec"
    if tool.exists():
        return tool
    if not shutil.which("go"):
        pytest.skip("no Go tool, with which h2spec is built")
    done = subprocess.run(["env", f"GOBIN={TOOLS}", "go", "install", f"{MODULE}@{VERSION}"], capture_output=True,
                          text=True, timeout=HANG)
    if done.returncode != 0:
        pytest.skip(f"h2spec cannot be built: {done.stderr.splitlines()[-1:]}")
    return tool


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    cert, key = self_signed(tmp_path_factory.mktemp("tls"))
    server = subprocess.Popen([PROGRAM, "--cert", cert, "--key", key, "--listen", "127.0.0.1:0",
                               "--tls-listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
    yield [int(server.stdout.readline().rsplit(":", 1)[1]) for _ in range(2)]
    server.terminate()
    _, errors = server.communicate(timeout=HANG)
    assert server.returncode == 0 and "Sanitizer" not in errors, errors


@pytest.mark.parametrize("section", CASES)
@pytest.mark.parametrize("listener", ["cleartext", "tls"])
def test_h2spec(h2spec, ports, listener, section):
    options = ["-p", ports[0]] if listener == "cleartext" else ["-t", "-k", "-p", ports[1]]
    done = subprocess.run([h2spec, "-h", "127.0.0.1", *map(str, options), section], capture_output=True, text=True,
                          timeout=HANG)
    assert done.returncode == 0, done.stdout
    cases = CASES[section]
    assert f"\n{cases} tests, {cases} passed, 0 skipped, 0 failed\n" in done.stdout, done.stdout
