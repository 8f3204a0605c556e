"""Params as JSON: stored completely, loaded strictly and safely.

A file may name classes (`__cls__`). Before anything is imported, their module must lie in `tfaip`, in a
package that the caller trusts, or in the package of the declared type of the field; see `tfaip.params.trust`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import tfaip
from tfaip.errors import UsageError
from tfaip.params.decoding import Decoder
from tfaip.params.encoding import encode
from tfaip.util.files import write_text

FORMAT_VERSION = 1
VERSION_KEY = "__version__"
PACKAGE_KEY = "__tfaip__"

T = TypeVar("T")


def to_dict(params: Any) -> dict[str, Any]:
    """Nested plain values; each node with `__cls__: "module:Class"`, enums by value, keys as strings.

    Raises:
        TypeError: a value that params cannot store.
    """
    encoded: dict[str, Any] = encode(params)
    return encoded


def from_dict(cls: type[T], values: Mapping[str, Any], *, trusted: Iterable[str] = ()) -> T:
    """The inverse of `to_dict`. Keys that are missing take their defaults.

    Args:
        cls: class of the root; the dict may name a subclass.
        values: what `to_dict` returned.
        trusted: further top-level packages whose classes may be named.

    Raises:
        UsageError: a wrong type, an unknown key, a class that is not allowed.
    """
    return _decode(cls, values, trusted, None)


def to_json(params: Any, *, indent: int | None = None) -> str:
    """`to_dict` as JSON text; non-finite numbers are written as NaN and Infinity."""
    return json.dumps(to_dict(params), indent=indent)


def from_json(cls: type[T], text: str, *, trusted: Iterable[str] = ()) -> T:
    """The inverse of `to_json`; see `from_dict`."""
    return from_dict(cls, parse_json(text, "JSON"), trusted=trusted)


def save_params(path: str | Path, params: Any) -> None:
    """Write params into a JSON file, which is complete at any moment or not there.

    Resources below the directory of the file are stored relative to it.
    """
    path = Path(path)
    write_text(path, params_text(params, path.parent))


def params_text(params: Any, directory: Path) -> str:
    """Return what `save_params` writes into a file of this directory."""
    document = {VERSION_KEY: FORMAT_VERSION, PACKAGE_KEY: tfaip.__version__, **encode(params, directory)}
    return json.dumps(document, indent=2) + "\n"


def load_params(path: str | Path, cls: type[T], *, trusted: Iterable[str] = ()) -> T:
    """Read what `save_params` wrote.

    Args:
        path: of the file.
        cls: class of the root; the file may name a subclass.
        trusted: further top-level packages whose classes may be named.

    Raises:
        UsageError: the file is missing, damaged, too new, or does not fit; one line that names it.
    """
    path = Path(path)
    document = parse_json(read_text(path), str(path))
    version = document.pop(VERSION_KEY, 0)
    written_by = document.pop(PACKAGE_KEY, "an unknown version")
    if type(version) is not int:
        raise UsageError(f"{path}: {VERSION_KEY} is {version!r}, expected a number")
    if version > FORMAT_VERSION:
        raise UsageError(f"{path}: written by tfaip {written_by} in a newer format: update tfaip")
    try:
        return _decode(cls, document, trusted, path.parent)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def read_text(path: Path) -> str:
    """The content of a text file.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not a text file in UTF-8") from error


def parse_json(text: str, name: str) -> dict[str, Any]:
    """Parse a JSON object.

    Args:
        text: the JSON.
        name: where it is from, for messages.

    Raises:
        UsageError: broken JSON, no object, or a key given twice.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise UsageError(f"{name}: broken JSON in line {error.lineno}, column {error.colno}: {error.msg}") from error
    except KeyError as error:
        raise UsageError(f"{name}: key {error.args[0]!r} is given twice") from error
    except RecursionError as error:
        raise UsageError(f"{name}: JSON is nested too deeply") from error
    except ValueError as error:  # a number with too many digits
        raise UsageError(f"{name}: broken JSON: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{name}: expected a JSON object, got {type(document).__name__}")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise KeyError(key)
        found[key] = value
    return found


def _decode(cls: type[T], values: Mapping[str, Any], trusted: Iterable[str], directory: Path | None) -> T:
    if isinstance(trusted, str):
        raise TypeError(f"trusted is the string {trusted!r}, expected a list of packages: [{trusted!r}]")
    decoded: T = Decoder(frozenset(trusted), directory).decode(values, cls, "params")
    return decoded
