"""Classes that Keras does not know by itself when it loads a model."""

from __future__ import annotations

import keras

from tfaip.params.trust import top_package

_KINDS = (
    keras.layers.Layer,
    keras.losses.Loss,
    keras.metrics.Metric,
    keras.initializers.Initializer,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
    keras.optimizers.Optimizer,
    keras.optimizers.schedules.LearningRateSchedule,
)


def custom_objects() -> dict[str, type]:
    """Return all imported layers, losses, metrics and the like that are not part of Keras, by name."""
    found: dict[str, type] = {}
    for kind in _KINDS:
        _collect(kind, found)
    return found


def _collect(cls: type, found: dict[str, type]) -> None:
    subclasses: list[type] = type.__subclasses__(cls)
    for subclass in subclasses:
        if top_package(subclass.__module__) != "keras":
            found[subclass.__name__] = subclass
        _collect(subclass, found)
