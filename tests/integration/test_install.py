"""What `make install` gives others: a library whose only global names are the public ones, shared and static."""

import os
import subprocess

import pytest

from daemon_harness import BUILD, ROOT

PROGRAM = """
#include <plimsoll/plimsoll.h>
#include <stdio.h>
/* Names of ours that a program may have too. */
int base_log(void);
int base_log(void) { return 7; }
int main(void) { printf("%s %d\\n", plim_version(), base_log()); return 0; }
"""


def run(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folders that an installation under a DESTDIR has its libraries and headers in."""
    root = tmp_path_factory.mktemp("installed")
    run("meson", "install", "-C", BUILD, "--no-rebuild", DESTDIR=str(root))
    library = next(root.rglob("libplimsoll.a")).parent
    return library, next(p for p in root.rglob("include") if (p / "plimsoll").is_dir())


def defined(kind, file):
    return [line.split()[-1] for line in run("nm", *kind, "--defined-only", file).splitlines() if len(line.split()) == 3]


@pytest.mark.parametrize("kind, name", [(["--dynamic"], "libplimsoll.so"), (["--extern-only"], "libplimsoll.a")])
def test_only_public_names_are_global(installed, kind, name):
    names = defined(kind, installed[0] / name)
    assert "plim_run_javascript" in names
    assert [n for n in names if not n.startswith("plim_")] == []


def test_both_libraries_have_the_same_names(installed):
    library = installed[0]
    assert sorted(defined(["--dynamic"], library / "libplimsoll.so")) == \
        sorted(defined(["--extern-only"], library / "libplimsoll.a"))


@pytest.mark.parametrize("static", [True, False])
def test_a_program_with_names_like_ours_links(installed, tmp_path, static):
    library, headers = installed
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    uses = run("pkg-config", "--libs", "libcurl", "jansson", "libprotobuf-c", "libcrypto").split()
    libraries = [library / "libplimsoll.a", *uses, "-lm", "-pthread"] if static else [f"-L{library}", "-lplimsoll"]
    run("cc", f"-I{headers}", source, "-o", tmp_path / "program", *libraries)
    said = run(tmp_path / "program", LD_LIBRARY_PATH=str(library))
    assert said == (ROOT / "VERSION").read_text().strip() + " 7\n"


def test_pkg_config_states_what_the_static_library_needs(installed):
    library = installed[0]
    said = run("pkg-config", "--print-requires-private", "plimsoll", PKG_CONFIG_PATH=str(library / "pkgconfig"))
    assert [line.split()[0] for line in said.splitlines()] == ["libcrypto", "libcurl", "jansson", "libprotobuf-c"]
