"""The Keras side of the optimizers: clips, weight decay, the settable rate, names of variables."""

from __future__ import annotations

import math

import keras
import numpy as np
import pytest
from keras import ops

from test.trainer.line import CallbackOf, LineScenario, Weights, line_params
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
from tfaip.trainer.optimizer.trainingoptimizer import build_optimizer


class CarefulSGDOptimizer(SGDOptimizer):
    """Nothing that Keras has."""


class UnknownOptimizer(KerasOptimizerParams):
    """Likewise, and derived from nothing that it has."""


def test_an_own_subclass_is_the_keras_optimizer_of_its_base() -> None:
    assert CarefulSGDOptimizer().cls() is keras.optimizers.SGD
    with pytest.raises(TypeError, match=r"keras.optimizers has no Unknown: override cls\(\) of UnknownOptimizer"):
        UnknownOptimizer().cls()


@pytest.mark.backend
def test_clip_value() -> None:
    training = Training(SGDOptimizer(clip_value=1.5), {"w": 0.0})
    assert [training.step(gradient)[0] for gradient in (1, 2, 3)] == [-1.0, -2.5, -4.0]
    assert training.step(-7)[0] == -2.5


@pytest.mark.backend
def test_clip_global_norm_of_two_variables() -> None:
    training = Training(SGDOptimizer(clip_global_norm=1.0), {"a": 0.0, "b": 0.0})
    # The norm of (3, 6) is sqrt(45).
    assert training.step(3, 6) == pytest.approx([-0.44721, -0.89443], abs=1e-5)


@pytest.mark.backend
def test_clip_norm_acts_on_each_variable() -> None:
    training = Training(SGDOptimizer(clip_norm=1.0), {"a": [0.0, 0.0], "b": 0.0})
    a, b = training.step([3, 4], 0.5)
    assert a == pytest.approx([-0.6, -0.8])
    assert b == -0.5


@pytest.mark.backend
def test_all_clips_combine_in_their_order() -> None:
    training = Training(SGDOptimizer(clip_value=4.0, clip_norm=2.5, clip_global_norm=1.3), {"a": [0.0, 0.0], "b": 0.0})
    # a: value (3, 100) -> (3, 4); norm 5 -> 2.5: (1.5, 2). b: 6 -> 4 -> 2.5. Global: sqrt(2 * 2.5^2) -> 1.3.
    a, b = training.step([3, 100], 6)
    factor = 1.3 / math.sqrt(12.5)
    assert a == pytest.approx([-1.5 * factor, -2 * factor])
    assert b == pytest.approx(-2.5 * factor)


@pytest.mark.parametrize(
    "clip",
    [{"clip_norm": 1.0}, pytest.param({"clip_global_norm": 1.0}, marks=pytest.mark.backend), {"clip_value": 1.0}],
)
def test_small_and_zero_gradients_are_not_clipped(clip: dict[str, float]) -> None:
    training = Training(SGDOptimizer(**clip), {"w": [1.0, 2.0]})
    assert training.step([0, 0]) == [[1.0, 2.0]]
    assert training.step([0.25, 0.5]) == [[0.75, 1.5]]


@pytest.mark.backend
def test_adam_takes_the_epsilon_of_the_params() -> None:
    # Gradient 1e-6: 1e-6 * sqrt(0.001) / (1e-6 * sqrt(0.001) + epsilon).
    assert Training(AdamOptimizer(), {"w": 0.0}).step(1e-6) == pytest.approx([-0.24025], abs=1e-5)
    assert Training(AdamOptimizer(epsilon=1e-8), {"w": 0.0}).step(1e-6) == pytest.approx([-0.75975], abs=1e-5)


@pytest.mark.parametrize("params", [cls() for cls in OPTIMIZERS], ids=lambda params: type(params).__name__)
def test_every_optimizer_trains(params: OptimizerParams) -> None:
    training = Training(params, {"kernel": [[2.0, 2.0], [2.0, 2.0]], "bias": [1.0]})
    training.optimizer.schedule.base.assign(0.125)
    kernel, bias = training.step([[1.0, 1.0], [1.0, 1.0]], [1.0])
    # Adadelta begins with steps of about 1e-4 of the rate.
    assert np.all(np.array(kernel) < 2.0 - 1e-5)
    assert bias[0] < 1.0 - 1e-5
    assert int(training.optimizer.iterations) == 1


@pytest.mark.parametrize("cls", [cls for cls in OPTIMIZERS if cls is not FtrlOptimizer])
def test_weight_decay_is_decoupled_from_the_gradient(cls: type[OptimizerParams]) -> None:
    # FTRL computes weights anew from its sums of gradients, so that it forgets their start whatever the decay is.
    training = Training(cls(weight_decay=0.25), {"kernel": [[2.0, 4.0]]})
    training.optimizer.schedule.base.assign(0.5)
    assert training.step([[0.0, 0.0]]) == [[[1.75, 3.5]]]  # 1 - 0.5 * 0.25
    undecayed = Training(cls(weight_decay=0.0), {"kernel": [[2.0, 4.0]]})
    assert undecayed.step([[0.0, 0.0]]) == [[[2.0, 4.0]]]


@pytest.mark.backend
def test_weight_decay_comes_before_the_update() -> None:
    training = Training(SGDOptimizer(weight_decay=0.1, clip_value=1.0), {"w": 2.0})
    training.optimizer.schedule.base.assign(0.5)
    # The clip does not see the decay: 2 - 0.5 * 0.1 * 2 - 0.5 * 1.
    assert training.step(8) == pytest.approx([1.4])


def test_adamw_decays_by_default() -> None:
    assert AdamWOptimizer().weight_decay == 0.004
    assert Training(AdamWOptimizer(), {"w": 2.0}).step(0) == pytest.approx([2 * 0.996])


@pytest.mark.backend
def test_weights_are_excluded_from_the_decay_by_path() -> None:
    starts = {"dense/kernel": 2.0, "dense/bias": 2.0, "norm/gamma": 2.0}
    variables = {path: keras.Variable(value) for path, value in starts.items()}
    params = SGDOptimizer(weight_decay=0.5, exclude_from_weight_decay=".*/bias|norm")
    optimizer = build_optimizer(params, variables, list(variables.values()))
    optimizer.schedule.base.assign(1.0)
    optimizer.apply([ops.zeros(()) for _ in variables])
    assert [float(variable) for variable in variables.values()] == [1.0, 2.0, 2.0]


@pytest.mark.backend
def test_the_rate_is_set_between_epochs_of_compiled_training() -> None:
    weights = Weights()
    rates = iter([0.5, 0.125, 0.0])
    set_rate = CallbackOf(
        on_epoch_begin=lambda epoch, logs=None: weights.model.optimizer.schedule.base.assign(next(rates))
    )
    LineScenario.create_trainer(line_params([1, 1], epochs=3)).train([weights, set_rate])
    assert weights.values == [-1.0, -1.25, -1.25]


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


@pytest.mark.parametrize("params", [cls() for cls in OPTIMIZERS], ids=lambda params: type(params).__name__)
def test_no_variable_of_an_optimizer_is_lost(params: OptimizerParams) -> None:
    optimizer = Training(params, {"kernel": [[1.0, 2.0]], "bias": [1.0]}).optimizer
    named = optimizer.named_variables(dict(zip(["kernel", "bias"], optimizer._trainable_variables, strict=True)))
    assert {id(variable) for variable in named.values()} == {id(variable) for variable in optimizer.variables}


@pytest.mark.backend
def test_clips_come_before_the_moments() -> None:
    training = Training(SGDOptimizer(momentum=0.5, clip_value=1.0), {"w": 0.0})
    assert training.step(100) == [-1.0]
    assert training.step(100) == [-2.5]  # velocity 0.5 + 1
