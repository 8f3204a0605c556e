"""A constraint of Keras by name and arguments; written by `tools/keras_objects.py`. Needs no backend."""

from __future__ import annotations

from dataclasses import field

from tfaip.model.keras_objects.base import CustomObject, KerasObject
from tfaip.params import pai_meta
from tfaip.params.limits import limits


class Constraint(KerasObject, kind="keras.constraints:Constraint", functions=False):
    """A constraint of Keras, or one of the user."""


class CustomConstraint(CustomObject, Constraint):
    """A constraint that is not one of Keras."""


class MaxNorm(Constraint, cls="keras.constraints:MaxNorm", names=("max_norm",)):
    """MaxNorm weight constraint."""

    max_value: float = field(default=2.0, metadata=pai_meta(help="Largest norm") | limits(low=0))
    axis: int = field(default=0, metadata=pai_meta(help="Axis of the features"))


class MinMaxNorm(Constraint, cls="keras.constraints:MinMaxNorm", names=("min_max_norm",)):
    """MinMaxNorm weight constraint."""

    min_value: float = field(default=0.0, metadata=pai_meta(help="Smallest norm") | limits(low=0))
    max_value: float = field(default=1.0, metadata=pai_meta(help="Largest norm") | limits(low=0))
    rate: float = field(
        default=1.0, metadata=pai_meta(help="Share of the way to the allowed norm per update") | limits(low=0, high=1)
    )
    axis: int = field(default=0, metadata=pai_meta(help="Axis of the features"))


class NonNeg(Constraint, cls="keras.constraints:NonNeg", names=("non_neg",)):
    """Constrains the weights to be non-negative."""


class UnitNorm(Constraint, cls="keras.constraints:UnitNorm", names=("unit_norm",)):
    """Constrains the weights incident to each hidden unit to have unit norm."""

    axis: int = field(default=0, metadata=pai_meta(help="Axis of the features"))
