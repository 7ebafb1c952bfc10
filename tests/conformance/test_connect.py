"""The public Connect conformance suite, unchanged, against a test server built on our rpc layer."""

import pathlib
import re
import shutil
import subprocess

import pytest

from native import ROOT, WORK, build, run

HERE = pathlib.Path(__file__).resolve().parent
SUITE = "connectrpc.com/conformance"
VERSION = "v1.0.7"
PROTOS = ["service", "config", "server_compat"]

# What the suite's messages need of protobuf's own; they import nothing else.
ANY = """syntax = "proto3";
package google.protobuf;
message Any {
  string type_url = 1;
  bytes value = 2;
}
"""


def suite_tool():
    """The suite's program, built by the Go tool from its module, and where that module is."""
    tool = WORK / f"bin-{VERSION}/connectconformance"
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
    folder, protos, made = "connectrpc/conformance/v1", WORK / "proto", WORK / "pb"
    shutil.rmtree(protos, ignore_errors=True)
    (protos / "google/protobuf").mkdir(parents=True)
    (protos / "google/protobuf/any.proto").write_text(ANY)
    (protos / folder).mkdir(parents=True)
    for name in PROTOS:
        text = (module / "proto" / folder / f"{name}.proto").read_text()
        text = re.sub(r"\boptional (\w+) (\w+) = (\d+);", r"oneof \2_set { \1 \2 = \3; }", text)
        (protos / folder / f"{name}.proto").write_text(text)
    run(ROOT / "proto/generate", "--path", protos, "--out", made, "--flat",
        *(f"{folder}/{name}.proto" for name in PROTOS), "google/protobuf/any.proto")
    return made


def test_suite_passes():
    tool, module = suite_tool()
    made = generate(module)
    server = build("connect_server.c", *sorted(made.glob("*.c")), includes=[made])
    done = subprocess.run(
        [tool, "--mode", "server", "--conf", HERE / "connect-config.yaml", "--known-failing",
         f"@{HERE / 'connect-excluded.txt'}", "--", server],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280)
    total = re.search(r"^Total cases: (\d+)\n(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout[-8000:]
    assert total and int(total[1]) > 0, done.stdout[-2000:]
    print(total[0])
