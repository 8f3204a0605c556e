"""Executions of several steps have the numbers of single steps; windows of updates, in callbacks and TensorBoard."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import keras
import pytest

from test.events.test_writer import points
from test.support.runs import latest
from test.support.tiny.scenario import TinyScenario
from test.trainer.line import CallbackOf, line_params, train
from test.trainer.net import NetScenario, net_params
from test.trainer.test_resume_changes import StopAfter, tiny_params
from tfaip.backend.kerastools import Execution
from tfaip.trainer.run.output import Checkpoint, read_checkpoint
from tfaip.trainer.scheduler import ConstantParams
from tfaip.trainer.scheduler.rules import CyclicModulationParams
from tfaip.trainer.signals import TrainingInterrupted

pytestmark = pytest.mark.backend

IS_JAX = keras.backend.backend() == "jax"


def params(run: Path, steps: int | None) -> Any:
    """Params of a training with dropout, clips, averages, accumulation and a smaller last batch."""
    made = tiny_params(run, steps_per_execution=steps, epochs=2, samples_per_epoch=42, calc_ema=0.9)
    made.optimizer.clip_norm, made.optimizer.clip_global_norm, made.train_accum_steps = 0.5, 1.0, 2
    made.optimizer.gradient_noise.stddev = 0.01
    return made


def newest(run: Path) -> Checkpoint:
    return read_checkpoint(run / "checkpoint" / latest(run))


def content(checkpoint: Checkpoint) -> dict[str, Any]:
    """All arrays, bit for bit, and the values of all epochs."""
    values = {number: record["values"] for number, record in checkpoint.state["history"].items()}
    return {**{name: array.tobytes() for name, array in checkpoint.arrays.items()}, **values}


@pytest.mark.slow
def test_any_number_of_steps_per_execution_gives_the_same_bits(tmp_path: Path) -> None:
    runs = {}
    for steps in (1, None):
        run = tmp_path / f"run_{steps}"
        TinyScenario.create_trainer(params(run, steps)).train()
        runs[steps] = newest(run)
    # Executions of seven steps, stopped in the second epoch, and then of three: none ends where another does.
    run = tmp_path / "resumed"
    with pytest.raises(TrainingInterrupted):
        TinyScenario.create_trainer(params(run, 7)).train([StopAfter(7, epoch=2)])
    assert newest(run).state["step"] == 7
    TinyScenario.create_trainer(params(run, 3), restore=True).train()
    whole = content(runs[1])
    assert any(name.startswith("optimizer/velocity") for name in whole)
    for checkpoint in (runs[None], newest(run)):
        other = content(checkpoint)
        assert [name for name in whole if other[name] != whole[name]] == []
        assert checkpoint.state["execution"] == {"loops": IS_JAX or None, "platform": "cpu" if IS_JAX else None}
    # A run keeps the way that it was begun with.
    for loops in (True, False):
        known = Execution.from_dict(Execution(loops=loops, platform="cpu").to_dict())
        assert (known.decided("cpu"), known.decided("gpu")) == (loops, None)
    with pytest.raises(TypeError, match="execution is"):
        Execution.from_dict({"loops": 1, "platform": None})


@pytest.mark.skipif(not IS_JAX, reason="TensorFlow loops over any model")
def test_convolutions_on_a_cpu_are_called_step_by_step(tmp_path: Path) -> None:
    ended: list[int] = []
    made = net_params(tmp_path / "run", epochs=1, steps_per_execution=None, export_best=False, export_final=False)
    made.samples_per_epoch = 12
    NetScenario.create_trainer(made).train(
        [CallbackOf(on_train_batch_end=lambda batch, logs=None: ended.append(batch))]
    )
    assert ended == [0, 1, 2]
    assert newest(tmp_path / "run").state["execution"] == {"loops": False, "platform": "cpu"}


# The losses are those of x, since the weight stays 1. Windows of 3, 3 and 1 of 7 updates; the rate of the last one of
# each, where rates are 1, 1/2, 1/4, 1, ...
RATE = 2.0**-100
WHOLE = [(3, 2.0, 0.25), (6, 5.0, 0.25), (7, 7.0, 1.0), (10, 2.0, 1.0), (13, 5.0, 1.0), (14, 7.0, 0.5)]


def windows_of(output_dir: Path | None, every: int = 3, interrupted: bool = False, **fields: Any) -> list[Any]:
    restore = fields.pop("restore", False)
    params = line_params([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], None, output_dir, epochs=2, **fields)
    params.scenario.model.start, params.log_every_n_updates = 1.0, every
    params.learning_rate = ConstantParams(lr=RATE, modulation=CyclicModulationParams(interval_steps=3, decay=0.5))
    seen: list[tuple[int, float, float]] = []

    def keep(update: int, logs: dict[str, float]) -> None:
        assert logs["loss"] == logs["distance"]
        seen.append((update, logs["loss"], logs["lr"] / RATE))

    with pytest.raises(TrainingInterrupted) if interrupted else contextlib.nullcontext():
        train(params, CallbackOf(on_log=keep), *[StopAfter(5)] * interrupted, restore=restore)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("steps", [None, 1, 7])
def test_the_means_of_each_window_in_callbacks_and_events(steps: int | None, tmp_path: Path) -> None:
    assert windows_of(tmp_path / "run", steps_per_execution=steps) == WHOLE
    losses = points(tmp_path / "run" / "updates", "updates/loss")
    assert list(losses) == [(update, loss) for update, loss, _ in WHOLE]
    rates = points(tmp_path / "run" / "updates", "updates/lr")
    assert list(rates) == [(update, rate * RATE) for update, _, rate in WHOLE]


def test_an_open_window_goes_on_after_a_resume(tmp_path: Path) -> None:
    before = windows_of(tmp_path / "run", interrupted=True, steps_per_execution=1)
    assert before == WHOLE[:1]
    # Executions of at most 2 batches, of which the first ends the window after one.
    assert windows_of(tmp_path / "run", restore=True, steps_per_execution=2) == WHOLE[1:]
    assert list(points(tmp_path / "run" / "updates", "updates/loss")) == [window[:2] for window in WHOLE]


@pytest.mark.slow
def test_a_resume_begins_to_log_windows(tmp_path: Path) -> None:
    assert not windows_of(tmp_path / "run", every=0, interrupted=True, steps_per_execution=1)
    # Of the window from batch 4 to 6 only the last one is left, which says nothing of it.
    assert windows_of(tmp_path / "run", restore=True) == WHOLE[2:]


def test_windows_of_updates_of_several_batches() -> None:
    found = windows_of(None, every=2, train_accum_steps=2)
    # The update of the last batch of the first epoch ends in the second one.
    assert [window[:2] for window in found] == [(2, 2.5), (3, 6.0), (5, 2.5), (7, 6.0)]
