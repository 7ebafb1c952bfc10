"""Fixtures that more than one file of the docker tests uses.

Where files run at the same time (pytest-xdist), each worker has an Engine: daemons whose clocks are wrong on purpose
remove what others run. The first worker takes the one that is there, every other makes its own.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from docker_harness import JS, PROJECT, PYTHON, Engine, lack, need_engine, why_not
from own_engine import own_engine

engine_of_this_worker = None


def pytest_configure(config):
    global engine_of_this_worker
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0" and not why_not():
        engine_of_this_worker = own_engine(Engine(), JS, PROJECT, PYTHON)
        os.environ["DOCKER_HOST"] = engine_of_this_worker.host


def pytest_unconfigure(config):
    if engine_of_this_worker:
        engine_of_this_worker.close()


@pytest.fixture()
def short_path():
    """A folder whose name leaves room for that of a socket; pytest's own may not."""
    with tempfile.TemporaryDirectory(prefix="plsm-", dir="/tmp") as folder:
        yield pathlib.Path(folder)


@pytest.fixture(scope="session")
def private_engine():
    """An Engine of our own, made once: copying its images takes seconds."""
    need_engine()
    made = own_engine(Engine(), JS, PROJECT)
    yield made
    made.close()


@pytest.fixture()
def own(private_engine):
    """The same, answering and empty, whatever the test before did to it."""
    private_engine.start()
    for found in private_engine.containers(""):
        private_engine.remove(found["Id"])
    yield private_engine


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

/* The time of day, moved by CLOCK_SHIFT seconds; what measures intervals is left alone. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, out);
    const char *shift = getenv("CLOCK_SHIFT");
    if (status == 0 && clock == CLOCK_REALTIME && shift)
        out->tv_sec += atol(shift);
    return status;
}
"""


@pytest.fixture(scope="session")
def clock(tmp_path_factory):
    """A library that moves a program's time of day."""
    compiler = shutil.which("cc")
    if not compiler:
        lack("there is no C compiler")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "clock.so", folder / "clock.c", "-ldl"], check=True)
    return folder / "clock.so"
