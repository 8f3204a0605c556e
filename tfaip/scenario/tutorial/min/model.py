"""Model of the smallest scenario; this module needs the numeric backend."""

import keras

from tfaip.model.modelbase import ModelBase
from tfaip.scenario.tutorial.min.scenario import MinModelParams


class MinModel(ModelBase[MinModelParams]):
    """One hidden layer, and the probabilities of the ten digits."""

    loss = "sparse_categorical_crossentropy"
    metrics = ["acc"]

    def build_model(self) -> keras.Model:
        hidden = keras.layers.Dense(self.params.units, activation="relu")
        return keras.Sequential([hidden, keras.layers.Dense(10, activation="softmax", name="prob")])
