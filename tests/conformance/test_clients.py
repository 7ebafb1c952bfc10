"""Public HTTP and gRPC clients, unchanged, against the daemon: curl in every combination it has, and grpcurl."""

import base64
import gzip
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
from daemon_harness import PLIMSOLLD, ROOT, TOKEN_A, Daemon, write_registry  # noqa: E402

SERVICE = "plimsoll.v1.SandboxService"
TOOLS = ROOT / "build/conformance/bin"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
REQUEST = {"protocol": 3, "minimumIsolation": "process", "javascript": {"code": "console.log(6*7)"}}
# The same message as binary protobuf: fields 1 = 3, 2 = "process", 10 = {1 = the code}.
BINARY = b"\x08\x03\x12\x07process\x52\x12\x0a\x10console.log(6*7)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clients")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    write_registry(folder / "callers.json", a=TOKEN_A)
    return folder


@pytest.fixture(scope="module", params=["cleartext", "tls"])
def daemon(request, folder):
    tls = {"PLIMSOLL_TLS_CERT": folder / "cert.pem", "PLIMSOLL_TLS_KEY": folder / "key.pem"}
    with Daemon(PLIMSOLLD, SANDBOX_PROVIDER="wasm", PLIMSOLL_CLIENTS_FILE=folder / "callers.json",
                **(tls if request.param == "tls" else {})) as running:
        running.tls = request.param == "tls"
        yield running


# ---- curl ----

def curl(daemon, folder, http, body, headers, method="Run"):
    versions = {"1.1": "--http1.1", "2": "--http2" if daemon.tls else "--http2-prior-knowledge"}
    scheme = "https" if daemon.tls else "http"
    (folder / "body").write_bytes(body)
    command = ["curl", "-sS", versions[http], "--cacert", folder / "cert.pem", "-X", "POST", "--data-binary",
               f"@{folder / 'body'}", "-o", folder / "answer", "-w", "%{http_code} %{http_version} %{content_type}"]
    for name, value in {"Authorization": f"Bearer {TOKEN_A}", **headers}.items():
        command += ["-H", f"{name}: {value}"]
    done = subprocess.run([*command, f"{scheme}://127.0.0.1:{daemon.address[1]}/{SERVICE}/{method}"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    status, version, content_type = done.stdout.split(" ", 2)
    assert version == http
    return int(status), content_type, (folder / "answer").read_bytes()


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize("codec", ["json", "proto"])
@pytest.mark.parametrize("http", ["1.1", "2"])
def test_curl(daemon, folder, http, codec, encoding):
    body = json.dumps(REQUEST).encode() if codec == "json" else BINARY
    headers = {"Content-Type": f"application/{codec}", "Accept-Encoding": encoding}
    if encoding == "gzip":
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    status, content_type, answer = curl(daemon, folder, http, body, headers)
    assert (status, content_type) == (200, f"application/{codec}")
    if answer[:2] == b"\x1f\x8b":
        assert encoding == "gzip"
        answer = gzip.decompress(answer)
    if codec == "json":
        message = json.loads(answer)
        assert (message["sandbox"], message["isolation"]) == ("wasm", "process")
        assert base64.b64decode(message["javascript"]["stdout"]) == b"42\n"
    else:
        assert answer.startswith(b"\x0a\x04wasm\x12\x07process") and b"\x0a\x0342\n" in answer


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_curl_reads_a_refusal(daemon, folder, http):
    body = json.dumps({**REQUEST, "minimumIsolation": "vm"}).encode()
    status, content_type, answer = curl(daemon, folder, http, body, {"Content-Type": "application/json"})
    refusal = json.loads(answer)
    assert (status, content_type, refusal["code"]) == (400, "application/json", "failed_precondition")
    assert refusal["details"] == [{"type": "plimsoll.v1.NotDispatched", "value": "CAU"}]


# ---- grpcurl ----

@pytest.fixture(scope="module")
def grpcurl():
    tool = TOOLS / "grpcurl"
    if tool.exists():
        return tool
    if not shutil.which("go"):
        pytest.skip("no Go tool, with which grpcurl is built")
    done = subprocess.run(["env", f"GOBIN={TOOLS}", "go", "install", GRPCURL], capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        pytest.skip(f"grpcurl cannot be built: {done.stderr.splitlines()[-1:]}")
    return tool


def call(grpcurl, daemon, folder, method, message, token=TOKEN_A):
    security = ["-cacert", folder / "cert.pem"] if daemon.tls else ["-plaintext"]
    return subprocess.run(
        [grpcurl, *security, "-import-path", ROOT / "proto", "-proto", "plimsoll/v1/sandbox.proto", "-rpc-header",
         f"authorization: Bearer {token}", "-d", json.dumps(message), f"127.0.0.1:{daemon.address[1]}",
         f"{SERVICE}/{method}"], capture_output=True, text=True, timeout=60)


def test_grpcurl_runs_and_describes(grpcurl, daemon, folder):
    done = call(grpcurl, daemon, folder, "Run", REQUEST)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["sandbox"], answer["isolation"]) == ("wasm", "process")
    assert base64.b64decode(answer["javascript"]["stdout"]) == b"42\n"
    assert json.loads(call(grpcurl, daemon, folder, "Describe", {}).stdout)["sandbox"] == "wasm"


def test_grpcurl_reads_a_refusal_and_its_reason(grpcurl, daemon, folder):
    done = call(grpcurl, daemon, folder, "Run", {**REQUEST, "minimumIsolation": "vm"})
    assert done.returncode != 0
    assert "Code: FailedPrecondition" in done.stderr
    assert "plimsoll.v1.NotDispatched" in done.stderr and "NOT_DISPATCHED_REASON_ISOLATION" in done.stderr
    assert "Code: Unauthenticated" in call(grpcurl, daemon, folder, "Run", REQUEST, "no-such-token").stderr
