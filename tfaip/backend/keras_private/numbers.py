"""Variables in the place of numbers of Keras objects."""

from __future__ import annotations

from typing import Any

import keras


class NumberVariable(keras.Variable):
    """Variable in the place of a number above 0.

    Some objects of Keras ask `if self.momentum > 0` to leave an operation out. The answer for a
    variable is always yes.

    Args:
        value: at the beginning; it stays in the attribute `declared`.
        name: of the variable.
        autocast: read it in the precision of the layer that computes with it.
    """

    def __init__(self, value: float, name: str | None = None, autocast: bool = False) -> None:
        self.declared = value
        start = keras.initializers.Constant(value)
        super().__init__(start, shape=(), dtype="float32", trainable=False, autocast=autocast, name=name)

    def __gt__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True

    __hash__ = keras.Variable.__hash__


def set_number(target: Any, name: str, variable: keras.Variable) -> None:
    """Put a variable in the place of a number of an object of Keras, which does not take the variable as its own."""
    object.__setattr__(target, name, variable)
