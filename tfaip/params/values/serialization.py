"""Params as JSON: stored completely, loaded strictly and safely.

A file may name classes (`__cls__`). Their module must be in `tfaip`, in a package that the caller
trusts, or in the package of the declared type of the field, before anything is imported; see
`tfaip.params.names.trust`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tfaip.errors import UsageError
from tfaip.params.codec import Decoder, encode
from tfaip.params.names.trust import Trust
from tfaip.params.values.former import FormerDecoder, is_former, report
from tfaip.util.files import write_text
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
        values: what `to_dict` returned.
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
    version = document.pop(VERSION_KEY, 0)
    written_by = document.pop(PACKAGE_KEY, "of an unknown version")
    if type(version) is not int:
        raise UsageError(f"{path}: {VERSION_KEY} is {shorten(version)}, expected a number")
    if version > FORMAT_VERSION:
        raise UsageError(
            f"{path}: written by tfaip {shorten_text(str(written_by), 40)} in a newer format: update tfaip"
        )
    try:
        return _decode(cls, document, trusted, path, key)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _decode(
    cls: type[T], document: Mapping[str, Any], trusted: Iterable[str], path: Path | None = None, key: str | None = None
) -> T:
    if isinstance(trusted, str):
        raise TypeError(f"trusted is the string {trusted!r}, expected a list of packages: [{trusted!r}]")
    kind = FormerDecoder if is_former(document) else Decoder
    decoder = kind(Trust.of(trusted), None if path is None else path.parent)
    decoded: T = decoder.decode(document if key is None else document.get(key), cls, "params")
    if isinstance(decoder, FormerDecoder):
        report(tuple(decoder.notes), "a dict" if path is None else str(path))
    return decoded
