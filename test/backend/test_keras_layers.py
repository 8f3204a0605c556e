"""What is used of Keras beyond its documentation, of layers and their calls: it exists, and does what we need."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

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
