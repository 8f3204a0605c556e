"""Runs of the tiny scenario: where it lies, faults at exact moments, and what equal runs have in common."""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import FILLS_CACHE, CommandResult, finish_command, start_command

SUPPORT = Path(__file__).resolve().parent
RESULT = re.compile(r"^.*: Results of epoch (\d{4}) (.*)$", re.MULTILINE)
# Lines that slow machines print.
DURATION = re.compile(r"^.* took \d+\.\d s\n", re.MULTILINE)
ROW = re.compile(r"^ *(\d+)[* ] \|", re.MULTILINE)


def copy_tiny(directory: Path) -> Path:
    """Copy the tiny scenario's package into `directory`, from where `tiny` can be trained."""
    shutil.copytree(SUPPORT / "tiny", directory / "tiny", ignore=shutil.ignore_patterns("__pycache__"))
    return directory


def fault(action: str, event: str, pattern: str, count: int = 1) -> list[Any]:
    """One entry of `faulty`; see `test/support/startup/sitecustomize.py`."""
    return [action, event, pattern, count]


def faulty(*faults: list[Any]) -> dict[str, str]:
    """Environment variables of a command that meets these faults."""
    return {"TFAIP_TEST_FAULTS": json.dumps(faults)}


def run_well(*args: str | Path, cwd: Path) -> CommandResult:
    """Run a command that must succeed and has nothing to complain about."""
    result = finish_command(start_command(*args, cwd=cwd, env=FILLS_CACHE))
    assert (result.rc, result.stderr) == (0, ""), result
    return result


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A directory that `make` fills once for all worker processes of a test run; to be read, or copied."""
    root = factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    with open(root / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        directory, made = root / name, root / f"{name}.made"
        if not made.exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            make(directory)
            made.touch()
    return directory


def files_below(directory: Path) -> dict[str, bytes]:
    """Every file by its relative path, with its content."""
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def checkpoints(run: Path) -> list[str]:
    """Names of the checkpoints of a run, sorted."""
    return sorted(path.name for path in (run / "checkpoint").iterdir() if path.is_dir())


def latest(run: Path) -> str:
    """Name of the newest checkpoint."""
    return max(checkpoints(run))


def history(run: Path) -> dict[str, Any]:
    """`history.json` without the seconds."""
    return without_seconds(json.loads((run / "history.json").read_text()))


def without_seconds(records: dict[str, Any]) -> dict[str, Any]:
    return {e: {**r, "meta": {k: v for k, v in r["meta"].items() if k != "seconds"}} for e, r in records.items()}


def final_state(run: Path) -> dict[str, Any]:
    """All that two equal runs have in common: weights, history, and the state of the newest checkpoint."""
    checkpoint = run / "checkpoint" / latest(run)
    state = json.loads((checkpoint / "state.json").read_text())
    del state["params"]  # they may have been resumed, and saved at other moments
    return {
        "best": (run / "best" / "weights.safetensors").read_bytes(),
        "export": (run / "export" / "weights.safetensors").read_bytes(),
        "history": history(run),
        "checkpoint": checkpoint.name,
        "arrays": (checkpoint / "state.safetensors").read_bytes(),
        "state": {**state, "history": without_seconds(json.loads(state["history"]))},
    }


def assert_same_run(run: Path, expected: Path) -> None:
    """Both runs ended in the same state, bit for bit, and left nothing half-written."""
    ours, theirs = final_state(run), final_state(expected)
    assert [name for name in theirs if ours[name] != theirs[name]] == []
    assert [path for path in run.rglob("*") if path.name.startswith(".tmp-")] == []


def result_lines(run: Path) -> list[tuple[int, str]]:
    """Epoch and values of the result lines in the log of a run."""
    return [(int(epoch), values) for epoch, values in RESULT.findall((run / "train.log").read_text())]


def printed_epochs(text: str) -> list[int]:
    """Epochs of the rows of the table in what a command printed."""
    return [int(epoch) for epoch in ROW.findall(text)]


def without_durations(text: str) -> str:
    """What a command printed or logged, without the lines on the duration of its start."""
    return DURATION.sub("", text)
