"""Checkpoints that are damaged are passed over, those that are chosen are taken: the result stays the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from test.scripts.conftest import well
from test.support.commands import CommandResult
from test.support.runs import assert_same_run, checkpoints, files_below

Run = Callable[..., CommandResult]
NEWEST, BEFORE = "epoch_0002", "epoch_0001_step_000010"
FROM_BEFORE = "resuming in epoch 2, after 10 batches"


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "name", "complaint"),
    [(truncate, "state.json", "differs from its manifest"), (Path.unlink, "manifest.json", "cannot be read")],
    ids=["truncated", "deleted"],
)
def test_the_previous_checkpoint_is_taken(
    damage: Callable[[Path], None], name: str, complaint: str, run: Run, half: Path, whole: Path, workplace: Path
) -> None:
    """Once the path is that of the run, once that of its checkpoint directory."""
    assert checkpoints(half) == [BEFORE, NEWEST]
    damaged = half / "checkpoint" / NEWEST / name
    damage(damaged)
    path = half / "checkpoint" if name == "state.json" else half
    lines = well(run("resume_training", path, "--trainer.epochs", "4", cwd=workplace)).splitlines()
    (warning,) = [line for line in lines if line.startswith("warning: ")]
    assert warning.startswith(f"warning: damaged checkpoint passed over: {damaged} {complaint}")
    assert FROM_BEFORE in lines
    assert warning.removeprefix("warning: ") in (half / "train.log").read_text()
    assert_same_run(half, whole / "run")


@pytest.mark.slow
def test_one_checkpoint_is_chosen(run: Run, half: Path, whole: Path, workplace: Path) -> None:
    """By a relative path; what is newer is forgotten."""
    path = os.path.relpath(half / "checkpoint" / BEFORE, workplace)
    printed = well(run("resume_training", path, "--trainer.epochs", "4", cwd=workplace))
    assert FROM_BEFORE in printed.splitlines()
    assert_same_run(half, whole / "run")


@pytest.mark.slow
def test_nothing_is_left_to_resume(run: Run, half: Path, workplace: Path) -> None:
    store = half / "checkpoint"
    for checkpoint in store.glob("epoch_*"):
        flip_a_byte(checkpoint / "state.safetensors")
    before = files_below(half)
    newest = run("resume_training", half, cwd=workplace)
    assert newest.rc == 2, newest
    assert newest.stderr == f"error: all 2 checkpoints in {store} are damaged: nothing to resume\n"
    named = run("resume_training", store / BEFORE, cwd=workplace)
    assert named.rc == 2, named
    damaged = store / BEFORE / "state.safetensors"
    assert named.stderr == f"error: checkpoint {BEFORE} cannot be used: {damaged} differs from its manifest\n"
    assert files_below(half) == before
