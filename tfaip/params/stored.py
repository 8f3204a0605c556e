"""Params as JSON: stored completely, loaded strictly and safely; stored ones by dotted paths and by flags.

A file may name classes (`__cls__`). Their module must be in `tfaip`, in a package that the caller trusts, or in the
package of the declared type of the field, before anything is imported; see `tfaip.params.trust`.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tfaip.errors import UsageError
from tfaip.params import types
from tfaip.params.codec import CLASS_KEY, Decoder, encode
from tfaip.params.tree import Place, join_path, nodes_of
from tfaip.params.trust import Trust
from tfaip.util.files import write_text
from tfaip.util.oldnames import compat
from tfaip.util.reading import parse_json, read_json
from tfaip.util.text import shorten_text
from tfaip.version import __version__

# Increased when older versions of tfaip could not read the files any more.
FORMAT_VERSION = 1
VERSION_KEY = "__version__"
PACKAGE_KEY = "__tfaip__"

T = TypeVar("T")


def from_dict(
    cls: type[T],
    values: Mapping[str, Any],
    *,
    trusted: Iterable[str] = (),
    path: Path | None = None,
    key: str | None = None,
) -> T:
    """Build params from what `to_dict` of params returned. Missing keys take their defaults.

    Args:
        cls: class of the root; the dict may name a subclass.
        values: what `to_dict` returned, or the content of a file of params.
        trusted: further top-level packages whose classes may be named.
        path: of the file; resources are relative to its directory.
        key: of the part of the content to read; None: all of it.

    Raises:
        UsageError: a newer format, a wrong type, an unknown key, a class that is not allowed.
    """
    document = dict(values)
    version = document.pop(VERSION_KEY, 0)
    written_by = document.pop(PACKAGE_KEY, "of an unknown version")
    if version not in (0, FORMAT_VERSION):
        raise UsageError(f"written by tfaip {shorten_text(str(written_by), 40)} in a newer format: update tfaip")
    kind = compat("former").FormerDecoder if is_former(document) else Decoder
    decoder = kind(Trust.of(trusted), path and path.parent)
    decoded: T = decoder.decode(document if key is None else document.get(key), cls, "params")
    decoder.finish(decoded, str(path or "a dict"))
    return decoded


def from_json(cls: type[T], text: str, *, trusted: Iterable[str] = ()) -> T:
    """Build params from what `to_json` returned; see `from_dict`."""
    values = parse_json(text, "JSON")
    if VERSION_KEY in values:
        raise UsageError("JSON is that of a file of a run or model: read it with load_params of tfaip.params.stored")
    return from_dict(cls, values, trusted=trusted)


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
        cls: class of the root; the file may name a subclass.
        trusted: further top-level packages whose classes may be named.
        key: of the part of the document to read; None: all of it.

    Raises:
        UsageError: the file is missing, damaged, too new, or does not fit; one line that names it.
    """
    path = Path(path)
    document = read_json(path)
    try:
        loaded = from_dict(cls, document, trusted=trusted, path=path, key=key)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    for node in nodes_of(loaded):
        if hasattr(node, "limit_to_machine"):
            node.limit_to_machine(path)
    return loaded


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


def is_former(document: Mapping[str, Any]) -> bool:
    """Return True for scenario or trainer params that tfaip 1.2 stored."""
    # The field is in all scenario params of 1.2, which are also a part of its trainer params.
    holders = (document, document.get("scenario"))
    return any(isinstance(holder, Mapping) and isinstance(holder.get("tfaip_version"), str) for holder in holders)
