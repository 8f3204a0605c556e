"""The manifest of a directory: sizes and checksums of its files, so that damage is found and named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tfaip.errors import TfaipError
from tfaip.util.files import write_json

MANIFEST_FILE = "manifest.json"
# Files that tell a directory of the toolkit, also a damaged one, from any other: nothing else is replaced or removed.
MODEL_MARKS = ("scenario_params.json", "weights.safetensors")
CHECKPOINT_MARKS = ("state.json", "state.safetensors", MANIFEST_FILE)


def write_manifest(directory: Path, facts: Mapping[str, Any]) -> None:
    """Describe every file below a directory that is about to be committed.

    Args:
        directory: written completely, except for the manifest.
        facts: what the manifest says besides `files` (versions ...), JSON-able.
    """
    write_json(directory / MANIFEST_FILE, {"files": fingerprints(directory), **facts})


def fingerprints(directory: Path) -> dict[str, Any]:
    """Size and checksum of every file below a directory, as a manifest names them, by relative path."""
    names = [name for name in _files_below(directory) if name != MANIFEST_FILE]
    return {name: _fingerprint(directory / name) for name in names}


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a directory; `files` maps relative paths to `size` (bytes) and `sha256`.

    Raises:
        TfaipError: it is missing, damaged, or names something outside of the directory.
    """
    path = directory / MANIFEST_FILE
    manifest = read_json_object(path)
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise TfaipError(f"{path} names no files")
    for name in files:
        if not (directory / name).resolve().is_relative_to(directory.resolve()):
            raise TfaipError(f"{path} names {name!r}, which lies outside of {directory}")
    return manifest


def verify_files(directory: Path, names: Iterable[str] | None = None) -> None:
    """Compare files with the manifest.

    Args:
        directory: has a manifest.
        names: relative paths; None: all that the manifest names, and there must be no others.

    Raises:
        TfaipError: something is missing, differs or was added; the first such file is named.
    """
    expected = read_manifest(directory)["files"]
    for name in expected if names is None else names:
        if not (directory / name).is_file():
            raise TfaipError(f"{directory / name} is missing")
        if _fingerprint(directory / name) != expected.get(name):
            raise TfaipError(f"{directory / name} differs from its manifest")
    if names is None:
        for name in _files_below(directory):
            if name not in expected and name != MANIFEST_FILE:
                raise TfaipError(f"{directory / name} is not in the manifest of {directory}")


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file that the toolkit wrote.

    Raises:
        TfaipError: it cannot be read, or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TfaipError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise TfaipError(f"{path} holds no JSON object")
    return value


def _files_below(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def _fingerprint(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        return {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
