"""A scenario for long series of runs: sequences of numbers, whose processor can be slow, random, and fail."""

from __future__ import annotations

import time

import numpy as np

from test.support.tiny.scenario import TinyModelParams
from tfaip import Data, Generator, Processor, Sample, Scenario, Spec, option


class Augment(Processor):
    """Noise on the inputs, and the faults of real data: all drawn from the random stream of the sample."""

    noise: float = option(0.1, "Standard deviation of the noise")
    seconds: float = option(0.002, "Time that each sample takes")
    fail_rate: float = option(0.0, "Share of samples that fail, drawn in every pass")
    drop_rate: float = option(0.0, "Share of samples that are invalid, likewise")

    def apply(self, sample: Sample) -> Sample:
        time.sleep(self.seconds)
        if self.mode.value != "training":
            return sample
        fails, drops = self.rng.random(2)
        if fails < self.fail_rate:
            raise ValueError("a damaged sequence")
        if drops < self.drop_rate:
            return sample.new_invalid()
        x = sample.inputs["x"]
        return sample.new_inputs({"x": x + self.rng.normal(scale=self.noise, size=x.shape).astype("float32")})


class SequenceData(Data):
    """Steps of two numbers in, one number out."""

    inputs = {"x": Spec(None, 2)}
    targets = {"y": Spec(1)}
    length_of = "x"


class SequenceGenerator(Generator):
    """Random sequences; y is the sum of the first column."""

    samples: int = option(20, "Number of sequences")
    seed: int = option(1, "Other seeds give other sequences")
    shortest: int = option(6, "Smallest number of steps")
    longest: int = option(6, "Largest number of steps")

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Sample:
        rng = np.random.default_rng([self.seed, index])
        length = rng.integers(self.shortest, self.longest + 1)
        x = rng.normal(size=(length, 2)).astype("float32")
        return Sample(inputs={"x": x}, targets={"y": x[:, 0].sum(keepdims=True)})


class SequenceModelParams(TinyModelParams):
    """Options of the model, which is the tiny one with another graph."""

    def graph_cls(self) -> type:
        from .model import SequenceGraph

        return SequenceGraph


class SequenceScenario(Scenario):
    """Many short epochs, no whole number of passes each: most of the time goes into the data and into commits."""

    data, model = SequenceData, SequenceModelParams
    train, val = SequenceGenerator(), SequenceGenerator(samples=6, seed=2)
    processors = [Augment()]
    defaults = {
        "scenario.export_serve": False,
        "trainer.skip_model_load_test": True,
        "trainer.epochs": 12,
        "trainer.samples_per_epoch": 44,
        "trainer.steps_per_execution": 2,
        "trainer.random_seed": 7,
        "train.batch_size": 4,
        "val.batch_size": 4,
        "train.num_processes": 0,
        "val.num_processes": 0,
        "learning_rate.lr": 0.01,
    }
