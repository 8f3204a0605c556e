"""Gradient accumulation: the mean over micro-batches, with the remainder carried on."""

from __future__ import annotations

import pytest

from test.trainer.line import line_params, train, weight
from test.trainer.optimizer.training import Training
from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.optimizer.update import AverageRate

pytestmark = pytest.mark.backend


def weights_after(training, gradients):
    return [training.step(gradient)[0] for gradient in gradients]


def test_mean_of_three_micro_batches_moves_the_weight_on_every_third():
    training = Training(SGDOptimizer(), {"w": 0.0}, accum_steps=3)
    # Means of (1, 2, 3) and (4, 5, 6); the 7 waits for two more.
    assert weights_after(training, range(1, 8)) == [0, 0, -2, -2, -2, -7, -7]
    assert int(training.optimizer.iterations) == 2


def test_clipping_acts_on_the_mean():
    training = Training(SGDOptimizer(clip_global_norm=1), {"w": 0.0}, accum_steps=2)
    # The mean 1.55 is clipped to 1; clipping each of 3 and 0.1 would give 0.55.
    assert weights_after(training, [3, 0.1]) == [0, -1]


def test_the_average_moves_only_with_an_update():
    training = Training(SGDOptimizer(), {"w": 0.0}, accum_steps=2, average_rate=AverageRate(0.5, ramp=False))
    values = []
    for gradient in (1, 3, 5, 7):
        training.step(gradient)
        values.append(training.state()["average/w"])
    # Weights 0 -2 -2 -8: the average is 0, then (0 - 2) / 2, then unchanged, then (-1 - 8) / 2.
    assert values == [0, -1, -1, -4.5]


def test_after_an_exchange_of_the_weights_the_gradients_of_the_old_ones_are_forgotten():
    training = Training(SGDOptimizer(), {"w": 0.0}, accum_steps=3)
    assert weights_after(training, [100, 200]) == [0, 0]
    training.optimizer.reset()
    # The update comes with the third batch all the same, of that batch alone; those after it are whole again.
    assert weights_after(training, [3, 4, 5, 6]) == [-3, -3, -3, -8]
    assert weights_after(training, [100]) == [-8]
    training.optimizer.reset()
    assert weights_after(training, [1, 2]) == [-8, -9.5]
    training.optimizer.reset()  # between two updates there is nothing to forget
    assert weights_after(training, [1, 2, 3]) == [-9.5, -9.5, -11.5]


@pytest.mark.parametrize(
    ("batch_size", "accum_steps", "samples", "loss", "expected"),
    [
        (5, 1, 5, "output", 66 / 5),
        (2, 3, 5, "output", 66 / 5),
        (4, 2, 5, "output", 66 / 5),
        # With buckets each pass ends with a smaller batch.
        (4, 3, 10, "output", (66 + 26) / 9),
        # As the losses of the batches are logged.
        (4, 2, 5, "sum", (4 * 26 + 1 * 40) / 5),
    ],
    ids=["5", "2+2+1", "4+1", "4+1+4", "sums of 4 and 1"],
)
def test_a_batch_counts_with_its_samples(batch_size, accum_steps, samples, loss, expected):
    params = line_params([4, 4, 18, 0, 40], lr=0.01, train_accum_steps=accum_steps, samples_per_epoch=samples)
    params.gen.setup.train.batch_size, params.gen.setup.train.bucket_boundaries = batch_size, [2]
    params.scenario.model.loss = loss
    assert weight(train(params)) == pytest.approx(-0.01 * expected)
