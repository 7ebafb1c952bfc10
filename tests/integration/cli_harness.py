"""What the tests of the command line `plimsoll` have in common."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PLIMSOLL = ROOT / "build/bin/plimsoll"
ENDLESS = "for (;;);"
SUMMARY = re.compile(r"plimsoll: provider wasm, tier process, (exit code (?P<code>\d+)|timed out), [\d.]+ ms(?P<rest>.*)")


def environment(**settings):
    """The environment without any setting of ours, and these."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SANDBOX_", "PLIMSOLL_", "LC_"))}
    return clean | {"LANG": "C.UTF-8"} | settings


def plimsoll(*arguments, stdin=b"", **settings):
    return subprocess.run([PLIMSOLL, *arguments], input=stdin, capture_output=True, env=environment(**settings))


def wasm(*arguments, **rest):
    return plimsoll(*arguments, SANDBOX_PROVIDER="wasm", **rest)


def last_line(process):
    assert process.stderr.endswith(b"\n")
    return process.stderr.decode().splitlines()[-1]


def assert_nothing_ran(process, reason, words=""):
    assert process.returncode == 3, process
    assert process.stdout == b""
    assert process.stderr.count(b"\n") == 1, "one sentence"
    assert last_line(process).startswith(f"plimsoll: nothing ran ({reason}): ")
    assert words in last_line(process)


def assert_usage(process, words):
    assert process.returncode == 2, process
    assert process.stdout == b""
    assert words in last_line(process)
