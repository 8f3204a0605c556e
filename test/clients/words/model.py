"""Losses and metrics of the words."""

from typing import Callable, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from test.clients.words.params import WordsModelParams
from tfaip import Sample
from tfaip.model.modelbase import ModelBase
from tfaip.util.typing import AnyNumpy


class WordsModel(ModelBase[WordsModelParams]):
    def __init__(self, *args, **kwargs):
        super(WordsModel, self).__init__(*args, **kwargs)
        self.accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="acc")

    def _best_logging_settings(self) -> Tuple[str, str]:
        return "max", "acc"

    def _loss(self, inputs, targets, outputs) -> Dict[str, tf.Tensor]:
        crossentropy = tf.keras.losses.sparse_categorical_crossentropy(
            targets["label"], outputs["logits"], from_logits=True
        )
        return {"loss": crossentropy, "size": tf.reduce_mean(tf.square(outputs["logits"]), axis=-1)}

    def _loss_weights(self) -> Dict[str, float]:
        return {"loss": 1.0, "size": 0.001}

    def _metric(self, inputs, targets, outputs) -> List:
        return [self.accuracy(targets["label"], outputs["prob"])]

    def _print_evaluate(self, sample: Sample, data, print_fn: Callable[[str], None] = print):
        label: AnyNumpy = np.squeeze(sample.targets["label"])
        print_fn(f"word {data.params.codec[int(label)]} read as {sample.outputs['name']}")
