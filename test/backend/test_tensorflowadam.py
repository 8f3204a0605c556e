"""The update of `FusedAdam` against numbers worked out by hand and against Keras; on TensorFlow."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfaip.backend.tensorflowsteps import FusedAdam

RATE = 0.1

# A 150,000th: the root of 0.001 / (1 - float32(0.999)), less 1; and rounding.
TOLERANCE = 6.5e-6 + 1e-6


def updated(optimizer: keras.optimizers.Optimizer, gradients: list[Any], start: Any, dtype: str = "float32") -> Any:
    """The weight after an update with each gradient."""
    weight = keras.Variable(np.asarray(start), dtype=dtype)
    optimizer.build([weight])

    @tf.function(autograph=False)
    def update(gradient: Any) -> None:
        optimizer.apply([gradient])

    for gradient in gradients:
        update(gradient)
    return keras.ops.convert_to_numpy(weight)


def dense(seed: int, count: int = 30) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [tf.constant(rng.normal(size=(5, 3)), tf.float32) for _ in range(count)]


@pytest.mark.parametrize("arguments", [{}, {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}, {"beta_1": 0.0}])
def test_as_keras(arguments: dict[str, float]) -> None:
    start = np.zeros((5, 3))
    ours = updated(FusedAdam(RATE, **arguments), dense(1), start)
    theirs = updated(keras.optimizers.Adam(RATE, **arguments), dense(1), start)
    assert np.abs(theirs).max() > 0.2
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=30 * RATE * TOLERANCE)


def sparse(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    rows = [sorted(rng.permutation(5)[:2]) for _ in range(5)]
    return [
        tf.IndexedSlices(tf.constant(rng.normal(size=(2, 3)), tf.float32), tf.constant(some), tf.constant([5, 3]))
        for some in rows
    ]


@pytest.mark.parametrize(
    ("arguments", "gradients", "dtype"),
    [
        ({"amsgrad": True}, dense(2), "float32"),
        ({"beta_2": 0.9999}, dense(6), "float32"),
        ({"beta_1": 0.9999999}, dense(7), "float32"),
        ({}, sparse(3), "float32"),
        ({"beta_2": 0.5}, dense(4), "bfloat16"),
        ({}, [tf.cast(gradient, tf.float64) for gradient in dense(5)], "float64"),
    ],
    ids=["amsgrad", "beta_2 close to 1", "beta_1 close to 1", "sparse", "bfloat16", "float64"],
)
def test_what_the_kernel_does_not_do_is_done_by_keras(arguments, gradients, dtype):
    start = np.zeros((5, 3))
    ours = updated(FusedAdam(RATE, **arguments), gradients, start, dtype)
    theirs = updated(keras.optimizers.Adam(RATE, **arguments), gradients, start, dtype)
    assert np.abs(theirs.astype("float64")).max() > 0.05
    np.testing.assert_array_equal(ours, theirs)


def test_the_kernel_runs() -> None:
    weight = keras.Variable(np.zeros(3), dtype="float32")
    optimizer = FusedAdam(RATE)
    optimizer.build([weight])
    graph = tf.function(lambda gradient: optimizer.apply([gradient]), autograph=False)
    nodes = graph.get_concrete_function(tf.TensorSpec((3,))).graph.get_operations()
    assert [node.type for node in nodes].count("ResourceApplyAdam") == 1
