"""Layers, losses and metrics. This is the only file that imports Keras."""

from typing import Any

import keras

from my_scenario.scenario import MyModelParams
from tfaip.imports import GraphBase, ModelBase


class MyGraph(GraphBase[MyModelParams]):
    """Probability of the target, computed with some hidden layers."""

    def __init__(self, params: MyModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.hidden = [keras.layers.Dense(units, activation="relu") for units in params.units]
        self.probability = keras.layers.Dense(1, activation="sigmoid")

    def build_graph(self, inputs: Any, training: bool | None = None) -> Any:
        x = inputs["x"]
        for layer in self.hidden:
            x = layer(x)
        return {"prob": self.probability(x)}


class MyModel(ModelBase[MyModelParams]):
    """Cross entropy as the loss, accuracy as the metric."""

    def __init__(self, params: MyModelParams) -> None:
        super().__init__(params)
        self.accuracy = keras.metrics.BinaryAccuracy(name="acc")  # an attribute, since it counts over batches

    def _loss(self, inputs: Any, targets: Any, outputs: Any) -> Any:
        return {"crossentropy": keras.losses.binary_crossentropy(targets["y"], outputs["prob"])}

    def _metric(self, inputs: Any, targets: Any, outputs: Any) -> Any:
        return [self.accuracy(targets["y"], outputs["prob"])]
