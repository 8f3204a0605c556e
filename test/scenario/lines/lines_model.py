"""Model of the lines: how many classes there are is found by the data."""

from __future__ import annotations

from typing import Any

import keras

from tfaip.imports import GraphBase, ModelBase


class ReaderGraph(GraphBase):
    def __init__(self, params: Any, data: Any, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.dense = keras.layers.Dense(params.units, activation="relu")
        self.logits = keras.layers.Dense(data.num_classes)
        assert params.data.classes == data.classes

    def build_graph(self, inputs: Any, training: bool | None = None) -> Any:
        mean = keras.ops.mean(keras.ops.mean(inputs["img"], -1), -1, keepdims=True)
        return {"prob": keras.ops.softmax(self.logits(self.dense(mean)) + inputs["prior"])}


class Reader(ModelBase):
    def __init__(self, params: Any, data: Any) -> None:
        super().__init__(params)
        self.names = list(data.classes)
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="acc")

    def _loss(self, inputs: Any, targets: Any, outputs: Any) -> Any:
        return {"ce": keras.losses.sparse_categorical_crossentropy(targets["label"], outputs["prob"])}

    def _metric(self, inputs: Any, targets: Any, outputs: Any) -> Any:
        return [self.accuracy(targets["label"], outputs["prob"])]
