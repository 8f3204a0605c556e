"""Scheduled values that are set at the beginning of an epoch, and the params that have them; needs no backend."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tfaip.params.fields import below
from tfaip.params.tree import is_node, post_init
from tfaip.trainer.schedules.targets import schedules_of, type_of_data

# More epochs are not checked one by one before the first.
_CHECKED_EPOCHS = 10_000


class EpochValues:
    """Values of schedules at the beginning of each epoch.

    Args:
        params: the trainer params.

    Raises:
        FieldAdvice: if a target of the data is no number in the params; its path begins there.
    """

    def __init__(self, params: Any) -> None:
        self.params = params
        self.schedules = [schedule for schedule in schedules_of(params) if schedule.is_of_epoch]
        self._of_data = [schedule for schedule in self.schedules if schedule.is_of_data]
        self._whole = [schedule.path for schedule in self._of_data if type_of_data(params, schedule) is int]

    def of_data(self, epoch: int) -> dict[str, float]:
        """Return the values of the data in an epoch (from 1) by path."""
        values = self.values(epoch)
        return {schedule.path: values[schedule.path] for schedule in self._of_data}

    def values(self, epoch: int) -> dict[str, float]:
        """Return all values of an epoch (from 1) by path, whole numbers of the data rounded."""
        values = {schedule.path: schedule.params.value(epoch - 1) for schedule in self.schedules}
        return {**values, **{path: int(values[path] + 0.5) for path in self._whole}}

    def logged(self, epoch: int) -> dict[str, float]:
        """Return the values of an epoch by the name of the target."""
        values = self.values(epoch)
        return {schedule.name: float(values[schedule.path]) for schedule in self.schedules}

    def params_of(self, epoch: int) -> Any:
        """Return a copy of the trainer params with the values of the data in an epoch; the rest is shared.

        Raises:
            FieldError: if a value is not allowed; its path begins at the trainer params.
        """
        params = self.params
        for path, value in self.of_data(epoch).items():
            params = with_value(params, path, value)
        return params

    def check_each(self, check: Callable[[Any], None]) -> None:
        """Call a function with the trainer params of every epoch, once for equal ones.

        Raises:
            FieldError: if a value is not allowed; its path begins at the trainer params.
        """
        epochs = self.params.epochs if self._of_data else 0
        distinct = {tuple(self.of_data(e).values()): e for e in [*range(1, min(epochs, _CHECKED_EPOCHS)), epochs]}
        for epoch in sorted(distinct.values()):
            check(self.params_of(epoch))


def with_value(owner: Any, path: str, value: Any) -> Any:
    """Return a copy of a node or container with a value at a path; the node of the value is checked again."""
    name, _, rest = path.partition(".")
    copied = copy.copy(owner)
    with below(name):
        if not is_node(owner):
            key: Any = int(name) if isinstance(owner, list) else name
            copied[key] = with_value(owner[key], rest, value) if rest else value
            return copied
        changed = with_value(getattr(owner, name), rest, value) if rest else value
        object.__setattr__(copied, name, changed)
    if not is_node(changed):
        post_init(copied)
    return copied
