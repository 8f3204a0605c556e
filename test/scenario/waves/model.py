"""Model of the waves; this module needs the numeric backend."""

from __future__ import annotations

from typing import Any

import keras

from test.scenario.waves.new import WavesModelParams
from tfaip.imports import ModelBase


class WavesModel(ModelBase[WavesModelParams]):
    loss, metrics = "sparse_categorical_crossentropy", ["acc"]

    def __init__(self, params: WavesModelParams, data: Any) -> None:
        super().__init__(params)
        self.points = data.points

    def build_model(self) -> keras.Model:
        hidden = keras.layers.Dense(self.params.units, activation="relu")
        return keras.Sequential([hidden, keras.layers.Dense(3, activation="softmax", name="prob")])
