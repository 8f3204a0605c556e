"""A backbone, which may have learned from other images, and an output for each class of the data."""

import keras
from keras import layers

from tfaip.imports import ModelBase


def backbone(size: int) -> keras.Sequential:
    """Return the layers that are trained on other images before."""
    return keras.Sequential(
        [
            keras.Input((size, size, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
        ],
        name="backbone",
    )


class TransferModel(ModelBase):
    """The backbone and a new layer after it."""

    loss, metrics = "sparse_categorical_crossentropy", ["acc"]

    def build_model(self) -> keras.Model:
        data = self.data.params
        outputs = layers.Dense(len(data.classes), activation="softmax", name="prob")
        return keras.Sequential([backbone(data.size), layers.Dropout(self.params.dropout), outputs])
