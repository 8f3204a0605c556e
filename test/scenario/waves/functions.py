"""What the samples of both declarations are."""

from __future__ import annotations

import numpy as np

from tfaip import Sample


def wave(points: int, seed: int, index: int) -> Sample:
    start = np.random.default_rng([seed, index]).random()
    time = (start + np.linspace(0, 2, points)) % 1
    form = index % 3
    values = [np.sin(2 * np.pi * time), np.sign(time - 0.5), 2 * time - 1][form]
    return Sample(inputs={"wave": values}, targets={"form": [form]}, meta={"index": index})


def noisy(sample: Sample, rng: np.random.Generator, stddev: float) -> Sample:
    values = sample.inputs["wave"]
    return sample.new_inputs({"wave": values + rng.normal(0, stddev, values.shape)})


def share_of_sure(probabilities: list[float], sure: float) -> dict[str, float]:
    return {"sure": float(np.mean(np.array(probabilities) >= sure))}
