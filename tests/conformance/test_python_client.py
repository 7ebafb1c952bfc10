"""The public Python package plimsoll-client, unchanged, against our daemon: what its documentation promises."""

import asyncio
import importlib
import pathlib
import subprocess
import sys
import threading
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
from daemon_harness import PLIMSOLLD, ROOT, TOKEN_A, TOKEN_B, Daemon, write_registry  # noqa: E402

LOCK = HERE / "python-client.lock"
SERVED = {"0.20.0": 2, "0.22.0": 3}  # version: the protocol number it speaks
NEWER = "0.23.0"  # speaks 4


def locked(version):
    return next(line.partition("  #")[0] for line in LOCK.read_text().splitlines() if f"=={version} " in line)


def load(version):
    """The package as pip unpacks it, by the hash in the lock; nothing of it is kept in the tree."""
    folder = ROOT / "build/conformance" / f"python-client-{version}"
    stamp = folder / "installed-from"
    if not stamp.exists() or stamp.read_text() != locked(version):
        folder.mkdir(parents=True, exist_ok=True)
        requirements = folder / "requirements"
        requirements.write_text(locked(version) + "\n")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--require-hashes", "--upgrade", "--target", folder, "-r", requirements],
            capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"plimsoll-client {version} cannot be installed: " + done.stderr.strip()[-300:])
        stamp.write_text(locked(version))
    for name in [name for name in sys.modules if name.partition(".")[0] == "plimsoll_client"]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module("plimsoll_client")
        importlib.import_module("plimsoll_client.execution")
    finally:
        sys.path.remove(str(folder))
    assert module.__version__ == version
    return module


@pytest.fixture(scope="module", params=SERVED)
def package(request):
    module = load(request.param)
    assert module.PROTOCOL == SERVED[request.param]
    return module


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    registry = write_registry(tmp_path_factory.mktemp("callers") / "callers.json", a=TOKEN_A, b=(TOKEN_B, ["other:scope"]))
    with Daemon(PLIMSOLLD, SANDBOX_PROVIDER="wasm", PLIMSOLL_CLIENTS_FILE=registry) as running:
        yield running


@pytest.fixture
def url(daemon):
    host, port = daemon.address
    return f"http://{host}:{port}"


@pytest.fixture
def client(package, url):
    return package.Client(url, token=TOKEN_A)


def test_describes_itself_with_the_number_of_the_client(package, client):
    info = client.describe()
    assert (info.provider, info.isolation, info.protocol) == ("wasm", "process", package.PROTOCOL)
    assert not info.supports_project and not info.supports_sessions
    assert info.javascript_environment.identity.startswith("quickjs-wasm:sha256:")
    assert info.javascript_environment.max_timeout_ms == 30000


def test_runs_a_snippet_and_believes_its_record(client):
    result = client.run_javascript("console.log(6*7)", timeout=10.0, minimum_isolation="process", trace_id="t-1")
    assert (result.exit_code, result.stdout, result.stdout_text, result.stderr) == (0, b"42\n", "42\n", b"")
    assert result.record.provider == "wasm" and result.record.isolation == "process"
    assert len(result.record.sha256) == 64


def test_output_is_bytes_and_survives_unchanged(client):
    result = client.run_javascript("console.log('a\\0b\\ud800c')")
    assert result.stdout == b"a\0b\xed\xa0\x80c\n"


def test_a_failing_guest_is_a_result(client):
    assert client.run_javascript("throw new Error('boom')").exit_code == 1
    timed_out = client.run_javascript("console.log('a'); for(;;);", timeout=0.2)
    assert (timed_out.exit_code, timed_out.timed_out, timed_out.stdout) == (124, True, b"a\n")
    long = client.run_javascript("console.log('x'.repeat(70000))")
    assert len(long.stdout) == 65536 and long.stdout_truncated


def test_a_floor_above_the_tier_is_refused_and_nothing_ran(package, client):
    with pytest.raises(package.InsufficientIsolationError) as refusal:
        client.run_javascript("console.log(1)", minimum_isolation="kernel")
    assert (refusal.value.not_dispatched, refusal.value.code) == ("isolation", "failed_precondition")


def test_a_software_rule_is_refused_where_no_identity_is_stated(package, client):
    with pytest.raises(package.SoftwareMismatchError) as refusal:
        client.run_javascript("1", software=package.SoftwareRule.exact("oci-manifest:linux/amd64@sha256:" + "0" * 64))
    assert refusal.value.not_dispatched == "environment"


@pytest.mark.parametrize("token, code", [(None, "unauthenticated"), ("no-such-token", "unauthenticated"),
                                         (TOKEN_B, "permission_denied")])
def test_a_caller_without_the_right_is_refused(package, url, token, code):
    with pytest.raises(package.PlimsollError) as refusal:
        package.Client(url, token=token).run_javascript("1")
    assert (refusal.value.code, refusal.value.not_dispatched) == (code, "permission")


def test_what_the_provider_cannot_run_is_unsupported(package, client):
    with pytest.raises(package.UnsupportedError) as refusal:
        client.run_project(files={"a.js": "1"}, steps=["node a.js"])
    assert refusal.value.not_dispatched == "unsupported"
    with pytest.raises(package.UnsupportedError) as refusal:
        client.run_module("model", [[1.0]], end_time=1.0, step=0.5)
    assert refusal.value.not_dispatched == "unsupported"
    with pytest.raises(package.UnsupportedError) as refusal:
        client.open_session()
    assert refusal.value.not_dispatched == "unsupported"


def test_an_unknown_profile_is_a_matter_of_permission(package, client):
    with pytest.raises(package.PlimsollError) as refusal:
        client.run_javascript("1", grant_profile="nobody-made-this")
    assert (refusal.value.code, refusal.value.not_dispatched) == ("permission_denied", "permission")


def test_the_executor_refuses_below_its_floor(package, client):
    with pytest.raises(package.PlimsollError) as refusal:
        package.execution.CodeExecutor(client).execute_code("print(1)")
    assert refusal.value.not_dispatched in ("isolation", "unsupported")


def test_a_cancelled_call_returns_and_its_run_is_killed(package, client, daemon):
    handle = package.CancelHandle()
    threading.Timer(0.5, handle.cancel).start()
    began = time.monotonic()
    with pytest.raises(package.RequestCanceledError) as cancelled:
        client.run_javascript("for(;;);", timeout=25.0, cancel=handle)
    assert cancelled.value.not_dispatched is None
    assert time.monotonic() - began < 20
    failed = daemon.wait_for("code run failed", count=len(daemon.events("code run failed")) or 1)
    assert failed["caller"] == "a" and failed["duration_ms"] < 20000
    with pytest.raises(package.RequestCanceledError) as unsent:
        client.run_javascript("1", cancel=handle)
    assert unsent.value.not_dispatched == "request"


def test_the_async_client_runs_many_at_once(package, url):
    async def run():
        client = package.AsyncClient(url, token=TOKEN_A)
        assert (await client.describe()).provider == "wasm"
        return await asyncio.gather(*(client.run_javascript(f"console.log({i})") for i in range(4)))

    assert [result.stdout for result in asyncio.run(run())] == [b"0\n", b"1\n", b"2\n", b"3\n"]


def test_more_than_the_cap_of_a_caller_is_shed(package, url):
    async def run():
        client = package.AsyncClient(url, token=TOKEN_A)
        calls = [client.run_javascript("for(;;);", timeout=2.0) for _ in range(6)]
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = asyncio.run(run())
    shed = [o for o in outcomes if isinstance(o, package.AtCapacityError)]
    assert len(shed) == 2 and all(o.not_dispatched == "capacity" for o in shed)
    assert all(o.timed_out for o in outcomes if not isinstance(o, Exception))


def test_a_client_of_a_number_that_is_not_served_learns_that_nothing_ran(url):
    newer = load(NEWER)
    client = newer.Client(url, token=TOKEN_A)
    with pytest.raises(newer.ProtocolMismatchError) as refusal:
        client.run_javascript("console.log(1)")
    assert (refusal.value.code, refusal.value.not_dispatched) == ("unimplemented", "protocol")
    with pytest.raises(newer.ProtocolMismatchError) as refusal:
        client.describe()
    assert refusal.value.info.provider == "wasm"
