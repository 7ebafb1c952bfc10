"""From a recipe to an image on the Engine: one archive for each layer, kept under build/images, then all of them loaded."""

import contextlib
import datetime
import hashlib
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
        self.moved = {}  # image: {package: version} where the distribution has moved on from the lock

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
            layer.file(f"{PROGRAM_FOLDER}/{recipes.WARM.name}", recipes.WARM.read_bytes())  # CTL_WARM

    def npm(self, recipe, layer):
        say(f"{recipe.name}: installing {', '.join(recipe.npm)} from the lock")
        with self.installed(recipes.NPM_FILES) as modules:
            for program in recipe.npm:
                target = (modules / ".bin" / program).readlink().as_posix().removeprefix("../")
                layer.link(f"usr/local/bin/{program}", f"../lib/node_modules/{target}")
            shutil.rmtree(modules / ".bin")
            layer.tree(modules, MODULES)

    @contextlib.contextmanager
    def installed(self, files):
        """A folder node_modules with exactly what a lock names. No package's own script runs."""
        if not shutil.which("npm"):
            raise SystemExit("error: npm is not installed; Debian's package is npm")
        with tempfile.TemporaryDirectory(dir=WORK) as name:
            folder = pathlib.Path(name)
            for file in files:
                shutil.copy(file, folder)
            command = ["npm", "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--os=linux",
                       f"--cpu={NPM_CPU[self.arch]}"]
            ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if ran.returncode != 0:
                raise SystemExit(f"{ran.stdout[-3000:]}\nerror: npm could not install what {files[-1]} names")
            modules = folder / "node_modules"
            modules.mkdir(exist_ok=True)
            (modules / ".package-lock.json").unlink(missing_ok=True)  # names where each package came from
            yield modules

    # ---- an image ----

    def steps(self, name):
        """The layers of an image: (key of the cache, recipe, function), lowest first. The key of one names those under it,
        except for our own files: no package has a path of theirs, so a new control program leaves the layers over it as
        they are."""
        found, key = [], ""
        code = [(recipes.FOLDER / file).read_bytes() for file in recipes.CODE]
        for recipe in self.book.line(name):
            parts = []
            if recipe.packages:
                pins = sorted(self.pins.get(recipe.name, {}).items())
                made_of = (recipe.commands, recipe.links, self.book.debian, self.book.exclude, self.book.include, self.arch)
                parts.append((self.packages, [repr(pins), repr(made_of)]))
            if recipe.control_program or recipe.empty_files:
                content = [self.program.read_bytes(), recipes.WARM.read_bytes()] if recipe.control_program else []
                parts.append((self.ours, [repr(recipe.empty_files), *content]))
            if recipe.npm:
                parts.append((self.npm, [repr(recipe.npm), self.arch, *(file.read_bytes() for file in recipes.NPM_FILES)]))
            for fill, made_of in parts:
                own = recipes.digest(key, fill.__name__, self.epoch, *code, *made_of)
                found.append((own, recipe, fill))
                key = key if fill == self.ours else own
        return found

    def layer_files(self, name):
        """The archives of an image's layers, made as far as they are not there. A distribution corrects packages and drops
        the versions before: then what it has now goes in, as authentic as the other, and the image says so."""
        WORK.mkdir(parents=True, exist_ok=True)
        try:
            return self.make_layers(name)
        except debian.Moved:
            self.follow(name)
            return self.make_layers(name)

    def follow(self, name):
        wanted = []
        for recipe in self.book.line(name):
            if recipe.packages:
                wanted += recipe.packages
                now, then = debian.resolve(self.book.debian, wanted), self.pins[recipe.name]
                self.moved[recipe.name] = {package: version for package, version in now.items() if then.get(package) != version}
                self.pins[recipe.name] = now
        changed = " ".join(f"{package}={version}" for moved in self.moved.values() for package, version in moved.items())
        say(f"{name}: the mirror has no longer what images/packages.{self.arch}.lock names; taking {changed}")

    def make_layers(self, name):
        files, below = [], []
        for key, recipe, fill in self.steps(name):
            path = WORK / f"{recipe.name}-{fill.__name__}-{key[:16]}.tar"
            if not path.exists():
                layer = layers.Layer(self.epoch, layers.read_below(below))
                fill(recipe, layer)
                unfinished = path.with_suffix(".unfinished")
                layer.write(unfinished)
                unfinished.rename(path)
            files.append(path)
            if fill != self.ours:
                below.append(path)
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
        moved = {f"{package}={version}" for recipe in self.book.line(name)
                 for package, version in self.moved.get(recipe.name, {}).items()}
        if moved:
            labels["io.plimsoll.unlocked"] = " ".join(sorted(moved))
        return labels

    def config(self, name, labels, digests):
        created = datetime.datetime.fromtimestamp(self.epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return json.dumps({
            "architecture": self.arch, "os": "linux", "created": created,
            "config": {"Env": self.book.env(name), "Cmd": ["sh"], "User": NOBODY, "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": digests},
            "history": [{"created": created, "created_by": "scripts/images"} for _ in digests],
        }, sort_keys=True).encode()

    def load(self, name):
        files = self.layer_files(name)  # first: it may find out what moved
        self.give(reference(name), name, self.labels(name), files)

    def give(self, tag, name, labels, files):
        """Give an image to the Engine. Its ID is the digest of its configuration, and so of all its content."""
        digests = [layers.file_digest(path) for path in files]
        config = self.config(name, labels, digests)
        config_name = hashlib.sha256(config).hexdigest() + ".json"
        members = [f"{digest.removeprefix('sha256:')}/layer.tar" for digest in digests]
        manifest = json.dumps([{"Config": config_name, "RepoTags": [tag], "Layers": members}]).encode()
        say(f"{tag}: loading {len(files)} layers")
        with tempfile.NamedTemporaryFile(dir=WORK, suffix=".image") as image:
            with tarfile.open(fileobj=image, mode="w") as archive:
                for path, member in dict(zip(files, members)).items():
                    archive.add(path, member)
                for member, data in ((config_name, config), ("manifest.json", manifest)):
                    info = tarfile.TarInfo(member)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
            image.flush()
            engine.load(pathlib.Path(image.name))

    def derive(self, tag, folder, name="sandbox"):
        """Give the Engine an image over one of ours with the packages of a folder's npm lock in /node_modules."""
        locks = [folder / "package.json", folder / "package-lock.json"]
        for file in locks:
            if not file.is_file():
                raise SystemExit(f"error: there is no {file}")
        below = self.layer_files(name)
        with self.installed(locks) as modules, tempfile.NamedTemporaryFile(dir=WORK, suffix=".tar") as archive:
            layer = layers.Layer(self.epoch, layers.read_below(below))
            layer.folder("node_modules")
            layer.tree(modules, "node_modules")
            top = pathlib.Path(archive.name)
            layer.write(top)
            labels = self.labels(name) | {"io.plimsoll.dependencies": recipes.digest(*(file.read_bytes() for file in locks))}
            self.give(tag, name, labels, [*below, top])

    def is_current(self, name):
        image = engine.inspect(reference(name))
        labels = (image or {}).get("Config", {}).get("Labels") or {}
        return labels.get("io.plimsoll.inputs") == recipes.inputs(self.book, name, self.arch, self.program)
