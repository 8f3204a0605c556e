"""What a test may leave behind by mistake; conftest.py compares it before and after each test."""

import multiprocessing
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from test.support.processes import PROC, command_line, list_processes, memory_map

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - it is looked at, never written

# pytest's own, and what tensorflow, jax, h5py and scikit-learn set when a test is the first to import them.
IGNORED_VARIABLES = {
    *("ENABLE_RUNTIME_UPTIME_TELEMETRY", "HDF5_PLUGIN_PATH", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"),
    *("PYTEST_CURRENT_TEST", "TF2_BEHAVIOR", "TF_FORCE_GPU_ALLOW_GROWTH", "TPU_ML_PLATFORM"),
    *("TPU_ML_PLATFORM_VERSION", "TPU_SKIP_MDS_QUERY"),
}
# The standard library keeps this one helper process alive until the interpreter ends.
IGNORED_COMMANDS = ("multiprocessing.resource_tracker",)
# Lives as long as the tests; the commands that it starts do not.
COMMAND_SERVER = "test/support/warm/server.py"
# What winds down after its owner returned may take a moment, a long one on a busy machine; a real leak stays.
GRACE_S = 30.0


@dataclass(frozen=True)
class Snapshot:
    """The process-wide state of one moment."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]
    segments: frozenset[str]
    variables: dict[str, str]
    handlers: dict[signal.Signals, Any]
    directory: str


def take_snapshot() -> Snapshot:
    """The state of this process and of its children as it is now."""
    return Snapshot(
        # A thread of a backend that has called Python (and asked for its name, to log something) has such a stand-in.
        threads=frozenset(t for t in threading.enumerate() if not isinstance(t, threading._DummyThread)),
        children=child_processes(),
        segments=shared_memory_segments(),
        variables={name: value for name, value in os.environ.items() if name not in IGNORED_VARIABLES},
        handlers={number: signal.getsignal(number) for number in signal.valid_signals()},
        directory=os.getcwd(),
    )


def find_leaks(before: Snapshot, grace_s: float = GRACE_S) -> list[str]:
    """What changed since `before` and is still so after at most `grace_s` seconds: one line each."""
    end = time.monotonic() + grace_s
    while (leaks := compare(before, take_snapshot())) and time.monotonic() < end:
        time.sleep(0.05)
    return leaks


def compare(before: Snapshot, after: Snapshot) -> list[str]:
    """The differences that a test must not cause, one line each."""
    leaks = [f"thread {thread.name!r}" for thread in after.threads - before.threads if thread.is_alive()]
    leaks += [f"child process {pid}: {command_line(pid)}" for pid in after.children - before.children]
    leaks += [f"shared memory {name}" for name in after.segments - before.segments if is_left(name)]
    for name in sorted({*before.variables, *after.variables}):
        old, new = before.variables.get(name), after.variables.get(name)
        if old != new:
            leaks.append(f"environment variable {name}: {old!r} became {new!r}")
    for number, handler in after.handlers.items():
        old = before.handlers[number]
        if old != handler:  # real-time signals have no name
            leaks.append(f"handler of {number.name}: {old!r} became {handler!r}")
    if before.directory != after.directory:
        leaks.append(f"working directory: {before.directory} became {after.directory}")
    return leaks


def child_processes() -> frozenset[int]:
    """Process ids of the direct children of this process that are not in IGNORED_COMMANDS, and of commands it started.

    A command may be the child of a server, which is none of them.
    """
    if not PROC.exists():
        return frozenset(child.pid for child in multiprocessing.active_children() if child.pid)
    processes = list(list_processes())
    children = {process.pid for process in processes if process.parent == os.getpid()}
    servers = {pid for pid in children if COMMAND_SERVER in command_line(pid)}
    commands = {process.pid for process in processes if process.parent in servers}
    ignored = {pid for pid in children if any(word in command_line(pid) for word in IGNORED_COMMANDS)}
    return frozenset(children - servers - ignored | commands)


def shared_memory_segments() -> frozenset[str]:
    """Names of all shared memory segments of the machine."""
    return frozenset(os.listdir(SHARED_MEMORY)) if SHARED_MEMORY.exists() else frozenset()


def is_left(segment: str) -> bool:
    """True if a segment still exists, and no process has it mapped that is neither this one nor one of its children.

    Segments are visible on the whole machine: those of tests that run beside this one are not our leak.
    """
    ours = {os.getpid(), *child_processes()}
    others = [process.pid for process in list_processes() if process.pid not in ours]
    if any(segment in memory_map(pid) for pid in others):
        return False
    # Another process may have removed it since it was listed.
    return (SHARED_MEMORY / segment).exists()
