"""The gradient path in steps that are compiled in other ways."""

from __future__ import annotations

import keras
import pytest

from test.trainer.line import line_params, train, weight
from test.trainer.optimizer.training import Training
from tfaip.trainer.optimizer import (
    AdagradOptimizer,
    AdamOptimizer,
    GradientNoiseParams,
    RMSpropOptimizer,
    SGDOptimizer,
)
from tfaip.trainer.optimizer.trainingoptimizer import TrainingOptimizer

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


class Rows(keras.layers.Layer):
    """Reads rows of a table by `take`; an `Embedding` does it with options of its own."""

    def build(self, shape):
        self.table = self.add_weight(shape=(4, 1), initializer="zeros", name="embeddings")

    def call(self, ids):
        return keras.ops.take(self.table, ids, axis=0)


def table_after(params, network="embedding", accum_steps=1, **arguments):
    """The table after an update of rate 1 whose gradient is how often each row was read: 0, 3, 1, 0."""
    ids = keras.Input((4,), dtype="int32")
    layer = Rows() if network == "take" else keras.layers.Embedding(4, 1, embeddings_initializer="zeros")
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


@pytest.mark.parametrize(
    ("params", "arguments", "row_1", "row_2"),
    [
        (SGDOptimizer(), {"network": "take"}, 3, 1),
        (SGDOptimizer(clip_value=2.0), {"network": "twice"}, 2, 1),
        (SGDOptimizer(clip_norm=1.0), {}, 3 / 10**0.5, 1 / 10**0.5),
        (SGDOptimizer(clip_global_norm=1.0), {"accum_steps": 2}, 3 / 10**0.5, 1 / 10**0.5),
        (AdamOptimizer(), {}, 1, 1),  # g / sqrt(g^2)
        (RMSpropOptimizer(), {}, 10**0.5, 10**0.5),  # g / sqrt(0.1 g^2)
        (AdagradOptimizer(), {"accum_steps": 2}, 3 / 9.1**0.5, 1 / 1.1**0.5),
        (SGDOptimizer(gradient_noise=GradientNoiseParams(stddev=1e-9)), {}, 3, 1),
    ],
)
def test_rows_that_are_read_several_times_have_one_gradient(params, arguments, row_1, row_2):
    assert table_after(params, **arguments) == pytest.approx([0, -row_1, -row_2, 0], rel=2e-5, abs=1e-8)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="on JAX all dimensions are known")
@pytest.mark.parametrize("accum_steps", [1, 2])
def test_noise_on_a_gradient_whose_dimensions_are_not_known(accum_steps):
    """As that of a `Dense` on frames of any number."""
    import tensorflow as tf

    params = SGDOptimizer(gradient_noise=GradientNoiseParams(stddev=1e-6))
    training = Training(params, {"w": [[0.0, 0.0]]}, accum_steps=accum_steps)
    step = tf.function(lambda g: training.optimizer.apply([g]), [tf.TensorSpec((None, None))], autograph=False)
    for _ in range(accum_steps):
        step(tf.constant([[1.0, 2.0]]))
    assert training.values()[0] == [pytest.approx([-1.0, -2.0], abs=1e-5)]
    assert training.values()[0] != [[-1.0, -2.0]]
