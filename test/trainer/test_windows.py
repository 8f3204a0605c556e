"""`log_every_n_updates`: means over windows of updates, in callbacks and in TensorBoard; on both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest

from test.events.test_writer import scalars
from test.trainer.line import LineScenario, line_params
from test.trainer.test_resume_changes import StopAfter
from tfaip.trainer.scheduler import ConstantParams
from tfaip.trainer.scheduler.params import CyclicModulationParams
from tfaip.trainer.signals import TrainingInterrupted

pytestmark = pytest.mark.backend

# The losses are those of x, since the weight stays 1. Windows of 3, 3 and 1 of 7 updates; the rate of the last one of
# each, where rates are 1, 1/2, 1/4, 1, ...
RATE = 2.0**-100
WHOLE = [(3, 2.0, 0.25), (6, 5.0, 0.25), (7, 7.0, 1.0), (10, 2.0, 1.0), (13, 5.0, 1.0), (14, 7.0, 0.5)]


class Windows(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, float, float]] = []

    def on_log(self, update: int, logs: dict[str, float]) -> None:
        assert logs["loss"] == logs["distance"]
        self.seen.append((update, logs["loss"], logs["lr"] / RATE))


def windows_of(output_dir: Path | None, every: int = 3, interrupted: bool = False, **fields: Any) -> list[Any]:
    restore = fields.pop("restore", False)
    params = line_params([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], None, output_dir, epochs=2, **fields)
    params.scenario.model.start, params.log_every_n_updates = 1.0, every
    params.learning_rate = ConstantParams(lr=RATE, modulation=CyclicModulationParams(interval_steps=3, decay=0.5))
    windows = Windows()
    trainer = LineScenario.create_trainer(params, restore=restore)
    if interrupted:
        with pytest.raises(TrainingInterrupted):
            trainer.train([windows, StopAfter(5)])
    else:
        trainer.train([windows])
    return windows.seen


@pytest.mark.slow
@pytest.mark.parametrize("steps", [None, 1, 7])
def test_the_means_of_each_window_in_callbacks_and_events(steps: int | None, tmp_path: Path) -> None:
    assert windows_of(tmp_path / "run", steps_per_execution=steps) == WHOLE
    losses = scalars(tmp_path / "run" / "updates", "updates/loss")
    assert list(losses) == [(update, loss) for update, loss, _ in WHOLE]
    rates = scalars(tmp_path / "run" / "updates", "updates/lr")
    assert list(rates) == [(update, rate * RATE) for update, _, rate in WHOLE]


def test_an_open_window_goes_on_after_a_resume(tmp_path: Path) -> None:
    before = windows_of(tmp_path / "run", interrupted=True, steps_per_execution=1)
    assert before == WHOLE[:1]
    # Executions of at most 2 batches, of which the first ends the window after one.
    assert windows_of(tmp_path / "run", restore=True, steps_per_execution=2) == WHOLE[1:]
    assert list(scalars(tmp_path / "run" / "updates", "updates/loss")) == [window[:2] for window in WHOLE]


@pytest.mark.slow
def test_a_resume_begins_to_log_windows(tmp_path: Path) -> None:
    assert not windows_of(tmp_path / "run", every=0, interrupted=True, steps_per_execution=1)
    # Of the window from batch 4 to 6 only the last one is left, which says nothing of it.
    assert windows_of(tmp_path / "run", restore=True) == WHOLE[2:]


def test_windows_of_updates_of_several_batches() -> None:
    found = windows_of(None, every=2, train_accum_steps=2)
    # The update of the last batch of the first epoch ends in the second one.
    assert [window[:2] for window in found] == [(2, 2.5), (3, 6.0), (5, 2.5), (7, 6.0)]
