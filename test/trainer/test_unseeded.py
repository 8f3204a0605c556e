"""Layers that draw random numbers without a seed of their own: from the one global generator of Keras."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.trainer.line import (
    CallbackOf,
    LineGraph,
    LineModelParams,
    LineScenario,
    LineTrainerParams,
    Weights,
    line_params,
    train,
)
from tfaip.model.graphbase import GraphBase
from tfaip.util.typing import TensorDict


class NoisyModelParams(LineModelParams):
    def graph_cls(self) -> type[GraphBase[Any]]:
        return NoisyGraph


class NoisyGraph(LineGraph):
    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        noise = keras.random.normal((1, 1))
        return super().build_graph({"x": inputs["x"] * (1.0 + noise)}, training)


def noisy(epochs: int, output_dir: Path | None = None) -> LineTrainerParams:
    params = line_params([1.0, 2.0, 3.0], [1.0], output_dir, epochs=epochs)
    params.scenario.model = NoisyModelParams()
    return params


@pytest.mark.slow
@pytest.mark.backend
def test_equal_seeds_draw_equal_numbers_in_one_process() -> None:
    drawn: list[float] = []
    draw = CallbackOf(on_epoch_end=lambda epoch, logs: drawn.append(float(keras.random.uniform(()))))
    for seed in (1, 1, 2):
        train(line_params([1.0], random_seed=seed), draw)
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.guard
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="Keras refuses such layers on JAX")
def test_a_resumed_training_draws_on(tmp_path: Path) -> None:
    """Layers from the generator of Keras, and callbacks from those of Python and NumPy."""
    whole, parts, drawn = Weights(), Weights(), []

    def draw(epoch: int, logs: Any) -> None:
        drawn.append((random.random(), np.random.standard_normal()))  # noqa: S311

    train(noisy(4), whole, CallbackOf(on_epoch_end=draw))
    train(noisy(2, tmp_path / "run"), parts, CallbackOf(on_epoch_end=draw))
    np.random.seed(3)
    random.seed(3)
    train(noisy(4, tmp_path / "run"), parts, CallbackOf(on_epoch_end=draw), restore=True)
    assert parts.values == whole.values
    assert drawn[4:] == drawn[:4]
    moves = [b - a for a, b in zip(whole.values, whole.values[1:], strict=False)]
    assert len(set(moves)) == 3  # without noise each epoch would move the weight by -6


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="works elsewhere")
@pytest.mark.filterwarnings("ignore:.*unbuilt state:UserWarning")  # of Keras, on its way to the error
@pytest.mark.backend
def test_on_jax_it_is_refused_before_the_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="you should only use seeded random ops"):
        LineScenario.create_trainer(noisy(1, tmp_path / "run")).train()
    assert not (tmp_path / "run").exists()
