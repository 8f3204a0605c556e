"""Convolutions, and an output for each class of the data."""

import keras
from keras import layers

from tfaip.imports import ModelBase


class ImageModel(ModelBase):
    """A `keras.Sequential` with its loss and metric."""

    loss, metrics = "sparse_categorical_crossentropy", ["acc"]

    def build_model(self) -> keras.Model:
        network = keras.Sequential()
        for filters in self.params.filters:
            network.add(layers.Conv2D(filters, 3, padding="same", activation="relu"))
            network.add(layers.MaxPooling2D())
        network.add(layers.Flatten())
        network.add(layers.Dense(len(self.data.params.classes), activation="softmax", name="prob"))
        return network
