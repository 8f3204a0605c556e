"""The optimizers of Keras and AdaBelief, groups of weights, resets, names of variables."""

import dataclasses
import inspect
import math
from typing import Any

import keras
import numpy as np
import pytest

from test.trainer.line import Weights, line_params, train, weight
from test.trainer.optimizer.training import Training
from tfaip.errors import UsageError
from tfaip.trainer.optimizer import (
    OPTIMIZERS,
    AdamOptimizer,
    AdamWOptimizer,
    GradientNoiseParams,
    OptimizerGroupParams,
    OptimizerParams,
    SGDOptimizer,
)
from tfaip.trainer.optimizer.update import AverageRate

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
        *((SGDOptimizer(**{name: 1.0}), [[1.0, 2.0], 3.0], [[0.25, 0.5], 0], [[0.75, 1.5], 3.0]) for name in ALL_CLIPS),
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
def test_adam_takes_the_epsilon_of_the_params() -> None:
    # Gradient 1e-6: 1e-6 * sqrt(0.001) / (1e-6 * sqrt(0.001) + epsilon).
    assert Training(AdamOptimizer(), {"w": 0.0}).step(1e-6) == pytest.approx([-0.24025], abs=1e-5)
    assert Training(AdamOptimizer(epsilon=1e-8), {"w": 0.0}).step(1e-6) == pytest.approx([-0.75975], abs=1e-5)


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_every_optimizer_moves_and_decays_its_weights(cls: type[OptimizerParams]) -> None:
    training = Training(cls(weight_decay=0.25), {"kernel": [[2.0, 4.0]]})
    training.optimizer.schedule.base.assign(0.5)
    assert training.step([[0.0, 0.0]]) == [[[1.75, 3.5]]]  # 1 - 0.5 * 0.25
    training = Training(cls(weight_decay=0.0), {"kernel": [[2.0, 4.0]], "bias": [1.0]})
    assert training.step([[0.0, 0.0]], [0.0]) == [[[2.0, 4.0]], [1.0]]
    kernel, bias = training.step([[1.0, 1.0]], [1.0])
    # Adadelta begins with steps of about 1e-4 of the rate.
    assert np.all(np.array(kernel) < [2.0 - 1e-5, 4.0 - 1e-5])
    assert bias[0] < 1.0 - 1e-5
    named = training.optimizer.named_variables(training.weights)
    assert {id(variable) for variable in named.values()} == {id(variable) for variable in training.optimizer.variables}


def group(match, lr_factor=1.0, optimizer=None):
    return OptimizerGroupParams(match=match, lr_factor=lr_factor, optimizer=optimizer)


DECAYING = AdamWOptimizer(weight_decay=0.25, exclude_from_weight_decay="a/bias")


@pytest.mark.backend
@pytest.mark.parametrize(
    ("fields", "gradients", "starts", "values"),
    [
        ({"groups": [group("a", 0.5)]}, (1, 2, 4), 0.0, [-0.5, -1.0, -4.0]),
        # The first group that matches has a weight.
        ({"groups": [group(".*/bias", 2.0), group("a", 0.0)]}, (1, 1, 1), 0.0, [0.0, -2.0, -1.0]),
        # Adam's first step is its rate, whatever the gradient is (but for its epsilon).
        ({"groups": [group("b", 0.25, AdamOptimizer())]}, (2, 3, 1000), 0.0, [-2.0, -3.0, -0.25]),
        ({"weight_decay": 0.5, "groups": [group("a", optimizer=DECAYING)]}, (0, 0, 0), 8.0, [6.0, 8.0, 4.0]),
        # Clips are for all weights together: the norm of (3, 0, 4) is 5.
        ({"clip_global_norm": 1.0, "groups": [group("b", 10.0)]}, (3, 0, 4), 0.0, [-0.6, 0.0, -8.0]),
    ],
)
def test_groups(fields, gradients, starts, values):
    training = Training(SGDOptimizer(**fields), dict.fromkeys(["a/kernel", "a/bias", "b"], starts))
    assert training.step(*gradients) == pytest.approx(values, rel=1e-5)


def test_a_group_sets_nothing_that_applies_to_all_weights():
    message = "optimizer.clip_norm is 1.0, expected the default, since clip_norm applies to all weights"
    with pytest.raises(ValueError, match=message):
        group("a", optimizer=SGDOptimizer(clip_norm=1.0))


@pytest.mark.slow
def test_moments_are_reset_after_every_n_epochs():
    # Momentum 1/2, gradient 1: velocities 1 1.5 1.75 1.875 | 1 1.5 with a reset after every second epoch.
    weights, optimizer = Weights(), SGDOptimizer(momentum=0.5, reset_every_n_epochs=2)
    train(line_params([1, 1], epochs=3, optimizer=optimizer), weights)
    assert weights.values == [-2.5, -6.125, -8.625]


@pytest.mark.parametrize("params", [cls() for cls in OPTIMIZERS], ids=lambda params: type(params).__name__)
def test_after_a_reset_the_state_is_that_of_a_new_optimizer(params: OptimizerParams):
    training, fresh = (Training(params, {"w": [[1.0, 2.0]], "v": [3.0]}) for _ in range(2))
    new = fresh.state()
    training.step([[1.0, 1.0]], [1.0])
    training.optimizer.reset_moments()
    changed = {name for name, value in training.state().items() if value != new[name]}
    assert changed == {"iteration", "updates_before_moments"}


@pytest.mark.backend
def test_a_reset_leaves_waiting_gradients_and_averages_as_they_are():
    rate = AverageRate(0.5, ramp=False)
    training = Training(AdamOptimizer(), {"w": 0.0}, accum_steps=2, average_rate=rate)
    for gradient in (1, 1, 3):
        training.step(gradient)
    before = training.state()
    training.optimizer.reset_moments()
    assert all(training.state()[name] == before[name] != 0.0 for name in ("gradient_accumulator/w", "average/w"))
    training.optimizer.reset()
    assert training.state()["average/w"] == training.values()[0]


@pytest.mark.slow
@pytest.mark.backend
def test_groups_noise_and_resets_go_on_after_a_resume(tmp_path):
    noise = GradientNoiseParams(stddev=1.0, gamma=0.55)
    groups = [group("line", 0.5, AdamOptimizer())]
    chosen = SGDOptimizer(groups=groups, gradient_noise=noise, reset_every_n_epochs=2)
    params = line_params([1, 2, 3], output_dir=tmp_path / "run", epochs=5, optimizer=chosen, keep_checkpoints=5)
    whole = weight(train(params))
    # A reset comes at once, and one after the fourth epoch.
    assert weight(train(params, restore=True, checkpoint="epoch_0002")) == whole != 0


def test_a_pattern_that_matches_nothing_names_its_flag() -> None:
    optimizer = SGDOptimizer(groups=[group(".*", optimizer=AdamOptimizer(exclude_from_weight_decay="none"))])
    with pytest.raises(UsageError) as error:
        train(line_params([1], optimizer=optimizer))
    flag = "--optimizer.groups.0.optimizer.exclude_from_weight_decay"
    assert str(error.value).startswith(f"{flag} 'none' matches no weight; it must match a whole path")


# What ours set for all optimizers alike.
OF_THE_TOOLKIT = {field.name for field in dataclasses.fields(OptimizerParams)}
# Arguments that all optimizers of Keras have; what they do is done for all optimizers alike. Of Muon: names of layers,
# which `optimizer.groups` selects by their paths, and constants of its iteration.
FOR_ALL = {"self", "learning_rate", "clipnorm", "clipvalue", "global_clipnorm", "use_ema", "name"}
FOR_ALL |= {"ema_momentum", "ema_overwrite_frequency", "loss_scale_factor", "gradient_accumulation_steps", "kwargs"}
FOR_ALL |= {"exclude_layers", "muon_a", "muon_b", "muon_c"}


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_arguments_and_defaults_are_those_of_keras(cls: type[OptimizerParams]) -> None:
    params = cls()
    described = keras.optimizers.AdamW if cls is AdamWOptimizer else params.cls()
    found = inspect.signature(described.__init__).parameters
    arguments = {name: p.default for name, p in found.items() if name not in FOR_ALL}
    arguments["weight_decay"] = arguments.get("weight_decay") or 0.0
    # There is one number for both parts of Muon.
    assert arguments.pop("adam_weight_decay", params.weight_decay) == params.weight_decay
    assert arguments == {name: getattr(params, name) for name in arguments}
    assert {field.name for field in dataclasses.fields(cls)} - OF_THE_TOOLKIT <= set(arguments)


def test_an_optimizer_of_ones_own_names_its_class() -> None:
    class OwnOptimizer(OptimizerParams):
        """Says nothing of Keras."""

    with pytest.raises(NotImplementedError, match=r"^OwnOptimizer does not implement cls\(\)$"):
        OwnOptimizer().cls()
