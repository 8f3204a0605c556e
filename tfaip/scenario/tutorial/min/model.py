"""Model of the smallest scenario, the only module that imports Keras."""

import keras

from tfaip.imports import ModelBase
from tfaip.scenario.tutorial.min.scenario import MinModelParams


class MinModel(ModelBase[MinModelParams]):
    """Probabilities of the ten digits, computed with one hidden layer."""

    loss, metrics = "sparse_categorical_crossentropy", ["acc"]

    def build_model(self) -> keras.Model:
        hidden = keras.layers.Dense(self.params.units, activation="relu", name="hidden")
        return keras.Sequential([hidden, keras.layers.Dense(10, activation="softmax", name="prob")])
