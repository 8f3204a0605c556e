"""Numbers of the author of a model that schedules may change: variables, which a compiled step reads."""

from __future__ import annotations

from collections.abc import Mapping

import keras


class ScheduledValue(keras.Variable):
    """Float32 scalar, read in the precision of the layer that computes with it.

    Args:
        name: of the number.
        declared: its value without a schedule.
    """

    def __init__(self, name: str, declared: float) -> None:
        self.declared = declared
        start = keras.initializers.Constant(declared)
        super().__init__(start, shape=(), dtype="float32", trainable=False, autocast=True, name=name)


class WithScheduledValues:
    """Layer, graph or model whose numbers schedules may change."""

    _scheduled_values: dict[str, ScheduledValue] | None = None

    @property
    def scheduled_values(self) -> Mapping[str, ScheduledValue]:
        """The numbers that were made with `scheduled`, by name."""
        return self._scheduled_values or {}

    def scheduled(self, name: str, value: float) -> keras.Variable:
        """Return a number that a schedule may change (`trainer.schedules`); call it in `__init__`.

        The target is `model.NAME` of a model, `graph.NAME` of a graph, `graph.encoder.NAME` of its layer
        `self.encoder`. The number of a graph or layer is stored with the weights: an exported model has the one that it
        was validated with.

        Args:
            name: of the number.
            value: without a schedule, whatever the weights hold that a training begins with.

        Returns:
            A float32 scalar variable, to compute with in `call`, `_loss` or `_metric`.

        Raises:
            ValueError: if the name is known, or is not an identifier.
        """
        if not name.isidentifier():
            raise ValueError(f"scheduled({name!r}): expected a name of letters, digits and underscores")
        if name in self.scheduled_values:
            raise ValueError(f"scheduled({name!r}) was called twice: keep what the first call returned")
        if self._scheduled_values is None:
            self._scheduled_values = {}
        self._scheduled_values[name] = made = ScheduledValue(name, float(value))
        return made
