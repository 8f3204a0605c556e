"""The Keras side of the optimizers: clips, weight decay, the settable rate, names of variables."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.trainer.optimizer.training import Training
from tfaip.trainer.optimizer import (
    OPTIMIZERS,
    AdamOptimizer,
    AdamWOptimizer,
    FtrlOptimizer,
    LionOptimizer,
    OptimizerParams,
    SGDOptimizer,
)
from tfaip.trainer.optimizer.optimizers import KerasOptimizerParams


class CarefulSGDOptimizer(SGDOptimizer):
    """Nothing that Keras has."""


class UnknownOptimizer(KerasOptimizerParams):
    """Likewise, and derived from nothing that it has."""


def test_an_own_subclass_is_the_keras_optimizer_of_its_base() -> None:
    assert CarefulSGDOptimizer().cls() is keras.optimizers.SGD
    with pytest.raises(TypeError, match=r"keras.optimizers has no Unknown: override cls\(\) of UnknownOptimizer"):
        UnknownOptimizer().cls()


FACTOR = 1.3 / math.sqrt(12.5)
ALL_CLIPS = {"clip_value": 4.0, "clip_norm": 2.5, "clip_global_norm": 1.3}


@pytest.mark.backend
@pytest.mark.parametrize(
    ("params", "starts", "gradients", "values"),
    [
        (SGDOptimizer(clip_value=1.5), [0.0], [-7], [1.5]),
        (SGDOptimizer(clip_norm=1.0), [[0.0, 0.0], 0.0], [[3, 4], 0.5], [[-0.6, -0.8], -0.5]),
        (SGDOptimizer(clip_global_norm=1.0), [0.0, 0.0], [3, 6], [-3 / 45**0.5, -6 / 45**0.5]),
        # (3, 100): value (3, 4); norm 5 -> 2.5: (1.5, 2). 6 -> 4 -> 2.5. Global: sqrt(2 * 2.5^2) -> 1.3.
        (SGDOptimizer(**ALL_CLIPS), [[0.0, 0.0], 0.0], [[3, 100], 6], [[-1.5 * FACTOR, -2 * FACTOR], -2.5 * FACTOR]),
        *((SGDOptimizer(**{name: 1.0}), [[1.0, 2.0]], [[0.25, 0.5]], [[0.75, 1.5]]) for name in ALL_CLIPS),
        *((SGDOptimizer(**{name: 1.0}), [[1.0, 2.0]], [[0, 0]], [[1.0, 2.0]]) for name in ALL_CLIPS),
        # Decay comes before the update, and the clip does not see it: 2 - 0.1 * 2 - 1.
        (SGDOptimizer(weight_decay=0.1, clip_value=1.0), [2.0], [8], [0.8]),
        (AdamWOptimizer(), [2.0], [0], [2 * 0.996]),
        (SGDOptimizer(weight_decay=0.5, exclude_from_weight_decay="w1"), [2.0, 2.0], [0, 0], [1.0, 2.0]),
    ],
)
def test_clips_and_weight_decay(params: OptimizerParams, starts: list[Any], gradients: Any, values: list[Any]) -> None:
    training = Training(params, {f"w{i}": start for i, start in enumerate(starts)})
    assert training.step(*gradients) == [pytest.approx(value) for value in values]


@pytest.mark.backend
def test_clips_come_before_the_moments() -> None:
    training = Training(SGDOptimizer(momentum=0.5, clip_value=1.0), {"w": 0.0})
    assert (training.step(100), training.step(100)) == ([-1.0], [-2.5])  # velocity 0.5 + 1


@pytest.mark.backend
def test_adam_takes_the_epsilon_of_the_params() -> None:
    # Gradient 1e-6: 1e-6 * sqrt(0.001) / (1e-6 * sqrt(0.001) + epsilon).
    assert Training(AdamOptimizer(), {"w": 0.0}).step(1e-6) == pytest.approx([-0.24025], abs=1e-5)
    assert Training(AdamOptimizer(epsilon=1e-8), {"w": 0.0}).step(1e-6) == pytest.approx([-0.75975], abs=1e-5)


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_every_optimizer_moves_and_decays_its_weights(cls: type[OptimizerParams]) -> None:
    # FTRL computes weights anew from its sums of gradients, so that it forgets their start whatever the decay is.
    is_ftrl = cls is FtrlOptimizer
    training = Training(cls(weight_decay=0.25), {"kernel": [[2.0, 4.0]]})
    training.optimizer.schedule.base.assign(0.5)
    assert is_ftrl or training.step([[0.0, 0.0]]) == [[[1.75, 3.5]]]  # 1 - 0.5 * 0.25
    training = Training(cls(weight_decay=0.0), {"kernel": [[2.0, 4.0]], "bias": [1.0]})
    assert is_ftrl or training.step([[0.0, 0.0]], [0.0]) == [[[2.0, 4.0]], [1.0]]
    kernel, bias = training.step([[1.0, 1.0]], [1.0])
    # Adadelta begins with steps of about 1e-4 of the rate.
    assert np.all(np.array(kernel) < [2.0 - 1e-5, 4.0 - 1e-5])
    assert bias[0] < 1.0 - 1e-5
    named = training.optimizer.named_variables(training.weights)
    assert {id(variable) for variable in named.values()} == {id(variable) for variable in training.optimizer.variables}


def test_variables_are_named_after_their_weights() -> None:
    training = Training(AdamOptimizer(amsgrad=True), {"a": [1.0, 2.0], "b": 0.0})
    training.step([1, 1], 1)
    named = training.optimizer.named_variables({"encoder/a": training.weights["a"], "b": training.weights["b"]})
    slots = {f"{kind}/{path}" for kind in ("momentum", "velocity", "velocity_hat") for path in ("encoder/a", "b")}
    assert {name for name in named if "/" in name} == slots
    assert {"iteration", "learning_rate"} < set(named)
    assert {id(v) for v in named.values()} == {id(v) for v in training.optimizer.variables}
    assert ops.convert_to_numpy(named["momentum/encoder/a"].value).tolist() == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize(
    "params",
    [SGDOptimizer(momentum=0.9), LionOptimizer(), pytest.param(AdamOptimizer(), marks=pytest.mark.backend)],
    ids=lambda params: type(params).__name__,
)
def test_a_second_build_goes_on_with_the_named_variables(params: OptimizerParams) -> None:
    first = Training(params, {"w": [1.0, 2.0]})
    for gradient in ([1, 2], [3, -1]):
        first.step(gradient)
    second = Training(params, {"w": first.step([0.5, 0.5])[0]})
    states = [training.optimizer.named_variables(training.weights) for training in (first, second)]
    assert states[0].keys() == states[1].keys()
    for name, variable in states[1].items():
        variable.assign(states[0][name].value)
    assert first.step([1, 1]) == second.step([1, 1])
