"""A scenario that is declared by its parts: forms of waves; loads no backend."""

from __future__ import annotations

from typing import Self

import numpy as np

from tfaip import Data, Evaluator, Generator, ModelBaseParams, Processor, Sample, Scenario, Spec, option, shared


class WavesData(Data):
    points: int = 16
    """Points of a wave"""

    inputs = {"wave": Spec("points")}
    targets = {"form": Spec(1, int)}


class Waves(Generator):
    size: int = 48
    """Number of waves"""
    seed: int = option(1, "Seed of the waves")
    data: WavesData = shared()

    def __bool__(self) -> bool:
        raise AssertionError("neither generators nor their params are tested for truth")

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Sample:
        self.last_index = index  # reaches neither the params nor a file
        start = np.random.default_rng([self.seed, index]).random()
        time = (start + np.linspace(0, 2, self.data.points)) % 1
        form = index % 3
        values = [np.sin(2 * np.pi * time), np.sign(time - 0.5), 2 * time - 1][form]
        return Sample(inputs={"wave": values}, targets={"form": [form]}, meta={"index": index})


class Noise(Processor, modes="training"):
    stddev: float = option(0.1, "Standard deviation of the noise")

    def apply(self, sample: Sample, rng: np.random.Generator) -> Sample:
        values = sample.inputs["wave"]
        return sample.new_inputs({"wave": values + rng.normal(0, self.stddev, values.shape)})


class Sure(Evaluator):
    sure: float = option(0.5, "Smallest probability that counts as sure")

    def __enter__(self) -> Self:
        self.probabilities: list[float] = []
        return self

    def update_state(self, sample: Sample) -> None:
        self.probabilities.append(sample.outputs["prob"][sample.targets["form"][0]])

    def result(self) -> dict[str, float]:
        return {"sure": float(np.mean(np.array(self.probabilities) >= self.sure))}


class WavesModelParams(ModelBaseParams, cls=".model:WavesModel"):
    """Hyper-parameters of the model."""

    units: int = option(8, "Units of the hidden layer", low=1)


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
