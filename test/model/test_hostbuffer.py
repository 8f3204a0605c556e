"""Copies of variables in kept memory: the memory stays, and the variables are updated in place."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tfaip.backend.active import backend
from tfaip.model.weights import HostBuffer

pytestmark = pytest.mark.backend


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_a_copy_uses_the_memory_of_the_one_before() -> None:
    variables = {"a": keras.Variable(np.arange(6.0).reshape(2, 3)), "b": keras.Variable(7, dtype="int32")}
    buffer = HostBuffer()
    first = buffer.fill(variables)
    assert (first["a"].tolist(), first["b"].tolist()) == ([[0, 1, 2], [3, 4, 5]], 7)
    addresses = {name: address(array) for name, array in first.items()}
    variables["a"].assign(np.full((2, 3), 9.0))
    assert first["a"][0, 1] == 1
    second = buffer.fill(variables)
    assert (second["a"][0, 1], second["b"].dtype) == (9, np.int32)
    assert {name: address(array) for name, array in second.items()} == addresses


def test_training_stays_in_the_same_memory_after_a_copy() -> None:
    """JAX gives the arrays of a step to the next one, TensorFlow changes them in place; unless a view is alive."""
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, "relu", kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    x, y = np.ones((4, 32), np.float32), np.ones((4, 64), np.float32)
    kernel, buffer = {"kernel": model.layers[0].kernel}, HostBuffer()
    model.fit(x, y, shuffle=False, verbose=0)
    places, copies = [], []
    for _ in range(3):
        places.append(address(backend.host_view(kernel["kernel"])))
        copies.append(buffer.fill(kernel)["kernel"].copy())
        model.fit(x, y, shuffle=False, verbose=0)
    assert not np.array_equal(copies[0], copies[1])
    assert places[1:] == places[:-1]
    view = backend.host_view(kernel["kernel"])
    model.fit(x, y, shuffle=False, verbose=0)
    assert address(backend.host_view(kernel["kernel"])) != address(view)


def test_held_arrays_are_not_overwritten() -> None:
    same, changed = keras.Variable([1.0, np.nan]), keras.Variable([2.0])
    other, buffer = keras.Variable([3.0]), HostBuffer()
    held = buffer.hold({"same": same, "changed": changed})
    changed.assign([5.0])
    filled = buffer.fill({"same": same, "changed": changed, "other": other})
    assert (held["changed"].tolist(), filled["changed"].tolist(), filled["other"].tolist()) == ([2], [5], [3])
    assert address(filled["same"]) == address(held["same"])
    assert address(filled["changed"]) != address(held["changed"])
    # What took the place of a held array is itself kept from then on.
    buffer.release()
    changed.assign([6.0])
    again = buffer.fill({"same": same, "changed": changed, "other": other})
    assert {name: address(array) for name, array in again.items()} == {n: address(a) for n, a in filled.items()}
    assert (again["changed"].tolist(), held["changed"].tolist()) == ([6], [2])
