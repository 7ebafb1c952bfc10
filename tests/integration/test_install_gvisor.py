"""The gVisor installer, in a checkout of its own with a small archive in place of the real one: what it refuses, in which
order, and that a second run changes nothing."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RELEASE = "20990101.0"
NAMES = ("runsc", "containerd-shim-runsc-v1", "gvisor-bin/helper")
# Answers as the real program does, and leaves a mark when it is run.
RUNSC = f"""#!/bin/sh
echo ran >> "$MARK"
[ "$1" = --version ] && echo 'runsc version release-{RELEASE}' && exit
[ "$1" = install ] || exit 9
for word; do case $word in --config_file=*) file=${{word#*=}} ;; esac; done
printf '{{"args": "%s"}}\\n' "$*" | sed 's/ --config_file=[^ ]*//' > "$file"
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout with the installer and the manifest of a small archive."""
    (tmp_path / "scripts").mkdir()
    for name in ("install-gvisor", "lib.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts" / name)
    return Checkout(tmp_path)


class Checkout:
    def __init__(self, folder):
        self.folder, self.mark, self.archive = folder, folder / "mark", folder / "bundle.tar.zstd"
        self.make_archive(NAMES)
        self.write_manifest()

    def make_archive(self, names, link=None):
        plain = self.folder / "bundle.tar"
        with tarfile.open(plain, "w") as archive:
            for name in names:
                path = self.folder / "file"
                path.write_text(RUNSC)
                path.chmod(0o755)
                archive.add(path, name)
            if link:
                info = tarfile.TarInfo(link)
                info.type, info.linkname = tarfile.SYMTYPE, "/bin/true"
                archive.addfile(info)
        subprocess.run(["zstd", "-q", "-f", str(plain), "-o", str(self.archive)], check=True)

    def write_manifest(self, **changes):
        digest = hashlib.sha512(self.archive.read_bytes()).hexdigest()
        lines = {"release": RELEASE, "sha512_x86_64": digest, "sha512_aarch64": digest, "executables": " ".join(NAMES)} | changes
        (self.folder / "scripts/gvisor.versions").write_text("".join(f"{key} {value}\n" for key, value in lines.items()))

    def install(self, *words, before=()):
        environment = {**os.environ, "MARK": str(self.mark)}
        return subprocess.run([*before, str(self.folder / "scripts/install-gvisor"), *words], capture_output=True, text=True,
                              env=environment)

    def verify(self):
        return self.install("--verify-only", "--archive", str(self.archive))

    def replace_tools(self, **scripts):
        """Put programs of our own before the system's."""
        tools = self.folder / "tools"
        tools.mkdir()
        for name, text in scripts.items():
            (tools / name).write_text(f"#!/bin/sh\n{text}\n")
            (tools / name).chmod(0o755)
        script = self.folder / "scripts/lib.sh"
        script.write_text(script.read_text().replace("PATH=/usr/bin", f"PATH={tools}:/usr/bin"))

    @property
    def was_run(self):
        return self.mark.exists()


@pytest.fixture(autouse=True)
def tools():
    if not shutil.which("zstd"):
        pytest.skip("zstd is not installed")


def test_a_good_archive_passes(checkout):
    ran = checkout.verify()
    assert ran.returncode == 0, ran.stderr
    assert "nothing was installed" in ran.stdout and checkout.was_run
    assert list((checkout.folder / "tmp").iterdir()) == []


def test_a_wrong_checksum_is_found_before_anything_is_unpacked_or_run(checkout):
    with checkout.archive.open("ab") as archive:
        archive.write(b"\0")
    ran = checkout.verify()
    assert ran.returncode == 1 and "nothing was unpacked" in ran.stderr
    assert not checkout.was_run


@pytest.mark.parametrize("words", [["--archive"], ["--release", "1"], ["--verify-only", "extra"], ["-h"]])
def test_other_words_are_usage_errors(checkout, words):
    assert checkout.install(*words).returncode == 2


@pytest.mark.parametrize("changes", [
    {"release": "latest"}, {"release": "20990101"}, {"sha512_x86_64": "00", "sha512_aarch64": "00"},
    {"executables": "runsc helper"}, {"executables": "runsc a b/../../c"}, {"executables": "runsc a /bin/sh"},
    {"executables": "runsc a $(touch${IFS}x)"}])
def test_a_manifest_of_the_wrong_shape_is_refused(checkout, changes):
    checkout.write_manifest(**changes)
    ran = checkout.verify()
    assert ran.returncode == 1 and not checkout.was_run


def test_a_missing_or_linked_executable_is_refused(checkout):
    for names, link in ((NAMES[:2], None), (NAMES[:2], NAMES[2])):
        checkout.make_archive(names, link)
        checkout.write_manifest()
        ran = checkout.verify()
        assert ran.returncode == 1 and "has no executable file gvisor-bin/helper" in ran.stderr
        assert not checkout.was_run


def test_another_release_than_the_pinned_one_is_refused(checkout):
    checkout.write_manifest(release="20990102.0")
    ran = checkout.verify()
    assert ran.returncode == 1 and "not release-20990102.0" in ran.stderr


def test_an_unsupported_architecture_is_refused_before_a_download(checkout):
    checkout.replace_tools(uname="echo riscv64", curl='echo fetched >> "$MARK"')
    ran = checkout.install("--verify-only")
    assert ran.returncode == 1 and "riscv64" in ran.stderr and not checkout.was_run


def test_installing_twice_changes_nothing_the_second_time(checkout):
    """In a mount namespace, where /usr/local/bin and /etc/docker are empty."""
    if os.geteuid() != 0:
        pytest.skip("needs root for a mount namespace")
    checkout.replace_tools(systemctl="exit 3")  # no Engine of this machine is to be restarted
    script = ("mount -t tmpfs none /usr/local/bin && mkdir -p /etc/docker && mount -t tmpfs none /etc/docker || exit 77; "
              "\"$@\" || exit 1; stat -c '%n %a %i %y' /usr/local/bin/runsc /usr/local/bin/gvisor-bin/helper; cat /etc/docker/daemon.json; "
              "\"$@\" || exit 1; stat -c '%n %a %i %y' /usr/local/bin/runsc /usr/local/bin/gvisor-bin/helper; cat /etc/docker/daemon.json")
    ran = checkout.install("--archive", str(checkout.archive), before=["unshare", "-m", "sh", "-c", script, "sh"])
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip("no mount namespace here")
    assert ran.returncode == 0, ran.stderr
    states = re.findall(r"^/usr/local/bin/runsc 755 .*\n/usr/local/bin/gvisor-bin/helper 755 .*\n.*host-uds=open.*$", ran.stdout, re.MULTILINE)
    assert len(states) == 2 and states[0] == states[1]
    assert ran.stdout.count("Start the Docker Engine again") + ran.stdout.count("Restarting") == 1


def test_the_manifest_in_the_tree_has_the_shape():
    lines = dict(line.split(" ", 1) for line in (ROOT / "scripts/gvisor.versions").read_text().splitlines() if not line.startswith("#"))
    assert set(lines) == {"release", "sha512_x86_64", "sha512_aarch64", "executables"}
    assert re.fullmatch(r"\d{8}\.\d+", lines["release"])
    assert all(re.fullmatch(r"[0-9a-f]{128}", lines[f"sha512_{machine}"]) for machine in ("x86_64", "aarch64"))
    assert lines["executables"].split()[0] == "runsc"
