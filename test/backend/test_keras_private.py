"""What is used of Keras beyond its documentation: it does what we need; a test that fails after an upgrade names it."""

import random
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.backend.support import IS_JAX, Net, fitted
from tfaip.backend.active import backend
from tfaip.backend.keras_private import (
    OpenOptimizer,
    global_random_state,
    set_global_random_state,
    stop_evaluation,
)
from tfaip.backend.kerastools import (
    FunctionLoss,
    is_functional,
    layers_of,
    sublayers,
)

pytestmark = pytest.mark.backend


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
    set_global_random_state([1, 7])
    first = ops.convert_to_numpy(keras.random.normal((2,)))
    assert global_random_state() != [1, 7]
    set_global_random_state([1, 7])
    np.testing.assert_array_equal(ops.convert_to_numpy(keras.random.normal((2,))), first)
    before = random.getstate()
    backend.seed(3)
    # What `random.Random(3).randint(1, 10**9)` gives, from which Python's generator continues unchanged.
    assert global_random_state() == [255512576, 0]
    assert random.getstate() == random.Random(3).getstate()  # noqa: S311
    random.setstate(before)


def test_a_function_becomes_a_loss_as_in_compile() -> None:
    loss = FunctionLoss(lambda y_true, y_pred: y_pred - y_true)
    # Of one rank: without that they would be broadcast to a matrix.
    values = loss.call(keras.ops.convert_to_tensor([[1.0], [2.0]]), keras.ops.convert_to_tensor([3.0, 5.0]))
    assert keras.ops.convert_to_numpy(values).reshape(-1).tolist() == [2, 3]
    assert float(loss(np.array([[1.0], [2.0]]), np.array([3.0, 5.0]))) == 2.5


def test_values_in_the_place_of_variables() -> None:
    class Counting(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = self.add_weight(shape=(), initializer="ones", name="kernel")
            self.calls = self.add_weight(shape=(), initializer="zeros", name="calls", trainable=False)

        def call(self, x: Any) -> Any:
            self.calls.assign(self.calls + self.kernel)
            self.add_loss(self.kernel * 3.0)
            return x * self.kernel + 0 * keras.random.uniform(())

    layer, outer = Counting(), keras.layers.Layer()
    outer.inner = layer
    set_global_random_state([1, 7])
    with backend.replaced_values(outer, [(layer.kernel, ops.convert_to_tensor(5.0))]):
        result = layer(ops.ones((2,)))
    assert ops.convert_to_numpy(result).tolist() == [5, 5]
    assert (float(layer.kernel), float(layer.calls)) == (1.0, 5.0)
    assert [float(loss) for loss in outer.losses] == [15.0]
    assert global_random_state() != [1, 7]  # it draws without a seed
    if not IS_JAX:
        return
    # Within another scope, as a step on JAX is.
    with keras.StatelessScope([(layer.calls, ops.convert_to_tensor(7.0))], collect_losses=True) as scope:
        with backend.replaced_values(outer, [(layer.kernel, ops.convert_to_tensor(2.0))]):
            layer(ops.ones((2,)))
        assert [float(loss) for loss in layer.losses] == [6.0]
    assert float(scope.get_current_value(layer.calls)) == 9.0
    assert float(layer.calls) == 5.0


def test_a_forgotten_step_is_compiled_again() -> None:
    model = fitted(Net())
    before = model.train_function
    assert before is not None
    model.forget_compiled_steps()
    assert model.train_function is None
    model.fit(np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32), verbose=0, shuffle=False)
    assert model.train_function not in (None, before)


def test_functional_models_are_told_from_subclasses_and_layers_are_listed() -> None:
    layers = layers_of(fitted(Net()))
    assert {type(layer).__name__ for layer in layers} >= {"Net", "Sequential", "Dense"}
    assert all(isinstance(layer.supports_jit, bool) for layer in layers)
    x = keras.Input((1,))
    models = keras.Model(x, keras.layers.Dense(1)(x)), keras.Sequential([keras.layers.Dense(1)]), Net()
    assert [is_functional(model) for model in models] == [True, True, False]
    # In the order of their definition.
    layer = keras.layers.Layer()
    layer.second, layer.many = keras.layers.Dense(2), [keras.layers.Dense(3), {"a": keras.layers.Flatten()}]
    layer.first = keras.layers.Dense(1)
    assert sublayers(layer) == [layer.second, layer.many[0], layer.many[1]["a"], layer.first]


def test_an_evaluation_ends_when_a_callback_asks() -> None:
    batches: list[int] = []

    class Stop(keras.callbacks.Callback):
        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            batches.append(batch)
            stop_evaluation(self.model)

    model, x = fitted(Net()), np.ones((6, 1), np.float32)
    model.evaluate(x, 0 * x, batch_size=2, verbose=0, callbacks=[Stop()])
    assert batches == [0]
