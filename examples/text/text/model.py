"""An embedding for each word, read in both directions, and the probability of each tag."""

from typing import Any

import keras
from keras import layers, ops

from tfaip.imports import ModelBase


class TextModel(ModelBase):
    """A `keras.Sequential`; its mask keeps the padding out of the recurrence."""

    def build_model(self) -> keras.Model:
        params, data = self.params, self.data.params
        return keras.Sequential(
            [
                layers.Embedding(len(data.numbers) + 2, params.units, mask_zero=True),
                layers.Dropout(params.dropout),
                layers.Bidirectional(layers.GRU(params.units, return_sequences=True)),
                layers.Dense(len(data.tags), activation="softmax", name="tags"),
            ]
        )

    def _loss(self, inputs: Any, targets: Any, outputs: Any) -> Any:
        """Return the mean over the words of each line, whatever the padding of its batch."""
        is_word = ops.cast(inputs["words"] != 0, "float32")
        losses = keras.losses.sparse_categorical_crossentropy(targets["tags"], outputs["tags"])
        return {"crossentropy": ops.sum(losses * is_word, axis=1) / ops.maximum(ops.sum(is_word, axis=1), 1)}
