"""Model of a scenario with everything that `tfaip-check-scenario` finds."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from test.scenario.dated.modelparams import DatedModelParams
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase


class Slow(keras.layers.Layer):  # finding: uncompiled-layer
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_jit = False

    def call(self, inputs: Any) -> Any:
        return 2 * inputs


class DatedGraph(GraphBase[DatedModelParams]):
    def __init__(self, params: DatedModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.slow = Slow()
        self.dense = keras.layers.Dense(1)

    def build_graph(self, inputs: Any, training: bool | None = None) -> Any:
        return {"y": self.dense(self.slow(inputs["x"]))}


class DatedModel(ModelBase[DatedModelParams]):
    def __init__(self, params: DatedModelParams) -> None:
        super().__init__(params)
        self.mean = keras.metrics.Mean(name="error")

    def _loss(self, inputs: Any, targets: Any, outputs: Any) -> Any:
        return {"mse": keras.losses.mean_squared_error(targets["y"], outputs["y"])}

    def _metrics(self, inputs: Any, targets: Any, outputs: Any) -> Any:  # finding: uncalled-method
        return [self.mean(outputs["y"])]

    def additional_loss_kwargs(self) -> Any:  # finding: uncalled-method
        return {}


class RanklessModel(DatedModel):
    """A metric of values whose rank only Python code knows."""

    def _metric(self, inputs: Any, targets: Any, outputs: Any) -> Any:
        errors = tf.numpy_function(lambda y: abs(y), [outputs["y"]], tf.float32)
        return [self.mean(errors, sample_weight=targets["y"])]  # finding: unknown-rank
