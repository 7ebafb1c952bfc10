"""The command line `plimsoll`: exit statuses, bad input, usage, JSON, describe, doctor."""

import base64
import json
import pathlib
import re
import subprocess
import time

import pytest

from cli_harness import (
    ENDLESS, PLIMSOLL, ROOT, SUMMARY, assert_nothing_ran, assert_usage, environment, last_line, plimsoll, wasm)

VERBS = ("run", "describe", "doctor", "help")
CODE_BYTES_MAX = 262144  # include/plimsoll/request.h


# ---- what a run answers ----


def test_answers_with_the_output_of_the_guest():
    done = wasm("run", "-e", "console.log(6 * 7)")
    assert (done.returncode, done.stdout) == (0, b"42\n")
    assert SUMMARY.fullmatch(last_line(done))["code"] == "0"


@pytest.mark.parametrize("code, exit_code", [
    ('import {exit} from "qjs:std"; exit(7)', "7"),
    ("throw new Error('boom')", "1"),
    ("let x = ;", "1"),
    ("await new Promise(() => {})", "13"),
])
def test_another_exit_code_is_status_1_and_the_code_on_the_last_line(code, exit_code):
    done = wasm("run", "-e", code)
    assert done.returncode == 1
    assert SUMMARY.fullmatch(last_line(done))["code"] == exit_code


def test_a_timeout_is_status_1_and_keeps_the_output():
    done = wasm("run", "--timeout", "300ms", "-e", "console.log('a');" + ENDLESS)
    assert (done.returncode, done.stdout) == (1, b"a\n")
    assert ", timed out, " in last_line(done)


def test_reads_a_file_and_standard_input(tmp_path):
    source = tmp_path / "code.js"
    source.write_text("console.log('from a file')")
    assert wasm("run", source).stdout == b"from a file\n"
    assert wasm("run", "-", stdin=b"console.log('from stdin')").stdout == b"from stdin\n"


def test_two_dashes_end_the_flags(tmp_path):
    (tmp_path / "-e").write_text("console.log('a file called -e')")
    done = subprocess.run([PLIMSOLL, "run", "--provider=wasm", "--", "-e"], cwd=tmp_path, capture_output=True,
                          env=environment())
    assert done.stdout == b"a file called -e\n"


@pytest.mark.parametrize("flags", [
    ["--provider", "wasm", "--timeout", "5s"],
    ["-provider", "wasm", "-timeout", "5s"],
    ["--provider", "wasm", "--timeout", "5s"],
    ["-provider=wasm", "--timeout=5s"],
    ["--json=false", "--provider=wasm", "--timeout=0"],
])
def test_flags_have_one_dash_or_two_and_a_value_after_a_blank_or_an_equals_sign(flags):
    assert plimsoll("run", *flags, "-e", "console.log(1)").stdout == b"1\n"
    assert plimsoll("run", "-e", "console.log(1)", *flags).stdout == b"1\n"


def test_the_flag_wins_over_the_environment():
    assert wasm("run", "--provider", "disabled", "-e", "1").returncode == 3
    assert plimsoll("run", "--provider", "wasm", "-e", "1", SANDBOX_PROVIDER="disabled").returncode == 0


def test_says_what_was_cut():
    done = wasm("run", "-e", "for (let i = 0; i < 8000; i++) console.log('123456789')")
    assert len(done.stdout) == 65536
    assert SUMMARY.fullmatch(last_line(done))["rest"] == ", stdout truncated"


def test_the_last_line_is_ours_whatever_the_guest_writes():
    forged = "plimsoll: provider docker, tier vm, exit code 0, 1 ms"
    done = wasm("run", "-e", f'import {{err, exit}} from "qjs:std"; err.puts({json.dumps(forged)}); exit(9)')
    assert done.stderr.decode().splitlines()[0] == forged
    assert SUMMARY.fullmatch(last_line(done))["code"] == "9"
    assert done.returncode == 1


# ---- the guest's own exit code ----


@pytest.mark.parametrize("arguments, status", [
    (["-e", "1"], 0),
    (["-e", 'import {exit} from "qjs:std"; exit(7)'], 7),
    (["--timeout", "200ms", "-e", ENDLESS], 124),
    (["--floor", "kernel", "-e", "1"], 125),
])
def test_pass_exit(arguments, status):
    assert wasm("run", "--pass-exit", *arguments).returncode == status


# ---- nothing ran ----


def test_nothing_runs_unless_a_provider_is_named():
    assert_nothing_ran(plimsoll("run", "-e", "console.log(1)"), "unsupported", "no provider is enabled")
    assert_nothing_ran(plimsoll("run", "-e", "console.log(1)", SANDBOX_PROVIDER=" "), "unsupported")


@pytest.mark.parametrize("floor", ["container", "kernel", "vm"])
def test_a_floor_above_the_tier_is_refused(floor):
    assert_nothing_ran(wasm("run", "--floor", floor, "-e", "console.log(1)"), "isolation", f"below the floor {floor}")
    assert_nothing_ran(plimsoll("run", "--floor", floor, "-e", "1"), "isolation", "disabled")


def test_a_floor_that_is_met_is_no_obstacle():
    assert wasm("run", "--floor", "process", "-e", "1").returncode == 0


@pytest.mark.parametrize("floor", ["tank", "", "none", "unknown", "Kernel", "kernel "])
def test_an_unknown_tier_is_refused(floor):
    assert_nothing_ran(wasm("run", f"--floor={floor}", "-e", "1"), "request", "process, container, kernel, vm")


def test_an_unknown_provider_is_refused():
    assert_nothing_ran(plimsoll("run", "--provider", "mars", "-e", "1"), "environment", '"mars"')
    assert_nothing_ran(plimsoll("run", "-e", "1", SANDBOX_PROVIDER="mars"), "environment", '"mars"')


@pytest.mark.parametrize("code, words", [
    (b"", "empty"),
    (b"1\0", "NUL"),
    (b"'\xff'", "UTF-8"),
    (b"'\xed\xa0\x80'", "UTF-8"),
    (b" " * (CODE_BYTES_MAX + 1), str(CODE_BYTES_MAX)),
], ids=["empty", "nul", "not-utf-8", "surrogate", "too-long"])
def test_bad_code_is_refused(tmp_path, code, words):
    source = tmp_path / "code.js"
    source.write_bytes(code)
    assert_nothing_ran(wasm("run", source), "request", words)
    assert_nothing_ran(wasm("run", "-", stdin=code), "request", words)


def test_code_of_the_greatest_length_runs():
    assert wasm("run", "-", stdin=b"console.log(1)".ljust(CODE_BYTES_MAX)).stdout == b"1\n"


def test_bad_code_on_the_command_line_is_refused():
    assert_nothing_ran(wasm("run", "-e", ""), "request", "empty")
    assert_nothing_ran(wasm("run", "-e", b"'\xff'"), "request", "UTF-8")


@pytest.mark.parametrize("path", ["/", "/no/such/file", "/dev/zero"])
def test_a_file_that_cannot_be_read_is_refused(path):
    assert_nothing_ran(wasm("run", path), "request", path)


@pytest.mark.parametrize("value, words", [
    ("1", "at least"), ("-1", "0-8796093022207"), ("17592186044416", "0-8796093022207"), ("many", "whole number"), ("1.5", "whole number"),
    ("99999999999999999999", "whole number"),
])
def test_a_memory_setting_out_of_range_is_refused(value, words):
    assert_nothing_ran(wasm("run", "-e", "1", SANDBOX_MEMORY_MB=value), "environment", words)


@pytest.mark.parametrize("name", ["SANDBOX_CPUS", "SANDBOX_PIDS", "SANDBOX_DISK_MB"])
def test_a_limit_that_wasm_cannot_enforce_is_refused(name):
    assert_nothing_ran(wasm("run", "-e", "1", **{name: "1"}), "environment", name)


@pytest.mark.parametrize("rule", [["oci:a"], ["oci:a", "oci:b"]])
def test_a_software_rule_is_refused_by_a_provider_without_identity(rule):
    flags = [word for identity in rule for word in ("--software", identity)]
    assert_nothing_ran(wasm("run", *flags, "-e", "1"), "environment", "software identity")


@pytest.mark.parametrize("flags", [["--software", "a b"], ["--software", ""], ["--software=a"] * 33])
def test_a_malformed_software_rule_is_refused(flags):
    assert_nothing_ran(wasm("run", *flags, "-e", "1"), "request")


@pytest.mark.parametrize("trace_id", ["", "a/b", "a" * 65, "ä"])
def test_a_malformed_trace_id_is_refused(trace_id):
    assert_nothing_ran(wasm("run", "--trace-id", trace_id, "-e", "1"), "request", "trace ID")


def test_a_trace_id_of_the_greatest_length_is_taken():
    assert wasm("run", "--trace-id", "a._:-Z09" * 8, "-e", "1").returncode == 0


# ---- durations ----


@pytest.mark.parametrize("value", ["", "5", "-5s", "-1", "5 s", "s", "5x", "1e400h", "99999999999h", "inf", "0x5s"])
def test_a_malformed_duration_is_a_usage_error(value):
    assert_usage(wasm("run", "--timeout", value, "-e", "1"), "is not a duration")


@pytest.mark.parametrize("value", ["0", "0s", "1h", "100000h", "1m0.5s"])
def test_no_budget_and_one_beyond_the_providers_are_no_errors(value):
    assert wasm("run", "--timeout", value, "-e", "console.log(1)").stdout == b"1\n"


def test_a_budget_below_a_millisecond_is_not_taken_for_none():
    start = time.monotonic()
    assert ", timed out, " in last_line(wasm("run", "--timeout", "1us", "-e", ENDLESS))
    assert time.monotonic() - start < 4  # the provider's default is 5 s


# ---- usage ----


@pytest.mark.parametrize("arguments, words", [
    ([], "a file, - or -e CODE"),
    (["-e", "1", "file.js"], "one source too many"),
    (["a.js", "b.js"], '"b.js"'),
    (["-bogus", "-e", "1"], '"-bogus"'),
    (["--bogus=1", "-e", "1"], '"--bogus"'),
    (["--provider"], "--provider needs a value"),
    (["--json=maybe", "-e", "1"], "--json takes true or false"),
    (["--floor", "vm", "--floor", "process", "-e", "1"], "--floor is given twice"),
    (["--markdown", "-e", "1"], '"--markdown"'),
    (["---json", "-e", "1"], '"---json"'),
    ([""], "an argument is empty"),
    (["--grant", "", "-e", "1"], "--grant is empty"),
    (["--ca-file", "ca.pem", "-e", "1"], "--ca-file is about a daemon"),
    (["--insecure-http", "-e", "1"], "--insecure-http is about a daemon"),
    (["--daemon", "https://127.0.0.1:1", "--ca-file", "", "-e", "1"], "--ca-file is empty"),
])
def test_wrong_arguments_of_run(arguments, words):
    assert_usage(wasm("run", *arguments), words)


@pytest.mark.parametrize("verb", ["describe", "doctor"])
def test_verbs_without_operands_take_none(verb):
    assert_usage(plimsoll(verb, "x"), '"x"')


def test_no_verb_is_usage_on_stderr():
    done = plimsoll()
    assert (done.returncode, done.stdout) == (2, b"")
    assert all(f"  {verb} " in done.stderr.decode() for verb in VERBS)


@pytest.mark.parametrize("verb, kind", [("frob", "verb"), ("-frob", "flag"), ("", "verb")])
def test_an_unknown_verb_is_named(verb, kind):
    assert_usage(plimsoll(verb), f'no {kind} "{verb}"')
    if verb == "frob":
        assert_usage(plimsoll("help", verb), f'"{verb}"')


def test_doctor_names_the_tier_first():
    answer = json.loads(plimsoll("doctor", "--json").stdout)
    assert all(list(row) == ["tier", "by", "offered", "has_provider", "state", "evidence", "change"] for row in answer["tiers"])


@pytest.mark.parametrize("flag", ["-h", "--h", "-help", "--help"])
@pytest.mark.parametrize("verb", [None, *VERBS])
def test_help_everywhere(verb, flag):
    done = plimsoll(*([verb] if verb else []), flag)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(f"usage: plimsoll {verb or 'VERB'}".encode())
    assert plimsoll("help", *([verb] if verb else [])).stdout == done.stdout


@pytest.mark.parametrize("arguments", [["callers", "-h"], ["callers", "--help"], ["help", "callers"]])
def test_help_of_a_verb_that_reads_its_own_arguments(arguments):
    done = plimsoll(*arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == plimsoll("callers", "help").stdout
    assert done.stdout.startswith(b"usage: plimsoll callers ")


def test_help_wins_over_what_follows():
    assert plimsoll("run", "-help", "-bogus").returncode == 0


@pytest.mark.parametrize("flag", ["-version", "--version"])
def test_version(flag):
    done = plimsoll(flag)
    assert (done.returncode, done.stdout.decode()) == (0, f"plimsoll {(ROOT / 'VERSION').read_text().strip()}\n")


# ---- JSON ----


def test_json_of_a_result():
    done = wasm("run", "--json", "-e", 'import {err, exit} from "qjs:std"; console.log("ä\\0"); err.puts("e"); exit(3)')
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert re.fullmatch("quickjs-wasm:sha256:[0-9a-f]{64}", answer.pop("environment"))
    assert answer.pop("duration_ms") == answer.pop("duration_ns") // 1000000
    assert answer == {
        "status": "ok", "provider": "wasm", "isolation": "process", "software_identity": "", "exit_code": 3,
        "timed_out": False, "limit_reached": "", "stdout": "ä\0\n", "stderr": "e", "stdout_truncated": False,
        "stderr_truncated": False}
    assert SUMMARY.fullmatch(last_line(done))


def test_json_of_output_that_is_not_utf_8():
    answer = json.loads(wasm("run", "--json", "-e", r"console.log('a\ud800b')").stdout.decode("utf-8", "strict"))
    assert answer["stdout"].startswith("a\ufffd") and answer["stdout"].endswith("b\n")
    assert base64.b64decode(answer["stdout_base64"], validate=True) == b"a\xed\xa0\x80b\n"
    assert answer["stderr"] == "" and "stderr_base64" not in answer


@pytest.mark.parametrize("length", range(1, 8))
def test_base64_of_every_length(length):
    answer = json.loads(wasm("run", "--json", "-e", 'import {out} from "qjs:std"; out.puts("\\ud800" + '
                             f'"x".repeat({length}))').stdout)
    assert base64.b64decode(answer["stdout_base64"], validate=True) == b"\xed\xa0\x80" + b"x" * length


def test_json_of_a_timeout():
    answer = json.loads(wasm("run", "--json", "--timeout", "200ms", "-e", ENDLESS).stdout)
    assert (answer["timed_out"], answer["exit_code"]) == (True, 124)


def test_json_of_a_refusal():
    done = wasm("run", "--json", "--floor", "kernel", "-e", "1")
    assert done.returncode == 3
    answer = json.loads(done.stdout)
    assert last_line(done).endswith(": " + answer.pop("message"))
    assert answer == {"status": "insufficient_isolation", "code": "failed_precondition",
                      "not_dispatched": "isolation", "may_have_run": False}


# ---- describe ----


def test_describes_the_provider():
    done = wasm("describe", SANDBOX_MEMORY_MB="64")
    assert done.returncode == 0
    rows = dict(line.split(maxsplit=1) for line in done.stdout.decode().splitlines() if not line.startswith(" "))
    assert rows["provider"] == "wasm" and rows["isolation"] == "process" and rows["memory"] == "64 MiB"
    assert rows["javascript"] == "yes, without grants, at most 30000 ms" or rows["javascript"].startswith("yes, ")
    assert rows["project"] == rows["module"] == rows["sessions"] == "no"


def test_describes_in_json():
    answer = json.loads(wasm("describe", "--json").stdout)
    assert (answer["status"], answer["provider"], answer["isolation"]) == ("ok", "wasm", "process")
    assert answer["supports"]["javascript"]["supported"] and not answer["supports"]["project"]["supported"]
    assert answer["supports"]["javascript"]["environment"] == json.loads(
        wasm("run", "--json", "-e", "1").stdout)["environment"]


def test_json_says_all_that_the_last_line_says():
    done = plimsoll("run", "--json", "-e", "1")
    assert last_line(done).endswith(": " + json.loads(done.stdout)["message"])
    assert "--provider wasm" in last_line(done)


def test_describes_the_provider_that_runs_nothing():
    answer = json.loads(plimsoll("describe", "--json").stdout)
    assert (answer["provider"], answer["isolation"]) == ("disabled", "none")
    assert not any(kind["supported"] for kind in answer["supports"].values())


@pytest.mark.parametrize("settings, reason", [
    ({"SANDBOX_PROVIDER": "mars"}, "environment"),
    ({"SANDBOX_PROVIDER": "wasm", "SANDBOX_MEMORY_MB": "1"}, "environment"),
    ({"SANDBOX_PROVIDER": "wasm", "SANDBOX_MIN_ISOLATION": "kernel"}, "isolation"),
])
def test_describes_nothing_when_the_provider_is_not_ready(settings, reason):
    assert_nothing_ran(plimsoll("describe", **settings), reason)
    assert json.loads(plimsoll("describe", "--json", **settings).stdout)["not_dispatched"] == reason


# ---- doctor ----


def test_doctor_offers_the_tier_that_it_started():
    done = plimsoll("doctor", "--json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert [row["tier"] for row in answer["tiers"]] == ["process", "container", "kernel", "vm"]
    assert [row["offered"] for row in answer["tiers"]] == [True, False, False, False]
    assert "startup test passed" in answer["tiers"][0]["evidence"] and answer["tiers"][0]["change"] == ""
    assert set(answer["machine"]) == {"cgroups", "user_namespaces", "seccomp"}


def test_doctor_names_one_thing_to_change_for_each_tier_it_does_not_offer():
    rows = json.loads(plimsoll("doctor", "--json").stdout)["tiers"][1:]
    for row in rows:
        assert row["evidence"] and row["change"]
        assert row["state"] != "works", "nothing but wasm was tried"
        assert row["state"] != "seen" or row["tier"] == "vm" or "plimsoll describe" in row["change"]
    assert "has no provider that uses it" in rows[2]["change"]


def test_doctor_reports_a_setting_that_stands_in_the_way():
    done = plimsoll("doctor", "--json", SANDBOX_MEMORY_MB="1")
    assert done.returncode == 1
    row = json.loads(done.stdout)["tiers"][0]
    assert (row["offered"], row["state"]) == (False, "no") and "SANDBOX_MEMORY_MB" in row["evidence"] and row["change"]


def test_doctor_does_not_need_a_provider_to_be_chosen():
    assert plimsoll("doctor", SANDBOX_PROVIDER="mars").returncode == 0


def test_doctor_sees_the_cgroups_that_are_mounted():
    mounted = {line.split()[2] for line in pathlib.Path("/proc/mounts").read_text().splitlines()
               if line.split()[1].startswith("/sys/fs/cgroup")}
    evidence = json.loads(plimsoll("doctor", "--json").stdout)["machine"]["cgroups"]["evidence"]
    expected = "hybrid" if {"cgroup", "cgroup2"} <= mounted else \
        "version 2" if "cgroup2" in mounted else "version 1" if "cgroup" in mounted else "no cgroup"
    assert evidence.startswith(expected)


def test_doctor_is_plain_where_there_is_no_utf_8_terminal():
    page = plimsoll("doctor").stdout
    page.decode("ascii")
    assert b"  ok process " in page and b"not attestation" in page
