"""Starts the toolkit's commands as users do: as a process of its own, from any directory.

A command is started by a server that has imported the backend (`warm/server.py`), since this import takes most of its
time. Tests of imports, of the start and of the end of the interpreter start it `cold`, as a new interpreter.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from test.support.processes import PROC, ZOMBIE, list_processes
from test.support.warm.client import start_warm

# Of all processes of tests: equal numbers from process to process, on the CPU.
VARIABLES = {
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_DETERMINISTIC_OPS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
}
REPOSITORY = Path(__file__).resolve().parents[2]
# Of `sitecustomize.py`, which every started interpreter imports.
STARTUP = Path(__file__).resolve().parent / "startup"
TIMEOUT_S = 300.0
# What a command started may need a moment to end after it, a long one on a busy machine.
GRACE_S = 30.0
# Of commands that are not killed: they write to the cache of what JAX has compiled. Others only read it.
FILLS_CACHE = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
READS_CACHE = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1e9"}


class CommandResult(NamedTuple):
    """How a command ended and what it printed."""

    rc: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return f"rc {self.rc}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


Process = subprocess.Popen[str]
# Calls a command as the fixtures `run` and `run_command` do.
Run = Callable[..., CommandResult]


def start_command(
    *args: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None, cold: bool = False
) -> Process:
    """Start `python -m tfaip.scripts.{args[0]} args[1:]` in its own process group.

    Args:
        args: name of a module in `tfaip.scripts` and its arguments.
        cwd: working directory (default: the repository).
        env: variables on top of those of the test process. If they may change what an import does, the start is cold.
        cold: start a new interpreter.
    """
    script, *rest = args
    if cold:
        return start_python("-m", f"tfaip.scripts.{script}", *rest, cwd=cwd, env=env)
    return start_module(f"tfaip.scripts.{script}", *rest, cwd=cwd, env=env)


def start_module(
    module: str, *args: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Process:
    """Start `python -m module args` as a command is started."""
    process = start_warm(module, list(map(str, args)), cwd or REPOSITORY, environment(env))
    return process or start_python("-m", module, *args, cwd=cwd, env=env)


def run_several(commands: Sequence[Sequence[str | Path]], cwd: Path, devices: int = 1) -> CommandResult:
    """Run commands one after the other, up to the first one that fails, in one process that they share."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    env = {**FILLS_CACHE, "TEST_LOGICAL_DEVICES": str(devices)}
    return finish_command(start_module("test.support.several", words, cwd=cwd, env=env))


def start_python(
    *args: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start the interpreter with `args` in its own process group; it finds the repository's packages."""
    return subprocess.Popen(
        [sys.executable, *map(str, args)],
        cwd=cwd or REPOSITORY,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def exit_code(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Call a command in this process."""
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return all variables of a command: those of the test process, of its start, and the changes."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), str(STARTUP), os.environ.get("PYTHONPATH")]))
    return {**os.environ, **READS_CACHE, "PYTHONPATH": path, **(changes or {})}


def finish_command(process: Process, timeout_s: float = TIMEOUT_S, grace_s: float = GRACE_S) -> CommandResult:
    """Wait for a started command and collect what it printed."""
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        kill_group(process)
        stdout, stderr = process.communicate()
        late = CommandResult(process.returncode, stdout, stderr)
        raise AssertionError(f"{process.args} did not end within {timeout_s} s\n{late}") from None
    if not group_ended(process, grace_s):
        kill_group(process)
        raise AssertionError(f"{process.args} left processes behind")
    return CommandResult(process.returncode, stdout, stderr)


def kill_group(process: Process) -> None:
    """Kill the command and everything it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def group_ended(process: Process, grace_s: float = GRACE_S) -> bool:
    """True if within `grace_s` no process of the command's group is left that has not ended."""
    end = time.monotonic() + grace_s
    while has_group(process.pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def has_group(group: int) -> bool:
    """True if a process group has a member that runs.

    One that has ended and was adopted by a process which never waits for it, as the first one of a container may be,
    still takes signals: it does not count.
    """
    if PROC.exists():
        return any(process.group == group and process.state != ZOMBIE for process in list_processes())
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
