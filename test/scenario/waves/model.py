"""Graph and model of both declarations; this module needs the numeric backend."""

from __future__ import annotations

import keras

from test.scenario.waves.modelparams import WavesModelParams
from tfaip.imports import GraphBase, ModelBase
from tfaip.util.typing import Tensor, TensorDict


class WavesGraph(GraphBase[WavesModelParams]):
    def __init__(self, params: WavesModelParams, **kwargs: str) -> None:
        super().__init__(params, **kwargs)
        self.hidden = keras.layers.Dense(params.units, activation="relu")
        self.forms = keras.layers.Dense(3, activation="softmax")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"prob": self.forms(self.hidden(inputs["wave"]))}


class WavesModel(ModelBase[WavesModelParams]):
    def __init__(self, params: WavesModelParams) -> None:
        super().__init__(params)
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="acc")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        return {"crossentropy": keras.losses.sparse_categorical_crossentropy(targets["form"], outputs["prob"])}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.accuracy(targets["form"], outputs["prob"])]

    def _best_logging_settings(self) -> tuple[str, str]:
        return "max", "acc"
