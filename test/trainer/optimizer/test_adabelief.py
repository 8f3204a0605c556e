"""AdaBelief against the formulas of its paper and of RAdam's, in float64."""

import contextlib
import math
from collections.abc import Iterator

import keras
import numpy as np
import pytest
from keras import ops

from tfaip.trainer.optimizer import AdaBeliefOptimizer
from tfaip.trainer.optimizer.trainingoptimizer import TrainingOptimizer
from tfaip.trainer.optimizer.update import AdaBelief

RATE = 0.0625  # the same number in float32


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    if keras.backend.backend() == "jax":
        import jax

        with jax.enable_x64(True):
            yield
    else:
        yield


def paper(
    gradients: np.ndarray, weight: np.ndarray, beta_1: float, beta_2: float, epsilon: float, rectify: bool
) -> list[np.ndarray]:
    """Zhuang et al. (2020), algorithm 2, and Liu et al. (2019), algorithm 2, line by line."""
    m, s, weights = np.zeros_like(weight), np.zeros_like(weight), []
    rho_inf = 2 / (1 - beta_2) - 1
    for t, g in enumerate(gradients, start=1):
        m = beta_1 * m + (1 - beta_1) * g
        s = beta_2 * s + (1 - beta_2) * (g - m) ** 2 + epsilon
        m_hat, s_hat = m / (1 - beta_1**t), s / (1 - beta_2**t)
        step = m_hat / (np.sqrt(s_hat) + epsilon)
        rho = rho_inf - 2 * t * beta_2**t / (1 - beta_2**t)
        if rectify and rho > 4:
            step = step * math.sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
        elif rectify:
            step = m_hat
        weight = weight - RATE * step
        weights.append(weight)
    return weights


def ours(gradients: np.ndarray, weight: np.ndarray, params: AdaBeliefOptimizer) -> list[np.ndarray]:
    variable = keras.Variable(weight, dtype=str(weight.dtype), name="w")
    optimizer = TrainingOptimizer(params, {"w": variable}, [variable])
    optimizer.schedule.base.assign(RATE)
    weights = []
    for gradient in gradients:
        optimizer.apply([ops.convert_to_tensor(gradient)], [variable])
        weights.append(ops.convert_to_numpy(variable.value).copy())
    return weights


@pytest.mark.parametrize("rectify", [True, False])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        pytest.param({"beta_1": 0.5, "beta_2": 0.99, "epsilon": 1e-8}, marks=pytest.mark.backend),
        {"beta_1": 0.0, "beta_2": 0.9, "epsilon": 1e-3},
    ],
)
def test_twenty_steps_are_those_of_the_papers(fields: dict[str, float], rectify: bool) -> None:
    rng = np.random.default_rng(5)
    gradients, start = rng.normal(size=(20, 3, 2)), rng.normal(size=(3, 2))
    params = AdaBeliefOptimizer(rectify=rectify, **fields)
    expected = paper(gradients, start, params.beta_1, params.beta_2, params.epsilon, rectify)
    with double_precision():
        weights = ours(gradients, start, params)
    assert weights[0].dtype == np.float64
    np.testing.assert_allclose(weights, expected, rtol=1e-9)


@pytest.mark.backend
def test_sparse_gradients_of_embeddings() -> None:
    model = keras.Sequential([keras.layers.Embedding(5, 1, embeddings_initializer="ones"), keras.layers.Flatten()])
    model.compile(optimizer=AdaBelief(RATE), loss="mse")
    model.fit(np.array([[1], [3]]), np.zeros((2, 1)), batch_size=2, shuffle=False, verbose=0)
    weights = ops.convert_to_numpy(model.layers[0].embeddings.value)[:, 0]
    # Mean over both rows of w^2: the gradient of each is 1.
    assert weights.tolist() == [1.0, 1.0 - RATE, 1.0, 1.0 - RATE, 1.0]


def test_rectifying_needs_a_long_mean() -> None:
    with pytest.raises(ValueError, match=r"^beta_2 is 0.6, expected a number in \(0.6, 1\)$"):
        AdaBeliefOptimizer(beta_2=0.6)
