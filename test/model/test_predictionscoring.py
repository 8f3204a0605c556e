"""What an evaluation of the prediction graph leaves out, and what it must not swallow."""

from __future__ import annotations

import logging

import keras
import numpy as np
import pytest

from test.support.tiny.model import TinyModel
from test.support.tiny.scenario import TinyScenario
from tfaip.data.pipeline.batching import Batch
from tfaip.model.predictionstep import EvaluationModel, EvaluationStep, ScoringModel

X = np.random.default_rng(1).normal(size=(6, 4)).astype("float32")
BATCH = Batch({"x": X}, {"y": X[:, :1]}, [None] * 6)


class OnlyInTraining(TinyModel):
    """Its metric is also computed on an output that only training has."""

    def _metric(self, inputs, targets, outputs):
        return [self.error(targets["y"], outputs["attention"])]


class LossOnlyInTraining(TinyModel):
    def _loss(self, inputs, targets, outputs):
        return {"mse": keras.ops.square(targets["y"] - outputs["attention"])}


class Mistaken(TinyModel):
    """Asks for a target that there is not, by the name of no output either."""

    def _loss(self, inputs, targets, outputs):
        return {"mse": keras.ops.square(targets["z"] - outputs["y"])}


class MistakenMetric(TinyModel):
    def _metric(self, inputs, targets, outputs):
        return [self.error(targets["z"], outputs["y"])]


def evaluated(model_cls, run_eagerly=False):
    params = TinyScenario.default_params()
    scenario = TinyScenario(params)
    model = EvaluationModel(model_cls(params.model), scenario.graph)
    model.build_symbolically(scenario.data.create_input_layers(), scenario.data.create_target_layers())
    step = EvaluationStep(model, run_eagerly)
    step.reset()
    outputs = step(BATCH)
    return step.result(), np.array(outputs["y"])


class Counted(TinyModel):
    """Counts how often its losses are traced."""

    losses = 0

    def _loss(self, inputs, targets, outputs):
        self.losses += 1
        return super()._loss(inputs, targets, outputs)


@pytest.mark.backend
def test_the_model_is_built_in_one_trace():
    params = TinyScenario.default_params()
    scenario, counted = TinyScenario(params), Counted(params.model)
    model = EvaluationModel(counted, scenario.graph)
    model.build_symbolically(scenario.data.create_input_layers(), scenario.data.create_target_layers())
    assert counted.losses == 1


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_a_metric_on_an_output_of_the_training_is_left_out_and_named(run_eagerly, caplog):
    with caplog.at_level(logging.INFO, "tfaip"):
        values, y = evaluated(OnlyInTraining, run_eagerly)
    assert values == {name: pytest.approx(np.mean((X[:, :1] - y) ** 2), rel=1e-5) for name in ("loss", "mse")}
    assert "no metrics on the prediction graph, which has no output 'attention'" in caplog.text


def test_a_loss_on_an_output_of_the_training_is_left_out_and_named(caplog):
    with caplog.at_level(logging.INFO, "tfaip"):
        values, y = evaluated(LossOnlyInTraining)
    assert values == {"mae": pytest.approx(np.mean(np.abs(X[:, :1] - y)), rel=1e-5)}
    assert "no loss on the prediction graph, which has no output 'attention'" in caplog.text


@pytest.mark.parametrize("model_cls", [Mistaken, MistakenMetric])
def test_any_other_missing_key_is_an_error(model_cls):
    with pytest.raises(KeyError, match="z"):
        evaluated(model_cls)


@pytest.mark.backend
def test_given_outputs_are_scored():
    scenario = TinyScenario(TinyScenario.default_params())
    model = ScoringModel(scenario.model, scenario.graph)
    model.build_symbolically(scenario.data.create_input_layers(), scenario.data.create_target_layers())
    step = EvaluationStep(model)
    for offset in (1.0, 2.0):  # a reset forgets the first
        step.reset()
        for part in (X[:4], X[4:]):
            step.score({"inputs": {"x": part}, "outputs": {"y": part[:, :1] + np.float32(offset)}}, {"y": part[:, :1]})
        assert step.result() == pytest.approx({"loss": offset**2, "mse": offset**2, "mae": offset}, rel=1e-6)
