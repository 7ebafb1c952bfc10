"""Fixtures that more than one file of the docker tests uses."""

import shutil
import subprocess

import pytest
from docker_harness import Engine, lack, need_engine
from own_engine import own_engine


@pytest.fixture(scope="session")
def private_engine():
    """An Engine of our own, made once: copying its images takes seconds."""
    need_engine()
    made = own_engine(Engine())
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
