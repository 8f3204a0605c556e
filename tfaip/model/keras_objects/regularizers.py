"""Regularizers of Keras as params; written by `tools/keras_objects.py`. Needs no backend."""

from __future__ import annotations

from typing import Literal

from tfaip.model.keras_objects.base import CustomObject, KerasObject
from tfaip.params.options import option


class Regularizer(KerasObject, kind="keras.regularizers:Regularizer", functions=False):
    """A regularizer of Keras, or one of the user."""


class CustomRegularizer(CustomObject, Regularizer):
    """A regularizer that is not one of Keras."""


class L1(Regularizer, cls="keras.regularizers:L1", names=("l1",)):
    """A regularizer that applies a L1 regularization penalty."""

    l1: float = option(0.01, "Factor of the sum of absolute values", low=0)


class L1L2(Regularizer, cls="keras.regularizers:L1L2", names=("l1l2",)):
    """A regularizer that applies both L1 and L2 regularization penalties."""

    l1: float = option(0.0, "Factor of the sum of absolute values", low=0)
    l2: float = option(0.0, "Factor of the sum of squares", low=0)


class L2(Regularizer, cls="keras.regularizers:L2", names=("l2",)):
    """A regularizer that applies a L2 regularization penalty."""

    l2: float = option(0.01, "Factor of the sum of squares", low=0)


class OrthogonalRegularizer(
    Regularizer, cls="keras.regularizers:OrthogonalRegularizer", names=("orthogonal_regularizer",)
):
    """Regularizer that encourages input vectors to be orthogonal to each other."""

    factor: float = option(0.01, "Factor of the penalty", low=0)
    mode: Literal["rows", "columns"] = option("rows", "What is to be orthogonal")
