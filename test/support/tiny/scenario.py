"""A scenario that trains in a second: a regression on thirty points, augmented with noise from `self.rng`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tfaip.imports import (
    ArrayDataGenerator,
    Data,
    Generator,
    ModelBaseParams,
    Processor,
    Sample,
    Scenario,
    Spec,
    option,
)


class TinyData(Data):
    """Four numbers in, one out."""

    inputs = {"x": Spec(4)}
    targets = {"y": Spec(1)}
    length_of = "x"


class Jitter(Processor):
    """Noise on the inputs of the training; tells audit hooks of every sample of any mode."""

    amount: float = option(0.1, "Standard deviation of the noise")

    def apply(self, sample: Sample) -> Sample:
        sys.audit("tiny.sample", self.mode.value)
        if self.mode.value != "training":
            return sample
        noise = self.rng.normal(scale=self.amount, size=4).astype("float32")
        return sample.new_inputs({"x": sample.inputs["x"] + noise})


class TinyGenerator(Generator, ArrayDataGenerator[Any]):
    """Random points: y is the sum of x."""

    samples: int = option(30, "Number of points")
    seed: int = option(1, "Other seeds give other points")

    def load(self) -> Sample:
        x = np.random.default_rng(self.seed).normal(size=(self.samples, 4)).astype("float32")
        return Sample(inputs={"x": x}, targets={"y": x.sum(axis=1, keepdims=True)})


class TinyModelParams(ModelBaseParams, cls=".model:TinyModel", graph_cls=".model:TinyGraph"):
    """Options of the model."""

    units: int = option(8, "Units of the hidden layer")
    dropout: float = option(0.2, "Share of them that is dropped")


class TinyScenario(Scenario):
    """An epoch is 44 samples: 11 batches, an odd number of them in executions of two, begun anywhere in a pass."""

    data, model = TinyData, TinyModelParams
    train, val = TinyGenerator(), TinyGenerator(samples=10, seed=2)
    processors = [Jitter()]
    defaults = {
        "scenario.export_serve": False,
        "trainer.epochs": 4,
        "trainer.samples_per_epoch": 44,
        "trainer.steps_per_execution": 2,
        "train.batch_size": 4,
        "learning_rate.lr": 0.01,
        "learning_rate.decay": 0.5,
        "learning_rate.learning_circle": 2,
    }


TinyTrainerParams, TinyPipelineParams = TinyScenario.TrainerParams, TinyScenario.PipelineParams
