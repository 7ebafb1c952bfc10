"""The seccomp profile: the file against the table of docs/seccomp.md, then against the kernel, inside a container."""

import functools
import json
import re

import pytest

import containers
from containers import ROOT

PROFILE = ROOT / "packaging/seccomp.json"
PAGE = ROOT / "docs/seccomp.md"
PROBE = ROOT / "build/release/tests/integration/seccomp-probe"
NAMESPACE_FLAGS = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
                   "pid": 0x20000000, "net": 0x40000000}
RULES = {"socket", "socketpair", "clone", "clone3", "personality", "mknod", "mknodat"}
# Without one of these nothing starts: who needs it.
ESSENTIAL = {
    "execve": "all", "mmap": "all", "brk": "all", "exit_group": "all", "rt_sigaction": "all", "futex": "all",
    "set_tid_address": "static musl", "arch_prctl": "static glibc and musl", "set_robust_list": "glibc", "rseq": "glibc",
    "prlimit64": "glibc", "readlinkat": "static glibc", "getrandom": "glibc, node, CPython", "statx": "node",
    "epoll_pwait": "node", "eventfd2": "node", "pipe2": "node", "dup3": "node",
    "getdents64": "CPython", "newfstatat": "CPython", "sigaltstack": "node, CPython", "madvise": "node",
    "sched_getaffinity": "node, CPython", "clock_nanosleep": "CPython", "prctl": "node", "pread64": "dynamic loader",
    "mprotect": "dynamic loader", "openat2": "the control program", "ppoll": "the control program",
}
PATTERNED = re.compile(r"`(\w+)`")


def profile():
    return json.loads(PROFILE.read_text())


def allowed():
    """Names allowed without a condition."""
    return {name for rule in profile()["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule
            for name in rule["names"]}


def denied_rows():
    """The rows of the table of the page. A row that cannot be read is a failure, not a row less."""
    text = PAGE.read_text().split("<!-- denied calls -->")[1].split("<!-- end of denied calls -->")[0]
    rows = [line for line in text.strip().splitlines() if line.startswith("|")][2:]
    found = []
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 2 and cells[1], row
        names = PATTERNED.findall(cells[0])
        assert names and cells[0] == ", ".join(f"`{name}`" for name in names), f"not a list of calls: {row}"
        found.append(names)
    assert len(found) >= 16
    return found


def denied():
    return [name for row in denied_rows() for name in row]


# ---- the file ----


def test_what_is_not_listed_fails_with_eperm():
    assert profile()["defaultAction"] == "SCMP_ACT_ERRNO"
    assert profile()["defaultErrnoRet"] == 1


def test_two_architectures_and_no_second_form_of_either():
    assert profile()["archMap"] == [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
                                    {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []}]
    assert "architectures" not in profile()


def test_every_denied_call_is_withheld_and_named_once():
    names = denied()
    assert len(names) == len(set(names))
    listed = {name for rule in profile()["syscalls"] for name in rule["names"]}
    assert not set(names) & listed


def test_the_file_lists_each_call_once_and_every_rule_has_a_comment():
    rules = profile()["syscalls"]
    plain = [name for rule in rules if "args" not in rule for name in rule["names"]]
    assert len(plain) == len(set(plain))
    assert len(allowed()) == 261
    assert {name for rule in rules if rule["action"] != "SCMP_ACT_ALLOW" or "args" in rule for name in rule["names"]} == RULES
    assert all(rule["comment"] for rule in rules)


def test_the_families_of_the_table_are_complete():
    prefixes = ("io_uring_", "pkey_", "landlock_", "pidfd_", "mq_", "shm", "sem", "msg", "process_vm_")
    assert not [name for name in allowed() if name.startswith(prefixes) and name != "msync"]


def test_conditions():
    rules = {}
    for rule in profile()["syscalls"]:
        for name in rule["names"]:
            if name in RULES:
                rules.setdefault(name, []).append(rule)
    for name in ("socket", "socketpair"):
        assert [rule["args"] for rule in rules[name]] == [[{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}]]
    mask = rules["clone"][0]["args"][0]
    assert len(rules["clone"]) == 1 and mask["op"] == "SCMP_CMP_MASKED_EQ" and mask["valueTwo"] == 0 and mask["index"] == 0
    assert mask["value"] == sum(NAMESPACE_FLAGS.values()) == 0x7E020000
    assert [(rule["action"], rule["errnoRet"]) for rule in rules["clone3"]] == [("SCMP_ACT_ERRNO", 38)]
    assert sorted(rule["args"][0]["value"] for rule in rules["personality"]) == [0, 0xFFFFFFFF]
    for name, index in (("mknod", 1), ("mknodat", 2)):
        assert [rule["args"] for rule in rules[name]] == [
            [{"index": index, "value": 0o170000, "valueTwo": 0o010000, "op": "SCMP_CMP_MASKED_EQ"}]]


@pytest.mark.parametrize("name", ESSENTIAL)
def test_essential_calls_are_present(name):
    assert name in allowed() | RULES


# ---- the kernel ----


def run(*command, image="sandbox", seccomp=str(PROFILE)):
    containers.need(image)
    if not PROBE.exists():
        pytest.skip(f"{PROBE.relative_to(ROOT)} is not built: run make")
    return containers.docker("run", *containers.lockdown(), "--security-opt", f"seccomp={seccomp}", "--volume", f"{PROBE}:/probe:ro",
                             f"plimsoll/{image}:latest", *command)


@functools.cache
def probed(seccomp):
    ran = run("/probe", seccomp=seccomp)
    assert ran.returncode == 0, ran.stderr
    return dict(line.split() for line in ran.stdout.decode().splitlines())


def under_profile():
    return probed(str(PROFILE))


@pytest.mark.parametrize("names", denied_rows(), ids=lambda names: names[0])
def test_denied_family_fails_with_eperm_in_a_container(names):
    results = under_profile()
    tried = [name for name in names if name != "modify_ldt" or name in results]  # a call of x86_64 alone
    assert {name: results[name] for name in tried} == dict.fromkeys(tried, "EPERM")


def test_it_is_the_profile_that_denies():
    """The same calls without one fail in ways of their own, so that EPERM above says something."""
    free = probed("unconfined")
    ours = [name for name in denied() if free.get(name) not in ("EPERM", None)]
    assert {"io_uring_setup", "msgget", "shmget", "keyctl", "pidfd_open", "process_vm_readv", "semget"} <= set(ours)


def test_conditions_hold_in_a_container():
    results = under_profile()
    for name in ("socket_inet", "socket_netlink", "socket_packet", "socket_vsock", "socket_alg",
                 "personality_no_randomization", "unshare_user", "mknodat_device", "mknodat_file"):
        assert results[name] == "EPERM", name
    for flag in NAMESPACE_FLAGS:
        assert results[f"clone_{flag}"] == "EPERM", flag
    for name in ("socket_unix", "socketpair", "personality_read", "personality_plain", "clone_plain", "mknodat_fifo",
                 "fork", "kill_child", "wait_child"):
        assert results[name] == "ok", name
    assert results["clone3"] == "ENOSYS"
    for name in ("utime", "utimes", "futimesat", "mknod_fifo"):
        assert results.get(name, "ok") == "ok", name


def test_a_call_that_no_kernel_has_is_not_implemented():
    assert under_profile()["no_such_call"] == "ENOSYS"


STILL_WORKS = {
    "copying with metadata": "echo x > a && touch -d @1000 a && cp -p a b && test $(stat -c %Y b) = 1000 && ls -l b",
    "a FIFO": "mkfifo f && (echo through > f &) && test \"$(cat f)\" = through",
    "timeout": "timeout 1 sleep 9 || test $? = 124",
    "node": "node -e 'setTimeout(() => console.log(1), 5)'",
    "node reads and writes": "node -e \"const fs = require('fs'); fs.writeFileSync('n', '1'); fs.copyFileSync('n', 'm')\"",
    "node starts a child": "node -e \"console.log(require('child_process').execSync('echo 1').toString())\"",
    "worker threads": "node -e \"new (require('worker_threads').Worker)('1', {eval: true}).on('exit', process.exit)\"",
    "TypeScript": "echo 'const x: number = 1; console.log(x)' > t.ts && tsx t.ts && tsc t.ts && node t.js",
}
PYTHON_WORKS = {
    "copying a tree": "import shutil, os; os.mkdir('d'); open('d/f', 'w').close(); shutil.copytree('d', 'e')",
    "alarm": "import signal; signal.signal(signal.SIGALRM, lambda *_: exit(0)); signal.alarm(1); signal.pause(); exit(1)",
    "numpy": "import numpy, scipy.linalg; numpy.linalg.inv(numpy.eye(50))",
    "subprocess and threads": "import subprocess, threading; t = threading.Thread(target=subprocess.run, args=(['true'],)); "
                              "t.start(); t.join()",
}


@pytest.mark.parametrize("what", STILL_WORKS)
def test_still_works(what):
    ran = run("sh", "-ec", STILL_WORKS[what])
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("what", PYTHON_WORKS)
def test_python_still_works(what):
    ran = run("python3", "-c", PYTHON_WORKS[what], image="sandbox-python")
    assert ran.returncode == 0, ran.stderr
