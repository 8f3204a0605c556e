"""Model of the tutorial: its loss, its metric, and the lines that LAV prints."""

from collections.abc import Callable
from typing import Any

import keras

from tfaip.data.data import DataBase
from tfaip.data.pipeline.definitions import Sample
from tfaip.model.modelbase import ModelBase
from tfaip.scenario.tutorial.full.modelparams import TutorialModelParams
from tfaip.util.typing import Tensor, TensorDict


class TutorialModel(ModelBase[TutorialModelParams]):
    """Cross entropy as the loss; the best model is the one with the highest validation accuracy."""

    def __init__(self, params: TutorialModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        # A metric counts over batches, so it is an attribute; `_metric` calls it.
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="acc")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        # One value per sample; the toolkit takes the mean.
        loss = keras.losses.sparse_categorical_crossentropy(targets["label"], outputs["logits"], from_logits=True)
        return {"crossentropy": loss}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.accuracy(targets["label"], outputs["prob"])]

    def _best_logging_settings(self) -> tuple[str, str]:
        return "max", "acc"

    def _print_evaluate(self, sample: Sample, data: DataBase[Any], print_fn: Callable[[str], None]) -> None:
        label, predicted = int(sample.targets["label"][0]), int(sample.outputs["class"])
        verdict = "right" if label == predicted else "wrong"
        probability = sample.outputs["prob"][predicted]
        print_fn(f"{verdict}: target {label}, prediction {predicted} ({probability:.0%} sure)")
