"""Params of the data of an epoch: those of the training with the values of schedules; needs no backend."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.limits import FieldError, below, check_fields
from tfaip.params.tree import is_node
from tfaip.trainer.schedules.targets import Schedule, number_type, numbers_of_data, refuse, schedules_of_data

# More epochs are not checked one by one before the first.
_CHECKED_EPOCHS = 10_000


class DataSchedules:
    """Schedules of params of the data, which take effect with the next epoch.

    Args:
        params: the trainer params.

    Raises:
        FieldAdvice: if a target is no number in the params; its path begins there.
    """

    def __init__(self, params: Any) -> None:
        self.params = params
        self._schedules = schedules_of_data(params)
        self._types = {schedule.path: _type_of(params, schedule) for schedule in self._schedules}

    def check_each(self, check: Callable[[Any], None]) -> None:
        """Call a function with the trainer params of every epoch, once for equal ones.

        Raises:
            FieldError: if a value is not allowed; its path begins at the trainer params.
        """
        epochs = self.params.epochs
        chosen = {1, epochs, *range(1, min(epochs, _CHECKED_EPOCHS) + 1)}
        seen: set[tuple[float, ...]] = set()
        for epoch in sorted(chosen):
            values = self.values(epoch)
            key = tuple(values.values())
            if key not in seen:
                seen.add(key)
                check(self.params_with(values))

    def values(self, epoch: int) -> dict[str, float]:
        """Return the values of an epoch (from 1) by path: those at its beginning, whole numbers rounded."""
        return {s.path: _as(self._types[s.path], s.params.value(epoch - 1)) for s in self._schedules}

    def logged(self, epoch: int) -> dict[str, float]:
        """Return the values of an epoch by the name of the target."""
        values = self.values(epoch)
        return {schedule.name: float(values[schedule.path]) for schedule in self._schedules}

    def params_with(self, values: Mapping[str, float]) -> Any:
        """Return a copy of the trainer params with other values; what does not depend on them is shared.

        Raises:
            FieldError: if a value is not allowed; its path begins at the trainer params.
        """
        params = self.params
        for path, value in values.items():
            params = _with_value(params, path.split("."), value)
        return params


def params_of_data(params: Any, epoch: int) -> Any:
    """Return the trainer params with the values that schedules give the training data in an epoch (from 1)."""
    schedules = DataSchedules(params)
    return schedules.params_with(schedules.values(epoch))


def _type_of(params: Any, schedule: Schedule) -> type[int] | type[float]:
    try:
        kind = number_type(params, schedule.path)
    except UsageError:
        kind = None
    if kind is None:
        raise refuse(schedule, numbers_of_data(params))
    return kind


def _as(kind: type[int] | type[float], value: float) -> float:
    return int(value + 0.5) if kind is int else value


def _with_value(owner: Any, parts: Sequence[str], value: Any) -> Any:
    """Return a copy of a node or container with a value at a path; nodes on the way are checked again."""
    name, rest = parts[0], parts[1:]
    copied = copy.copy(owner)
    if not is_node(owner):
        key: Any = int(name) if isinstance(owner, list) else name
        with below(name):
            copied[key] = value if not rest else _with_value(owner[key], rest, value)
        return copied
    with below(name):
        changed = value if not rest else _with_value(getattr(owner, name), rest, value)
    object.__setattr__(copied, name, changed)
    if not rest or not is_node(changed):
        _check(copied)
    return copied


def _check(node: Any) -> None:
    check_fields(node)
    try:
        if hasattr(node, "__post_init__"):
            node.__post_init__()
    except FieldError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error
