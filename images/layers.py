"""Layers of an image: archives whose bytes depend on nothing but what is in them. Order, times, owners and modes are set here,
and a layer over another holds only what differs from it."""

import hashlib
import io
import posixpath
import tarfile

SPECIAL = 0o6000  # set-user-ID and set-group-ID: no program of an image has them


def clean(name):
    """The path of a member, relative to the root and without a dot before it."""
    return posixpath.normpath("/" + name).lstrip("/")


class Layer:
    """A layer being written. Members are added in any order and come out sorted."""

    def __init__(self, epoch, below=()):
        self.epoch = epoch
        self.below = below  # what the layers under it hold: {path: fingerprint}, lowest first
        self.members = {}  # path: (TarInfo, bytes or a function that gives a stream)

    def _info(self, path, kind, mode):
        info = tarfile.TarInfo(clean(path))
        info.type, info.mode, info.mtime = kind, mode & ~SPECIAL, self.epoch
        info.uname = info.gname = ""
        return info

    def _put(self, info, content=b""):
        self.members[info.name] = (info, content)

    def folder(self, path, mode=0o755):
        self._put(self._info(path, tarfile.DIRTYPE, mode))

    def file(self, path, content, mode=0o644):
        info = self._info(path, tarfile.REGTYPE, mode)
        info.size = len(content)
        self._put(info, content)

    def link(self, path, target):
        info = self._info(path, tarfile.SYMTYPE, 0o777)
        info.linkname = target
        self._put(info)

    def take(self, archive, without=()):
        """Take the members of an open archive: nobody but root may write what they hold. Devices and FIFOs are left out, and
        what is below a folder of `without`."""
        for member in archive:
            path = clean(member.name)
            if not path or member.isdev() or any(path.startswith(folder) for folder in without):
                continue
            info = self._info(path, member.type, member.mode & 0o755 if not member.issym() else 0o777)
            info.mtime = min(int(member.mtime), self.epoch)
            info.linkname = clean(member.linkname) if member.islnk() else member.linkname
            info.size = member.size if member.isfile() else 0
            self._put(info, archive.extractfile(member).read() if member.isfile() else b"")

    def tree(self, source, target):
        """Take a folder of this machine, with plain modes."""
        for path in sorted(source.rglob("*")):
            name = posixpath.join(target, path.relative_to(source).as_posix())
            if path.is_symlink():
                self.link(name, path.readlink().as_posix())
            elif path.is_dir():
                self.folder(name)
            else:
                self.file(name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)

    def _fingerprint(self, info, content):
        if info.islnk():
            info, content = self.members[info.linkname]  # what it is a link to decides whether it changed
        what = hashlib.sha256(content).hexdigest() if info.isreg() else info.linkname
        return (info.type, info.mode, what)

    def write(self, path):
        """Write the archive; its digest, and what all layers hold with it."""
        merged = dict(self.below)
        fingerprints = {name: self._fingerprint(*member) for name, member in self.members.items()}
        changed = {name for name, fingerprint in fingerprints.items() if merged.get(name) != fingerprint}
        for name in list(changed):
            if self.members[name][0].islnk():
                changed.add(self.members[name][0].linkname)  # a link needs what it points to in the same layer
        with path.open("wb") as raw:
            hashing = Hashing(raw)
            with tarfile.open(fileobj=hashing, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive:
                for name in sorted(changed, key=lambda name: (self.members[name][0].islnk(), name)):
                    info, content = self.members[name]
                    archive.addfile(info, io.BytesIO(content) if info.isreg() else None)
        return "sha256:" + hashing.digest(), merged | fingerprints


class Hashing:
    """A file to write to that knows the digest of what was written."""

    def __init__(self, file):
        self.file, self.state = file, hashlib.sha256()

    def write(self, data):
        self.state.update(data)
        return self.file.write(data)

    def digest(self):
        return self.state.hexdigest()


def bare_root(layer):
    """What every image has beside its packages: places to mount on, and two users."""
    for path, mode in (("dev", 0o755), ("etc", 0o755), ("proc", 0o755), ("root", 0o700), ("run", 0o755), ("sys", 0o755),
                       ("tmp", 0o1777), ("work", 0o1777)):
        layer.folder(path, mode)
    layer.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n")
    layer.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n")


def read_below(paths):
    """What finished layers hold, lowest first, as Layer wants it."""
    merged = {}
    for path in paths:
        layer = Layer(epoch=0)
        with tarfile.open(path) as archive:
            layer.take(archive)
        merged |= {name: layer._fingerprint(*member) for name, member in layer.members.items()}
    return merged


def file_digest(path):
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
