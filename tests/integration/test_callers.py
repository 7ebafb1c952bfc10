"""`plimsoll callers`: every row of its table of inputs, and that no accident leaves half a registry."""

import hashlib
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLIMSOLL = ROOT / "build/bin/plimsoll"
TOKEN = "0123456789abcdef-ABCDEF~!@#$%^&*()"
OTHER = "another-token-that-is-long-enough-for-it"


def callers(*arguments, stdin="", env=None, **options):
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(
        [PLIMSOLL, "callers", *map(str, arguments)], input=stdin, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **(env or {})}, timeout=60, **options)


def succeed(*arguments, **options):
    done = callers(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return done


def refuse(*arguments, **options):
    """Runs a command that must fail with exit status 1 and one message; returns the message."""
    done = callers(*arguments, **options)
    assert done.returncode == 1
    assert done.stdout in (None, "")
    assert done.stderr.startswith("plimsoll callers: ")
    return done.stderr


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def clients(path):
    return json.loads(path.read_text())["clients"]


def snapshot(path):
    """All that must not change when a command is refused, and that nothing was left beside the file."""
    found = path.lstat()
    return path.read_bytes(), found.st_mode, found.st_mtime_ns, found.st_ino, sorted(os.listdir(path.parent))


@pytest.fixture
def registry(tmp_path):
    path = tmp_path / "clients.json"
    succeed("import", "-file", path, "-id", "bot", stdin=TOKEN)
    return path


# What is printed


@pytest.mark.parametrize("arguments", [[], ["help"], ["-h"], ["--help"]])
def test_usage_goes_to_stdout(arguments):
    done = succeed(*arguments)
    assert done.stderr == ""
    for word in ("create", "import", "limit", "list", "rotate", "revoke", "-token-stdout", "-paid-seconds-per-day"):
        assert word in done.stdout


@pytest.mark.parametrize("command", ["create", "import", "limit", "list", "rotate", "revoke"])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_usage_after_a_command_goes_to_stderr(command, flag):
    done = succeed(command, flag)
    assert done.stdout == ""
    assert "usage:" in done.stderr


def test_the_installed_link_behaves_as_the_subcommand(tmp_path):
    link = tmp_path / "plimsoll-clients"
    link.symlink_to(PLIMSOLL.resolve())
    done = subprocess.run([link, "list", "-file", tmp_path / "none"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "cannot read" in done.stderr


# Commands


def test_create_prints_one_token_and_stores_its_fingerprint(tmp_path):
    path = tmp_path / "clients.json"
    done = succeed("create", "-file", path, "-id", "bot", "-token-stdout")
    assert re.fullmatch(r"[0-9a-f]{64}\n", done.stdout)
    token = done.stdout.strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert clients(path) == [{"id": "bot", "token_sha256": sha256(token), "scopes": ["code:run"]}]
    assert token not in done.stderr and sha256(token) not in done.stderr
    assert os.listdir(tmp_path) == ["clients.json"]
    for words in ("added", "unaffected until they are restarted", "accepted continues"):
        assert words in done.stderr


def test_the_file_has_one_form(tmp_path):
    path = tmp_path / "clients.json"
    succeed("import", "-file", path, "-id", "a", "-paid-seconds-per-day", 3600, stdin=TOKEN)
    assert path.read_text() == (
        '{\n  "clients": [\n    {\n      "id": "a",\n'
        f'      "token_sha256": "{sha256(TOKEN)}",\n'
        '      "scopes": [\n        "code:run"\n      ],\n'
        '      "paid_seconds_per_day": 3600\n    }\n  ]\n}\n')


def test_flags_in_every_spelling(tmp_path):
    path = tmp_path / "clients.json"
    succeed("import", f"--file={path}", "--id", " padded ", "-scope=a", "--scope", "b", "-paid-seconds-per-day=0",
            stdin=TOKEN)
    assert clients(path) == [{"id": "padded", "token_sha256": sha256(TOKEN), "scopes": ["a", "b"]}]
    succeed("rotate", "-file", path, "-id=padded", "--token-stdin=true", "-token-stdout=false", stdin=OTHER)
    assert clients(path)[0]["token_sha256"] == sha256(OTHER)


def test_limit_sets_and_removes_an_allowance(registry):
    done = succeed("limit", "-file", registry, "-id", "bot", "-paid-seconds-per-day", 7200)
    assert clients(registry)[0]["paid_seconds_per_day"] == 7200
    assert "fresh day" in done.stderr and done.stdout == ""
    succeed("limit", "-file", registry, "-id", "bot", "-paid-seconds-per-day", 0)
    assert "paid_seconds_per_day" not in clients(registry)[0]


@pytest.mark.parametrize("seconds, warned", [(0, False), (1, True), (59, True), (60, False)])
def test_an_allowance_that_admits_nothing_is_warned_of(registry, seconds, warned):
    done = succeed("limit", "-file", registry, "-id", "bot", "-paid-seconds-per-day", seconds)
    assert ("33 s" in done.stderr) == warned


def test_list_is_sorted_and_tells_no_fingerprint(registry):
    succeed("import", "-file", registry, "-id", "a\u00e9", "-scope", "x", "-scope", "y", "-paid-seconds-per-day", 60,
            stdin=OTHER)
    text = succeed("list", "-file", registry).stdout
    assert text == ("CALLER  SCOPES    PAID SECONDS/DAY\n"
                    "a\u00e9      x, y      60\n"
                    "bot     code:run  none\n")
    out = succeed("list", "-file", registry, "-json").stdout
    assert json.loads(out) == [{"id": "a\u00e9", "scopes": ["x", "y"], "paid_seconds_per_day": 60},
                               {"id": "bot", "scopes": ["code:run"]}]
    assert out.startswith('[\n  {\n    "id"')
    for text in (text, out):
        assert not re.search(r"[0-9a-f]{16}", text)


def test_rotate_keeps_everything_else(registry):
    succeed("limit", "-file", registry, "-id", "bot", "-paid-seconds-per-day", 90)
    done = succeed("rotate", "-file", registry, "-id", "bot", "-token-stdout")
    assert clients(registry) == [{"id": "bot", "token_sha256": sha256(done.stdout.strip()), "scopes": ["code:run"],
                                  "paid_seconds_per_day": 90}]


def test_revoke_and_what_is_said_of_the_last(registry):
    succeed("import", "-file", registry, "-id", "second", stdin=OTHER)
    assert "restarted with the new file" in succeed("revoke", "-file", registry, "-id", "bot").stderr
    done = succeed("revoke", "-file", registry, "-id", "second")
    assert "refuses this file" in done.stderr and "must be stopped" in done.stderr
    assert clients(registry) == []
    succeed("import", "-file", registry, "-id", "bot", stdin=TOKEN)


# Refusals


@pytest.mark.parametrize("arguments, says", [
    (["nonsense"], "never an argument"),
    (["create", "-file", "FILE", "-id", "new"], "-token-stdout"),
    (["create", "-file", "FILE", "-id", "new", "-token-stdout=false"], "-token-stdout"),
    (["create", "-file", "FILE", "-id", "bot", "-token-stdout"], "exists already"),
    (["create", "-file", "FILE", "-id", "new", "-token-stdout", TOKEN], "never an argument"),
    (["create", "-file", "FILE", "-id", "new", "-token-stdout=yes"], "true or false"),
    (["create", "-file", "FILE", "-id", "new", "-token", TOKEN], "never an argument"),
    (["create", "-file", "FILE", "-token-stdout"], "-id"),
    (["create", "-file", "FILE", "-id", "", "-token-stdout"], "-id"),
    (["create", "-file", "FILE", "-id", "*", "-token-stdout"], "*"),
    (["create", "-file", "FILE", "-id", "a\nb", "-token-stdout"], "control"),
    (["create", "-file", "FILE", "-id", "a\udcffb", "-token-stdout"], "-id is not valid UTF-8"),
    (["create", "-file", "FILE", "-id", "new", "-token-stdout", "-scope", "\udcff"], "-scope is not valid UTF-8"),
    (["create", "-file", "FILE", "-id", "new", "-token-stdout", "-scope", "a b"], "scope"),
    (["create", "-file", "FILE", "-id", "new", "-token-stdout", "-scope", ""], "scope"),
    (["create", "-file", "FILE", "-id", "new", "-token-stdout", "-scope", "a", "-scope", "a"], "scope"),
    (["create", "-file", "FILE", "-id", "new", "-token-stdout", "-paid-seconds-per-day", "-1"], "-paid-seconds"),
    (["create", "-file", "FILE", "-id", "new", "-token-stdout", "-paid-seconds-per-day", "1.5"], "-paid-seconds"),
    (["create", "-id", "new", "-token-stdout"], "-file"),
    (["create", "-file", "FILE", "-id", "new", "-id", "other", "-token-stdout"], "twice"),
    (["create", "-file", "FILE", "-token-stdout", "-id"], "needs a value"),
    (["import", "-file", "FILE", "-id", "bot"], "exists already"),
    (["import", "-file", "FILE", "-id", "new", "-token-stdout"], "no flag"),
    (["limit", "-file", "FILE", "-id", "bot"], "-paid-seconds-per-day"),
    (["limit", "-file", "FILE", "-id", "none", "-paid-seconds-per-day", "9"], "no caller"),
    (["list"], "-file"),
    (["list", "-file", "FILE", "-id", "bot"], "no flag"),
    (["rotate", "-file", "FILE", "-id", "bot"], "exactly one"),
    (["rotate", "-file", "FILE", "-id", "bot", "-token-stdout", "-token-stdin"], "exactly one"),
    (["rotate", "-file", "FILE", "-id", "none", "-token-stdout"], "no caller"),
    (["rotate", "-file", "FILE", "-id", "bot", "-token-stdin"], "already has"),
    (["revoke", "-file", "FILE", "-id", "none"], "no caller"),
    (["revoke", "-file", "FILE"], "-id"),
])
def test_refused_and_untouched(registry, arguments, says):
    before = snapshot(registry)
    stdin = TOKEN if "-token-stdin" in arguments else OTHER
    assert says in refuse(*[registry if a == "FILE" else a for a in arguments], stdin=stdin)
    assert snapshot(registry) == before


@pytest.mark.parametrize("stdin", [
    "", "\n", "a" * 31, "a" * 31 + "\n", "a" * 4097, "a" * 20000, "a" * 40 + "\n\n", "a" * 40 + "\r\r\n",
    "a" * 20 + " " + "a" * 20, " " + "a" * 40, "a" * 40 + "\t", "a" * 40 + "\u00e9", "a" * 40 + "\0", "a" * 40 + "\x7f",
])
def test_tokens_that_stdin_may_not_hold(registry, stdin):
    before = snapshot(registry)
    assert "token on stdin" in refuse("import", "-file", registry, "-id", "new", stdin=stdin)
    assert snapshot(registry) == before


@pytest.mark.parametrize("token", ["a" * 32, "!" + "~" * 40, "b" * 4096])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r"])
def test_tokens_that_stdin_may_hold(tmp_path, token, end):
    path = tmp_path / "clients.json"
    succeed("import", "-file", path, "-id", "bot", stdin=token + end)
    assert clients(path)[0]["token_sha256"] == sha256(token)


def test_a_token_of_another_caller_is_refused(registry):
    before = snapshot(registry)
    assert "same token" in refuse("import", "-file", registry, "-id", "new", stdin=TOKEN)
    assert snapshot(registry) == before


@pytest.mark.parametrize("command", [
    ["limit", "-id", "bot", "-paid-seconds-per-day", "5"], ["list"], ["rotate", "-id", "bot", "-token-stdout"],
    ["revoke", "-id", "bot"]])
def test_a_missing_file_is_not_made(tmp_path, command):
    assert "cannot read" in refuse(*command, "-file", tmp_path / "clients.json")
    assert os.listdir(tmp_path) == []


def test_a_malformed_registry_is_left_alone(registry):
    registry.write_text('{"clients": [], "more": 1}')
    before = snapshot(registry)
    refuse("import", "-file", registry, "-id", "new", stdin=OTHER)
    refuse("list", "-file", registry)
    assert snapshot(registry) == before


# The file


@pytest.mark.parametrize("arguments", [["rotate", "-token-stdout"], ["revoke"], ["create", "-token-stdout"]])
def test_a_symbolic_link_is_refused(registry, arguments):
    link = registry.parent / "link.json"
    link.symlink_to(registry)
    before = snapshot(registry)
    assert "regular file" in refuse(arguments[0], "-file", link, "-id", "bot", *arguments[1:])
    assert "regular file" in refuse("list", "-file", link)
    assert snapshot(registry) == before
    assert link.is_symlink()


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "folder", tmp_path / "pipe", "/dev/null"):
        assert "regular file" in refuse("list", "-file", name)
    for name in (tmp_path / "folder", tmp_path / "pipe"):
        assert "regular file" in refuse("import", "-file", name, "-id", "bot", stdin=TOKEN)
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o444, 0o664])
def test_the_mode_is_kept(registry, mode):
    registry.chmod(mode)
    succeed("rotate", "-file", registry, "-id", "bot", "-token-stdout", umask=0o077)
    assert stat.S_IMODE(registry.stat().st_mode) == mode


def test_a_new_file_is_private_whatever_the_umask(tmp_path):
    succeed("import", "-file", tmp_path / "a.json", "-id", "bot", stdin=TOKEN, umask=0)
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_owner_is_kept(registry):
    os.chown(registry, 12345, 23456)
    succeed("rotate", "-file", registry, "-id", "bot", "-token-stdout")
    assert (registry.stat().st_uid, registry.stat().st_gid) == (12345, 23456)


def test_a_path_without_a_folder(tmp_path):
    succeed("import", "-file", "clients.json", "-id", "bot", stdin=TOKEN, cwd=tmp_path)
    assert os.listdir(tmp_path) == ["clients.json"]


def test_a_lock_that_was_left_is_told_of(registry):
    lock = registry.parent / "clients.json.lock"
    lock.mkdir()
    before = snapshot(registry)
    message = refuse("revoke", "-file", registry, "-id", "bot")
    assert "clients.json.lock" in message and "after checking" in message
    assert snapshot(registry) == before
    lock.rmdir()
    succeed("revoke", "-file", registry, "-id", "bot")


def test_edits_at_once_either_succeed_or_name_the_lock(tmp_path):
    path = tmp_path / "clients.json"
    done = []

    def add(number):
        done.append((number, callers("create", "-file", path, "-id", f"caller-{number}", "-token-stdout")))

    threads = [threading.Thread(target=add, args=(n,)) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    added = {f"caller-{n}": sha256(d.stdout.strip()) for n, d in done if d.returncode == 0}
    assert added
    assert {c["id"]: c["token_sha256"] for c in clients(path)} == added
    assert all("clients.json.lock" in d.stderr for _, d in done if d.returncode != 0)
    assert os.listdir(tmp_path) == ["clients.json"]


# Accidents


def test_a_closed_stdout_is_told_after_the_caller_was_saved(tmp_path):
    path = tmp_path / "clients.json"
    done = subprocess.run(
        ["sh", "-c", f'exec "{PLIMSOLL}" callers create -file "{path}" -id bot -token-stdout >&-'],
        stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "rotate" in done.stderr
    assert [c["id"] for c in clients(path)] == ["bot"]


@pytest.mark.parametrize("command", ["create", "rotate"])
def test_a_reader_that_went_away(registry, command):
    read_end, write_end = os.pipe()
    os.close(read_end)
    name = {"create": "new", "rotate": "bot"}[command]
    done = callers(command, "-file", registry, "-id", name, "-token-stdout", stdout=write_end)
    os.close(write_end)
    assert done.returncode == 1 and "rotate" in done.stderr
    assert name in [c["id"] for c in clients(registry)]
    assert clients(registry)[0]["token_sha256"] != sha256(TOKEN) or command == "create"


def test_a_full_disk_under_stdout(registry):
    with open("/dev/full", "w") as full:
        done = callers("rotate", "-file", registry, "-id", "bot", "-token-stdout", stdout=full)
    assert done.returncode == 1 and "`rotate`" in done.stderr


def test_a_folder_that_may_not_be_written(tmp_path):
    assert "cannot create" in refuse("import", "-file", tmp_path / "none/clients.json", "-id", "a", stdin=TOKEN)


@pytest.fixture(scope="session")
def fault_library(tmp_path_factory):
    library = tmp_path_factory.mktemp("fault") / "fault.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, ROOT / "tests/tools/fault.c", "-ldl"],
                   check=True, timeout=60)
    return library


def run_with_faults(library, folder, what, change):
    """Runs the change on a fresh registry with the fault at call 1, 2, ... until it is past the last call."""
    for number in range(1, 500):
        here = folder / str(number)
        here.mkdir()
        path = here / "clients.json"
        succeed("import", "-file", path, "-id", "bot", stdin=TOKEN)
        old = path.read_bytes()
        env = {"LD_PRELOAD": str(library), "FAULT": what, "FAULT_AT": str(number)}
        done = callers(*change, "-file", path, env=env, stdin=OTHER)
        new = path.read_bytes()
        assert new == old or [c["token_sha256"] for c in clients(path)] == [sha256(OTHER)]
        yield done, new != old, sorted(os.listdir(here))
        if done.returncode == 0 and "fault:" not in done.stderr:
            return
    pytest.fail("the tool never came to an end")


CHANGE = ["rotate", "-id", "bot", "-token-stdin"]


@pytest.mark.parametrize("what", ["kill", "killed-after"])
def test_a_kill_at_any_point_leaves_the_old_file_or_the_new_one(fault_library, tmp_path, what):
    kills, outcomes = 0, set()
    for done, changed, left in run_with_faults(fault_library, tmp_path, what, CHANGE):
        kills += done.returncode == -signal.SIGKILL
        outcomes.add(changed)
        assert all(n in ("clients.json", "clients.json.lock") or n.startswith(".plimsoll-clients-") for n in left)
    assert kills > 8
    assert outcomes == {True, False}


def test_a_call_that_fails_is_told_and_leaves_no_half(fault_library, tmp_path):
    failures = set()
    for done, changed, left in run_with_faults(fault_library, tmp_path, "fail", CHANGE):
        fault = re.search(r"^fault: (\w+)$", done.stderr, re.MULTILINE)
        if not fault:
            continue
        failures.add(fault[1])
        if fault[1] not in ("rmdir", "unlink"):
            assert left == ["clients.json"]
        if done.returncode != 0 and changed:
            assert "was replaced" in done.stderr and "inspect" in done.stderr
        if done.returncode == 0:
            assert changed
    assert {"mkdir", "fchmod", "fsync", "rename"} <= failures
