"""Losses and metrics of the tutorial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tfaip.data.data import DataBase
from tfaip.data.pipeline.definitions import Sample
from tfaip.model.modelbase import ModelBase
from tfaip.scenario.tutorial.full.modelparams import TutorialModelParams
from tfaip.util.typing import Tensor, TensorDict


class TutorialModel(ModelBase[TutorialModelParams]):
    """Minimises the cross entropy; the best model is the one with the highest validation accuracy."""

    def __init__(self, params: TutorialModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="acc")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        loss = keras.losses.sparse_categorical_crossentropy(targets["label"], outputs["logits"], from_logits=True)
        return {"crossentropy": loss}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.accuracy(targets["label"], outputs["prob"])]

    def _best_logging_settings(self) -> tuple[str, str]:
        return "max", "acc"

    def _print_evaluate(self, sample: Sample, data: DataBase[Any], print_fn: Callable[[str], None]) -> None:
        label, predicted = int(sample.targets["label"][0]), int(sample.outputs["class"])
        verdict = "right" if label == predicted else "wrong"
        sure = sample.outputs["prob"][predicted]
        print_fn(f"{verdict}: target {label}, prediction {predicted} ({sure:.0%} sure)")
