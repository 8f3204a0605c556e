"""The manifest of a directory: sizes and checksums of its files, to find damage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfaip.errors import TfaipError, UsageError
from tfaip.util.files import write_json
from tfaip.util.reading import DOCUMENT_BYTES, open_file, read_json
from tfaip.util.text import shorten, shorten_text

MANIFEST_FILE = "manifest.json"
# Formats of a model directory, which are the names of their directories; see `tfaip.export.formats`.
SERVE_DIR, KERAS_DIR, ONNX_DIR = FORMAT_DIRS = ("serve", "keras", "onnx")
# Directories with one of these files are ours, also damaged ones; no others are replaced or removed.
MODEL_MARKS = ("scenario_params.json", "weights.safetensors")
CHECKPOINT_MARKS = ("state.json", "state.safetensors", MANIFEST_FILE)


def write_manifest(directory: Path, facts: Mapping[str, Any], known: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Describe every file below a directory that is about to be committed.

    Args:
        directory: written completely, except for the manifest.
        facts: further keys of the manifest beside `files` (versions ...), JSON-able.
        known: size and checksum of files by path, which are not read again.
    """
    write_json(directory / MANIFEST_FILE, {"files": fingerprints(directory, known), **facts})


def fingerprints(directory: Path, known: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return size and checksum of all files below a directory but its manifest, by path; see `write_manifest`."""
    found = {}
    for name in _files_below(directory):
        found[name] = known[name] if name in known else _fingerprint(directory / name)
    return found


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest; its `files` maps relative paths to `size` (bytes) and `sha256`.

    Raises:
        TfaipError: if it is missing, damaged, or names something outside of the directory.
    """
    path = directory / MANIFEST_FILE
    manifest = read_json_object(path)
    files, backend, versions = manifest.get("files"), manifest.get("backend", ""), manifest.get("versions", {})
    if not isinstance(files, dict):
        raise TfaipError(f"{path} names no files")
    for name, facts in files.items():
        if not _is_inside(directory, name):
            raise TfaipError(f"{path} names {shorten(name)}, which is outside of {directory}")
        if not _is_fingerprint(facts):
            raise TfaipError(f"{path} gives {shorten(facts)} for {shorten(name)}, expected size and sha256")
    if not isinstance(backend, str):
        raise TfaipError(f"{path} gives {shorten(backend)} as backend, expected a name")
    if not isinstance(versions, dict) or not all(isinstance(version, str) for version in versions.values()):
        raise TfaipError(f"{path} gives {shorten(versions)} as versions, expected name: version")
    return manifest


def verify_files(directory: Path, names: Iterable[str] | None = None) -> None:
    """Compare files with the manifest.

    Args:
        directory: has a manifest.
        names: relative paths; None: all that the manifest names, and there must be no others.

    Raises:
        TfaipError: if a file is missing, differs or was added; the first one is named.
    """
    expected = read_manifest(directory)["files"]
    for name in expected if names is None else names:
        _verify(directory / name, expected.get(name))
    added = set(_files_below(directory)) - set(expected) if names is None else set()
    if added:
        raise TfaipError(f"{directory / min(added)} is not in the manifest of {directory}")


def _verify(path: Path, expected: Mapping[str, Any] | None) -> None:
    try:
        is_file = path.is_file()
    except OSError:  # a name that is too long
        is_file = False
    if not is_file:
        raise TfaipError(f"{shorten_text(str(path), 200)} is missing")
    # The size first: a file that claims to be huge is not read to its end.
    if expected is None or path.stat().st_size != expected["size"] or _fingerprint(path) != expected:
        raise TfaipError(f"{path} differs from its manifest")


def read_json_object(path: Path, limit: int = DOCUMENT_BYTES) -> dict[str, Any]:
    """Return the JSON object in a file of at most `limit` bytes that the toolkit wrote.

    Raises:
        TfaipError: if it cannot be read, or holds anything else.
    """
    try:
        return read_json(path, limit)
    except UsageError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise TfaipError(f"{path} cannot be read: {reason}") from error


def _is_inside(directory: Path, name: str) -> bool:
    try:
        return (directory / name).resolve().is_relative_to(directory.resolve())
    except (OSError, ValueError):  # a NUL character, or links in a circle
        return False


def _is_fingerprint(facts: Any) -> bool:
    if not isinstance(facts, dict) or facts.keys() != {"size", "sha256"}:
        return False
    return type(facts["size"]) is int and facts["size"] >= 0 and isinstance(facts["sha256"], str)


def _files_below(directory: Path) -> list[str]:
    names = [path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()]
    return sorted(name for name in names if name != MANIFEST_FILE)


def _fingerprint(path: Path) -> dict[str, Any]:
    import hashlib  # loads OpenSSL, which only commands that write or read models need

    with open_file(path) as file:
        return {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
