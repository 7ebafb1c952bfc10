"""The tests of test_docker_runs.py once more, with gVisor as the runtime, without a pool and with one."""

import pytest
import test_docker_runs
from docker_harness import engine, images, need_runtime, start_daemon, wait_until  # noqa: F401

# What docs/gvisor.md says is another there: the tier, and SIGKILL to process 1.
OTHER = {"test_a_snippet_prints", "test_an_unmet_floor_and_rule_run_nothing", "test_a_step_cannot_reach_its_runner"}
globals().update({name: test for name, test in vars(test_docker_runs).items() if name.startswith("test_") and name not in OTHER})


@pytest.fixture(scope="module", params=["0", "2"], ids=["cold", "pool"])
def daemon(engine, images, request):  # noqa: F811
    need_runtime("runsc")
    with start_daemon(images, SANDBOX_DOCKER_RUNTIME="runsc", SANDBOX_DOCKER_POOL=request.param,
                      NODE_OPTIONS="--require /work/x.js", HTTP_PROXY="http://secret:secret@proxy.invalid:1") as running:
        yield running
        members = set(engine.names("plsm-pool-"))
    wait_until(lambda: not members & set(engine.names("plsm-pool-")), "its members are gone")
