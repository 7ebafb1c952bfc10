"""Roots made of Debian packages, by mmdebstrap: their files are taken out of the packages, whose own scripts do not run."""

import os
import pathlib
import subprocess
import tempfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
GONE = ("was not found", "Unable to locate")  # what apt says of a version that the mirror has not
TARGET_FORMAT = "$(CREATED_BY)|$(LABEL)|$(SITE)"


class Moved(Exception):
    """The mirror no longer has a pinned version."""


def mirror():
    """Where this system's apt gets Debian from; PLIMSOLL_DEBIAN_MIRROR names another, or one where the system is none."""
    named = os.environ.get("PLIMSOLL_DEBIAN_MIRROR")
    if named:
        return named
    listed = subprocess.run(["apt-get", "indextargets", "--format", TARGET_FORMAT], check=True, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        created_by, label, site = line.split("|")
        if created_by == "Packages" and label == "Debian":
            return site
    raise SystemExit("error: apt here knows no mirror of Debian; set PLIMSOLL_DEBIAN_MIRROR to the address of one")


def proxy_options():
    """mmdebstrap starts from an empty configuration of apt: the way out of this network is the one thing it needs."""
    names = ("Acquire::http::Proxy", "Acquire::https::Proxy")
    asked = {name: subprocess.run(["apt-config", "shell", "value", name], check=True, capture_output=True, text=True).stdout
             for name in names}
    return [f"--aptopt={name} \"{text.split('=', 1)[1].strip().strip(chr(39))}\"" for name, text in asked.items() if text]


def source(suite):
    return f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n"


def resolve(suite, packages):
    """The versions that the mirror offers now for these packages and all they depend on."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in ("lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "debian.list").write_text(source(suite))
        options = {
            "Dir::State::Lists": folder / "lists", "Dir::Cache": folder / "cache", "Dir::State::Status": folder / "status",
            "Dir::Etc::SourceList": folder / "debian.list", "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null", "Dir::Etc::Preferences": "/dev/null",
            "APT::Install-Recommends": "false", "Debug::NoLocking": "true",
        }
        flags = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        subprocess.run(["apt-get", *flags, "-qq", "update"], check=True)
        plan = subprocess.run(["apt-get", *flags, "-s", "install", *packages], check=True, capture_output=True, text=True)
    pins = {}
    for line in plan.stdout.splitlines():
        if line.startswith("Inst "):
            words = line.split()
            pins[words[1].split(":")[0]] = words[2].lstrip("(")
    return pins


def extract(suite, pins, recipe, book, epoch, cache, target):
    """Write the root of these exact packages to `target`, an archive; what was downloaded stays in `cache`."""
    cache.mkdir(parents=True, exist_ok=True)
    include = ",".join(f"{name}={version}" for name, version in sorted(pins.items()))
    command = ["mmdebstrap", "--variant=extract", "--format=tar", f"--include={include}"]
    command += ["--aptopt=APT::Install-Recommends \"false\"", *proxy_options()]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in book.exclude]
    command += [f"--dpkgopt=path-include={pattern}" for pattern in book.include]
    archives = "/var/cache/apt/archives"
    command += [f"--setup-hook=mkdir -p \"$1\"{archives}/partial; cp {cache}/*.deb \"$1\"{archives}/ 2>/dev/null || true"]
    command += [f"--extract-hook=cp -n \"$1\"{archives}/*.deb {cache}/"]
    command += [f"--extract-hook=chroot \"$1\" {line}" for line in recipe.commands]
    with tempfile.NamedTemporaryFile("w", suffix=".list") as sources:
        sources.write(source(suite))
        sources.flush()
        pathlib.Path(sources.name).chmod(0o644)
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
        ran = subprocess.run([*command, suite, str(target), sources.name], env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    if ran.returncode != 0:
        target.unlink(missing_ok=True)
        if any(words in ran.stdout for words in GONE):
            raise Moved(recipe.name)
        raise SystemExit(f"{ran.stdout[-3000:]}\nerror: mmdebstrap could not make the root of {recipe.name}")
