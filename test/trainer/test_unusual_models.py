"""Models whose batches do not fit, that are not compiled, or that draw numbers without a seed of their own."""

import logging
import random
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.trainer.line import (
    CallbackOf,
    LineDataParams,
    LineGraph,
    LineModel,
    LineModelParams,
    LineTrainerParams,
    PointsParams,
    Weights,
    by_hand,
    line_params,
    train,
)
from tfaip.data.data import Data
from tfaip.data.pipeline.datagenerator import Generator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import Spec
from tfaip.model.graphbase import GraphBase
from tfaip.model.losses import ShapeError
from tfaip.model.modelbase import ModelBase
from tfaip.scenario.scenario import Scenario
from tfaip.util.typing import Tensor, TensorDict


class Pairs(Data):
    inputs, targets = {"x": Spec(None)}, {"y": Spec(None), "z": Spec(None)}


class Lengths(Generator):
    """Samples of which `wrong` has another length the second time."""

    wrong: str = ""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Sample:
        x, y, z = (np.ones(5 if index and name == self.wrong else 3) for name in "xyz")
        return Sample(inputs={"x": x}, targets={"y": y, "z": z})


class Scaled(GraphBase[Any]):
    def __init__(self, params: Any, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.line = keras.layers.Dense(1)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.line(inputs["x"][..., None])[..., 0]}


class PairsModel(ModelBase[Any]):
    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.error = keras.metrics.MeanAbsoluteError(name="error")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        return {"square": ops.square(outputs["y"] - targets["y"])}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.error(targets["z"], outputs["y"])]


class PairsModelParams(LineModelParams, cls=PairsModel, graph_cls=Scaled):
    pass


class PairsScenario(Scenario):
    data, model, train, val = Pairs, PairsModelParams, Lengths(), Lengths()


@pytest.mark.parametrize(
    ("part", "wrong", "place"),
    [
        pytest.param("train", "y", "PairsModel._loss", marks=pytest.mark.backend),
        ("val", "z", "PairsModel._metric"),
    ],
)
def test_the_loss_or_metric_is_named(part: str, wrong: str, place: str) -> None:
    params = by_hand(PairsScenario.default_trainer_params(), None, epochs=1)
    params.gen.setup.train.batch_size = params.gen.setup.val.batch_size = 1
    setattr(params.gen, part, Lengths(wrong=wrong))
    with pytest.raises(ShapeError) as caught:
        PairsScenario.create_trainer(params).train()
    text = " ".join(str(caught.value).split())
    known = ["1, 3", "1, 5"] if keras.backend.backend() == "jax" else ["None, None"] * 2
    y, z = (known[-1] if name == wrong else known[0] for name in "yz")
    assert text.endswith(f"(in {place}; targets: y ({y}), z ({z}); outputs: y ({known[0]}))")
    assert "5" in text.partition("(in ")[0]


IS_JAX = keras.backend.backend() == "jax"


class TurnedModelParams(LineModelParams, cls=LineModel, graph_cls=":TurnedGraph"):
    pass


class TurnedGraph(LineGraph):
    """A line whose input is an image of one pixel that is flipped and moved by nothing."""

    def __init__(self, params: TurnedModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.augment = [keras.layers.RandomFlip(seed=1), keras.layers.RandomTranslation(0.0, 0.0, seed=1)]
        self.augment[1].supports_jit = False

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        image = ops.reshape(inputs["x"], (-1, 1, 1, 1))
        for layer in self.augment:
            image = layer(image, training=training)
        return {"y": self.line(ops.reshape(image, (-1, 1)))}


class TurnedScenario(Scenario):
    data, model, train = LineDataParams, TurnedModelParams, PointsParams(x=[1.0, 2.0])


@pytest.mark.parametrize(
    ("fields", "lines"),
    # Without XLA it matters on JAX alone.
    [({"jit_compile": True}, 1), ({}, int(IS_JAX))],
)
@pytest.mark.backend
def test_a_layer_that_is_not_compiled_is_named(fields, lines, caplog) -> None:
    params = by_hand(TurnedScenario.default_trainer_params(), None, val_every_n=0, **fields)
    TurnedScenario.create_trainer(params).train()
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(found) == lines
    for line in found:
        assert len(line) <= 300
        assert ": augment/1 (RandomTranslation). " in line
        assert ("supports_jit = True" if IS_JAX else "Leave out jit_compile") in line


class NoisyModelParams(LineModelParams, graph_cls=":NoisyGraph"):
    pass


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
