"""Groups of weights with a rate factor or an optimizer of their own; resets of the moments."""

from __future__ import annotations

import pytest

from test.trainer.line import Weights, line_params, train, weight
from test.trainer.optimizer.training import Training
from tfaip.errors import UsageError
from tfaip.trainer.optimizer import (
    OPTIMIZERS,
    AdamOptimizer,
    AdamWOptimizer,
    FtrlOptimizer,
    GradientNoiseParams,
    MuonOptimizer,
    OptimizerGroupParams,
    OptimizerParams,
    SGDOptimizer,
)
from tfaip.trainer.optimizer.update import AverageRate


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


@pytest.mark.parametrize("params", [AdamOptimizer(), MuonOptimizer(), FtrlOptimizer()])
@pytest.mark.backend
def test_a_group_of_any_class_moves_as_an_optimizer_alone_would(params):
    training = Training(SGDOptimizer(groups=[group("a", optimizer=params)]), {"a": [[1.0, 2.0]], "b": [1.0]})
    alone = Training(params, {"a": [[1.0, 2.0]]})
    for gradient in ([[1.0, -2.0]], [[0.5, 0.5]]):
        assert training.step(gradient, [1.0])[0] == alone.step(gradient)[0]


def test_a_group_sets_nothing_that_applies_to_all_weights():
    message = "optimizer.clip_norm is 1.0, expected the default, since clip_norm applies to all weights"
    with pytest.raises(ValueError, match=message):
        group("a", optimizer=SGDOptimizer(clip_norm=1.0))


@pytest.mark.slow
def test_moments_are_reset_after_every_n_epochs():
    # Momentum 1/2, gradient 1: velocities 1 1.5 | 1 1.5 | 1 1.5 with a reset after every epoch, else 1 1.5 1.75 ...
    for every, values in ((1, [-2.5, -5.0, -7.5]), (2, [-2.5, -6.125, -8.625])):
        weights, optimizer = Weights(), SGDOptimizer(momentum=0.5, reset_every_n_epochs=every)
        train(line_params([1, 1], epochs=3, optimizer=optimizer), weights)
        assert weights.values == values


@pytest.mark.backend
def test_adam_begins_anew_with_its_bias_correction():
    training = Training(AdamOptimizer(), {"w": 0.0})
    for _ in range(50):
        training.step(1)
    before = training.values()[0]
    training.optimizer.reset_moments()
    # A first step is the rate. With the old count of updates it would be 0.1 / sqrt(0.001) = 3.2 times as far, less
    # the bias correction of step 51.
    assert training.step(1)[0] - before == pytest.approx(-1.0, abs=1e-4)
    assert training.optimizer.updates == 51
    assert int(training.optimizer.iterations) == 1


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
