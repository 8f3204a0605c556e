"""The layers between the inputs and the outputs."""

from __future__ import annotations

from typing import Any

import keras

from my_scenario.params import MyModelParams
from tfaip.imports import GraphBase
from tfaip.util.typing import TensorDict


class MyGraph(GraphBase[MyModelParams]):
    """Probability of the target, computed with some hidden layers."""

    def __init__(self, params: MyModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.hidden = [keras.layers.Dense(units, activation="relu") for units in params.units]
        self.probability = keras.layers.Dense(1, activation="sigmoid")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        x = inputs["x"]
        for layer in self.hidden:
            x = layer(x)
        return {"prob": self.probability(x)}
