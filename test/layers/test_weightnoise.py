"""Noise on weights: its numbers and variance, the place of the gradients, and what stays without noise."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from tfaip.backend.active import backend
from tfaip.layers.weightnoise import WeightNoise, normal


def fitted(layer: keras.layers.Layer, x: np.ndarray, rate: float = 1.0, **arguments: Any) -> tuple[float, keras.Model]:
    """One step of SGD on the sum of the outputs: the loss, and the model."""
    model = keras.Sequential([keras.Input(x.shape[1:]), layer])
    model.compile(keras.optimizers.SGD(rate), lambda y_true, y: ops.sum(y, axis=-1), **arguments)
    return model.fit(x, x, batch_size=len(x), verbose=0, shuffle=False).history["loss"][0], model


def values(variable: keras.Variable) -> np.ndarray:
    return np.array(ops.convert_to_numpy(variable))


@pytest.mark.parametrize("stddev", [0.5, pytest.param(0.02, marks=pytest.mark.backend)])
def test_the_variance_is_as_asked(stddev: float) -> None:
    """Inputs that are the rows of the identity show the kernel."""
    dense = keras.layers.Dense(200, use_bias=False)
    layer = WeightNoise(dense, stddev, seed=1)
    rows = np.eye(100, dtype="float32")
    clean = np.asarray(layer(rows))
    np.testing.assert_array_equal(clean, values(dense.kernel))
    noise = [np.asarray(layer(rows, training=True)) - clean for _ in range(2)]
    for drawn in noise:
        assert drawn.mean() == pytest.approx(0, abs=4 * stddev / np.sqrt(20_000))
        assert drawn.std() == pytest.approx(stddev, rel=0.02)
        assert (np.abs(drawn) > 2 * stddev).mean() == pytest.approx(0.0455, abs=0.006)
    assert abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 0.03
    np.testing.assert_array_equal(np.asarray(layer(rows)), clean)
    np.testing.assert_array_equal(values(dense.kernel), clean)


@pytest.mark.backend
def test_gradients_are_taken_at_the_noisy_weights() -> None:
    """The output is the square of the weight: the gradient at w + n is 2 (w + n)."""

    class Square(keras.layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.w = self.add_weight(shape=(), initializer="ones", name="w")

        def call(self, x: Any) -> Any:
            return x * ops.square(self.w)

    square = Square()
    loss, _ = fitted(WeightNoise(square, 0.5, seed=3), np.ones((2, 1), "float32"))
    noisy = np.sqrt(loss)
    assert abs(noisy - 1) > 0.01
    assert float(values(square.w)) == pytest.approx(1 - 2 * noisy, abs=1e-5)


def test_validation_has_no_noise() -> None:
    x = np.ones((2, 3), "float32")
    loss, model = fitted(WeightNoise(keras.layers.Dense(4), 0.5, seed=3), x, rate=0.0)
    weights = model.layers[0].layer.kernel
    assert model.evaluate(x, x, verbose=0) == pytest.approx(values(weights).sum(), abs=1e-5)
    assert loss != pytest.approx(values(weights).sum(), abs=1e-2)
    # A deviation that is a variable.
    stddev = keras.Variable(0.0, trainable=False, name="stddev")
    first, model = fitted(WeightNoise(keras.layers.Dense(4), stddev, seed=3), x, rate=0.0)
    clean = model.evaluate(x, x, verbose=0)
    assert first == pytest.approx(clean, abs=1e-5)
    stddev.assign(1.0)
    assert model.fit(x, x, verbose=0, shuffle=False).history["loss"][0] != pytest.approx(clean, abs=0.05)


def test_only_weights_that_match() -> None:
    layer = WeightNoise(keras.Sequential([keras.layers.Dense(3, name="a"), keras.layers.Dense(2)]), 0.1, "a/.*")
    layer.build((None, 4))
    assert [layer.path_below(weight) for weight in layer.noisy_weights()] == ["a/kernel", "a/bias"]
    with pytest.raises(ValueError, match="match='kernels' matches no trainable weight of lonely: kernel, bias"):
        WeightNoise(keras.layers.Dense(3, name="lonely"), 0.1, "kernels").build((None, 4))
    with pytest.raises(ValueError, match=r"match='\(' is no regular expression"):
        WeightNoise(keras.layers.Dense(3), 0.1, "(")
    with pytest.raises(ValueError, match="stddev is -1, expected a number at least 0"):
        WeightNoise(keras.layers.Dense(3), -1)


def test_names_that_end_with_that_of_the_layer() -> None:
    dense = keras.Sequential([keras.layers.Dense(3, name="first_a"), keras.layers.Dense(2, name="a")], name="a")
    recurrent = keras.layers.Bidirectional(keras.layers.SimpleRNN(2, name="cell"), name="cell")
    ways = [f"{way}_cell/simple_rnn_cell" for way in ("backward", "forward")]
    for layer, shape, paths in [
        (dense, (None, 4), ["a/bias", "a/kernel", "first_a/bias", "first_a/kernel"]),
        (recurrent, (None, 3, 4), [f"{way}/{name}" for way in ways for name in ("bias", "kernel", "recurrent_kernel")]),
    ]:
        noisy = WeightNoise(layer, 0.1)
        keras.Sequential([noisy]).build(shape)
        assert sorted(noisy.path_below(weight) for weight in noisy.noisy_weights()) == paths


@pytest.mark.slow
@pytest.mark.backend
def test_statistics_losses_and_random_states_of_the_layer_work_as_without_noise() -> None:
    """With noise of deviation 0, a training is what it is without the wrapper."""

    def network() -> keras.Sequential:
        keras.utils.set_random_seed(5)
        layers = [
            keras.layers.Dense(6, activity_regularizer="l2", kernel_regularizer="l2"),
            keras.layers.BatchNormalization(momentum=0.5),
            keras.layers.Dropout(0.5, seed=3),
        ]
        return keras.Sequential(layers)

    x = np.random.default_rng(1).normal(size=(16, 4)).astype("float32")
    results = []
    for is_noisy in (False, True):
        plain = network()
        loss, model = fitted(WeightNoise(plain, 0.0, seed=1) if is_noisy else plain, x, rate=0.1)
        second = model.fit(x, x, batch_size=16, verbose=0, shuffle=False).history["loss"][0]
        results.append(([loss, second], [values(v) for v in plain.variables]))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    for without, with_noise in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(without, with_noise, rtol=1e-5, atol=1e-6)


@pytest.mark.backend
def test_a_recurrent_layer_and_16_bits() -> None:
    layer = WeightNoise(keras.layers.GRU(5, return_sequences=True), 0.1, ".*kernel", seed=2)
    x = np.random.default_rng(1).normal(size=(3, 7, 2)).astype("float32")
    clean, noisy = np.asarray(layer(x)), np.asarray(layer(x, training=True))
    assert layer.compute_output_shape((None, 7, 2)) == (None, 7, 5)
    assert 0.001 < np.abs(clean - noisy).max() < 1
    # Small noise is not lost in 16 bits.
    dense = keras.layers.Dense(50, use_bias=False, kernel_initializer="ones", dtype="mixed_bfloat16")
    layer = WeightNoise(dense, 0.004, seed=1, dtype="mixed_bfloat16")
    drawn = np.asarray(ops.cast(layer(np.eye(40, dtype="float32"), training=True), "float32"))
    assert drawn.mean() == pytest.approx(1, abs=0.001)
    assert drawn.std() == pytest.approx(0.004, rel=0.25)


MASK = 2**32 - 1


def drawn(first: int, second: int, size: int) -> np.ndarray:
    seed = ops.convert_to_tensor(np.array([first, second], "uint32"))
    return np.asarray(ops.convert_to_numpy(backend.fused(normal)(seed, size)), "float64")


def scrambled(bits: int) -> int:
    bits = (bits ^ bits >> 16) * 0x7FEB352D & MASK
    bits = (bits ^ bits >> 15) * 0x846CA68B & MASK
    return bits ^ bits >> 16


def reference(first: int, second: int, position: int) -> float:
    """The definition, in integers without limits and numbers of 64 bits."""
    start = scrambled(scrambled(first + 0x9E3779B9 & MASK) + second & MASK)
    step = scrambled(start + 0x9E3779B9 & MASK) | 1
    bits = scrambled(position * step + start & MASK)
    more = scrambled(bits + 0x9E3779B9 & MASK)
    variance = 8 + 2 / 12
    uniform = ((more >> 16) + (more & 0xFFFF)) / 2**16 + (bits & 0xFF) / 2**24
    x = (bits.bit_count() + uniform - (17 - 2**-17)) / math.sqrt(variance)
    return x + (4 + 2 / 120) / variance**2 / 24 * (x**3 - 3 * x)


@pytest.mark.backend
@pytest.mark.parametrize("seed", [(0, 0), (3, 7), (2**32 - 1, 2**31)])
def test_numbers_are_those_of_the_definition(seed: tuple[int, int]) -> None:
    expected = [reference(*seed, position) for position in range(1000)]
    # Numbers up to 6.5 in float32, rounded a few times.
    np.testing.assert_allclose(drawn(*seed, 1000), expected, rtol=0, atol=2e-6)


@pytest.mark.backend
def test_the_distribution_of_the_numbers() -> None:
    size = 1_000_000
    numbers = np.sort(drawn(1, 0, size))
    # The mean of n normal numbers has a deviation of 1 / sqrt(n), their variance one of sqrt(2 / n).
    assert abs(numbers.mean()) < 4 / math.sqrt(size)
    assert numbers.var() == pytest.approx(0.9997, abs=4 * math.sqrt(2 / size))
    for limit in (-3.0, -2.0, -1.0, -0.3, 0.0, 0.3, 1.0, 2.0, 3.0):
        share = NormalDist().cdf(limit)
        found = np.searchsorted(numbers, limit) / size
        assert found == pytest.approx(share, abs=0.0002 + 4 * math.sqrt(share * (1 - share) / size))
    # Expected are 57.6 beyond 4, with a deviation of 7.6.
    assert 57.6 - 4 * 7.6 < np.sum(np.abs(numbers) > 4) < 57.6 + 4 * 7.6
    assert np.abs(numbers).max() < 6.44
    # In steps of 2^-24 / 2.86 = 2e-8, or where float32 is coarser its own, up to 1e-7: of a million few are equal.
    assert len(np.unique(numbers)) > 0.97 * size
