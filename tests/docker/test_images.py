"""The guest images: how they are made, what is in them, what they must not have, and that what they are for works."""

import dataclasses
import functools
import hashlib
import importlib
import json
import re
import shutil
import struct
import subprocess
import sys

import pytest

import containers
from docker_harness import own_name
from test_guest_ctl import decode, run, run_one

IMAGES = ("sandbox-js", "sandbox", "sandbox-python")
FORBIDDEN_ENV = re.compile(r"^(LD_\w*|GLIBC_TUNABLES|LOCPATH|NLSPATH|GCONV_PATH)=")
PT_INTERP = 3  # a program header that names a loader


def module(name):
    """A module of what builds images."""
    sys.path.insert(0, str(containers.ROOT / "images"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


@functools.cache
def recipes():
    return module("recipes")


@functools.cache
def inspect(name):
    containers.need(name)
    return json.loads(containers.docker("image", "inspect", f"plimsoll/{name}:latest").stdout)[0]


def shell(command, image, user="61000:61000"):
    containers.need(image)
    ran = containers.docker("run", "--rm", "--network", "none", "--read-only", "--user", user, f"plimsoll/{image}:latest",
                            "sh", "-c", command)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.decode()


@pytest.fixture(params=IMAGES)
def image(request):
    return request.param


# ---- how they are made ----


@pytest.mark.parametrize("there", [True, False])
def test_a_version_that_the_mirror_has_dropped_is_followed_and_stated(there, tmp_path, monkeypatch, capsys):
    """An image of one package, under the version that the mirror has or under one that it has no longer."""
    containers.need()
    build, book = module("build"), recipes().read()
    recipe = recipes().Recipe(name="small", title="A small one", packages=("base-files",), versions=(("base", "base-files"),))
    monkeypatch.setattr(build, "WORK", tmp_path)
    maker = build.Builder(dataclasses.replace(book, recipes={"small": recipe}), recipes().architecture(), tmp_path / "none")
    now = module("debian").resolve(book.debian, ["base-files"])
    maker.pins = {"small": {"base-files": now["base-files"] if there else "0.1"}}
    assert [path.name.split("-")[0] for path in maker.layer_files("small")] == ["small"]
    labels = maker.labels("small")
    assert labels["io.plimsoll.version.base"] == now["base-files"]
    assert f"base-files={now['base-files']}" in labels.get("io.plimsoll.unlocked", "").split() or there
    assert ("io.plimsoll.unlocked" in labels) != there
    assert ("the mirror has no longer" in capsys.readouterr().out) != there


def test_the_lock_names_one_exact_version_of_each_package():
    arch = recipes().architecture()
    epoch, pins = recipes().read_lock(arch)
    assert epoch > 1_700_000_000
    for name, recipe in recipes().read().recipes.items():
        assert set(recipe.packages) <= set(pins.get(name, {})), name
    assert all(re.fullmatch(r"[0-9][0-9A-Za-z.+:~-]*", version) for packages in pins.values() for version in packages.values())


def test_a_higher_image_has_the_versions_of_the_lower():
    _, pins = recipes().read_lock(recipes().architecture())
    lower, higher = pins["sandbox-js"], pins["sandbox-python"]
    assert {name: version for name, version in lower.items() if higher.get(name) != version} == {}


def test_tools_are_locked_with_integrity_and_without_addresses():
    lock = json.loads((containers.ROOT / "images/npm/package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())
    assert not [name for name, entry in packages.items() if "resolved" in entry]
    versions = {name: packages[f"node_modules/{name}"]["version"] for name in ("typescript", "tsx", "eslint")}
    assert versions == {"typescript": "5.6.3", "tsx": "4.19.2", "eslint": "9.13.0"}


def test_the_label_is_the_digest_of_the_inputs(image):
    program = containers.ROOT / "build/release/guest/ctl/plimsoll-guest"
    labels = inspect(image)["Config"]["Labels"]
    assert labels["io.plimsoll.release"] == (containers.ROOT / "VERSION").read_text().strip()
    if not program.exists():
        pytest.skip("build/release has no control program: run make")
    assert labels["io.plimsoll.inputs"] == recipes().inputs(recipes().read(), image, recipes().architecture(), program), (
        "the image is out of date: run make images")


def test_a_build_of_what_is_up_to_date_does_nothing():
    containers.need(*IMAGES)
    checked = subprocess.run([containers.ROOT / "scripts/images", "check"], capture_output=True, text=True)
    if checked.returncode:
        pytest.skip(checked.stdout or checked.stderr)
    built = subprocess.run([containers.ROOT / "scripts/images", "build"], capture_output=True, text=True, check=True)
    assert "==>" not in built.stdout
    for name in IMAGES:
        assert re.search(rf"^plimsoll/{name}:latest +sha256:[0-9a-f]{{64}} ", built.stdout, re.MULTILINE)


def test_an_unknown_image_or_command_is_refused():
    for words in (["build", "nothing"], ["fly"]):
        ran = subprocess.run([containers.ROOT / "scripts/images", *words], capture_output=True, text=True)
        assert ran.returncode == 1 and ran.stderr


def test_a_derived_image_has_the_packages_of_a_lock_at_the_root(tmp_path):
    """With a lock that names none, so that no registry is needed: what is looked at is where they would be."""
    containers.need("sandbox")
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    if subprocess.run([containers.ROOT / "scripts/images", "check", "sandbox"], capture_output=True).returncode:
        pytest.skip("plimsoll/sandbox is out of date: run make images")
    (tmp_path / "package.json").write_text('{"name": "none", "private": true}')
    (tmp_path / "package-lock.json").write_text('{"name": "none", "lockfileVersion": 3, "requires": true, "packages": {"": {"name": "none"}}}')
    tag = own_name("derived")
    subprocess.run([containers.ROOT / "scripts/images", "derive", tag, tmp_path], check=True, capture_output=True)
    try:
        derived = json.loads(containers.docker("image", "inspect", tag).stdout)[0]
        below = inspect("sandbox")["RootFS"]["Layers"]
        assert derived["RootFS"]["Layers"][:-1] == below and derived["Config"]["User"] == inspect("sandbox")["Config"]["User"]
        listed = containers.docker("run", "--rm", "--network", "none", tag, "stat", "-c", "%a %u", "/node_modules")
        assert listed.stdout == b"755 0\n"
    finally:
        containers.docker("image", "rm", tag)


# ---- what is in them ----


def test_what_an_image_must_satisfy(image):
    config = inspect(image)["Config"]
    assert not config.get("Volumes")
    assert all(re.match(r"[^=]+=", entry) for entry in config["Env"])
    assert not [entry for entry in config["Env"] if FORBIDDEN_ENV.match(entry)]
    assert config["User"] not in ("", "0", "root")
    assert inspect(image)["Architecture"] in ("amd64", "arm64")


def test_nothing_in_it_belongs_to_a_guest_or_gives_rights(image):
    """Every file is root's; what anybody may write are the mount points; no program has another's rights."""
    found = shell("find / -xdev \\( -path /proc -o -path /sys -o -path /dev \\) -prune -o "
                  "\\( -perm /6000 -o ! -user 0 -o ! -group 0 -o \\( ! -type l -perm -0002 \\) \\) -print", image, "0:0")
    assert sorted(found.split()) == ["/tmp", "/work"]


def test_the_control_program_is_that_of_this_release(image):
    listed = shell("stat -c '%a %u %g %n' /usr/local/lib/plimsoll/*; sha256sum /usr/local/lib/plimsoll/*", image, "0:0").split("\n")
    assert listed[:2] == ["711 0 0 /usr/local/lib/plimsoll/plimsoll-guest", "755 0 0 /usr/local/lib/plimsoll/plimsoll-guest-runsc"]
    assert listed[2] == "644 0 0 /usr/local/lib/plimsoll/warm.js"
    program, same, warm = (line.split()[0] for line in listed[3:6])
    assert program == same, "both are the same bytes"
    assert warm == hashlib.sha256((containers.ROOT / "guest/drivers/warm.js").read_bytes()).hexdigest()
    built = containers.ROOT / "build/release/guest/ctl/plimsoll-guest"
    if built.exists():
        assert program == hashlib.sha256(built.read_bytes()).hexdigest()


def test_it_is_static_and_small():
    shell("test $(stat -c %s /usr/local/lib/plimsoll/plimsoll-guest) -lt 1000000", "sandbox-js")
    head = containers.docker("run", "--rm", "--network", "none", "plimsoll/sandbox-js:latest", "head", "-c", "4096",
                             "/usr/local/lib/plimsoll/plimsoll-guest-runsc").stdout
    (offset,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    kinds = {struct.unpack_from("<I", head, offset + i * size)[0] for i in range(count)}
    assert head[:4] == b"\x7fELF" and 1 in kinds and PT_INTERP not in kinds


def test_a_guest_can_install_nothing(image):
    shell("! command -v apt && ! command -v dpkg && ! command -v npm && ! command -v corepack && ! command -v pip && ! command -v pip3", image)
    if image == "sandbox-python":
        shell("! python3 -m pip --version 2>/dev/null && ! python3 -m ensurepip --version 2>/dev/null", image)


def test_licences_are_kept(image):
    assert int(shell("ls /usr/share/doc/*/copyright | wc -l", image)) > 30
    assert "libc6 " in shell("cat /usr/share/plimsoll/packages/*", image)


# ---- what they are for ----


@pytest.mark.parametrize("runtime", containers.RUNTIMES)
def test_typescript_runs_compiled_and_directly(runtime):
    files = {"a.ts": "import { x } from './b.js';\nconst y: number = x * 7;\nconsole.log(y);\n", "b.ts": "export const x: number = 6;\n",
             "package.json": '{"type": "module"}'}
    report = run(["tsx a.ts", "tsc --strict --target es2022 --module nodenext --outDir out a.ts", "node out/a.js"], runtime, files=files,
                 timeout_ms=60000)
    assert [(step["exitCode"], decode(step)["out"]) for step in report["steps"]] == [(0, b"42\n"), (0, b""), (0, b"42\n")]


def test_a_type_error_is_a_result():
    step = run_one("tsc --strict --noEmit a.ts", files={"a.ts": "const x: number = 'a';"}, timeout_ms=60000)
    assert step["exitCode"] == 2 and b"TS2322" in step["out"]


def test_eslint_finds_something():
    files = {"eslint.config.mjs": "export default [{rules: {'no-unused-vars': 'error'}}];", "a.mjs": "const unused = 1;\n"}
    step = run_one("eslint a.mjs", files=files, timeout_ms=60000)
    assert step["exitCode"] == 1 and b"no-unused-vars" in step["out"]


def test_a_missing_package_is_an_ordinary_result():
    step = run_one("node -e \"require('lodash')\"")
    assert step["exitCode"] == 1 and b"Cannot find module 'lodash'" in step["err"]


SUMS = "import numpy, hashlib; a = numpy.random.default_rng(1).random((300, 300)); print(hashlib.sha256((a @ a).tobytes()).hexdigest())"


@pytest.mark.parametrize("runtime", containers.RUNTIMES)
def test_numpy_and_scipy_work_with_one_thread_and_the_same_bits(runtime):
    environment = inspect("sandbox-python")["Config"]["Env"]
    assert {"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1"} <= set(environment)
    threads = "import numpy, os; numpy.ones((500, 500)) @ numpy.ones((500, 500)); print(len(os.listdir('/proc/self/task')))"
    report = run([f'python3 -c "{threads}"', f'python3 -c "{SUMS}"', f'python3 -c "{SUMS}"',
                  "python3 -c 'import scipy.linalg, scipy.optimize, scipy.sparse; print(scipy.linalg.det([[1, 2], [3, 4]]))'"],
                 runtime, image="sandbox-python", env=environment, timeout_ms=60000)
    outs = [decode(step)["out"] for step in report["steps"]]
    assert [step["exitCode"] for step in report["steps"]] == [0, 0, 0, 0], report
    assert outs[0] == b"1\n" and outs[1] == outs[2] and outs[3].startswith(b"-2.0")


def test_python_modules_were_compiled():
    shell("cd /usr/lib/python3.*/__pycache__ && ls os.*.pyc && ls /usr/lib/python3/dist-packages/numpy/__pycache__/*.pyc", "sandbox-python")


def test_a_native_module_loads_from_the_root_and_not_from_the_work_directory():
    """Every place that a guest can write is noexec, so that the loader refuses the same bytes there."""
    step = run_one("f=$(ls /usr/lib/python3/dist-packages/numpy/_core/_multiarray_umath.*.so); cp $f /work/m.so; "
                   "python3 -c \"import ctypes; ctypes.CDLL('$f'); ctypes.CDLL('/work/m.so')\"", image="sandbox-python",
                   env=["PYTHONPATH="], timeout_ms=60000)
    assert step["exitCode"] == 1
    assert b"/work/m.so" in step["err"] and b"failed to map segment" in step["err"], step["err"]


def test_versions_are_labels():
    labels = inspect("sandbox-python")["Config"]["Labels"]
    assert {"io.plimsoll.version.node", "io.plimsoll.version.python", "io.plimsoll.version.numpy",
            "io.plimsoll.version.scipy"} <= set(labels)
    assert shell("node --version", "sandbox-python").strip()[1:] == labels["io.plimsoll.version.node"].split("+")[0]
