"""Graph of the sequences: the tiny one for each step, and the sum of its features."""

from __future__ import annotations

import keras

from test.support.tiny.model import TinyGraph
from tfaip.util.typing import TensorDict


class SequenceGraph(TinyGraph):
    """One hidden layer; padded steps are zeros and are left out of the sum."""

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        is_step = keras.ops.cast(keras.ops.any(keras.ops.not_equal(inputs["x"], 0), axis=-1, keepdims=True), "float32")
        hidden = self.dropout(self.hidden(inputs["x"]), training=training)
        return {"y": self.out(keras.ops.sum(hidden * is_step, axis=1))}
