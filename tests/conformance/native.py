"""Builds C programs of the conformance tests against the release's libraries."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = ROOT / "build/release"
WORK = ROOT / "build/conformance"
LIBRARIES = ["rpc", "http", "wire", "record", "net", "core", "base"]  # users before what they use
PACKAGES = ["libuv", "libnghttp2", "libssl", "libcrypto", "libprotobuf-c", "zlib"]


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, text=True, capture_output=True, **options).stdout


def build(source, *more_sources, includes=()):
    """The program of a source beside this file."""
    if not (RELEASE / "src/rpc").is_dir():
        pytest.skip("build/release is not built")
    program = WORK / pathlib.Path(source).stem
    program.parent.mkdir(parents=True, exist_ok=True)
    flags = run("pkg-config", "--cflags", "--libs", *PACKAGES).split()
    archives = [next((RELEASE / "src" / name).glob("libplim-*.a")) for name in LIBRARIES]
    llhttp = sorted(RELEASE.glob("**/libllhttp*.a"))
    folders = [*includes, ROOT / "src", ROOT / "include", RELEASE / "proto", RELEASE / "include"]
    run("cc", "-std=gnu17", "-D_GNU_SOURCE", "-g", "-O1", "-o", program, pathlib.Path(__file__).parent / source,
        *more_sources, *(f"-I{folder}" for folder in folders), "-Wl,--start-group", *archives, *llhttp,
        "-Wl,--end-group", *flags, "-lm", "-pthread")
    return program
