"""Params as JSON: stored completely, loaded strictly and safely; stored ones by dotted paths and by flags.

A file may name classes (`__cls__`). Their module must be in `tfaip`, in a package that the caller trusts, or in the
package of the declared type of the field, before anything is imported; see `tfaip.params.trust`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args

from tfaip.errors import UsageError
from tfaip.params import types
from tfaip.params.codec import CLASS_KEY, Decoder, encode
from tfaip.params.fields import FieldError
from tfaip.params.names import OWN_PACKAGE, removed_fields, renamed_fields, top_package
from tfaip.params.resource import Resource
from tfaip.params.tree import Place, field_default, get_path, has_default, join_path, nodes_of, post_init
from tfaip.params.trust import Trust, UntrustedName
from tfaip.util.files import write_text
from tfaip.util.logging import logger
from tfaip.util.reading import parse_json, read_json
from tfaip.util.text import shorten, shorten_text
from tfaip.version import __version__

# Increased when older versions of tfaip could not read the files any more.
FORMAT_VERSION = 1
VERSION_KEY = "__version__"
PACKAGE_KEY = "__tfaip__"

T = TypeVar("T")


def to_dict(params: Any) -> dict[str, Any]:
    """Return nested plain values: nodes with `__cls__`, enums by value, keys as strings.

    Raises:
        TypeError: a value that params cannot store.
    """
    encoded: dict[str, Any] = encode(params)
    return encoded


def from_dict(cls: type[T], values: Mapping[str, Any], *, trusted: Iterable[str] = ()) -> T:
    """Build params from what `to_dict` returned. Missing keys take their defaults.

    Args:
        cls: class of the root; the dict may name a subclass.
        values: what `to_dict` returned, or the content of a file of params.
        trusted: further top-level packages whose classes may be named.

    Raises:
        UsageError: a wrong type, an unknown key, a class that is not allowed.
    """
    return _decode(cls, values, trusted)


def to_json(params: Any, *, indent: int | None = None) -> str:
    """Return `to_dict` as JSON text; non-finite numbers are written as NaN and Infinity."""
    return json.dumps(to_dict(params), indent=indent)


def from_json(cls: type[T], text: str, *, trusted: Iterable[str] = ()) -> T:
    """Build params from what `to_json` returned; see `from_dict`."""
    return from_dict(cls, parse_json(text, "JSON"), trusted=trusted)


def save_params(path: str | Path, params: Any) -> None:
    """Write params into a JSON file, in one step: another process sees all of it or nothing.

    Resources below the directory of the file are stored relative to it.
    """
    path = Path(path)
    write_text(path, params_text(params, path.parent))


def params_text(params: Any, directory: Path) -> str:
    """Return what `save_params` writes into a file of this directory."""
    document = {VERSION_KEY: FORMAT_VERSION, PACKAGE_KEY: __version__, **encode(params, directory)}
    return json.dumps(document, indent=2) + "\n"


def load_params(path: str | Path, cls: type[T], *, trusted: Iterable[str] = (), key: str | None = None) -> T:
    """Read what `save_params` wrote, or tfaip 1.2.

    Args:
        path: of the file.
        cls: class of the root; the file may name a subclass.
        trusted: further top-level packages whose classes may be named.
        key: of the part of the document to read; None: all of it.

    Raises:
        UsageError: the file is missing, damaged, too new, or does not fit; one line that names it.
    """
    path = Path(path)
    document = read_json(path)
    try:
        loaded = _decode(cls, document, trusted, path, key)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    for node in nodes_of(loaded):
        if hasattr(node, "limit_to_machine"):
            node.limit_to_machine(path)
    return loaded


def _decode(
    cls: type[T], document: Mapping[str, Any], trusted: Iterable[str], path: Path | None = None, key: str | None = None
) -> T:
    if isinstance(trusted, str):
        raise TypeError(f"trusted is the string {trusted!r}, expected a list of packages: [{trusted!r}]")
    document = dict(document)
    version = document.pop(VERSION_KEY, 0)
    written_by = document.pop(PACKAGE_KEY, "of an unknown version")
    if type(version) is not int:
        raise UsageError(f"{VERSION_KEY} is {shorten(version)}, expected a number")
    if version > FORMAT_VERSION:
        raise UsageError(f"written by tfaip {shorten_text(str(written_by), 40)} in a newer format: update tfaip")
    kind = FormerDecoder if is_former(document) else Decoder
    decoder = kind(Trust.of(trusted), None if path is None else path.parent)
    decoded: T = decoder.decode(document if key is None else document.get(key), cls, "params")
    if not isinstance(decoder, FormerDecoder):
        post_init(decoded, "params")
    else:
        decoder.check(decoded)
        report(tuple(decoder.notes), "a dict" if path is None else str(path))
    return decoded


def flat_params(value: Any, path: str = "") -> dict[str, Any]:
    """Return stored params as dotted path -> value; a list without params in it is a value."""
    if isinstance(value, dict) and value.keys() == {types.CLASS, types.ARGUMENTS}:
        return {path: value[types.CLASS], **{f"{path}.{name}": item for name, item in value[types.ARGUMENTS].items()}}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {path: value}
    flat: dict[str, Any] = {}
    for name, item in value.items():
        flat.update(flat_params(item, join_path(path, str(name))))
    return flat


def flat_flags(stored: Mapping[str, Any], declared: Any, root: str) -> dict[str, Any]:
    """Return stored params as flag -> value, without dashes; what has no flag is named by its dotted path.

    The value of a node whose class can be chosen is its class. No class that is stored is imported: its fields have the
    flags that fields have by default.

    Args:
        stored: of the root.
        declared: class of the root; its fields, and those of the classes that it declares, are known.
        root: name of the root, which begins its flags.
    """
    flat: dict[str, Any] = {}
    for path, value in flat_params(stored).items():
        place, kind = Place.of_root(root), types.field_kind(declared)
        names = path.split(".")
        is_class = names[-1] == CLASS_KEY
        for name in names[:-1] if is_class else names:
            is_node = kind.kind == "node"
            place = place.below(name, types.origin_of(kind.declared) if is_node else None)
            item = types.field_types(kind.declared).get(name) if is_node else kind.declared
            kind = types.field_kind(None if kind.kind == "leaf" else item)
        is_path = place.is_hidden or (is_class and (len(names) == 1 or place.meta.get("fix_dc")))
        flag = path if is_path else place.flag
        flat[path if flag in flat else flag] = value
    return flat


# A field of all scenario params of 1.2, which are also a part of its trainer params.
_MARK, _SCENARIO = "tfaip_version", "scenario"
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
            known = _FORMER_VALUES.get(name, {})
            item = known.get(item, item) if isinstance(item, int | float | str) else item
        try:
            return super()._decode_field(item, declared, decoder, place, owner)
        except UntrustedName:
            raise
        except UsageError as error:
            holds_text = any(isinstance(part, str) for part in (item if isinstance(item, list) else [item]))
            if _is_plain(item) and not is_of_toolkit and not (holds_text and _may_name(declared)):
                self.notes.append(f"{place}, kept although it does not fit: {shorten(item)}")
                return tuple(item) if isinstance(item, list) and types.origin_of(declared) is tuple else item
            if not is_of_toolkit or not (_is_plain(item) or _names_toolkit(item)):
                raise
            self.notes.append(f"{place}, default instead: {error}")
            return dataclasses.MISSING

    def _find_class(self, name: Any, declared: Any, place: str) -> type:
        if name == _MADE_CLASS and types.is_node_type(declared):
            made: type = types.origin_of(declared)
            return made
        return super()._find_class(name, declared, place)

    def check(self, params: Any) -> None:
        """Check all limits; a value of the toolkit or of the scenario that is refused takes its default."""
        refused = set()
        while True:
            try:
                return post_init(params)
            except FieldError as error:
                parent, _, name = error.path.rpartition(".")
                node = get_path(params, parent)
                field = getattr(node, "__dataclass_fields__", {}).get(name)
                if field is None or not has_default(field) or error.path in refused:
                    raise
                refused.add(error.path)
                self.notes.append(f"params.{error}, default instead")
                object.__setattr__(node, name, field_default(field))


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
def report(notes: tuple[str, ...], source: str) -> None:
    """Log everything in a file of tfaip 1.2 that has no counterpart: one message, however often it is read."""
    if not notes:
        return
    shown = [f"  {shorten_text(note, 160)}" for note in notes[:_SHOWN]]
    if len(notes) > _SHOWN:
        shown.append(f"  and {len(notes) - _SHOWN} more")
    log.warning("%s was written by tfaip 1.2; not used, since it has no counterpart:\n%s", source, "\n".join(shown))
