"""The state of a training: captured and restored as a whole."""

from __future__ import annotations

import random
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.model.support import FunctionModel, column, keras_inputs
from test.trainer.line import line_params
from tfaip.data.pipeline.sampler import Position
from tfaip.errors import TfaipError
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import variables_by_path
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.optimizer import AdamOptimizer, OptimizerParams, SGDOptimizer
from tfaip.trainer.optimizer.trainingoptimizer import build_optimizer
from tfaip.trainer.state import METRICS, TrainState
from tfaip.util.typing import TensorDict

ARRAYS = ({"x": column([1, 2, 3, 4])}, {"y": column([0, 1, 0, 1])})


class Graph(GraphBase[ModelBaseParams]):
    """Weights, statistics, random numbers and a loss of its own."""

    def __init__(self, units: int) -> None:
        super().__init__(ModelBaseParams())
        self.dense = keras.layers.Dense(units)
        self.norm = keras.layers.BatchNormalization()
        self.dropout = keras.layers.Dropout(0.5)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        hidden = self.dropout(self.norm(self.dense(inputs["x"]), training=training), training=training)
        self.add_loss(0.1 * ops.mean(ops.abs(hidden)))
        return {"y": ops.mean(hidden, axis=-1, keepdims=True)}


class Training:
    """A model that was trained for some epochs, with its state."""

    def __init__(self, units: int = 3, epochs: int = 0, optimizer: OptimizerParams | None = None) -> None:
        distance = keras.metrics.MeanAbsoluteError(name="distance")

        def loss(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
            return {"square": ops.square(outputs["y"] - targets["y"])}

        def metric(inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Any]:
            return [distance(targets["y"], outputs["y"])]

        keras.utils.set_random_seed(3)
        graph = Graph(units)
        self.model = TrainingModel(FunctionModel(loss, metric, distance=distance), graph)
        self.model.build_symbolically(keras_inputs({"x": (1,)}), keras_inputs({"y": (1,)}))
        weights = variables_by_path(graph)
        made = build_optimizer(optimizer or AdamOptimizer(), weights, self.model.trainable_variables)
        made.schedule.base.assign(0.5)
        self.model.compile(optimizer=made)
        self.state = TrainState(self.model, line_params([1]))
        self.train(epochs)

    def train(self, epochs: int) -> None:
        if epochs:
            self.model.fit(ARRAYS, batch_size=2, epochs=epochs, shuffle=False, verbose=0)

    def content(self) -> dict[str, bytes]:
        return {name: array.tobytes() for name, array in self.state.capture().arrays.items()}


@pytest.mark.backend
def test_everything_is_captured() -> None:
    names = set(Training().state.capture().arrays)
    weights = {"dense/kernel", "dense/bias", "norm/gamma", "norm/beta"}
    assert {f"weights/{name}" for name in weights} < names
    assert {"weights/norm/moving_mean", "weights/norm/moving_variance"} < names
    assert "weights/dropout/seed_generator/state" in names
    assert {f"optimizer/{kind}/{name}" for kind in ("momentum", "velocity") for name in weights} < names
    assert {"optimizer/iteration", "optimizer/learning_rate"} < names
    metrics = {name.removeprefix(METRICS).split("/")[0] for name in names if name.startswith(METRICS)}
    assert metrics == {"loss", "square", "regularization", "distance"}


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 7])
@pytest.mark.backend
def test_a_restored_training_goes_on_bit_by_bit(step: int) -> None:
    first = Training(epochs=2)
    first.state.progress.step = step
    checkpoint = first.state.capture()
    captured = {name: array.tobytes() for name, array in checkpoint.arrays.items()}
    first.train(2)
    assert {name: array.tobytes() for name, array in checkpoint.arrays.items()} == captured != first.content()
    second = Training(epochs=1)
    second.state.restore(checkpoint)
    second.train(2)
    assert second.content() == first.content()


def test_progress_and_random_numbers_are_restored() -> None:
    first, second = Training(), Training()
    progress = first.state.progress
    progress.epoch, progress.step, progress.position = 3, 2, Position(1, 5, 4)
    progress.history = History({3: EpochRecord(0.5, {"loss": 0.1 + 0.2}, {"updates": 9})})
    random.seed(5)
    np.random.seed(5)
    np.random.standard_normal()  # leaves a second number in the cache of the generator
    checkpoint = first.state.capture()
    drawn = []
    for seed in (6, 7):
        drawn.append((random.random(), np.random.standard_normal(), np.random.standard_normal()))  # noqa: S311
        random.seed(seed)
        np.random.seed(seed)
        second.state.restore(checkpoint)
    assert drawn[0] == drawn[1]
    assert second.state.progress == progress
    assert second.state.progress is not progress


@pytest.mark.slow
@pytest.mark.backend
def test_metrics_are_restored_within_an_epoch_only() -> None:
    first = Training(epochs=1)
    stored = first.state.metric_arrays()
    for step in (0, 1):
        first.state.progress.step = step
        second = Training()
        fresh = second.state.metric_arrays()
        second.state.restore(first.state.capture())
        expected = stored if step else fresh
        assert all(np.array_equal(array, expected[name]) for name, array in second.state.metric_arrays().items())
    # Those of the running epoch survive an evaluation.
    before = first.state.evaluation_state()
    first.model.evaluate(({"x": column([9])}, {"y": column([9])}), verbose=0)
    captured = first.state.capture(before=before).arrays
    assert all(np.array_equal(captured[name], array) for name, array in stored.items())
    first.state.assign_metrics(stored)
    assert all(np.array_equal(array, stored[name]) for name, array in first.state.metric_arrays().items())


def test_a_checkpoint_of_another_model_or_optimizer_is_refused() -> None:
    checkpoint = Training(units=3).state.capture()
    training = Training(units=4)
    before = training.content()
    with pytest.raises(TfaipError, match=r"the checkpoint does not fit the model: weights/dense/\w+ has shape \(.*3"):
        training.state.restore(checkpoint)
    assert training.content() == before
    with pytest.raises(TfaipError, match="not known to the model .'optimizer/momentum/dense/bias'"):
        Training(optimizer=SGDOptimizer()).state.restore(checkpoint)
