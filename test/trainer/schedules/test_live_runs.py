"""Runs with many schedules: eager or compiled, in one go or resumed, with stages; on both backends."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.trainer.line import CallbackOf, Weights, train
from test.trainer.schedules.liveruns import EachBatch, weights_after
from test.trainer.schedules.support import LiveScenario, live_params, step
from tfaip.trainer.params import WeightPenaltyParams
from tfaip.trainer.scheduler.rules import Interpolation
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import TrainStage

PENALTY = [WeightPenaltyParams("line/kernel")]


@pytest.mark.slow
def test_the_value_of_a_stage_takes_the_place_of_a_schedule_while_it_lasts() -> None:
    # The gradient is 3: clipped to 0.25 in the stage, then to what the schedule has come to.
    stages = {"own": TrainStage(epochs=2, overrides={"optimizer.clip_value": 0.25}), "last": TrainStage(epochs=1)}
    params = live_params([3.0], step("optimizer.clip_value", 1.0, 1.0, 0.5), epochs=4, stages=stages)
    weights = Weights()
    trainer = train(params, weights, scenario=LiveScenario)
    np.testing.assert_allclose(weights.values, [-0.25, -0.5, -1.0, -1.5], rtol=1e-6)
    logged = [trainer.history.values(epoch).get("schedule/optimizer.clip_value") for epoch in (1, 2, 3, 4)]
    assert logged == [None, None, 0.5, 0.5]


@pytest.mark.slow
def test_eagerly() -> None:
    schedules = [
        ScheduleParams("optimizer.clip_value", {0: 1.0, 1: 0.5}, Interpolation.EXPONENTIAL),
        step("optimizer.momentum", 0.1, 0.5),
        step("model.sharpness", 1.0, 2.0),
        step("graph.drop.rate", 0.0, 0.0),
    ]
    model = {"dropout": "Dropout", "rate": 0.5}
    ours = weights_after(live_params([1.0, 3.0], *schedules, model=model, force_eager=True))
    np.testing.assert_allclose(ours, weights_after(live_params([1.0, 3.0], *schedules, model=model)), rtol=1e-6)


def noisy(tmp_path: Path | None, **fields: Any) -> Any:
    """A training in which everything is scheduled, most of it within epochs."""
    schedules = [
        ScheduleParams("optimizer.clip_global_norm", {0: 2.0, 1.5: 0.2}, Interpolation.EXPONENTIAL),
        ScheduleParams("optimizer.gradient_noise.stddev", {0.5: 0.1, 2: 0.0}),
        ScheduleParams("optimizer.momentum", {0: 0.1, 2: 0.9}, Interpolation.COSINE),
        ScheduleParams("loss_weights.loss", {0: 1.0, 0.7: 0.5, 1.2: 1.5}),
        ScheduleParams("weight_noise.stddev", {0: 0.0, 1: 0.5}),
        ScheduleParams("weight_penalties.0.l2", {0: 0.1, 2: 0.2}),
        ScheduleParams("graph.drop.rate", {0: 0.0, 1: 0.5}),
        ScheduleParams("model.sharpness", {0: 1.0, 2: 2.0}),
        ScheduleParams("model.offset", {0: 0.0, 2: 0.5}),
    ]
    return live_params(
        [1.0, 2.0, -1.0, 0.5, 3.0, -2.0, 1.5],
        *schedules,
        val_x=[1.0, 2.0],
        output_dir=tmp_path,
        model={"dropout": "Dropout", "rate": 0.1, "start": 1.0},
        lr=0.1,
        weight_penalties=PENALTY,
        write_checkpoints=tmp_path is not None,
        **fields,
    )


def outcome(params: Any, **arguments: Any) -> tuple[list[dict[str, float]], float]:
    logs: list[dict[str, float]] = []
    keep = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(dict(values)))
    trainer = LiveScenario.create_trainer(params, **arguments)
    trainer.train([keep])
    return logs, float(keras.ops.convert_to_numpy(trainer.scenario.graph.line.kernel.value)[0, 0])


@pytest.mark.slow
@pytest.mark.backend
def test_a_resume_and_the_steps_per_execution_change_nothing(tmp_path: Path) -> None:
    whole = outcome(noisy(None, epochs=3, steps_per_execution=1))
    assert all(np.isfinite(value) for values in whole[0] for value in values.values())
    # Between two epochs, and within the second one.
    params = noisy(tmp_path / "run", epochs=1, steps_per_execution=3)
    first = outcome(params)
    assert first[0] == whole[0][:1]
    params.epochs, params.steps_per_execution = 3, 1
    stop = EachBatch(lambda model: os.kill(os.getpid(), signal.SIGINT) if model.optimizer.batches == 10 else None)
    trainer = LiveScenario.create_trainer(params, restore=True)
    with pytest.raises(TrainingInterrupted):
        trainer.train([stop])
    params.steps_per_execution = 2
    assert outcome(params, restore=True) == (whole[0][1:], whole[1])
