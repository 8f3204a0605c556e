"""The model of a trainer after a training, or without one: `model`, `evaluate`, `predict`; on both backends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import keras
import numpy as np
import pytest

from test.model.brought import BroughtScenario, brought_params
from test.trainer.line import CallbackOf, LineScenario, PointsParams, line_params, train, weight
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import UsageError
from tfaip.predict.params import PredictorParams
from tfaip.trainer.signals import TrainingInterrupted

X = [{"x": np.array([value], "float32")} for value in (0.5, 3.0)]


@pytest.mark.backend
@pytest.mark.parametrize(("rate", "final"), [(0.0, -4.0), (0.5, -3.0625)])
def test_after_a_training(rate: float, final: float, tmp_path: Path) -> None:
    # w is -4 after four updates of -1; averages: -0.5, -1.25, -2.125, -3.0625.
    params = line_params([1.0, 1.0], [2.0], tmp_path / "run", epochs=2, calc_ema=rate, export_best=True)
    trainer = train(params)
    last = {name.removeprefix("val_"): v for name, v in trainer.history.values(2).items() if name.startswith("val_")}
    assert trainer.evaluate() == last == {"loss": 2 * final, "loss/mean_epoch": 2 * final, "distance": -2 * final}
    samples = [Sample(inputs={"x": np.array([x])}, targets={"y": np.array([0.0])}) for x in (1.0, 4.0)]
    assert trainer.evaluate(samples)["loss"] == trainer.evaluate(PointsParams(x=[1.0, 4.0]))["loss"] == 2.5 * final
    best = LineScenario.create_predictor(str(tmp_path / "run" / "best"), PredictorParams(silent=True))
    for found in (trainer.predict(X), list(best.predict_raw(X)), trainer.predict(PointsParams(x=[0.5, 3.0]))):
        assert [sample.outputs["y"].tolist() for sample in found] == [[0.5 * final], [3 * final]]
    assert weight(trainer) == -4.0
    assert trainer.model is trainer.scenario.graph


@pytest.mark.backend
def test_without_a_training_and_before_one() -> None:
    params = line_params([1.0], None, None)
    params.scenario.model.start = 2.0
    trainer = LineScenario.create_trainer(params)
    assert [sample.outputs["y"].tolist() for sample in trainer.predict(X)] == [[1.0], [6.0]]
    with pytest.raises(UsageError, match="no validation data: give evaluate"):
        trainer.evaluate()
    assert trainer.evaluate(PointsParams(x=[3.0]))["loss"] == 6.0
    trainer.train()
    assert trainer.evaluate(PointsParams(x=[3.0]))["loss"] == 3.0


def test_after_a_training_that_was_stopped() -> None:
    trainer = LineScenario.create_trainer(line_params([1.0], [3.0], None, epochs=2))
    stop = CallbackOf(on_epoch_end=lambda epoch, logs: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(TrainingInterrupted):
        trainer.train([stop])
    assert trainer.evaluate()["loss"] == -3.0


@pytest.mark.slow
def test_the_model_of_a_scenario_that_brings_one() -> None:
    trainer = BroughtScenario.create_trainer(brought_params("sequential"))
    assert isinstance(trainer.model, keras.Sequential)
    trainer.train()
    assert isinstance(trainer.model, keras.Sequential)
