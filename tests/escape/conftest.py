"""Sandboxes for the hostile snippets: one for each mode and memory limit, kept as long as the tests of a file."""

import pytest

from hostile import DRIVER, WORKER, Sandbox


@pytest.fixture(scope="module")
def sandboxes():
    if not WORKER.exists() or not DRIVER.exists():
        pytest.skip(f"{WORKER.name} and {DRIVER.name} are not built")
    open_ones = {}

    def get(mode, memory_mb=0):
        key = (mode, memory_mb)
        if key not in open_ones:
            open_ones[key] = Sandbox(mode, memory_mb)
        return open_ones[key]

    yield get
    for sandbox in open_ones.values():
        sandbox.__exit__()
