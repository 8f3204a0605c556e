"""Layers that Keras does not compile are named before the first epoch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import pytest
from keras import ops

from test.trainer.line import (
    LineDataParams,
    LineGraph,
    LineModel,
    LineModelParams,
    LinePipelineParams,
    PointsParams,
    by_hand,
)
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.params import pai_dataclass
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.params import TrainerParams
from tfaip.util.typing import TensorDict

IS_JAX = keras.backend.backend() == "jax"


@pai_dataclass
@dataclass
class TurnedModelParams(LineModelParams):
    compiled: bool = False

    @staticmethod
    def cls() -> type[ModelBase[Any]]:
        return LineModel

    def graph_cls(self) -> type[GraphBase[Any]]:
        return TurnedGraph


class Augmentation(keras.layers.Layer):
    def __init__(self, compiled: bool) -> None:
        super().__init__()
        self.steps = [keras.layers.RandomFlip(seed=1), keras.layers.RandomTranslation(0.0, 0.0, seed=1)]
        self.steps[1].supports_jit = compiled

    def call(self, x: Any, training: bool | None = None) -> Any:
        for step in self.steps:
            x = step(x, training=training)
        return x


class TurnedGraph(LineGraph):
    """A line whose input is an image of one pixel that is flipped and moved by nothing."""

    def __init__(self, params: TurnedModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.augment = Augmentation(params.compiled)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        image = self.augment(ops.reshape(inputs["x"], (-1, 1, 1, 1)), training=training)
        return {"y": self.line(ops.reshape(image, (-1, 1)))}


class TurnedScenarioParams(ScenarioBaseParams[LineDataParams, TurnedModelParams]):
    pass


class TurnedTrainerParams(TrainerParams[TurnedScenarioParams, LinePipelineParams]):
    pass


class TurnedScenario(ScenarioBase[TurnedScenarioParams, TurnedTrainerParams]):
    pass


def trained_params(compiled: bool = False, **fields: Any) -> TurnedTrainerParams:
    params = by_hand(TurnedScenario.default_trainer_params(), None, **fields)
    params.gen.train, params.val_every_n = PointsParams(x=[1.0, 2.0]), 0
    params.scenario.model.compiled = compiled
    return params


def warnings_of(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    return (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)


@pytest.mark.backend
def test_a_layer_that_is_not_compiled_is_named(caplog: pytest.LogCaptureFixture) -> None:
    TurnedScenario.create_trainer(trained_params(jit_compile=True)).train()
    (line,) = warnings_of(caplog)
    assert len(line) <= 300
    assert ": augment/steps/1 (RandomTranslation). " in line
    assert ("supports_jit = True" if IS_JAX else "Leave out jit_compile") in line
    # It is logged before the first epoch.
    messages = [record.getMessage() for record in caplog.records]
    assert messages.index(line) < next(i for i, m in enumerate(messages) if m.startswith("Results of epoch 0001"))


@pytest.mark.backend
def test_without_xla_it_matters_on_jax_alone(caplog: pytest.LogCaptureFixture) -> None:
    TurnedScenario.create_trainer(trained_params()).train()
    assert len(list(warnings_of(caplog))) == IS_JAX


@pytest.mark.parametrize(
    "fields", [{"compiled": True}, {"force_eager": True}], ids=["a layer that compiles", "asked to run eagerly"]
)
def test_no_warning(caplog: pytest.LogCaptureFixture, fields: dict[str, Any]) -> None:
    TurnedScenario.create_trainer(trained_params(**fields)).train()
    assert list(warnings_of(caplog)) == []
