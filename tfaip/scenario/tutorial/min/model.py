"""Graph and model of the smallest scenario; this module needs the numeric backend."""

from __future__ import annotations

import keras

from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.scenario.tutorial.min.scenario import MinModelParams
from tfaip.util.typing import Tensor, TensorDict


class MinGraph(GraphBase[MinModelParams]):
    """Probabilities of the ten digits, computed with one hidden layer."""

    def __init__(self, params: MinModelParams, **kwargs: str) -> None:
        super().__init__(params, **kwargs)
        self.hidden = keras.layers.Dense(params.units, activation="relu")
        self.probabilities = keras.layers.Dense(10, activation="softmax")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"prob": self.probabilities(self.hidden(inputs["img"]))}


class MinModel(ModelBase[MinModelParams]):
    """Cross entropy as the loss, accuracy as the metric."""

    def __init__(self, params: MinModelParams) -> None:
        super().__init__(params)
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="acc")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        return {"loss": keras.losses.sparse_categorical_crossentropy(targets["digit"], outputs["prob"])}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.accuracy(targets["digit"], outputs["prob"])]

    def _best_logging_settings(self) -> tuple[str, str]:
        return "max", "acc"  # the best model has the highest validation accuracy
