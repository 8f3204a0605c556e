"""A regularizer of Keras by name and arguments; written by `tools/keras_objects.py`. Needs no backend."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from tfaip.model.keras_objects.base import CustomObject, KerasObject
from tfaip.params import pai_meta
from tfaip.params.limits import limits


class Regularizer(KerasObject, kind="keras.regularizers:Regularizer", functions=False):
    """A regularizer of Keras, or one of the user."""


class CustomRegularizer(CustomObject, Regularizer):
    """A regularizer that is not one of Keras."""


class L1(Regularizer, cls="keras.regularizers:L1", names=("l1",)):
    """A regularizer that applies a L1 regularization penalty."""

    l1: float = field(default=0.01, metadata=pai_meta(help="Factor of the sum of absolute values") | limits(low=0))


class L1L2(Regularizer, cls="keras.regularizers:L1L2", names=("l1l2",)):
    """A regularizer that applies both L1 and L2 regularization penalties."""

    l1: float = field(default=0.0, metadata=pai_meta(help="Factor of the sum of absolute values") | limits(low=0))
    l2: float = field(default=0.0, metadata=pai_meta(help="Factor of the sum of squares") | limits(low=0))


class L2(Regularizer, cls="keras.regularizers:L2", names=("l2",)):
    """A regularizer that applies a L2 regularization penalty."""

    l2: float = field(default=0.01, metadata=pai_meta(help="Factor of the sum of squares") | limits(low=0))


class OrthogonalRegularizer(
    Regularizer, cls="keras.regularizers:OrthogonalRegularizer", names=("orthogonal_regularizer",)
):
    """Regularizer that encourages input vectors to be orthogonal to each other."""

    factor: float = field(default=0.01, metadata=pai_meta(help="Factor of the penalty") | limits(low=0))
    mode: Literal["rows", "columns"] = field(default="rows", metadata=pai_meta(help="What is to be orthogonal"))
