"""Private names of losses and metrics."""

from __future__ import annotations

from typing import Any

import keras
from keras.src.backend.common.masking import get_keras_mask
from keras.src.losses.losses import LossFunctionWrapper
from keras.src.utils.naming import to_snake_case

from tfaip.util.typing import Tensor


def mask_of(tensor: Tensor) -> Tensor | None:
    """Return the mask that layers have attached to a tensor; None: none."""
    return get_keras_mask(tensor)


class FunctionLoss(LossFunctionWrapper):
    """The loss that `compile` makes of a function: it gives target and output the same rank."""


def has_label_smoothing(loss: Any) -> bool:
    """Return True if a loss smooths labels by a number that can be a variable, see `set_label_smoothing`."""
    return isinstance(loss, LossFunctionWrapper) and "label_smoothing" in loss._fn_kwargs


def set_label_smoothing(loss: Any, value: float | keras.Variable) -> float | keras.Variable:
    """Let a loss smooth labels by another number; return the one before. A new object would lose its other settings."""
    before: float | keras.Variable = loss._fn_kwargs["label_smoothing"]
    loss._fn_kwargs["label_smoothing"] = value
    return before


def snake_case(name: str) -> str:
    """Return the name that Keras gives to the first object of a class."""
    return to_snake_case(name)
