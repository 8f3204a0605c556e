"""The gradient path in steps that are compiled in other ways."""

from __future__ import annotations

import keras
import pytest

from test.trainer.line import line_params, train, weight
from tfaip.trainer.optimizer import SGDOptimizer

pytestmark = pytest.mark.backend


@pytest.mark.parametrize("force_eager", [False, True])
def test_all_options_at_once(force_eager):
    optimizer = SGDOptimizer(clip_value=4.0, clip_norm=2.0, skip_nonfinite=1, weight_decay=0.5)
    params = line_params(
        [1, 2, float("nan"), 1, 6, 6, 1],
        lr=0.5,
        optimizer=optimizer,
        train_accum_steps=2,
        calc_ema=0.5,
        force_eager=force_eager,
    )
    # Updates of (1, 2), (nan, 1), (6, 6); the last batch waits. Each: w - 0.5 * 0.5 * w - 0.5 * mean, clipped to 2.
    trained = train(params)
    first = -0.75
    assert weight(trained) == pytest.approx(0.75 * first - 1.0)


def test_sparse_gradients_go_the_same_way():
    """Of an embedding: on TensorFlow its gradient lists rows."""
    from tfaip.trainer.optimizer.build import build_optimizer

    def trained(**fields):
        layers = [keras.layers.Embedding(5, 1, embeddings_initializer="zeros"), keras.layers.Flatten()]
        model = keras.Sequential([keras.layers.Input((2,), dtype="int32"), *layers])
        weights = model.trainable_variables
        optimizer = build_optimizer(SGDOptimizer(**fields), {"table": weights[0]}, weights)
        optimizer.rate.assign(1.0)
        model.compile(optimizer, "mae", jit_compile=keras.backend.backend() == "jax")
        x, y = [[1, 3]], [[4.0, -4.0]]
        model.fit(keras.ops.convert_to_tensor(x), keras.ops.convert_to_tensor(y), shuffle=False, verbose=0)
        return keras.ops.convert_to_numpy(weights[0].value)[:, 0].tolist()

    # Each row has a gradient of 1/2.
    assert trained() == [0, 0.5, 0, -0.5, 0]
    assert trained(clip_value=0.25) == [0, 0.25, 0, -0.25, 0]
    assert trained(clip_global_norm=0.5) == pytest.approx([0, 0.5**1.5, 0, -(0.5**1.5), 0])
