"""Params in files of tfaip 1.2, which differ from those of today: what has no counterpart is listed, not refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_args

from tfaip.errors import UsageError
from tfaip.params.codec import CLASS_KEY, Decoder
from tfaip.params.limits import FieldError
from tfaip.params.names import removed_fields, renamed_fields
from tfaip.params.resource import Resource
from tfaip.params.trust import OWN_PACKAGE, UntrustedName, top_package
from tfaip.params.types import FieldText, FunctionName, NamedObject, is_node_type, is_subclass, origin_of, strip
from tfaip.util.logging import logger
from tfaip.util.text import shorten, shorten_text

# A field of all scenario params of 1.2, which are also a part of its trainer params.
_MARK, _SCENARIO = "tfaip_version", "scenario"
# Class that 1.2 made for the trainer params of a scenario; the declared one takes its place.
_MADE_CLASS = "tfaip.scenario.scenariobase:LocalTrainerParams"
# Values of 1.2 and those of today with the same meaning, by the name of the field.
_FORMER_VALUES: Mapping[str, Mapping[Any, Any]] = {
    "progress_bar_mode": {0: "plain", 1: "auto", 2: "lines"},
    "checkpoint_sub_dir": {"": "checkpoint"},
    "best_model_name": {"": "best"},
    "lower_threshold": {-1e100: None},
    "upper_threshold": {1e100: None},
}
# Types of text that is checked when it is read.
_NAMES = (FieldText, FunctionName, NamedObject, Resource)
_SHOWN = 40

log = logger(__name__)


def is_former(document: Mapping[str, Any]) -> bool:
    """Return True for scenario or trainer params that tfaip 1.2 stored."""
    scenario = document.get(_SCENARIO)
    holders = [document, *([scenario] if isinstance(scenario, Mapping) else [])]
    return any(isinstance(holder.get(_MARK), str) for holder in holders)


@dataclasses.dataclass(frozen=True)
class FormerDecoder(Decoder):
    """Decoder of a file of tfaip 1.2.

    A key without a field is left out. A number, text or None that the type of a field does not allow is kept as it is,
    since the model was trained with it; not in a field for files and code, which a text must not lead to unchecked.
    Params of the toolkit that cannot be read take their defaults. The classes that
    a file may name are those of any other file.

    Args:
        notes: gets a text about each of these.
    """

    notes: list[str] = dataclasses.field(default_factory=list)

    def _current_values(
        self, cls: Any, values: dict[str, Any], types_of: Mapping[str, Any], place: str
    ) -> dict[str, Any]:
        removed, renamed = removed_fields(cls), renamed_fields(cls)
        known = {}
        for old, value in values.items():
            # Without a warning: nobody typed these names.
            key = renamed.get(old, old)
            if key in types_of:
                known[key] = value
            elif removed.get(key):
                self.notes.append(f"{place}.{key}: {removed[key]}")
            elif key not in removed:
                self.notes.append(f"{place}.{shorten_text(str(key))}")
        return known

    def _decode_field(
        self, item: Any, declared: Any, decoder: Callable[[Any], Any] | None, place: str, owner: type
    ) -> Any:
        name = place.rpartition(".")[2]
        is_of_toolkit = _is_field_of_toolkit(owner, name)
        if is_of_toolkit:
            item = _former_value(item, name)
        try:
            return super()._decode_field(item, declared, decoder, place, owner)
        except UntrustedName:
            raise
        except UsageError as error:
            if _is_plain(item) and not is_of_toolkit and not (_holds_text(item) and _may_name(declared)):
                self.notes.append(f"{place}, kept although it does not fit: {shorten(item)}")
                return tuple(item) if isinstance(item, list) and origin_of(declared) is tuple else item
            if not is_of_toolkit or not (_is_plain(item) or _names_toolkit(item)):
                raise
            self.notes.append(f"{place}, default instead: {error}")
            return dataclasses.MISSING

    def _find_class(self, name: Any, declared: Any, place: str) -> type:
        if name == _MADE_CLASS and is_node_type(declared):
            made: type = origin_of(declared)
            return made
        return super()._find_class(name, declared, place)

    def _build(self, cls: Any, values: dict[str, Any], place: str) -> Any:
        # Every turn leaves out one value.
        for _ in range(len(values)):
            try:
                return super()._build(cls, values, place)
            except UsageError as error:
                cause = error.__cause__
                name = cause.path.partition(".")[0] if isinstance(cause, FieldError) else None
                if name not in values:
                    raise
                self.notes.append(f"{place}.{name}, default instead: {cause}")
                values = {key: value for key, value in values.items() if key != name}
        return super()._build(cls, values, place)


def _holds_text(value: Any) -> bool:
    return any(isinstance(item, str) for item in (value if isinstance(value, list) else [value]))


def _may_name(declared: Any) -> bool:
    """Return True if a value of a type may name a file of the model, or code."""
    declared = strip(declared)
    return is_subclass(declared, _NAMES) or any(map(_may_name, get_args(declared)))


def _is_field_of_toolkit(cls: type, name: str) -> bool:
    """Return True if the toolkit declares a field that a class of a scenario may inherit."""
    for base in cls.__mro__:
        if name in vars(base).get("__annotations__", {}):
            return top_package(base.__module__) == OWN_PACKAGE
    return False


def _former_value(item: Any, name: str) -> Any:
    """Return what a value of 1.2 means today."""
    known = _FORMER_VALUES.get(name, {})
    return known.get(item, item) if isinstance(item, int | float | str) else item


def _is_plain(value: Any) -> bool:
    """Return True for a number, a text, None, and a list of these."""
    if isinstance(value, list):
        return not any(isinstance(item, list | dict) for item in value)
    return not isinstance(value, dict)


def _names_toolkit(value: Any) -> bool:
    """Return True for params of a class of the toolkit."""
    name = value.get(CLASS_KEY) if isinstance(value, dict) else None
    return isinstance(name, str) and top_package(name.partition(":")[0]) == OWN_PACKAGE


@cache
def report(notes: tuple[str, ...], source: str) -> None:
    """Log everything in a file of tfaip 1.2 that has no counterpart: one message, however often it is read."""
    if not notes:
        return
    shown = [f"  {shorten_text(note, 160)}" for note in notes[:_SHOWN]]
    if len(notes) > _SHOWN:
        shown.append(f"  and {len(notes) - _SHOWN} more")
    log.warning("%s was written by tfaip 1.2; not used, since it has no counterpart:\n%s", source, "\n".join(shown))
