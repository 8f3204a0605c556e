"""Settings of every test process, and the fixtures shared by all tests."""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from test.support.commands import (
    FILLS_CACHE,
    VARIABLES,
    CommandResult,
    Process,
    environment,
    finish_command,
    kill_group,
    start_command,
)

# Read by the backends when they are imported, so they are set before any test module is.
os.environ |= {**VARIABLES, **os.environ}

import pytest
from hypothesis import HealthCheck, settings

from test.support.casetimes import CaseTimes
from test.support.leaks import find_leaks, take_snapshot
from test.support.warm.client import allow_servers

# Until all is collected: to search for garbage among what is imported takes a third of its time.
gc.disable()

# Tests in the background of a shell would ignore Ctrl-C, and so would all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Commands record there what was typed; never in the home of whoever runs the tests. Shared by parallel test processes.
STATE_PREFIX = os.path.join(tempfile.gettempdir(), "tfaip-test-state-")
if not os.environ.get("XDG_STATE_HOME", "").startswith(STATE_PREFIX):
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="tfaip-test-state-")
    atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

# A test process compiles the same thing once on JAX. The cache is not written atomically, so each process has its own;
# commands read it, and write to it unless they may be killed (`start_python`).
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(os.environ["XDG_STATE_HOME"], f"jax-{WORKER}")
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

OTHER_BACKEND = {"tensorflow": "jax", "jax": "tensorflow"}[os.environ["KERAS_BACKEND"]]

# The start of most commands is not what their test is about (CONTRIBUTING.md), nor what a power failure would leave of
# their files: a third of the time of a training on JAX is waiting for the disk.
if os.environ.get("TFAIP_TEST_START") != "cold":
    allow_servers([environment(), environment(FILLS_CACHE), environment({"KERAS_BACKEND": OTHER_BACKEND})])
    os.fsync = lambda fd: None

# The same examples in every run, and no deadline: a busy machine is not a failure.
settings.register_profile(
    "tfaip", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tfaip")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the measured times."""
    parser.addoption("--strict-times", action="store_true", help="fail if a case above 3 s is neither slow nor guard")


def pytest_configure(config: pytest.Config) -> None:
    """Measure the CPU time of each case."""
    config.pluginmanager.register(CaseTimes(config.getoption("--strict-times")))


# Objects that a collection of garbage searches: a fiftieth of a second.
MAX_SEARCHED = 20_000


def pytest_collection_finish() -> None:
    """Prepare the process for many short trainings.

    Grappler, TensorFlow's optimizer of graphs, is left out: it takes a quarter of the time of a short training.
    `TFAIP_TEST_GRAPPLER` keeps it, as in the long series; commands that start cold have it.
    """
    # A case is not charged with what the first one of each process would have to import.
    import keras  # noqa: F401

    # Else each full collection would search all that was imported, half a second long.
    gc.freeze()
    gc.enable()
    if "tensorflow" in sys.modules and not os.environ.get("TFAIP_TEST_GRAPPLER"):
        sys.modules["tensorflow"].config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After each module, forget what JAX keeps of each function that it has traced, gigabytes in the end."""
    if "jax" in sys.modules and nextitem is not None and nextitem.path != item.path:
        sys.modules["jax"].clear_caches()


def pytest_runtest_logfinish() -> None:
    """Leave what has come together of a thousand trainings out of the collections of garbage.

    Only when the fixtures of a test are gone: what is frozen with its circles is never freed.
    """
    if len(gc.get_objects(generation=2)) > MAX_SEARCHED:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    """Fail a test that leaves a thread, process, segment, variable, signal handler or directory behind."""
    before = take_snapshot()
    yield
    leaks = find_leaks(before)
    if leaks:
        pytest.fail("the test left behind:\n  " + "\n  ".join(leaks), pytrace=False)


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """`start("train", *args, cwd=, env=, cold=)`: a running command, killed when the test ends."""
    started: list[Process] = []

    def start_one(*args: str | Path, **how: Any) -> Process:
        started.append(start_command(*args, **how))
        return started[-1]

    yield start_one
    for process in started:
        kill_group(process)
        process.communicate()


@pytest.fixture
def run_command() -> Callable[..., CommandResult]:
    """`run_command("train", *args, cwd=, env=, cold=, timeout_s=)`: run a command to its end: rc, stdout, stderr."""

    def run_one(*args: str | Path, timeout_s: float = 300.0, **how: Any) -> CommandResult:
        env = how.pop("env", None) or {}
        # A fault may kill it.
        fills = {} if "TFAIP_TEST_FAULTS" in env else FILLS_CACHE
        return finish_command(start_command(*args, env={**fills, **env}, **how), timeout_s)

    return run_one
