"""What is used of Keras beyond its documentation, of models and callbacks: it exists, and does what we need."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import keras
import numpy as np
import pytest

from test.backend.support import IS_JAX, Net, fitted
from tfaip.backend.active import backend
from tfaip.backend.keras_private import stop_evaluation
from tfaip.backend.kerastools import SynchronousCallbacks, is_functional, layers_of

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


@pytest.mark.skipif(IS_JAX, reason="JAX builds a model from the first step")
def test_tensorflow_asks_before_it_builds_a_model_from_data() -> None:
    assert "_maybe_symbolic_build" in vars(
        importlib.import_module("keras.src.backend.tensorflow.trainer").TensorFlowTrainer
    )


def test_all_layers_are_listed() -> None:
    model = fitted(Net())
    assert {type(layer).__name__ for layer in layers_of(model)} >= {"Net", "Sequential", "Dense"}
    assert all(isinstance(layer.supports_jit, bool) for layer in layers_of(model))


def test_functional_models_are_told_from_subclasses() -> None:
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

    model = fitted(Net())
    run = model.fit if name == "stop_training" else model.evaluate
    options = {"shuffle": False} if name == "stop_training" else {}
    run(
        np.ones((6, 1), np.float32),
        np.zeros((6, 1), np.float32),
        batch_size=2,
        verbose=0,
        callbacks=[Stop()],
        **options,
    )
    assert batches == [0]
