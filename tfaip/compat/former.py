"""Reading of params that tfaip 1.2 stored; `tfaip.params.stored` imports it for such a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, get_args

from tfaip.errors import UsageError
from tfaip.params import types
from tfaip.params.choices import ClassChoice
from tfaip.params.codec import CLASS_KEY
from tfaip.params.fields import FieldError
from tfaip.params.names import OWN_PACKAGE, top_package
from tfaip.params.resolver import Entry, NodeDecoder, StoredResolver
from tfaip.params.resource import Resource
from tfaip.params.sources import Setting
from tfaip.params.tree import Place, field_default, get_path, has_default, post_init
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
class FormerDecoder(NodeDecoder):
    """Decoder of a file of tfaip 1.2.

    A key without a field is left out. A number, text or None that the type of a field does not allow is kept as it is,
    since the model was trained with it; not in a field for files and code, which a text must not lead to unchecked.
    Params of the toolkit that cannot be read take their defaults. The classes that
    a file may name are those of any other file.

    Args:
        notes: gets a text about each of these.
    """

    notes: list[str] = dataclasses.field(default_factory=list)

    def _decode_node(self, value: Any, declared: Any, place: str) -> Any:
        return FormerResolver(self).read(value, declared, place)

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


class FormerResolver(StoredResolver):
    """Resolver of params in a file of tfaip 1.2; see `FormerDecoder`."""

    _decoder: FormerDecoder

    def _unknown(self, cls: type, key: str, name: str, note: str | None, known: Iterable[str]) -> None:
        if note != "":
            self._decoder.notes.append(f"{key}.{name}: {note}" if note else f"{key}.{shorten_text(name)}")

    def _chosen_class(self, node: Entry, choice: ClassChoice, hit: Setting) -> type | None:
        if hit.value == _MADE_CLASS and types.is_node_type(node.declared):
            return types.origin_of(node.declared)
        return super()._chosen_class(node, choice, hit)

    def _decoded(self, hit: Setting, leaf: Entry) -> Any:
        known = _FORMER_VALUES.get(leaf.name, {})
        is_plain = isinstance(hit.value, int | float | str)
        if is_plain and _is_field_of_toolkit(leaf.owner, leaf.name):
            hit = dataclasses.replace(hit, value=known.get(hit.value, hit.value))
        return super()._decoded(hit, leaf)

    def _entry(self, place: Place, declared: Any, default: Any, given: bool, lowest: int, owner: Any) -> Entry:
        try:
            return super()._entry(place, declared, default, given, lowest, owner)
        except UntrustedName:
            raise
        except UsageError as error:
            hit, is_of_toolkit = self.settings.value(place.path), _is_field_of_toolkit(owner, place.name)
            if hit is None:
                raise
            items = hit.value if isinstance(hit.value, list) else [hit.value]
            holds_text = any(isinstance(item, str) for item in items)
            if _is_plain(hit.value) and not is_of_toolkit and not (holds_text and _may_name(declared)):
                self._decoder.notes.append(f"{place.path}, kept although it does not fit: {shorten(hit.value)}")
                is_tuple = isinstance(hit.value, list) and types.origin_of(declared) is tuple
                kept = tuple(hit.value) if is_tuple else hit.value
            elif is_of_toolkit and (_is_plain(hit.value) or _names_toolkit(hit.value)):
                self._decoder.notes.append(f"{place.path}, default instead: {error}")
                kept = default
            else:
                raise
            return Entry(place.path, place.name, place.meta, declared, kept)


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
