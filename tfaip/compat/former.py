"""Reading of params that tfaip 1.2 stored; `tfaip.params.stored` imports it for such a file."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_args

from tfaip.errors import UsageError
from tfaip.params import types
from tfaip.params.codec import CLASS_KEY, Decoder
from tfaip.params.fields import FieldError
from tfaip.params.names import OWN_PACKAGE, removed_fields, top_package
from tfaip.params.resource import Resource
from tfaip.params.tree import field_default, get_path, has_default, post_init
from tfaip.params.trust import UntrustedName
from tfaip.util.logging import logger
from tfaip.util.text import shorten, shorten_text

# Class that 1.2 made for the trainer params of a scenario; the declared one takes its place.
_MADE_CLASS = "tfaip.scenario.scenariobase:LocalTrainerParams"
# Values of 1.2 and those of today with the same meaning, by the name of the field.
_FORMER_VALUES: Mapping[str, Mapping[Any, Any]] = {
    "progress_bar_mode": {0: "plain", 1: "auto", 2: "lines"},
    "checkpoint_sub_dir": {"": "checkpoint"},
    "default_serve_dir": {"serve": ""},
    "trainer_params_filename": {"trainer_params.json": ""},
    "lower_threshold": {-1e100: None},
    "upper_threshold": {1e100: None},
}
# Types of text that is checked when it is read.
_NAMES = (types.FieldText, types.FunctionName, types.NamedObject, Resource)
_SHOWN = 40

log = logger(__name__)


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

    def finish(self, params: Any, source: str) -> None:
        """Check all limits; a value that is refused takes its default. Log what has no counterpart."""
        refused = set()
        while True:
            try:
                post_init(params)
                break
            except FieldError as error:
                parent, _, name = error.path.rpartition(".")
                node = get_path(params, parent)
                field = getattr(node, "__dataclass_fields__", {}).get(name)
                if field is None or not has_default(field) or error.path in refused:
                    raise
                refused.add(error.path)
                self.notes.append(f"params.{error}, default instead")
                object.__setattr__(node, name, field_default(field))
        _report(tuple(self.notes), source)

    def _unknown(self, cls: type, key: str, known: Sequence[str], place: str) -> None:
        note = removed_fields(cls).get(key)
        if note != "":
            self.notes.append(f"{place}.{key}: {note}" if note else f"{place}.{shorten_text(key)}")

    def _chosen_class(self, name: Any, declared: Any, place: str) -> type:
        if name == _MADE_CLASS and types.is_node_type(declared):
            made: type = types.origin_of(declared)
            return made
        return super()._chosen_class(name, declared, place)

    def decode_field(self, value: Any, declared: Any, field: dataclasses.Field[Any], owner: type, place: str) -> Any:
        is_of_toolkit = _is_field_of_toolkit(owner, field.name)
        if is_of_toolkit and isinstance(value, int | float | str):
            value = _FORMER_VALUES.get(field.name, {}).get(value, value)
        try:
            return super().decode_field(value, declared, field, owner, place)
        except UntrustedName:
            raise
        except UsageError as error:
            items = value if isinstance(value, list) else [value]
            holds_text = any(isinstance(item, str) for item in items)
            if _is_plain(value) and not is_of_toolkit and not (holds_text and _may_name(declared)):
                self.notes.append(f"{place}, kept although it does not fit: {shorten(value)}")
                is_tuple = isinstance(value, list) and types.origin_of(declared) is tuple
                return tuple(value) if is_tuple else value
            if is_of_toolkit and (_is_plain(value) or _names_toolkit(value)) and has_default(field):
                self.notes.append(f"{place}, default instead: {error}")
                return field_default(field)
            raise


def _may_name(declared: Any) -> bool:
    """Return True if a value of a type may name a file of the model, or code."""
    declared = types.strip(declared)
    return types.is_subclass(declared, _NAMES) or any(map(_may_name, get_args(declared)))


def _is_field_of_toolkit(cls: type, name: str) -> bool:
    """Return True if the toolkit declares a field that a class of a scenario may inherit."""
    for base in cls.__mro__:
        if name in vars(base).get("__annotations__", {}):
            return top_package(base.__module__) == OWN_PACKAGE
    return False


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
def _report(notes: tuple[str, ...], source: str) -> None:
    """Log everything that has no counterpart: one message, however often a file is read."""
    if not notes:
        return
    shown = [f"  {shorten_text(note, 160)}" for note in notes[:_SHOWN]]
    if len(notes) > _SHOWN:
        shown.append(f"  and {len(notes) - _SHOWN} more")
    log.warning("%s was written by tfaip 1.2; not used, since it has no counterpart:\n%s", source, "\n".join(shown))
