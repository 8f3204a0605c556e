"""Traces of a training: which batches are in them, read back from the file that TensorBoard shows."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from test.trainer.line import CallbackOf, LineScenario, LineTrainerParams, line_params, train
from tfaip.errors import UsageError


def params_of(output_dir: Path | None, steps: list[int], batches: int = 8, **fields: Any) -> LineTrainerParams:
    """Executions of two batches."""
    fields = {"steps_per_execution": 2, "write_checkpoints": False, **fields}
    return line_params([1.0] * batches, output_dir=output_dir, profile=True, profile_steps=steps, **fields)


def traced(run: Path) -> list[int]:
    """The batches, counted from 0, that the executions in the only trace began with."""
    # The format is the same for both backends, and so is what reads it.
    from jax.profiler import ProfileData

    (trace,) = run.glob("train/plugins/profile/*/*.xplane.pb")
    events = [e for plane in ProfileData.from_file(str(trace)).planes for line in plane.lines for e in line.events]
    return [dict(event.stats)["step_num"] for event in events if event.name == "train"]


def test_the_batches_that_were_asked_for_are_in_the_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="tfaip")
    train(params_of(tmp_path / "a", [3, 6]))
    assert traced(tmp_path / "a") == [2, 4]
    # Executions of batches 1-2, 3-4, 5; 1-2, ... are never cut: begun at 4 or later, and until 6 is trained. Epochs
    # are no border.
    train(params_of(tmp_path / "b", [4, 6], batches=5, epochs=2))
    assert traced(tmp_path / "b") == [4, 5]
    assert f"profiled batches 5 to 7: {tmp_path / 'b' / 'train' / 'plugins' / 'profile'}" in caplog.messages


def test_what_is_not_profiled_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(params_of(tmp_path / "c", [10, 20], write_checkpoints=True))
    message = "nothing was profiled: 8 batches were trained, and profiling begins at batch 10"
    assert sum(message in found for found in caplog.messages) == 1
    assert not (tmp_path / "c" / "train" / "plugins").exists()
    # A run that trains nothing has nothing to say, and a dry run traces its one batch.
    caplog.clear()
    train(params_of(tmp_path / "c", [1, 2]), restore=True)
    assert "nothing was profiled" not in caplog.text
    LineScenario.create_trainer(params_of(tmp_path / "run", [10, 20])).dry_run()
    assert [record.message for record in caplog.records if record.levelno > logging.INFO] == []


def test_a_training_that_ends_within_ends_the_trace(tmp_path: Path) -> None:
    def fail(epoch: int, logs: Any) -> None:
        raise ZeroDivisionError("mine")

    for name, callbacks in (("complete", []), ("failed", [CallbackOf(on_epoch_end=fail)])):
        try:
            train(params_of(tmp_path / name, [1, 100]), *callbacks)
        except ZeroDivisionError:
            assert name == "failed"
        assert traced(tmp_path / name) == [0, 2, 4, 6]


def test_without_the_plugin_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard_plugin_profile", None)
    with pytest.raises(UsageError, match=r"pip install tensorboard-plugin-profile, or set --trainer.profile F"):
        train(params_of(tmp_path / "run", [3, 6]))
    assert not (tmp_path / "run").exists()
    with pytest.raises(UsageError, match="set --trainer.output_dir"):
        train(params_of(None, [3, 6]))


@pytest.mark.parametrize("steps", [[3], [0, 4], [5, 4]])
def test_impossible_steps_name_the_field(steps: list[int]) -> None:
    with pytest.raises(ValueError, match=r"^profile_steps.* is .*, expected (two numbers|at least 1)"):
        train(params_of(None, steps))
