"""Private names of losses and metrics."""

from __future__ import annotations

from keras.src.backend.common.masking import get_keras_mask, set_keras_mask
from keras.src.losses.losses import LossFunctionWrapper
from keras.src.utils.naming import to_snake_case

from tfaip.util.typing import Tensor


def mask_of(tensor: Tensor) -> Tensor | None:
    """Return the mask that layers have attached to a tensor; None: none."""
    return get_keras_mask(tensor)


def attach_mask(tensor: Tensor, mask: Tensor | None) -> None:
    """Attach a mask to a tensor, as layers do; None: nothing is attached."""
    set_keras_mask(tensor, mask)


class FunctionLoss(LossFunctionWrapper):
    """The loss that `compile` makes of a function: it gives target and output the same rank."""


def snake_case(name: str) -> str:
    """Return the name that Keras gives to the first object of a class."""
    return to_snake_case(name)
