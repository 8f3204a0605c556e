"""A `keras.Sequential`, with its loss and its metric as `compile` takes them."""

import keras

from tfaip.imports import ModelBase


class WineModel(ModelBase):
    loss, metrics = "sparse_categorical_crossentropy", ["acc"]

    def build_model(self) -> keras.Model:
        layers = keras.layers
        hidden = [layers.BatchNormalization(momentum=0.9), layers.Dense(self.params.units, "relu")]
        return keras.Sequential([*hidden, layers.Dense(3, "softmax", name="prob")])
