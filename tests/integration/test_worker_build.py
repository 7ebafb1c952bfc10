"""Where guest.wasm comes from, and that it is what the worker runs."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

from worker_host import BUILD, GUEST, ROOT, WORKER, host  # noqa: F401 - fixtures are used by name

pytestmark = pytest.mark.skipif(not WORKER.exists(), reason=f"{WORKER} is not built")


LOCK = ROOT / "third_party" / "lock"


# ---- provenance ----------------------------------------------------------------------------------------------------


def lock_entry(name: str) -> dict[str, str]:
    for stanza in LOCK.read_text().split("\n\n"):
        entry = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and not line.startswith("#"))
        if entry.get("name") == name:
            return entry
    raise KeyError(name)


def test_22_identity_is_the_modules_hash(host):
    digest = hashlib.sha256((GUEST / "guest.wasm").read_bytes()).hexdigest()
    assert host.facts["identity"] == digest
    assert f'#define PLIM_GUEST_SHA256 "{digest}"' in (GUEST / "guest_identity.h").read_text()


def sections(module: bytes) -> dict[int, bytes]:
    assert module[:8] == b"\0asm\1\0\0\0"
    found, at = {}, 8
    while at < len(module):
        ident, (size, at) = module[at], leb(module, at + 1)
        found.setdefault(ident, module[at : at + size])
        at += size
    return found


def leb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at


def name_at(data: bytes, at: int) -> tuple[str, int]:
    length, at = leb(data, at)
    return data[at : at + length].decode(), at + length


def test_22_imports_and_exports_are_exactly_the_contracts():
    found = sections((GUEST / "guest.wasm").read_bytes())
    imports, data = set(), found[2]
    count, at = leb(data, 0)
    for _ in range(count):
        module, at = name_at(data, at)
        name, at = name_at(data, at)
        assert data[at] == 0, "a function"
        _, at = leb(data, at + 1)
        imports.add(f"{module}.{name}")
    wasi = "wasi_snapshot_preview1."
    assert imports == {
        "plimsoll.host_call",
        wasi + "clock_time_get",
        wasi + "fd_write",
        wasi + "fd_fdstat_get",
        wasi + "fd_seek",
        wasi + "fd_close",
    }
    exports, data = set(), found[7]
    count, at = leb(data, 0)
    for _ in range(count):
        name, at = name_at(data, at)
        _, at = leb(data, at + 1)
        exports.add(name)
    assert exports == {"memory", "_initialize", "plimsoll_init", "plimsoll_alloc", "plimsoll_run"}


def test_translation_is_what_was_compiled(tmp_path):
    subprocess.run(["wasm2c", "-n", "guest", str(GUEST / "guest.wasm"), "-o", str(tmp_path / "guest.c")], check=True)
    for name in ("guest.c", "guest.h"):
        assert (tmp_path / name).read_bytes() == (GUEST / name).read_bytes()


def test_module_builds_the_same_elsewhere(tmp_path):
    """The build's own commands, with every path moved."""
    printed = subprocess.run(
        ["ninja", "-C", str(BUILD), "-t", "commands", "guest/guest.wasm"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    commands = []
    for line in printed:
        arguments = shlex.split(line)
        if "--target=wasm32-wasi" in arguments:
            compiler = next(i for i, a in enumerate(arguments) if re.search(r"(^|/)clang(-\d+)?$", a))
            commands.append([a for a in arguments[compiler:] if a != "&&"])
    assert len(commands) == 6
    engine = next(pathlib.Path(a).parent for c in commands for a in c if a.endswith("/quickjs.c"))
    moves = [
        ((BUILD / engine).resolve(), tmp_path / "a" / "engine"),
        (ROOT / "guest", tmp_path / "b" / "source"),
        (GUEST, tmp_path / "c" / "built"),
    ]
    for old, new in moves[:2]:
        shutil.copytree(old, new)
    moves[2][1].mkdir(parents=True)
    shutil.copy(GUEST / "prelude.h", moves[2][1])

    def move(argument: str) -> str:
        prefix, path, suffix = re.fullmatch(r"(-ffile-prefix-map=)?([^=]*)(.*)", argument).groups("")
        full = pathlib.Path(os.path.normpath(BUILD / path))
        for old, new in moves:
            if full == old or old in full.parents:
                return prefix + str(new / full.relative_to(old)) + suffix
        return argument

    def build(command: list[str]) -> None:
        subprocess.run(
            [move(a) for a in command], check=True, cwd=tmp_path, env={**os.environ, "SOURCE_DATE_EPOCH": "0"}
        )

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(build, [c for c in commands if "-c" in c]))
    build(next(c for c in commands if "-c" not in c))
    assert (moves[2][1] / "guest.wasm").read_bytes() == (GUEST / "guest.wasm").read_bytes()


def test_module_names_no_path_of_the_build():
    module = (GUEST / "guest.wasm").read_bytes()
    assert str(ROOT).encode() not in module and b"/build/" not in module and b"/home/" not in module


def test_licence_notices_are_shipped():
    notice = (GUEST / "LICENSE.quickjs-ng").read_bytes()
    assert hashlib.sha256(notice).hexdigest() == lock_entry("quickjs-ng")["notice-sha256"]
    assert b"Fabrice Bellard" in notice and b"Permission is hereby granted" in notice


def test_worker_is_hardened():
    headers = subprocess.run(["readelf", "-hldW", str(WORKER)], check=True, capture_output=True, text=True).stdout
    assert re.search(r"Type: +DYN", headers) and "GNU_RELRO" in headers
    assert "BIND_NOW" in headers or re.search(r"FLAGS.*NOW", headers)
    assert re.search(r"GNU_STACK +\S+ +\S+ +\S+ +\S+ +\S+ +RW ", headers)
