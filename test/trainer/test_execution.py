"""Executions of several steps: the numbers are those of single steps, and a run stays with what it began with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest

from test.support.tiny.scenario import TinyScenario
from test.trainer.net import NetScenario, net_params
from test.trainer.test_resume_changes import StopAfter, tiny_params
from tfaip.backend.kerastools import Execution
from tfaip.trainer.run.checkpoint import Checkpoint, read_checkpoint
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
    return read_checkpoint(run / "checkpoint" / (run / "checkpoint" / "latest").read_text().strip())


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
        platform = "cpu" if IS_JAX else None
        expected = {"loops": IS_JAX or None, "platform": platform}
        assert checkpoint.state["execution"] == expected


@pytest.mark.skipif(not IS_JAX, reason="TensorFlow loops over any model")
def test_convolutions_on_a_cpu_are_called_step_by_step(tmp_path: Path) -> None:
    ended: list[int] = []

    class Ends(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            ended.append(batch)

    made = net_params(tmp_path / "run", epochs=1, steps_per_execution=None, export_best=False, export_final=False)
    made.samples_per_epoch = 12
    NetScenario.create_trainer(made).train([Ends()])
    assert ended == [0, 1, 2]
    stored = newest(tmp_path / "run").state
    assert stored["execution"] == {"loops": False, "platform": "cpu"}


def test_a_run_keeps_the_way_it_was_begun_with() -> None:
    for loops in (True, False):
        known = Execution.from_dict(Execution(loops=loops, platform="cpu").to_dict())
        assert (known.decided("cpu"), known.decided("gpu")) == (loops, None)
    with pytest.raises(TypeError, match="execution is"):
        Execution.from_dict({"loops": 1, "platform": None})
