"""What is used of Keras beyond its documentation, of models, callbacks and layers: it does what we need."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.backend.support import IS_JAX, Net, fitted
from tfaip.backend.active import backend
from tfaip.backend.keras_private import stop_evaluation
from tfaip.backend.kerastools import (
    SynchronousCallbacks,
    is_functional,
    layers_of,
    own_training_flag,
    sublayers,
    watched_methods,
)
from tfaip.model.variables import variables_by_path

pytestmark = pytest.mark.backend


def test_the_mean_of_the_loss_is_a_metric_that_fit_updates() -> None:
    model = fitted(Net())
    tracker = model.loss_mean
    assert isinstance(tracker, keras.metrics.Mean)
    assert tracker in model.metrics
    # The weight is 1 and 0.5.
    assert float(tracker.result()) == pytest.approx(0.75)


def test_a_forgotten_step_is_compiled_again() -> None:
    model = fitted(Net())
    before = model.train_function
    assert before is not None
    model.forget_compiled_steps()
    assert model.train_function is None
    model.fit(np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32), verbose=0, shuffle=False)
    assert model.train_function not in (None, before)


@pytest.mark.skipif(not IS_JAX, reason="TensorFlow changes the variables themselves")
def test_jax_keeps_its_state_under_the_name_that_is_not_tracked() -> None:
    states: list[Any] = []
    synchronized: list[float] = []

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            states.append(vars(self.model).get("_jax_state"))
            backend.synchronize(self.model)
            synchronized.append(float(self.model.weights[0][0, 0]))

    model = Net()
    model.compile(optimizer=keras.optimizers.SGD(0.5), loss="mae")
    model.fit(np.ones((4, 1), np.float32), np.zeros((4, 1), np.float32), batch_size=2, verbose=0, callbacks=[Look()])
    assert all(isinstance(state, dict) for state in states), "Keras keeps the state of JAX under another name"
    # A tracked dict would have become another type.
    assert {type(state) for state in states} == {dict}
    assert synchronized == [0.5, 0.0]


def test_functional_models_are_told_from_subclasses_and_all_layers_are_listed() -> None:
    layers = layers_of(fitted(Net()))
    assert {type(layer).__name__ for layer in layers} >= {"Net", "Sequential", "Dense"}
    assert all(isinstance(layer.supports_jit, bool) for layer in layers)
    x = keras.Input((1,))
    assert is_functional(keras.Model(x, keras.layers.Dense(1)(x)))
    assert is_functional(keras.Sequential([keras.layers.Dense(1)]))
    assert not is_functional(Net())


def test_callbacks_run_in_the_thread_of_the_training() -> None:
    class Safe(keras.callbacks.Callback):
        async_safe = True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            threads.append(threading.current_thread())

    threads: list[threading.Thread] = []
    listed = SynchronousCallbacks([Safe()], add_history=False, add_progbar=False)
    listed.on_train_begin()
    listed.on_train_batch_end(0)
    listed.on_train_end()
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize("name", ["stop_training", "stop_evaluating"])
def test_fit_and_evaluate_end_when_a_callback_asks(name: str) -> None:
    batches: list[int] = []

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            batches.append(batch)
            if name == "stop_training":
                self.model.stop_training = True
            else:
                stop_evaluation(self.model)

        on_test_batch_end = on_train_batch_end

    model, x = fitted(Net()), np.ones((6, 1), np.float32)
    run = partial(model.fit, shuffle=False) if name == "stop_training" else model.evaluate
    run(x, 0 * x, batch_size=2, verbose=0, callbacks=[Stop()])
    assert batches == [0]


def test_sublayers_in_the_order_of_their_definition() -> None:
    layer = keras.layers.Layer()
    layer.second, layer.many = keras.layers.Dense(2), [keras.layers.Dense(3), {"a": keras.layers.Flatten()}]
    layer.first = keras.layers.Dense(1)
    expected = [layer.second, layer.many[0], layer.many[1]["a"], layer.first]
    assert sublayers(layer) == expected


def test_calls_of_layers_are_watched_for_a_while() -> None:
    inner, outer = keras.layers.Dense(1, kernel_initializer="ones"), keras.Sequential()
    outer.add(inner)
    own = keras.layers.Layer()
    object.__setattr__(own, "call", lambda x: x + 1)  # as somebody may have done before
    seen: list[tuple[str, list[float]]] = []

    def watch(layer: keras.layers.Layer, call: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        seen.append((layer.name, ops.convert_to_numpy(result).ravel().tolist()))
        return result * 10

    x = ops.ones((1, 2))
    with watched_methods([outer, inner, own], "call", watch):
        assert ops.convert_to_numpy(own(outer(x))).tolist() == [[2010.0]]
    assert seen == [(inner.name, [2.0]), (outer.name, [20.0]), (own.name, [201.0])]
    assert ops.convert_to_numpy(own(outer(x))).tolist() == [[3.0]]
    assert ["call" in vars(layer) for layer in (outer, inner, own)] == [False, False, True]


def test_collections_of_keras_are_left_out_of_the_paths_of_weights() -> None:
    class Own(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.mine = [keras.layers.Dense(1)]
            self.drop = keras.layers.Dropout(0.5, seed=1)
            self.weight = self.add_weight((1,))

        def call(self, x: Any) -> Any:
            return self.drop(self.mine[0](x)) * self.weight

    layer = Own()
    layer(keras.Input((1,)))
    assert set(variables_by_path(layer)) == {"drop/seed_generator/state", "mine/0/bias", "mine/0/kernel", "weight"}


class Outer(keras.layers.Layer):
    """Calls another layer in another mode, and then asks for its own."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.inner, self.drop, self.keeps = keras.layers.Dropout(0.5, seed=1), keras.layers.Dropout(0.5, seed=1), keeps

    def call(self, x: Any, training: bool | None = None) -> Any:
        if self.keeps:
            with own_training_flag():
                self.inner(x, training=False)
        else:
            self.inner(x, training=False)
        return self.drop(x)


def test_a_nested_call_keeps_the_training_flag_of_the_caller() -> None:
    x = np.ones((1, 100), np.float32)
    assert set(np.unique(ops.convert_to_numpy(Outer(True)(x, training=True)))) == {0.0, 2.0}
    # What it is needed for: without it no dropout acts.
    assert set(np.unique(ops.convert_to_numpy(Outer(False)(x, training=True)))) == {1.0}
