"""From a recipe to an image on the Engine: one archive for each layer, kept under build/images, then all of them loaded."""

import datetime
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

import debian
import engine
import layers
import recipes

ROOT = recipes.FOLDER.parent
WORK = ROOT / "build/images"
PROGRAM_FOLDER = "usr/local/lib/plimsoll"
PROGRAM_NAMES = (("plimsoll-guest", 0o711), ("plimsoll-guest-runsc", 0o755))  # CTL_PROGRAM and CTL_PROGRAM_RUNSC of ctl.h
MODULES = "usr/local/lib/node_modules"
NOBODY = "65534:65534"
NOT_CONTENT = ("var/cache/", "var/lib/apt/", "var/lib/dpkg/", "var/log/", "etc/apt/", "dev/", "run/")
MULTIARCH = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
NPM_CPU = {"amd64": "x64", "arm64": "arm64"}


def say(text):
    print(f"==> {text}", flush=True)


def reference(name):
    return f"plimsoll/{name}:latest"


class Builder:
    def __init__(self, book, arch, program):
        self.book, self.arch, self.program = book, arch, program
        self.epoch, self.pins = recipes.read_lock(arch)
        self.release = (ROOT / "VERSION").read_text().strip()

    # ---- layers: each function fills one ----

    def packages(self, recipe, layer):
        pins = self.pins[recipe.name]
        say(f"{recipe.name}: taking the files of {len(pins)} Debian packages")
        with tempfile.TemporaryDirectory(dir=WORK) as folder:
            root = pathlib.Path(folder) / "root.tar"
            debian.extract(self.book.debian, pins, recipe, self.book, self.epoch, WORK / "packages", root)
            with tarfile.open(root) as archive:
                layer.take(archive, without=NOT_CONTENT)
        layers.bare_root(layer)
        for path, target in recipe.links:
            layer.link(path.format(multiarch=MULTIARCH[self.arch]), target)
        layer.file(f"usr/share/plimsoll/packages/{recipe.name}", "".join(
            f"{name} {version}\n" for name, version in sorted(pins.items())).encode())

    def ours(self, recipe, layer):
        for path in recipe.empty_files:
            layer.file(path, b"")
        if recipe.control_program:
            layer.folder(PROGRAM_FOLDER)
            for name, mode in PROGRAM_NAMES:
                layer.file(f"{PROGRAM_FOLDER}/{name}", self.program.read_bytes(), mode)

    def npm(self, recipe, layer):
        if not shutil.which("npm"):
            raise SystemExit("error: npm is not installed; Debian's package is npm")
        say(f"{recipe.name}: installing {', '.join(recipe.npm)} from the lock")
        with tempfile.TemporaryDirectory(dir=WORK) as name:
            folder = pathlib.Path(name)
            for file in recipes.NPM_FILES:
                shutil.copy(file, folder)
            command = ["npm", "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--os=linux",
                       f"--cpu={NPM_CPU[self.arch]}"]
            ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if ran.returncode != 0:
                raise SystemExit(f"{ran.stdout[-3000:]}\nerror: npm could not install the tools of {recipe.name}")
            modules = folder / "node_modules"
            (modules / ".package-lock.json").unlink(missing_ok=True)  # names where each package came from
            for program in recipe.npm:
                target = (modules / ".bin" / program).readlink().as_posix().removeprefix("../")
                layer.link(f"usr/local/bin/{program}", f"../lib/node_modules/{target}")
            shutil.rmtree(modules / ".bin")
            layer.tree(modules, MODULES)

    # ---- an image ----

    def steps(self, name):
        """The layers of an image: (key of the cache, recipe, function), lowest first."""
        found, key = [], ""
        code = [(recipes.FOLDER / file).read_bytes() for file in recipes.CODE]
        for recipe in self.book.line(name):
            parts = []
            if recipe.packages:
                pins = sorted(self.pins.get(recipe.name, {}).items())
                made_of = (recipe.commands, recipe.links, self.book.debian, self.book.exclude, self.book.include, self.arch)
                parts.append((self.packages, [repr(pins), repr(made_of)]))
            if recipe.control_program or recipe.empty_files:
                content = [self.program.read_bytes()] if recipe.control_program else []
                parts.append((self.ours, [repr(recipe.empty_files), *content]))
            if recipe.npm:
                parts.append((self.npm, [repr(recipe.npm), self.arch, *(file.read_bytes() for file in recipes.NPM_FILES)]))
            for fill, made_of in parts:
                key = recipes.digest(key, fill.__name__, self.epoch, *code, *made_of)
                found.append((key, recipe, fill))
        return found

    def layer_files(self, name):
        """The archives of an image's layers, made as far as they are not there."""
        WORK.mkdir(parents=True, exist_ok=True)
        files = []
        for key, recipe, fill in self.steps(name):
            path = WORK / f"{recipe.name}-{fill.__name__}-{key[:16]}.tar"
            if not path.exists():
                layer = layers.Layer(self.epoch, layers.read_below(files))
                fill(recipe, layer)
                unfinished = path.with_suffix(".unfinished")
                layer.write(unfinished)
                unfinished.rename(path)
            files.append(path)
        return files

    def labels(self, name):
        labels = {
            "io.plimsoll.release": self.release,
            "io.plimsoll.inputs": recipes.inputs(self.book, name, self.arch, self.program),
            "io.plimsoll.title": self.book.recipes[name].title,
        }
        for recipe in self.book.line(name):
            for word, package in recipe.versions:
                labels[f"io.plimsoll.version.{word}"] = self.pins[recipe.name][package]
        return labels

    def config(self, name, digests):
        created = datetime.datetime.fromtimestamp(self.epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return json.dumps({
            "architecture": self.arch, "os": "linux", "created": created,
            "config": {"Env": self.book.env(name), "Cmd": ["sh"], "User": NOBODY, "Labels": self.labels(name)},
            "rootfs": {"type": "layers", "diff_ids": digests},
            "history": [{"created": created, "created_by": "scripts/images"} for _ in digests],
        }, sort_keys=True).encode()

    def load(self, name):
        """Give the image to the Engine. Its ID is the digest of its configuration, and so of all its content."""
        files = self.layer_files(name)
        digests = [layers.file_digest(path) for path in files]
        config = self.config(name, digests)
        config_name = recipes.hashlib.sha256(config).hexdigest() + ".json"
        say(f"{name}: loading {len(files)} layers")
        with tempfile.NamedTemporaryFile(dir=WORK, suffix=".image") as image:
            with tarfile.open(fileobj=image, mode="w") as archive:
                for path, digest in zip(files, digests):
                    archive.add(path, f"{digest.removeprefix('sha256:')}/layer.tar")
                manifest = [{"Config": config_name, "RepoTags": [reference(name)],
                             "Layers": [f"{digest.removeprefix('sha256:')}/layer.tar" for digest in digests]}]
                for member, data in ((config_name, config), ("manifest.json", json.dumps(manifest).encode())):
                    info = tarfile.TarInfo(member)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
            image.flush()
            engine.load(pathlib.Path(image.name))

    def is_current(self, name):
        image = engine.inspect(reference(name))
        labels = (image or {}).get("Config", {}).get("Labels") or {}
        return labels.get("io.plimsoll.inputs") == recipes.inputs(self.book, name, self.arch, self.program)
