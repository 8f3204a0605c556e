"""Layers that Keras does not compile are named before the first epoch."""

from __future__ import annotations

import logging
from typing import Any

import keras
import pytest
from keras import ops

from test.trainer.line import (
    LineDataParams,
    LineGraph,
    LineModel,
    LineModelParams,
    PointsParams,
    by_hand,
)
from tfaip.model.graphbase import GraphBase
from tfaip.scenario.scenario import Scenario
from tfaip.util.typing import TensorDict

IS_JAX = keras.backend.backend() == "jax"


class TurnedModelParams(LineModelParams, cls=LineModel):
    compiled: bool = False

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


class TurnedScenario(Scenario):
    data, model, train = LineDataParams, TurnedModelParams, PointsParams(x=[1.0, 2.0])


@pytest.mark.parametrize(
    ("compiled", "fields", "lines"),
    [
        pytest.param(False, {"jit_compile": True}, 1, marks=pytest.mark.backend),
        # Without XLA it matters on JAX alone.
        pytest.param(False, {}, int(IS_JAX), marks=pytest.mark.backend),
        (True, {}, 0),
        (False, {"force_eager": True}, 0),
    ],
)
def test_a_layer_that_is_not_compiled_is_named(compiled, fields, lines, caplog) -> None:
    params = by_hand(TurnedScenario.default_trainer_params(), None, val_every_n=0, **fields)
    params.scenario.model.compiled = compiled
    TurnedScenario.create_trainer(params).train()
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(found) == lines
    for line in found:
        assert len(line) <= 300
        assert ": augment/steps/1 (RandomTranslation). " in line
        assert ("supports_jit = True" if IS_JAX else "Leave out jit_compile") in line
        # It is logged before the first epoch.
        messages = [record.getMessage() for record in caplog.records]
        assert messages.index(line) < next(i for i, m in enumerate(messages) if m.startswith("Results of epoch 0001"))
