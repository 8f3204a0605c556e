"""A command that a server starts is a process like one of a new interpreter."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from test.support.commands import CommandResult, Process, environment, finish_command, start_python
from test.support.leaks import find_leaks, take_snapshot
from test.support.processes import list_processes
from test.support.warm.client import start_warm

PROBE = "test.support.warm.probe"


def start(*arguments: str, cwd: Path, **variables: str) -> Process:
    process = start_warm(PROBE, arguments, cwd, environment(variables))
    assert process is not None
    return process


def run(*arguments: str, cwd: Path, **variables: str) -> CommandResult:
    return finish_command(start(*arguments, cwd=cwd, **variables))


def test_all_that_a_process_knows_of_its_start(tmp_path: Path) -> None:
    place = tmp_path / "link"
    (tmp_path / "place").mkdir()
    place.symlink_to("place")
    changes = {"COLUMNS": "77", "PYTHONDONTWRITEBYTECODE": "1"}
    warm = run("end", "", "a b", cwd=place, **changes)
    cold = finish_command(start_python("-m", PROBE, "end", "", "a b", cwd=place, env=changes))
    assert (warm.rc, warm.stderr) == (cold.rc, cold.stderr) == (7, "oh\n")
    found, expected = json.loads(warm.stdout), json.loads(cold.stdout)
    assert found == expected
    assert found["imported"] == []
    assert found["environ"]["COLUMNS"] == "77"


def test_a_process_that_is_killed_after_a_timeout(tmp_path: Path) -> None:
    before = take_snapshot()
    process = start("wait", cwd=tmp_path)
    assert process.poll() is None
    assert process.pid in [child.pid for child in list_processes() if child.group == process.pid]
    (leak,) = find_leaks(before, grace_s=0)
    assert leak.startswith(f"child process {process.pid}: ")
    with pytest.raises(AssertionError, match=r"did not end within 0\.5 s\nrc -9"):
        finish_command(process, timeout_s=0.5)
    assert process.poll() == -signal.SIGKILL
    assert find_leaks(before) == []


def test_the_backend_is_imported_and_configured_as_if_it_was_new(tmp_path: Path) -> None:
    result = run("keras", cwd=tmp_path)
    name = os.environ["KERAS_BACKEND"]
    both = sorted(["keras", name])
    assert result.stdout.splitlines()[1:] == [f"{name} {both}", "3.0 keras True", " ".join(both)], result


@pytest.mark.parametrize("name", ["HOME", "PYTHONPATH", "KERAS_BACKEND", "XLA_FLAGS", "PYTHONHASHSEED"])
def test_what_an_import_may_read_needs_a_cold_start(name: str, tmp_path: Path) -> None:
    assert start_warm(PROBE, ["0"], tmp_path, environment({name: "other"})) is None
