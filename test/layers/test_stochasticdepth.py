"""Stochastic depth: expectation, extreme probabilities, and probabilities that a training changes."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from tfaip.backend.kerastools import mask_of
from tfaip.layers.stochasticdepth import StochasticDepth

DRAWS = 20_000


def block(survival: Any, seed: int = 1) -> StochasticDepth:
    """`x + 2 x`."""
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer=keras.initializers.Constant(2.0))
    return StochasticDepth(dense, survival, seed=seed)


@pytest.mark.parametrize("survival", [0.1, pytest.param(0.5, marks=pytest.mark.backend), 0.8, 1.0])
def test_the_mean_over_draws_is_the_output_of_inference(survival: float) -> None:
    layer, x = block(survival), np.ones((DRAWS, 1), "float32")
    assert np.asarray(layer(x)).tolist() == [[3.0]] * DRAWS
    drawn = np.asarray(layer(x, training=True))[:, 0]
    assert set(np.round(drawn, 4)) <= {1.0, np.float32(round(1 + 2 / survival, 4))}
    kept = (drawn > 1.5).mean()
    deviation = np.sqrt(survival * (1 - survival) / DRAWS)
    assert abs(kept - survival) <= 4 * deviation
    assert abs(drawn.mean() - 3.0) <= 4 * deviation * 2 / survival + 1e-5


@pytest.mark.backend
def test_probabilities_of_0_and_1_leave_nothing_to_chance() -> None:
    """As numbers and as variables, of which those beyond the limits count as the limit; numbers beyond are refused."""
    with pytest.raises(ValueError, match=r"survival is 1.1, expected a number from 0 to 1"):
        block(1.1)
    for survival, value, dtype in [
        *((0.0, 1.0, "float32"), (0.0, 1.0, "float16"), (-1.0, 1.0, "float32")),
        *((1.0, 3.0, "float16"), (2.0, 3.0, "float32")),
    ]:
        variable = keras.Variable(survival, trainable=False)
        for given in (survival, variable) if 0 <= survival <= 1 else (variable,):
            drawn = block(given)(np.ones((100, 1), dtype), training=True)
            assert np.asarray(ops.cast(drawn, "float32")).tolist() == [[value]] * 100


@pytest.mark.backend
def test_one_decision_per_sample() -> None:
    layer = StochasticDepth(keras.layers.Conv1D(3, 3, padding="same"), 0.5, seed=2)
    x = np.random.default_rng(1).normal(size=(64, 7, 3)).astype("float32")
    whole, drawn = np.asarray(layer(x)), np.asarray(layer(x, training=True))
    dropped = (drawn == x).all(axis=(1, 2))
    assert 16 < dropped.sum() < 48
    np.testing.assert_allclose(drawn[~dropped] - x[~dropped], 2 * (whole - x)[~dropped], rtol=1e-4, atol=1e-5)


def test_the_mask_of_the_inputs_goes_on() -> None:
    embedded = keras.layers.Embedding(5, 2, mask_zero=True)(np.array([[1, 2, 0]]))
    result = StochasticDepth(keras.layers.Dense(2), 0.5)(embedded, training=True)
    assert np.asarray(mask_of(result)).tolist() == [[True, True, False]]
