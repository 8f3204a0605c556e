"""Stages in the order in which they run: groups are repeated, and references get full names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tfaip.params.limits import FieldError
from tfaip.params.names.suggestions import did_you_mean
from tfaip.params.types import value_text
from tfaip.trainer.stages.naming import check_name
from tfaip.trainer.stages.params import CallStage, OverridingStage, RepeatStage, StageParams, TrainStage
from tfaip.trainer.stages.placeholders import fill, map_texts
from tfaip.util.text import shorten

MAX_STAGES = 1000
MAX_DEPTH = 4
# Of the text of an override.
MAX_TEXT = 10_000


@dataclass
class _Order:
    """Keys of the stages that have been reached.

    Args:
        keys: all keys, with the class of the stage.
        latest: key -> full name of the latest stage that has it.
    """

    keys: dict[str, type]
    latest: dict[str, str] = dataclasses.field(default_factory=dict)

    def name_of(self, key: str) -> str:
        """Return the full name of the latest stage of a key.

        Raises:
            ValueError: if no stage before has it.
        """
        if key in self.latest:
            return self.latest[key]
        placeholder = f"{{{key}.dir}}"
        if key not in self.keys:
            raise ValueError(f"no {shorten(placeholder)}, since no stage has this name{did_you_mean(key, self.keys)}")
        if issubclass(self.keys[key], RepeatStage):
            raise ValueError(f"no {placeholder}, since a group has no directory: name one of its stages")
        raise ValueError(f"no {placeholder}, since this stage comes later")


def check_stages(stages: Mapping[str, StageParams], epochs: int) -> None:
    """Raise unless the stages can be run one after the other, and leave epochs to the plain params.

    Args:
        stages: `TrainerParams.stages`.
        epochs: the last epoch of the run.

    Raises:
        FieldError: if they cannot; the path begins at the params that have the stages.
    """
    trainings = [stage for stage in unroll(stages).values() if isinstance(stage, TrainStage)]
    check_remaining_epochs(sum(training.epochs or 0 for training in trainings), epochs)


def check_remaining_epochs(used: int, epochs: int) -> None:
    """Raise unless epochs are left for the plain params.

    Args:
        used: number of epochs of all stages before.
        epochs: the last epoch of the run.

    Raises:
        FieldError: if there are none.
    """
    if used and used >= epochs:
        raise FieldError("epochs", epochs, f"more than the {used} epochs of the stages, as it counts all of them")


def unroll(stages: Mapping[str, StageParams]) -> dict[str, StageParams]:
    """Return the stages that are no groups by full name (`loop.2.align`), in the order in which they run.

    Args:
        stages: `TrainerParams.stages`.

    Returns:
        Copies of the params, whose texts are filled in.

    Raises:
        FieldError: if the stages cannot work; the path begins at the params that have them.
    """
    keys: dict[str, type] = {}
    _check_group(stages, "stages", keys, 0)
    count = _count(stages)
    if count > MAX_STAGES:
        raise FieldError("stages", count, f"at most {MAX_STAGES} stages, with all repetitions")
    return dict(_unrolled(stages, "stages", "", None, _Order(keys)))


def _check_group(stages: Mapping[str, StageParams], path: str, keys: dict[str, type], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise FieldError(path, list(stages), f"no more than {MAX_DEPTH} groups in one another")
    for key, stage in stages.items():
        check_name(key, path, keys)
        if not isinstance(stage, StageParams):  # of Python
            raise FieldError(path, stage, "a stage: TrainStage, RepeatStage, PredictStage or CallStage", index=key)
        keys[key] = type(stage)
        if isinstance(stage, TrainStage) and stage.epochs is None:
            raise FieldError(f"{path}.{key}.epochs", None, "the number of epochs of the stage")
        if isinstance(stage, CallStage) and not stage.function:
            raise FieldError(f"{path}.{key}.function", stage.function, "module:function")
        if isinstance(stage, RepeatStage):
            if not stage.stages:
                raise FieldError(f"{path}.{key}.stages", {}, "at least one stage")
            _check_group(stage.stages, f"{path}.{key}.stages", keys, depth + 1)


def _count(stages: Mapping[str, StageParams]) -> int:
    count = 0
    for stage in stages.values():
        count += stage.times * _count(stage.stages) if isinstance(stage, RepeatStage) else 1
    return count


def _unrolled(
    stages: Mapping[str, StageParams], path: str, prefix: str, repetition: int | None, order: _Order
) -> Iterator[tuple[str, StageParams]]:
    for key, stage in stages.items():
        place = f"{path}.{key}"
        if isinstance(stage, RepeatStage):
            for number in range(1, stage.times + 1):
                yield from _unrolled(stage.stages, f"{place}.stages", f"{prefix}{key}.{number}.", number, order)
        else:
            yield f"{prefix}{key}", _filled(stage, place, repetition, order)
            order.latest[key] = f"{prefix}{key}"


def _filled(stage: StageParams, path: str, repetition: int | None, order: _Order) -> StageParams:
    """Return a copy of the params of a stage whose texts are filled in."""
    if not isinstance(stage, CallStage | OverridingStage):
        return stage
    fill_text = partial(_fill, repetition=repetition, order=order)
    name = "arguments" if isinstance(stage, CallStage) else "overrides"
    filled = {}
    for key, value in getattr(stage, name).items():
        if isinstance(stage, OverridingStage):
            value = _value_of(value, repetition, f"{path}.overrides", key)
        try:
            filled[key] = map_texts(value, fill_text)
        except ValueError as error:
            raise FieldError(f"{path}.{name}", value, str(error), index=key) from error
    changed: dict[str, Any] = {name: filled}
    return dataclasses.replace(stage, **changed)


def _fill(text: str, repetition: int | None, order: _Order) -> str:
    if len(text) > MAX_TEXT:
        raise ValueError(f"at most {MAX_TEXT} characters")
    return fill(text, repetition, order.name_of)


def _value_of(value: Any, repetition: int | None, path: str, key: str) -> str:
    """Return the text of an override; of a list in a group the one for the repetition."""
    if not isinstance(value, list):
        return str(value)
    if repetition is None:
        return value_text(value)
    if not value:
        raise FieldError(path, value, "at least one value", index=key)
    return str(value[min(repetition, len(value)) - 1])
