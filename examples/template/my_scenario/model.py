"""The loss, the metrics, and the choice of the best model."""

from __future__ import annotations

from typing import Any

import keras

from my_scenario.params import MyModelParams
from tfaip.imports import ModelBase
from tfaip.util.typing import Tensor, TensorDict


class MyModel(ModelBase[MyModelParams]):
    """Cross entropy as the loss; the best model is the one with the highest validation accuracy."""

    def __init__(self, params: MyModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        # A metric counts over batches, so it is an attribute; `_metric` calls it.
        self.accuracy = keras.metrics.BinaryAccuracy(name="acc")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        return {"crossentropy": keras.losses.binary_crossentropy(targets["y"], outputs["prob"])}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.accuracy(targets["y"], outputs["prob"])]

    def _best_logging_settings(self) -> tuple[str, str]:
        return "max", "acc"
