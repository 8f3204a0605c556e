"""What is used of Keras beyond its documentation: it exists, and does what we need.

A test that fails here, or in `test_keras_models.py`, after an upgrade names what has changed.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.backend.support import IS_JAX
from tfaip.backend.active import backend
from tfaip.backend.keras_private import (
    OpenOptimizer,
    RecordingScope,
    forget_global_random_state,
    global_random_state,
    mask_of,
    set_global_random_state,
)
from tfaip.backend.kerastools import FunctionLoss, snake_case

pytestmark = pytest.mark.backend


def test_assigned_variables_are_recorded() -> None:
    metric = keras.metrics.Mean(name="mine")
    with RecordingScope() as scope:
        metric.update_state(np.ones(2, np.float32))
    assert {id(variable) for variable in scope.assigned} == {id(variable) for variable in metric.variables}
    assert {variable.path.partition("/")[0] for variable in scope.assigned} == {"mine"}
    assert float(metric.result()) == 0


def test_the_optimizer_calls_what_replaces_its_steps() -> None:
    calls: list[str] = []

    class Recording(keras.optimizers.SGD, OpenOptimizer):
        def apply_gradients_of_batch(self, gradients: Any, weights: Any) -> None:
            calls.append("batch")
            super().apply_gradients_of_batch(gradients, weights)

        def update_weights(self, gradients: Any, weights: Any, rate: Any) -> None:
            calls.append("weights")
            super().update_weights(gradients, weights, rate)

    weight = keras.Variable([1.0])
    optimizer = Recording(0.5)
    optimizer.apply([ops.ones((1,))], [weight])
    assert calls == ["batch", "weights"]
    assert float(ops.convert_to_numpy(weight)[0]) == 0.5
    assert [id(trained) for trained in optimizer.trained_weights] == [id(weight)]
    assert int(optimizer.batch_counter) == 1
    assert optimizer.state == []
    mine = keras.Variable(3.0)
    optimizer.track(mine)
    assert any(variable is mine for variable in optimizer.variables)


def test_the_generator_without_a_seed_has_a_state() -> None:
    before = global_random_state()
    set_global_random_state([1, 7])
    first = ops.convert_to_numpy(keras.random.normal((2,)))
    assert global_random_state() != [1, 7]
    set_global_random_state([1, 7])
    np.testing.assert_array_equal(ops.convert_to_numpy(keras.random.normal((2,))), first)
    forget_global_random_state()
    assert global_random_state() is None
    if before is not None:
        set_global_random_state(before)


def test_masks_of_layers_are_found() -> None:
    words = np.array([[3, 0], [1, 2]])
    embedded = keras.layers.Embedding(4, 2, mask_zero=True)(words)
    mask = mask_of(keras.layers.Dense(3)(embedded))
    assert keras.ops.convert_to_numpy(mask).tolist() == [[True, False], [True, True]]
    assert mask_of(keras.layers.Dense(3)(np.ones((2, 2)))) is None


def test_a_function_becomes_a_loss_as_in_compile() -> None:
    loss = FunctionLoss(lambda y_true, y_pred: y_pred - y_true)
    # Of one rank: without that they would be broadcast to a matrix.
    values = loss.call(keras.ops.convert_to_tensor([[1.0], [2.0]]), keras.ops.convert_to_tensor([3.0, 5.0]))
    assert keras.ops.convert_to_numpy(values).reshape(-1).tolist() == [2, 3]
    assert float(loss(np.array([[1.0], [2.0]]), np.array([3.0, 5.0]))) == 2.5


def test_names_of_objects_are_those_that_keras_counts() -> None:
    assert snake_case("SparseTopKCategoricalAccuracy") == "sparse_top_k_categorical_accuracy"
    assert keras.metrics.AUC().name.startswith(snake_case("AUC"))


def test_values_in_the_place_of_variables() -> None:
    class Counting(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = self.add_weight(shape=(), initializer="ones", name="kernel")
            self.calls = self.add_weight(shape=(), initializer="zeros", name="calls", trainable=False)

        def call(self, x: Any) -> Any:
            self.calls.assign(self.calls + self.kernel)
            self.add_loss(self.kernel * 3.0)
            return x * self.kernel

    layer, outer = Counting(), keras.layers.Layer()
    with backend.replaced_values(outer, [(layer.kernel, ops.convert_to_tensor(5.0))]):
        result = layer(ops.ones((2,)))
    assert ops.convert_to_numpy(result).tolist() == [5, 5]
    assert (float(layer.kernel), float(layer.calls)) == (1.0, 5.0)
    assert [float(loss) for loss in (layer if IS_JAX else outer).losses] == [15.0]
    if not IS_JAX:
        return
    # Within another scope, as a step on JAX is.
    with keras.StatelessScope([(layer.calls, ops.convert_to_tensor(7.0))], collect_losses=True) as scope:
        with backend.replaced_values(outer, [(layer.kernel, ops.convert_to_tensor(2.0))]):
            layer(ops.ones((2,)))
        assert [float(loss) for loss in layer.losses] == [6.0]
    assert float(scope.get_current_value(layer.calls)) == 9.0
    assert float(layer.calls) == 5.0
