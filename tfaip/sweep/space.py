"""The params that a sweep varies, and the values that they may have."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.params.commandline.config_files import load_config
from tfaip.util.files import write_json
from tfaip.util.text import shorten, shorten_text

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

# Of one flag, and of a grid.
MAX_CHOICES = 10_000
_RANGE_KEYS = {"low", "high", "step", "log"}
Value = str | int | float | bool | None


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included.

    Args:
        low: smallest value.
        high: largest value.
        step: distance of two values; None: any number, or every integer if both limits are integers.
        log: search evenly in the logarithm.
    """

    low: int | float
    high: int | float
    step: int | float | None = None
    log: bool = False

    @property
    def _has_integers(self) -> bool:
        return all(isinstance(number, int | None) for number in (self.low, self.high, self.step))

    def distribution(self) -> BaseDistribution:
        """Return what the search draws from."""
        from optuna.distributions import FloatDistribution, IntDistribution

        if self._has_integers:
            return IntDistribution(self.low, self.high, self.log, self.step or 1)
        return FloatDistribution(self.low, self.high, self.log, self.step)

    def stored(self) -> dict[str, Any]:
        """Return the entry as a file of a space has it."""
        step = {} if self.step is None else {"step": self.step}
        return {"low": self.low, "high": self.high, **step, **({"log": True} if self.log else {})}

    def samples(self) -> list[Value]:
        """Return values to check the flag with: the limits, and a fraction if there are some between them."""
        if self._has_integers:
            return [self.low, self.high]
        if self.step is not None:
            return [self.low, self.high, min(float(self.low + self.step), self.high)]
        return [self.low, self.high, self.low + (self.high / 3 - self.low / 3)]

    def grid(self, flag: str) -> list[Value]:
        """Return all values.

        Raises:
            UsageError: if there is no step between them, or they are too many.
        """
        step = self.step or (1 if self._has_integers else None)
        if step is None or self.log:
            raise UsageError(f"a grid needs choices, or a range with a step and without log, for {flag}")
        distance = (self.high - self.low) / step
        if distance >= MAX_CHOICES:
            raise UsageError(f"{flag} has more than {MAX_CHOICES} values, too many for a grid: change step")
        return [self.low + step * index for index in range(math.floor(distance + 1e-9) + 1)]


@dataclass(frozen=True)
class Choices:
    """Some values.

    Args:
        values: by what the search calls them: itself, or of a list its JSON.
    """

    values: Mapping[Value, Any]

    def distribution(self) -> BaseDistribution:
        """Return what the search draws from."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(tuple(self.values))

    def stored(self) -> list[Any]:
        """Return the entry as a file of a space has it."""
        return list(self.values.values())

    def samples(self) -> list[Value]:
        """Return values to check the flag with: all."""
        return list(self.values)

    def grid(self, flag: str) -> list[Value]:
        """Return all values."""
        return list(self.values)


Space = Mapping[str, Range | Choices]


def read_space(name: str) -> Space:
    """Read a file with the flags that a sweep varies (YAML or JSON, keys dotted or nested, without dashes).

    Raises:
        UsageError: if the file cannot be read, or a flag has neither a range nor choices.
    """
    entries = list(_entries(load_config(name).tree, ""))
    found = dict(entries)
    if len(found) < len(entries):
        raise UsageError(f"{shorten_text(name)}: a flag is given twice, dotted and nested")
    if not found:
        raise UsageError(f"{shorten_text(name)}: expected flags with a range or choices, got none")
    space = {}
    for flag, entry in found.items():
        try:
            space[flag] = _parse(entry)
        except ValueError as error:
            raise UsageError(
                f"{shorten_text(name)}: {shorten_text(flag)} {error}; expected e.g. {{low: 1, high: 8}} or [1, 2, 4]"
            ) from error
    return space


def write_config(path: Path, space: Space, chosen: Mapping[str, Value]) -> None:
    """Write a config file with chosen values, as `tfaip-train` reads it.

    Args:
        path: of the file.
        space: the flags and their values.
        chosen: of each flag what the search has chosen.
    """
    values = {}
    for flag, value in chosen.items():
        entry = space[flag]
        values[flag] = entry.values[value] if isinstance(entry, Choices) else value
    write_json(path, values)


def grid_of(space: Space) -> list[dict[str, Value]]:
    """Return all combinations of the values.

    Raises:
        UsageError: if they are not countable, or too many.
    """
    values = [entry.grid(flag) for flag, entry in space.items()]
    number = math.prod(map(len, values))
    if number > MAX_CHOICES:
        raise UsageError(f"the grid has {number} points, expected at most {MAX_CHOICES}: use --sampler tpe or random")
    return [dict(zip(space, point, strict=True)) for point in itertools.product(*values)]


def _entries(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the flags of a document whose keys may be nested."""
    for key, value in values.items():
        if isinstance(value, Mapping) and not value.keys() & {*_RANGE_KEYS, "choices"}:
            yield from _entries(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _parse(entry: Any) -> Range | Choices:
    if isinstance(entry, Mapping) and entry.keys() == {"choices"}:
        entry = entry["choices"]
    if isinstance(entry, list):
        return _choices(entry)
    if not isinstance(entry, Mapping) or not {"low", "high"} <= entry.keys() <= _RANGE_KEYS:
        raise ValueError(f"is {shorten(entry)}")
    low, high = _number("low", entry["low"]), _number("high", entry["high"])
    step = None if entry.get("step") is None else _number("step", entry["step"])
    log = entry.get("log", False)
    if not isinstance(log, bool):
        raise ValueError(f"has log {shorten(log)}, not true or false")
    if step is not None and step <= 0:
        raise ValueError(f"has the step {step}")
    if low > high:
        raise ValueError(f"has the low {low} above the high {high}")
    if log and (low <= 0 or step is not None):
        raise ValueError("has log, which needs a low above 0 and no step")
    return Range(low, high, step, log)


def _number(name: str, value: Any) -> int | float:
    """Return a limit or step; YAML reads `1e-4`, without a dot, as a text."""
    number = value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            number = float(value)
    if not isinstance(number, int | float) or isinstance(number, bool) or not math.isfinite(number):
        raise ValueError(f"has the {name} {shorten(value)}")
    return number


def _choices(entry: list[Any]) -> Choices:
    values = {_name(value): value for value in entry[:MAX_CHOICES]}
    if not values or len(values) < len(entry):
        raise ValueError(f"has {len(entry)} choices, of which {len(values)} differ")
    return Choices(values)


def _name(value: Any) -> Value:
    """Return what the search calls a value."""
    if value is None or isinstance(value, str | int | bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if not isinstance(value, list):
        raise ValueError(f"has the choice {shorten(value)}")
    return json.dumps(value)
