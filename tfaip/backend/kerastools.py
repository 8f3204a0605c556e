"""Small functions around the public interface of Keras, the same on both backends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras


def keras_inputs(specs: Mapping[str, tuple[tuple[int | None, ...], str]]) -> dict[str, Any]:
    """Return one `keras.Input` (a KerasTensor with a batch dimension) for each key.

    Args:
        specs: shape without the batch dimension, and dtype, by key.
    """
    return {key: keras.Input(shape=shape, dtype=dtype, name=key) for key, (shape, dtype) in specs.items()}


def value_of(variable: keras.Variable) -> int:
    """Return the value of an integer variable, also of one that has a copy on each of several devices."""
    # Such a variable has no number: `int(variable)` and `convert_to_numpy` fail under MirroredStrategy, arithmetic
    # reads it.
    return int(variable + 0)
