"""Numbers of the optimizer that schedules change while the compiled step stays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import keras

from tfaip.backend.keras_private.numbers import NumberVariable

# Numbers of all update rules, of the Keras classes that can read them from a variable.
OF_UPDATE_RULES: Mapping[str, tuple[str, ...]] = {
    "momentum": ("SGD", "RMSprop", "Muon"),
}


Number = TypeVar("Number", float, float | None)


class ScheduledNumbers:
    """Variables in the place of numbers of the optimizer params; the optimizer of the training owns them.

    Args:
        names: dotted paths of the numbers from the optimizer params.
        track: lets the optimizer own a variable.
    """

    def __init__(self, names: Collection[str], track: Callable[[keras.Variable], None]) -> None:
        self.variables: dict[str, keras.Variable] = {name: NumberVariable(1.0, name="scheduled") for name in names}
        for variable in self.variables.values():
            track(variable)

    def at(self, path: str, number: Number) -> Number | keras.Variable:
        """Return the variable in the place of a number, or the number if it is not scheduled."""
        return self.variables.get(path, number)

    def of_update_rule(self, place: str) -> dict[str, keras.Variable]:
        """Return the variables of the numbers of an update rule by field; its params are at a place."""
        names = [name for name in OF_UPDATE_RULES if f"{place}{name}" in self.variables]
        return {name: self.variables[f"{place}{name}"] for name in names}
