"""Recipes and locks: what an image is made of, as data."""

import dataclasses
import hashlib
import pathlib
import subprocess
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parent
NPM_FILES = (FOLDER / "npm/package.json", FOLDER / "npm/package-lock.json")
WARM = FOLDER.parent / "guest/drivers/warm.js"  # beside the control program
CODE = ("layers.py", "debian.py", "build.py")  # a change in how an image is built is a change of the image


@dataclasses.dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    base: str | None = None
    packages: tuple = ()
    links: tuple = ()  # (path, target)
    commands: tuple = ()
    npm: tuple = ()  # programs that get a place on PATH
    empty_files: tuple = ()
    control_program: bool = False
    versions: tuple = ()  # (word of the label, package)
    env: tuple = ()  # (name, value)


@dataclasses.dataclass(frozen=True)
class Book:
    """All recipes, with what they share."""

    debian: str
    exclude: tuple
    include: tuple
    recipes: dict

    def line(self, name):
        """The recipe and those it builds on, lowest first."""
        recipe = self.recipes[name]
        return (self.line(recipe.base) if recipe.base else []) + [recipe]

    def env(self, name):
        merged = {}
        for recipe in self.line(name):
            merged |= dict(recipe.env)
        return [f"{key}={value}" for key, value in merged.items()]


def architecture():
    return subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()


def read():
    data = tomllib.loads((FOLDER / "recipes.toml").read_text())
    shared = {key: data.pop(key) for key in ("debian", "exclude", "include")}
    recipes = {}
    for name, fields in data.items():
        pairs = {key: tuple(fields.pop(key, {}).items()) for key in ("links", "versions", "env")}
        lists = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
        recipes[name] = Recipe(name=name, **lists, **pairs)
    return Book(shared["debian"], tuple(shared["exclude"]), tuple(shared["include"]), recipes)


def lock_path(arch):
    return FOLDER / f"packages.{arch}.lock"


def read_lock(arch):
    """The time of the lock, and for each image the exact packages of its whole root: {image: {package: version}}."""
    path = lock_path(arch)
    if not path.is_file():
        raise SystemExit(f"error: there is no {path.name}; \"scripts/images lock\" writes one")
    epoch, pins = 0, {}
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        words = line.split()
        if words[0] == "epoch":
            epoch = int(words[1])
        else:
            pins.setdefault(words[0], {})[words[1]] = words[2]
    return epoch, pins


def write_lock(arch, epoch, pins):
    lines = [
        "# The packages of each image's root, dependencies included: image, package, version. Written by",
        "# \"scripts/images lock\". A version that the mirror no longer has means that the distribution moved.",
        f"epoch {epoch}",
    ]
    for image, packages in pins.items():
        lines += [f"{image} {name} {version}" for name, version in sorted(packages.items())]
    lock_path(arch).write_text("\n".join(lines) + "\n")


def digest(*parts):
    """SHA-256 over parts with their lengths, so that no two lists of parts give one text."""
    state = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        state.update(b"%d:" % len(data) + data)
    return state.hexdigest()


def inputs(book, name, arch, program):
    """The digest of all that decides what is in the image."""
    epoch, pins = read_lock(arch)
    release = (FOLDER.parent / "VERSION").read_text()
    parts = [release, book.debian, book.exclude, book.include, arch, epoch]
    parts += [(FOLDER / file).read_bytes() for file in CODE]
    for recipe in book.line(name):
        parts += [repr(dataclasses.astuple(recipe)), repr(sorted(pins.get(recipe.name, {}).items()))]
        if recipe.npm:
            parts += [file.read_bytes() for file in NPM_FILES]
        if recipe.control_program:
            parts += [program.read_bytes(), WARM.read_bytes()]
    return digest(*parts)
