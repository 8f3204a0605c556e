"""Graph and model of the sequences: a hidden layer with dropout for each step, and their sum."""

from __future__ import annotations

from typing import Any

import keras

from tfaip.imports import GraphBase, ModelBase
from tfaip.util.typing import Tensor, TensorDict

from .scenario import SequenceModelParams


class SequenceGraph(GraphBase[SequenceModelParams]):
    """One hidden layer; padded steps are zeros and are left out of the sum."""

    def __init__(self, params: SequenceModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.hidden = keras.layers.Dense(params.units, activation="relu")
        self.dropout = keras.layers.Dropout(params.dropout)
        self.out = keras.layers.Dense(1)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        is_step = keras.ops.cast(keras.ops.any(keras.ops.not_equal(inputs["x"], 0), axis=-1, keepdims=True), "float32")
        hidden = self.dropout(self.hidden(inputs["x"]), training=training)
        return {"y": self.out(keras.ops.sum(hidden * is_step, axis=1))}


class SequenceModel(ModelBase[SequenceModelParams]):
    """Mean squared error, and a metric that has to accumulate."""

    def __init__(self, params: SequenceModelParams) -> None:
        super().__init__(params)
        self.error = keras.metrics.MeanAbsoluteError(name="mae")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        return {"mse": keras.ops.square(targets["y"] - outputs["y"])}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.error(targets["y"], outputs["y"])]
