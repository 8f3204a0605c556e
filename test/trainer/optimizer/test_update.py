"""What an update does: mean of its batches, noise, clips, loss scale, skips, averages."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.trainer.line import LineScenario, line_params, train, weight
from test.trainer.optimizer.training import Training
from tfaip.device import DeviceConfigParams, Precision
from tfaip.trainer.loop import TrainingDiverged
from tfaip.trainer.optimizer import AdagradOptimizer, AdamOptimizer, GradientNoiseParams, RMSpropOptimizer, SGDOptimizer
from tfaip.trainer.optimizer.trainingoptimizer import TrainingOptimizer
from tfaip.trainer.optimizer.update import AverageRate
from tfaip.trainer.params import TrainerParams


def weights_after(training, gradients):
    return [training.step(gradient)[0] for gradient in gradients]


@pytest.mark.backend
def test_mean_of_three_micro_batches_moves_the_weight_on_every_third():
    training = Training(SGDOptimizer(), {"w": 0.0}, accum_steps=3)
    # Means of (1, 2, 3) and (4, 5, 6); the 7 waits for two more.
    assert weights_after(training, range(1, 8)) == [0, 0, -2, -2, -2, -7, -7]
    assert int(training.optimizer.iterations) == 2
    # Clips act on the mean, 1.55; clipping each of 3 and 0.1 would give 0.55.
    training = Training(SGDOptimizer(clip_global_norm=1), {"w": 0.0}, accum_steps=2)
    assert weights_after(training, [3, 0.1]) == [0, -1]


@pytest.mark.backend
def test_after_an_exchange_of_the_weights_the_gradients_of_the_old_ones_are_forgotten():
    training = Training(SGDOptimizer(), {"w": 0.0}, accum_steps=3)
    assert weights_after(training, [100, 200]) == [0, 0]
    training.optimizer.reset()
    # The update comes with the third batch all the same, of that batch alone; those after it are whole again.
    assert weights_after(training, [3, 4, 5, 6]) == [-3, -3, -3, -8]


@pytest.mark.backend
@pytest.mark.parametrize(
    ("batch_size", "accum_steps", "samples", "loss", "expected"),
    [
        (5, 1, 5, "output", 66 / 5),
        (4, 2, 5, "output", 66 / 5),
        # With buckets each pass ends with a smaller batch.
        (4, 3, 10, "output", (66 + 26) / 9),
        # As the losses of the batches are logged.
        (4, 2, 5, "sum", (4 * 26 + 1 * 40) / 5),
    ],
    ids=["5", "4+1", "4+1+4", "sums of 4 and 1"],
)
def test_a_batch_counts_with_its_samples(batch_size, accum_steps, samples, loss, expected):
    params = line_params([4, 4, 18, 0, 40], lr=0.01, train_accum_steps=accum_steps, samples_per_epoch=samples)
    params.gen.setup.train.batch_size, params.gen.setup.train.bucket_boundaries = batch_size, [2]
    params.scenario.model.loss = loss
    assert weight(train(params)) == pytest.approx(-0.01 * expected)


def noise(stddev=1.0, gamma=0.0, **fields):
    return SGDOptimizer(gradient_noise=GradientNoiseParams(stddev=stddev, gamma=gamma), **fields)


def moves(training, size, steps):
    """What zero gradients move `size` weights in each of `steps` updates."""
    values = [np.zeros(size), *(np.array(training.step(np.zeros(size))[0]) for _ in range(steps))]
    return -np.diff(values, axis=0)


@pytest.mark.backend
def test_noise_is_normal_annealed_and_drawn_once_per_update():
    (drawn,) = moves(Training(noise(stddev=2.0), {"w": np.zeros(40_000)}, seed=5), 40_000, 1)
    # Of n normal numbers the mean has a deviation of 2 / sqrt(n) = 0.01, the deviation one of 2 / sqrt(2 n) = 0.007.
    assert abs(drawn.mean()) < 0.04
    assert drawn.std() == pytest.approx(2.0, abs=0.03)
    assert np.mean(np.abs(drawn) > 4.0) == pytest.approx(0.0455, abs=0.005)
    # 1 / (1 + update)^0.55.
    drawn = moves(Training(noise(gamma=0.55), {"w": np.zeros(10_000)}), 10_000, 4)
    assert drawn.std(axis=1) == pytest.approx([1.0, 0.6830, 0.5465, 0.4665], rel=0.03)
    # On the mean of the batches of an update.
    drawn = moves(Training(noise(), {"w": np.zeros(1000)}, accum_steps=4), 1000, 8)
    assert drawn[[0, 1, 2, 4, 5, 6]].any() == np.False_
    assert drawn[[3, 7]].std(axis=1) == pytest.approx([1.0, 1.0], rel=0.1)


@pytest.mark.backend
def test_no_two_numbers_share_noise_and_clips_come_after_it():
    (first, second), again, other = (moves(Training(noise(), {"w": np.zeros(6)}, seed=s), 6, 2) for s in (1, 1, 2))
    np.testing.assert_array_equal([first, second], again)
    a, b = Training(noise(), {"a": np.zeros(3), "b": np.zeros(3)}, seed=3).step(np.zeros(3), np.zeros(3))
    assert len({*first, *second, *np.ravel(other), *a, *b}) == 30
    # Noise of 100 is cut off at 0.5; the chance that one number of 24 is smaller is below 0.1, and the seed is fixed.
    drawn = moves(Training(noise(stddev=100.0, clip_value=0.5), {"w": np.zeros(8)}), 8, 3)
    assert set(np.abs(drawn).ravel()) == {0.5}


@pytest.mark.parametrize(
    ("given", "updates_per_epoch", "rate"),
    [
        (0.5, 100, AverageRate(0.5, ramp=False)),
        (-1, 1, AverageRate(0.99, ramp=True)),  # 0.75 is below the lower bound
        (-1, 100, AverageRate(0.75 ** (1 / 100), ramp=True)),  # three quarters are left after an epoch
        (-1, 10_000, AverageRate(0.99975, ramp=True)),  # 0.99997 is above the upper bound
    ],
)
def test_the_rate_of_calc_ema(given, updates_per_epoch, rate):
    assert AverageRate.of(given, updates_per_epoch) == rate


@pytest.mark.backend
def test_the_automatic_rate_ramps_up():
    rate = AverageRate(0.9, ramp=True)
    got = [float(keras.ops.convert_to_numpy(rate.after(n))) for n in (1, 8, 80, 81)]
    # (1 + n) / (10 + n): 2/11, 9/18, 81/90 = 0.9, then the limit.
    np.testing.assert_allclose(got, [2 / 11, 0.5, 0.9, 0.9], rtol=1e-6)


@pytest.mark.backend
@pytest.mark.parametrize(("batches", "expected"), [(1, [1, 0, 1.25]), (2, [1, 1, 0, 0, 1.25])])
def test_worked_out_average(batches, expected):
    rate = AverageRate(0.75, ramp=False)
    training = Training(SGDOptimizer(), {"w": 1.0}, accum_steps=batches, average_rate=rate)
    values = [training.state()["average/w"]]
    for gradient in [4] * batches + [-8] * batches:
        training.step(gradient)
        values.append(training.state()["average/w"])
    # It starts at the weight; weights -3 and 5: 1 + (-3 - 1) / 4 = 0, then 0 + (5 - 0) / 4. It moves with an update.
    assert values == expected
    with training.optimizer.with_averages():
        assert training.values() == [1.25]
    assert (training.values(), training.state()["average/w"]) == ([5], 1.25)


NAN, INF = float("nan"), float("inf")
DATA = " (not finite in the data of number 1)"


def stopped(params):
    """Message of a training that ends early, and the weight that it leaves."""
    trainer = LineScenario.create_trainer(params)
    with pytest.raises(TrainingDiverged) as error:
        trainer.train()
    return str(error.value), weight(trainer)


SKIPS_TWO = {"optimizer": SGDOptimizer(skip_nonfinite=2)}


# The gradient is x: the weight moves by -1 per update.
@pytest.mark.parametrize(
    ("x", "fields", "place", "left"),
    [
        ([1, 1, NAN, 1, 1, 1], {"steps_per_execution": 1}, f"in batch 3 of epoch 1{DATA};", -2),
        pytest.param(
            *([1, 1, -INF, 1, 1, 1], {"steps_per_execution": 16}, f"in batch 3 of epoch 1{DATA};", -2),
            marks=pytest.mark.backend,
        ),
        ([1, 3, 1, NAN, 1, 1], {"train_accum_steps": 2}, f"in batches 3 to 4 of epoch 1{DATA};", -2),
        ([1, 1, NAN, 1, NAN, INF, NAN, 1], SKIPS_TWO, f"in 3 updates in a row, from batch 5 of epoch 1{DATA};", -3),
        # The gradient of an infinite loss is infinite, which clip_value would make 1.5.
        ([1, INF], {"optimizer": SGDOptimizer(clip_value=1.5)}, f"in batch 2 of epoch 1{DATA};", -1),
    ],
)
def test_too_many_updates_that_are_not_finite_end_the_training(x, fields, place, left):
    message, weight = stopped(line_params(x, epochs=2, **fields))
    assert weight == left
    assert message.startswith(f"the loss or its gradients were not finite {place} no weight has changed")
    assert "--optimizer.skip_nonfinite" in message


@pytest.mark.backend
def test_as_many_in_a_row_as_are_tolerated_do_not_and_the_latch_stays():
    training = Training(SGDOptimizer(skip_nonfinite=2), {"w": 0.0})
    for gradient in (1, NAN, NAN, 1, NAN, NAN, 1):
        training.step(gradient)
    assert (training.values(), training.optimizer.stopped_at()) == ([-3.0], None)
    for gradient in (NAN, NAN, NAN, 1, NAN, 1, 1):
        training.step(gradient)
    assert (training.values(), training.optimizer.stopped_at()) == ([-3.0], (7, 3))
    training = Training(SGDOptimizer(skip_nonfinite=10**12), {"w": 0.0})  # more than 32 bits
    assert (training.step(NAN), training.step(1)) == ([0.0], [-1.0])


@pytest.mark.backend
@pytest.mark.parametrize("odd", [[INF, 0], [INF, -INF], [NAN, 1], [1e20, -1e20]])
@pytest.mark.parametrize("clip", [{}, {"clip_global_norm": 1.0}])
def test_one_odd_gradient_of_many_skips_the_update(odd, clip):
    training = Training(SGDOptimizer(skip_nonfinite=1, **clip), {"w": np.zeros((3, 2)), "b": np.zeros(2)})
    column = np.zeros((3, 2))
    column[:2, 1] = odd
    assert training.step(column, [1, 0]) == [np.zeros((3, 2)).tolist(), [0, 0]]  # 1e20: its square is infinite
    assert training.step(np.zeros((3, 2)), [1, 0])[1] == [-1, 0]


@pytest.mark.backend
def test_nothing_of_the_optimizer_moves_with_a_skipped_update():
    params = AdamOptimizer(skip_nonfinite=3, weight_decay=0.1, clip_norm=1.0)
    training = Training(params, {"w": [1.0, 2.0]}, average_rate=AverageRate(0.5, ramp=False))
    training.step([0.5, -1.0])
    before = training.state()
    training.step([NAN, 1.0])
    after = training.state()
    counters = {"iteration", "updates_before_moments", "nonfinite_in_a_row", "nonfinite_first_batch"}
    assert {name for name in before if before[name] != after[name]} == counters
    assert int(training.optimizer.iterations) == 1
    assert int(training.optimizer.update_number) == 2


def half_params(x: list[float], output_dir: Path | None = None, **fields: Any) -> TrainerParams[Any, Any]:
    return line_params(x, output_dir=output_dir, device=DeviceConfigParams(precision=Precision.MIXED_FLOAT16), **fields)


@pytest.mark.backend
def test_a_gradient_too_small_for_float16_arrives() -> None:
    # (w x - y)^2 with w = 0: the gradient is -2 y x = -2^-27, and the smallest number of float16 is 2^-24.
    params = half_params([2.0**-14])
    params.gen.train.y = [2.0**-14]
    params.scenario.model.loss = "square"
    assert weight(train(params)) == 2.0**-27


@pytest.mark.backend
@pytest.mark.slow
def test_an_overflow_halves_the_scale_until_the_gradient_fits(tmp_path: Path) -> None:
    # 60000 * 2^15 is beyond float16, whose largest number is 65504: 15 updates are skipped until the scale is 1.
    params = half_params([60000.0] * 10, output_dir=tmp_path, lr=2.0**-30, epochs=2)
    whole = weight(train(params))
    assert whole == pytest.approx(-5 * 60000 * 2.0**-30, rel=1e-6)
    assert weight(train(params, restore=True, checkpoint="epoch_0001")) == whole


@pytest.mark.backend
def test_a_loss_that_is_not_a_number_ends_the_training_when_the_scale_is_lowest() -> None:
    trainer = LineScenario.create_trainer(half_params([float("nan")] * 20))
    with pytest.raises(TrainingDiverged, match="in batch 16 of epoch 1"):
        trainer.train()
    assert weight(trainer) == 0.0


@pytest.mark.backend
def test_the_scale_doubles_after_many_updates_and_halves_after_an_overflow() -> None:
    training = Training(SGDOptimizer(), {"w": 0.0}, scales_loss=True)
    assert float(training.optimizer.scale_loss(keras.ops.convert_to_tensor(0.5))) == 0.5 * 2**15
    training.optimizer._loss_scale._good.assign(1998)
    assert (training.step(3.0 * 2**15), training.state()["loss_scale"]) == ([-3.0], 2**15)
    assert (training.step(2.0**15), training.state()["loss_scale"]) == ([-4.0], 2**16)
    assert training.state()["updates_at_loss_scale"] == 0
    assert training.step(2.0**16) == [-5.0]
    # It is the same for all batches of an update.
    training = Training(SGDOptimizer(), {"w": 0.0}, scales_loss=True, accum_steps=2)
    assert (training.step(2.0**15), training.step(float("inf"))) == ([0.0], [0.0])
    assert training.state()["loss_scale"] == 2**14
    training.step(2.0**14)
    assert training.step(3.0 * 2**14) == [-2.0]


def table_after(params, network="embedding", accum_steps=1, **arguments):
    """The table after an update of rate 1 whose gradient is how often each row was read: 0, 3, 1, 0."""
    ids = keras.Input((4,), dtype="int32")
    layer = keras.layers.Embedding(4, 1, embeddings_initializer="zeros")
    parts = [ids[:, :1], ids[:, 1:]] if network == "twice" else [ids]
    total = sum(keras.ops.sum(layer(part), axis=(1, 2)) for part in parts)
    model = keras.Model(ids, total)
    (table,) = model.trainable_variables
    optimizer = TrainingOptimizer(params, {"table": table}, [table], accum_steps, **arguments)
    optimizer.schedule.base.assign(1.0)
    model.compile(optimizer, "mae", jit_compile=keras.backend.backend() == "jax")
    x = keras.ops.convert_to_tensor([[1, 1, 2, 1]])
    model.fit(x, keras.ops.convert_to_tensor([-1e6]), epochs=accum_steps, shuffle=False, verbose=0)
    return keras.ops.convert_to_numpy(table.value)[:, 0]


@pytest.mark.backend
@pytest.mark.parametrize(
    ("params", "arguments", "row_1", "row_2"),
    [
        (SGDOptimizer(clip_value=2.0), {"network": "twice"}, 2, 1),
        (SGDOptimizer(clip_global_norm=1.0), {"accum_steps": 2}, 3 / 10**0.5, 1 / 10**0.5),
        (RMSpropOptimizer(), {}, 10**0.5, 10**0.5),  # g / sqrt(0.1 g^2)
        (AdagradOptimizer(), {"accum_steps": 2}, 3 / 9.1**0.5, 1 / 1.1**0.5),
        (SGDOptimizer(gradient_noise=GradientNoiseParams(stddev=1e-9)), {}, 3, 1),
    ],
)
def test_rows_that_are_read_several_times_have_one_gradient(params, arguments, row_1, row_2):
    assert table_after(params, **arguments) == pytest.approx([0, -row_1, -row_2, 0], rel=2e-5, abs=1e-8)
