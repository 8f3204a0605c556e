"""What is used of Keras beyond its documentation: it exists, and does what we need.

A test that fails here after an upgrade names what has changed; what to do about it is in the module that it names.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from tfaip.backend import keras_private
from tfaip.backend.active import backend
from tfaip.model.variables import variables_by_path

pytestmark = pytest.mark.backend

IS_JAX = keras.backend.backend() == "jax"
LAYER, MODEL, OPTIMIZER = "keras.layers.Layer", "keras.Model", "keras.optimizers.Optimizer"

# Where it is used, what, and the arguments that it is called with or is given.
NAMES = [
    ("keras_private.layers_of", MODEL, "_flatten_layers", []),
    ("keras_private.own_training_flag", LAYER, "_get_call_context", []),
    ("keras_private.own_training_flag", LAYER, "_maybe_reset_call_context", []),
    ("keras_private.call_with_values", LAYER, "_clear_losses", []),
    ("keras_private.RecordingScope", "keras.StatelessScope", "add_update", ["update"]),
    ("keras_private.OpenOptimizer", OPTIMIZER, "_track_variable", ["variable"]),
    ("keras_private.OpenOptimizer", OPTIMIZER, "_backend_apply_gradients", ["grads", "trainable_variables"]),
    (
        "keras_private.OpenOptimizer",
        OPTIMIZER,
        "_backend_update_step",
        ["grads", "trainable_variables", "learning_rate"],
    ),
    (
        "keras_private.SynchronousCallbacks",
        "keras.callbacks.CallbackList",
        "_configure_async_dispatch",
        ["callbacks"],
    ),
]


def find(path: str) -> Any:
    """`keras.layers.Layer`."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_sublayers_in_the_order_of_their_definition() -> None:
    layer = keras.layers.Layer()
    layer.second, layer.many = keras.layers.Dense(2), [keras.layers.Dense(3), {"a": keras.layers.Flatten()}]
    layer.first = keras.layers.Dense(1)
    expected = [layer.second, layer.many[0], layer.many[1]["a"], layer.first]
    assert keras_private.sublayers(layer) == expected


@pytest.mark.parametrize(("user", "owner", "name", "arguments"), NAMES)
def test_a_method_exists(user: str, owner: str, name: str, arguments: list[str]) -> None:
    method = getattr(find(owner), name, None)
    assert method is not None, f"{owner}.{name} is gone: tfaip.backend.{user} needs another way"
    known = list(inspect.signature(method).parameters)[1:]
    assert known[: len(arguments)] == arguments, f"{owner}.{name} takes {known}: mend tfaip.backend.{user}"


def test_calls_with_keras_tensors_are_recorded() -> None:
    dense = keras.layers.Dense(2)
    x = keras.Input((3,))
    (y,) = keras_private.SymbolicCall(dense, (x,), {}, [dense(x)]).outputs
    call = keras_private.symbolic_call(y)
    assert call is not None
    assert (call.operation, call.args, list(call.outputs)) == (dense, (x,), [y])
    assert [found.operation for found in keras_private.recorded_calls(dense)] == [dense]
    product = keras_private.symbolic_call(ops.matmul(x, dense.kernel))
    assert product is not None
    assert type(product.operation).__name__ == "Matmul"
    assert product.args[1] is dense.kernel


def test_variables_take_part_in_symbolic_arithmetic_for_a_while() -> None:
    variable, x = keras.Variable(np.ones(3, np.float32)), keras.Input((3,))
    with keras_private.variables_in_symbolic_calls():
        for result in (variable * x, x + variable, variable - x, variable / x, variable**x):
            assert isinstance(result, keras.KerasTensor)
        assert isinstance(x @ keras.Variable(np.ones((3, 2), np.float32)), keras.KerasTensor)
        assert ops.convert_to_numpy(variable * 2).tolist() == [2, 2, 2]
    with pytest.raises((TypeError, ValueError)):
        variable * x


def test_the_layers_of_an_attention() -> None:
    for layer in (keras.layers.MultiHeadAttention(2, 3), keras.layers.GroupQueryAttention(3, 4, 2)):
        x = keras.Input((5, 6))
        layer(x, x)
        parts = keras_private.attention_layers(layer)
        assert [name for name, part in parts.items() if part is None] == ["gate"]
        assert parts["query"].kernel.shape[0] == 6
    assert isinstance(keras.layers.ConvLSTM1D(1, 1).cell, keras_private.ConvLSTMCell)


class Net(keras_private.BuiltModel):
    """One layer, in a layer, in a model."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])

    def call(self, x: Any, training: bool | None = None) -> Any:
        return self.inner(x)


def fitted(model: keras.Model, **arguments: Any) -> keras.Model:
    model.compile(optimizer=keras.optimizers.SGD(0.5), loss="mae", **arguments)
    model.fit(np.ones((4, 1), np.float32), np.zeros((4, 1), np.float32), batch_size=2, verbose=0, shuffle=False)
    return model


def test_the_mean_of_the_loss_is_a_metric_that_fit_updates() -> None:
    model = fitted(Net())
    tracker = keras_private.loss_tracker(model)
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
    assert {type(layer).__name__ for layer in keras_private.layers_of(model)} >= {"Net", "Sequential", "Dense"}
    assert all(isinstance(layer.supports_jit, bool) for layer in keras_private.layers_of(model))


def test_functional_models_are_told_from_subclasses() -> None:
    x = keras.Input((1,))
    assert keras_private.is_functional(keras.Model(x, keras.layers.Dense(1)(x)))
    assert keras_private.is_functional(keras.Sequential([keras.layers.Dense(1)]))
    assert not keras_private.is_functional(Net())


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
    assert set(variables_by_path(layer)) == {
        "drop/seed_generator/state",
        "mine/0/bias",
        "mine/0/kernel",
        "weight",
    }
    missing = keras_private.COLLECTIONS - set(vars(layer))
    assert not missing, f"Keras has no {missing} any more: see keras_private.COLLECTIONS"


class Outer(keras.layers.Layer):
    """Calls another layer in another mode, and then asks for its own."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.inner, self.drop, self.keeps = keras.layers.Dropout(0.5, seed=1), keras.layers.Dropout(0.5, seed=1), keeps

    def call(self, x: Any, training: bool | None = None) -> Any:
        if self.keeps:
            with keras_private.own_training_flag(self.inner):
                self.inner(x, training=False)
        else:
            self.inner(x, training=False)
        return self.drop(x)


def test_a_nested_call_keeps_the_training_flag_of_the_caller() -> None:
    x = np.ones((1, 100), np.float32)
    assert set(np.unique(ops.convert_to_numpy(Outer(True)(x, training=True)))) == {0.0, 2.0}
    # What it is needed for: without it no dropout acts.
    assert set(np.unique(ops.convert_to_numpy(Outer(False)(x, training=True)))) == {1.0}


def test_assigned_variables_are_recorded() -> None:
    metric = keras.metrics.Mean(name="mine")
    with keras_private.RecordingScope() as scope:
        metric.update_state(np.ones(2, np.float32))
    assert {id(variable) for variable in scope.assigned} == {id(variable) for variable in metric.variables}
    assert {variable.path.partition("/")[0] for variable in scope.assigned} == {"mine"}
    assert float(metric.result()) == 0


def test_the_optimizer_calls_what_replaces_its_steps() -> None:
    calls: list[str] = []

    class Recording(keras.optimizers.SGD, keras_private.OpenOptimizer):
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


def test_callbacks_run_in_the_thread_of_the_training() -> None:
    listed = keras_private.SynchronousCallbacks([keras.callbacks.Callback()], add_history=False, add_progbar=False)
    assert [listed._async_train, listed._async_test, listed._async_predict] == [False, False, False]


def test_the_generator_without_a_seed_has_a_state() -> None:
    before = keras_private.global_random_state()
    keras_private.set_global_random_state([1, 7])
    first = ops.convert_to_numpy(keras.random.normal((2,)))
    assert keras_private.global_random_state() != [1, 7]
    keras_private.set_global_random_state([1, 7])
    np.testing.assert_array_equal(ops.convert_to_numpy(keras.random.normal((2,))), first)
    keras_private.forget_global_random_state()
    assert keras_private.global_random_state() is None
    if before is not None:
        keras_private.set_global_random_state(before)


@pytest.mark.parametrize("name", ["stop_training", "stop_evaluating"])
def test_fit_and_evaluate_end_when_a_callback_asks(name: str) -> None:
    batches: list[int] = []

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            batches.append(batch)
            if name == "stop_training":
                self.model.stop_training = True
            else:
                keras_private.stop_evaluation(self.model)

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


def test_masks_of_layers_are_found() -> None:
    words = np.array([[3, 0], [1, 2]])
    embedded = keras.layers.Embedding(4, 2, mask_zero=True)(words)
    mask = keras_private.mask_of(keras.layers.Dense(3)(embedded))
    assert keras.ops.convert_to_numpy(mask).tolist() == [[True, False], [True, True]]
    assert keras_private.mask_of(keras.layers.Dense(3)(np.ones((2, 2)))) is None


def test_a_function_becomes_a_loss_as_in_compile() -> None:
    loss = keras_private.FunctionLoss(lambda y_true, y_pred: y_pred - y_true)
    # Of one rank: without that they would be broadcast to a matrix.
    values = loss.call(keras.ops.convert_to_tensor([[1.0], [2.0]]), keras.ops.convert_to_tensor([3.0, 5.0]))
    assert keras.ops.convert_to_numpy(values).reshape(-1).tolist() == [2, 3]
    assert float(loss(np.array([[1.0], [2.0]]), np.array([3.0, 5.0]))) == 2.5


def test_names_of_objects_are_those_that_keras_counts() -> None:
    assert keras_private.snake_case("SparseTopKCategoricalAccuracy") == "sparse_top_k_categorical_accuracy"
    assert keras.metrics.AUC().name.startswith(keras_private.snake_case("AUC"))


@pytest.mark.parametrize("name", ["Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"])
def test_a_dropout_layer_with_a_rate_that_changes(name: str) -> None:
    layer = getattr(keras.layers, name)(0.0)
    shape = {"Dropout": (4, 6), "SpatialDropout1D": (4, 3, 6), "SpatialDropout2D": (4, 3, 2, 6)}.get(
        name, (4, 2, 3, 2, 6)
    )
    x = np.ones(shape, np.float32)
    layer(x, training=True)
    rate = keras_private.NumberVariable(0.5)
    keras_private.set_dropout_rate(layer, rate, seed=1)
    kept = ops.convert_to_numpy(layer(x, training=True))
    assert set(kept.ravel()) == {0.0, 2.0}
    if name != "Dropout":
        # One draw for each sample and channel.
        flat = kept.reshape(4, -1, 6)
        assert (flat == flat[:, :1]).all()
    assert (ops.convert_to_numpy(layer(x, training=False)) == 1).all()
    rate.assign(1.0)
    assert not ops.convert_to_numpy(layer(x, training=True)).any()
    rate.assign(0.0)
    assert (ops.convert_to_numpy(layer(x, training=True)) == 1).all()
    assert layer.get_config()["rate"] == 0.0
    keras_private.reset_dropout_rate(layer)
    rate.assign(1.0)
    assert (ops.convert_to_numpy(layer(x, training=True)) == 1).all()


def test_gaussian_dropout_with_a_rate_that_changes() -> None:
    layer = keras.layers.GaussianDropout(0.2)
    rate = keras_private.NumberVariable(0.8)
    keras_private.set_dropout_rate(layer, rate, seed=1)
    drawn = ops.convert_to_numpy(layer(np.ones((10_000,), np.float32), training=True))
    # Mean 1 and variance 0.8 / 0.2.
    assert abs(drawn.mean() - 1) < 4 * 2 / 100
    assert abs(drawn.var() - 4) < 4 * 4 * np.sqrt(2 / 10_000)


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
    with keras_private.replaced_values(outer, [(layer.kernel, ops.convert_to_tensor(5.0))]):
        result = layer(ops.ones((2,)))
    assert ops.convert_to_numpy(result).tolist() == [5, 5]
    assert (float(layer.kernel), float(layer.calls)) == (1.0, 5.0)
    assert [float(loss) for loss in outer.losses] == [15.0]
    # Within another scope, as a step on JAX is.
    with keras.StatelessScope([(layer.calls, ops.convert_to_tensor(7.0))], collect_losses=True) as scope:
        with keras_private.replaced_values(outer, [(layer.kernel, ops.convert_to_tensor(2.0))]):
            layer(ops.ones((2,)))
        assert [float(loss) for loss in layer.losses] == [6.0]
    assert float(scope.get_current_value(layer.calls)) == 9.0
    assert float(layer.calls) == 5.0
