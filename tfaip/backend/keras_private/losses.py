"""Private names of losses and metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import keras
from keras.src.backend.common.global_state import get_global_attribute
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


@contextmanager
def metrics_named_by(counts: dict[str, int]) -> Iterator[dict[str, int]]:
    """Context in which metrics without a name are counted for one model, and not over the whole process.

    Args:
        counts: names that the model has had so far; what is made in the block is added.
    """
    process = get_global_attribute("object_name_uids", defaultdict(int), set_to_default=True)
    classes: list[type] = [keras.metrics.Metric]
    for cls in classes:  # which grows
        classes += cls.__subclasses__()
    names = {snake_case(cls.__name__) for cls in classes}
    before = {name: process.pop(name) for name in names if name in process}
    process.update(counts)
    try:
        yield counts
    finally:
        counts.update({name: process[name] for name in names if name in process})
        for name, count in before.items():
            process[name] = max(count, process[name])  # operations may have such names too
