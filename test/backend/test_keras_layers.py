"""What is used of Keras beyond its documentation, of layers and their calls: it exists, and does what we need."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from tfaip.backend.keras_private.dropout import reset_dropout_rate, set_dropout_rate
from tfaip.backend.keras_private.numbers import NumberVariable
from tfaip.backend.kerastools import own_training_flag, sublayers, watched_methods
from tfaip.model.variables import variables_by_path

pytestmark = pytest.mark.backend


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
    assert set(variables_by_path(layer)) == {
        "drop/seed_generator/state",
        "mine/0/bias",
        "mine/0/kernel",
        "weight",
    }


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


@pytest.mark.parametrize("name", ["Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"])
def test_a_dropout_layer_with_a_rate_that_changes(name: str) -> None:
    layer = getattr(keras.layers, name)(0.0)
    shape = {"Dropout": (4, 6), "SpatialDropout1D": (4, 3, 6), "SpatialDropout2D": (4, 3, 2, 6)}.get(
        name, (4, 2, 3, 2, 6)
    )
    x = np.ones(shape, np.float32)
    layer(x, training=True)
    rate = NumberVariable(0.5)
    set_dropout_rate(layer, rate, seed=1)
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
    reset_dropout_rate(layer)
    rate.assign(1.0)
    assert (ops.convert_to_numpy(layer(x, training=True)) == 1).all()


def test_gaussian_dropout_with_a_rate_that_changes() -> None:
    layer = keras.layers.GaussianDropout(0.2)
    rate = NumberVariable(0.8)
    set_dropout_rate(layer, rate, seed=1)
    drawn = ops.convert_to_numpy(layer(np.ones((10_000,), np.float32), training=True))
    # Mean 1 and variance 0.8 / 0.2.
    assert abs(drawn.mean() - 1) < 4 * 2 / 100
    assert abs(drawn.var() - 4) < 4 * 4 * np.sqrt(2 / 10_000)
