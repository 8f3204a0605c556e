"""The same scenario, declared by its parts."""

from __future__ import annotations

from typing import Self

import numpy as np

from test.scenario.waves.functions import noisy, share_of_sure, wave
from test.scenario.waves.modelparams import WavesModelParams
from tfaip import Data, Evaluator, Generator, Processor, Sample, Scenario, Spec, option


class WavesData(Data):
    points: int = 16
    """Points of a wave"""

    inputs = {"wave": Spec("points")}
    targets = {"form": Spec(1, int)}


class Waves(Generator):
    size: int = 48
    """Number of waves"""
    seed: int = option(1, "Seed of the waves")

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Sample:
        return wave(16, self.seed, index)


class Noise(Processor, modes="training"):
    stddev: float = option(0.1, "Standard deviation of the noise")

    def apply(self, sample: Sample, rng: np.random.Generator) -> Sample:
        return noisy(sample, rng, self.stddev)


class Sure(Evaluator):
    sure: float = option(0.5, "Smallest probability that counts as sure")

    def __enter__(self) -> Self:
        self.probabilities: list[float] = []
        return self

    def update_state(self, sample: Sample) -> None:
        self.probabilities.append(sample.outputs["prob"][sample.targets["form"][0]])

    def result(self) -> dict[str, float]:
        return share_of_sure(self.probabilities, self.sure)


class WavesScenario(Scenario):
    """Classify wave forms."""

    data, model, evaluator = WavesData, WavesModelParams, Sure
    train, val = Waves(), Waves(seed=2, size=24)
    processors = [Noise(stddev=0.2)]
    defaults = {
        "trainer.epochs": 2,
        "train.batch_size": 8,
        "learning_rate": "CosineDecay",
        "learning_rate.lr": 0.01,
        "optimizer.clip_global_norm": 5,
    }
