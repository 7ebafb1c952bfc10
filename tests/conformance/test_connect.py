"""The public Connect conformance suite, unchanged, against a test server built on our rpc layer."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
RELEASE = ROOT / "build/release"
WORK = ROOT / "build/conformance"
SUITE = "connectrpc.com/conformance"
VERSION = "v1.0.7"
PROTOS = ["service", "config", "server_compat"]
LIBRARIES = ["rpc", "http", "wire", "record", "net", "core", "base"]  # users before what they use
PACKAGES = ["libuv", "libnghttp2", "libssl", "libcrypto", "libprotobuf-c", "zlib"]

# What the suite's messages need of protobuf's own; they import nothing else.
ANY = """syntax = "proto3";
package google.protobuf;
message Any {
  string type_url = 1;
  bytes value = 2;
}
"""


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, text=True, capture_output=True, **options).stdout


def suite_tool():
    """The suite's program, built by the Go tool from its module; kept in build/."""
    tool = WORK / "bin/connectconformance"
    if not shutil.which("go"):
        pytest.skip("no Go tool, with which the suite is built")
    try:
        if not tool.exists():
            run("env", f"GOBIN={tool.parent}", "go", "install", f"{SUITE}/cmd/connectconformance@{VERSION}", timeout=280)
        modules = pathlib.Path(run("go", "env", "GOMODCACHE").strip())
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"the suite cannot be built: {(error.stderr or str(error)).splitlines()[-1:]}")
    return tool, modules / f"{SUITE}@{VERSION}"


def generate(module):
    """C of the suite's messages, from its own files.

    protoc-c knows no optional fields of proto3; each is by definition a oneof with one member, so they are written
    as that.
    """
    protos, made = WORK / "proto", WORK / "pb"
    shutil.rmtree(protos, ignore_errors=True)
    (protos / "google/protobuf").mkdir(parents=True)
    (protos / "google/protobuf/any.proto").write_text(ANY)
    folder = "connectrpc/conformance/v1"
    (protos / folder).mkdir(parents=True)
    for name in PROTOS:
        text = (module / "proto" / folder / f"{name}.proto").read_text()
        text = re.sub(r"\boptional (\w+) (\w+) = (\d+);", r"oneof \2_set { \1 \2 = \3; }", text)
        (protos / folder / f"{name}.proto").write_text(text)
    run(ROOT / "proto/generate", "--path", protos, "--out", made, "--flat",
        *(f"{folder}/{name}.proto" for name in PROTOS), "google/protobuf/any.proto")
    return made


def build_server(made):
    server = WORK / "connect_server"
    flags = run("pkg-config", "--cflags", "--libs", *PACKAGES).split()
    archives = [next((RELEASE / "src" / name).glob("libplim-*.a")) for name in LIBRARIES]
    llhttp = sorted(RELEASE.glob("**/libllhttp*.a"))
    run("cc", "-std=gnu17", "-D_GNU_SOURCE", "-g", "-O1", "-o", server, HERE / "connect_server.c", *made.glob("*.c"),
        f"-I{made}", f"-I{ROOT}/src", f"-I{ROOT}/include", f"-I{RELEASE}/proto", f"-I{RELEASE}/include",
        "-Wl,--start-group", *archives, *llhttp, "-Wl,--end-group", *flags, "-lm", "-pthread")
    return server


def test_suite_passes():
    if not (RELEASE / "src/rpc").is_dir():
        pytest.skip("build/release is not built")
    tool, module = suite_tool()
    server = build_server(generate(module))
    done = subprocess.run(
        [tool, "--mode", "server", "--conf", HERE / "connect-config.yaml", "--known-failing",
         f"@{HERE / 'connect-excluded.txt'}", "--", server],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280)
    total = re.search(r"^Total cases: (\d+)\n(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout[-8000:]
    assert total and int(total[1]) > 0, done.stdout[-2000:]
    print(total[0])
