"""Graph and model of the tiny scenario: a hidden layer with dropout, a metric that has to accumulate."""

from __future__ import annotations

from typing import Any

import keras

from tfaip.imports import GraphBase, ModelBase
from tfaip.util.typing import Tensor, TensorDict

from .scenario import TinyModelParams


class TinyGraph(GraphBase[TinyModelParams]):
    """One hidden layer."""

    def __init__(self, params: TinyModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.hidden = keras.layers.Dense(params.units, activation="relu")
        self.dropout = keras.layers.Dropout(params.dropout)
        self.out = keras.layers.Dense(1)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.out(self.dropout(self.hidden(inputs["x"]), training=training))}


class TinyModel(ModelBase[TinyModelParams]):
    """Mean squared error."""

    def __init__(self, params: TinyModelParams) -> None:
        super().__init__(params)
        self.error = keras.metrics.MeanAbsoluteError(name="mae")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        return {"mse": keras.ops.square(targets["y"] - outputs["y"])}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.error(targets["y"], outputs["y"])]
