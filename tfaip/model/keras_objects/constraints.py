"""Constraints of Keras as params; written by `tools/keras_objects.py`. Needs no backend."""

from __future__ import annotations

from tfaip.model.keras_objects.base import CustomObject, KerasObject
from tfaip.params.options import option


class Constraint(KerasObject, kind="keras.constraints:Constraint", functions=False):
    """A constraint of Keras, or one of the user."""


class CustomConstraint(CustomObject, Constraint):
    """A constraint that is not one of Keras."""


class MaxNorm(Constraint, cls="keras.constraints:MaxNorm", names=("max_norm",)):
    """MaxNorm weight constraint."""

    max_value: float = option(2.0, "Largest norm", low=0)
    axis: int = option(0, "Axis of the features")


class MinMaxNorm(Constraint, cls="keras.constraints:MinMaxNorm", names=("min_max_norm",)):
    """MinMaxNorm weight constraint."""

    min_value: float = option(0.0, "Smallest norm", low=0)
    max_value: float = option(1.0, "Largest norm", low=0)
    rate: float = option(1.0, "Share of the way to the allowed norm per update", low=0, high=1)
    axis: int = option(0, "Axis of the features")


class NonNeg(Constraint, cls="keras.constraints:NonNeg", names=("non_neg",)):
    """Constrains the weights to be non-negative."""


class UnitNorm(Constraint, cls="keras.constraints:UnitNorm", names=("unit_norm",)):
    """Constrains the weights incident to each hidden unit to have unit norm."""

    axis: int = option(0, "Axis of the features")
