"""Objects of Keras that a user has written."""

import os
from typing import Any

import keras

from tfaip.params import nameable

getcwd = os.getcwd


@keras.saving.register_keras_serializable("own_objects")
class Scaled(keras.initializers.Initializer):
    """All weights are `factor`."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return keras.ops.full(shape, self.factor, dtype)

    def get_config(self) -> dict[str, Any]:
        return {"factor": self.factor}


def double(x: Any, factor: float = 2.0) -> Any:
    return factor * x


def absolute(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.abs(y_true - y_pred)


@nameable
def squared(y_true: Any, y_pred: Any) -> Any:
    return (y_true - y_pred) ** 2


class NoObject:
    """Of another kind."""
