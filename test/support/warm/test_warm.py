"""A command that a server starts is a process like one of a new interpreter."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from test.support.commands import CommandResult, Process, environment, finish_command, has_group, start_python
from test.support.leaks import find_leaks, take_snapshot
from test.support.processes import list_processes
from test.support.runs import fault, faulty
from test.support.warm.client import WarmServer, start_warm

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
    warm = run("0", "", "a b", cwd=place, **changes)
    cold = finish_command(start_python("-m", PROBE, "0", "", "a b", cwd=place, env=changes))
    assert (warm.rc, warm.stderr) == (cold.rc, cold.stderr) == (0, "oh\n")
    found, expected = json.loads(warm.stdout), json.loads(cold.stdout)
    assert found == expected
    assert found["imported"] == []
    assert found["environ"]["COLUMNS"] == "77"


@pytest.mark.parametrize(
    ("end", "code", "printed"),
    [("7", 7, "oh\n"), ("signal", -signal.SIGTERM, "oh\n"), ("error", 1, "ValueError: wrong\n")],
)
def test_how_it_ended(end: str, code: int, printed: str, tmp_path: Path) -> None:
    result = run(end, cwd=tmp_path)
    assert result.rc == code
    assert result.stderr.endswith(printed)
    assert json.loads(result.stdout)["argv"][1:] == [end]


def test_a_process_that_is_killed_after_a_timeout(tmp_path: Path) -> None:
    process = start("wait", cwd=tmp_path)
    assert process.poll() is None
    assert process.pid in [child.pid for child in list_processes() if child.group == process.pid]
    with pytest.raises(AssertionError, match=r"did not end within 0\.5 s\nrc -9"):
        finish_command(process, timeout_s=0.5)
    assert process.poll() == -signal.SIGKILL


def test_several_at_a_time(tmp_path: Path) -> None:
    first, second = start("wait", cwd=tmp_path), start("3", cwd=tmp_path)
    assert finish_command(second).rc == 3
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    result = finish_command(first)
    assert result.rc == -signal.SIGINT
    assert result.stderr.endswith("KeyboardInterrupt\n")
    first.send_signal(signal.SIGINT)  # nothing: it has ended


def test_what_a_test_forgets_is_a_leak(tmp_path: Path) -> None:
    before = take_snapshot()
    process = start("wait", cwd=tmp_path)
    (leak,) = find_leaks(before, grace_s=0)
    assert leak.startswith(f"child process {process.pid}: ")
    process.kill()
    process.communicate()
    assert find_leaks(before) == []


def test_random_numbers_are_its_own(tmp_path: Path) -> None:
    numbers = {run("random", cwd=tmp_path).stdout.splitlines()[1] for _ in range(2)}
    assert len(numbers) == 2


def test_the_backend_is_imported_and_configured_as_if_it_was_new(tmp_path: Path) -> None:
    result = run("keras", cwd=tmp_path)
    name = os.environ["KERAS_BACKEND"]
    both = sorted(["keras", name])
    assert result.stdout.splitlines()[1:] == [f"{name} {both}", "3.0 keras True", " ".join(both)], result


def test_faults_at_exact_moments(tmp_path: Path) -> None:
    assert run("keras", cwd=tmp_path, **faulty(fault("SIGKILL", "import", "^keras "))).rc == -signal.SIGKILL


@pytest.mark.parametrize("name", ["HOME", "PYTHONPATH", "KERAS_BACKEND", "XLA_FLAGS", "PYTHONHASHSEED"])
def test_what_an_import_may_read_needs_a_cold_start(name: str, tmp_path: Path) -> None:
    assert start_warm(PROBE, ["0"], tmp_path, environment({name: "other"})) is None


@pytest.mark.slow
def test_the_end_of_a_server_ends_no_command_and_is_told(tmp_path: Path) -> None:
    before = take_snapshot()
    server = WarmServer(environment())
    process = server.start(PROBE, ["wait"], tmp_path, environment())
    assert json.loads(process.stdout.readline())["argv"][1:] == ["wait"]
    assert process.args[1:] == ["-m", PROBE, "wait"]
    assert server.pid in {child.pid for child in list_processes() if child.parent == os.getpid()}
    server.close()
    assert server.pid not in {child.pid for child in list_processes()}
    with pytest.raises(ChildProcessError, match="the server of .* has ended"):
        process.wait()
    assert has_group(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    with process.stdout, process.stderr:
        assert process.stdout.read() == ""
    assert find_leaks(before) == []


def test_a_server_that_cannot_start_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ChildProcessError, match="the server of commands ended with exit code 1"):
        WarmServer({**environment(), "KERAS_BACKEND": "unknown"})
    assert "unknown" in capfd.readouterr().err
