"""The manifest of a directory: sizes and checksums of its files, to find damage; and what was added to a model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

from tfaip.errors import TfaipError
from tfaip.util.files import write_json
from tfaip.util.reading import open_file, read_json
from tfaip.util.text import shorten, shorten_text

MANIFEST_FILE = "manifest.json"
# Formats of a model directory, which are the names of their directories; see `tfaip.export.formats`.
SERVE_DIR, KERAS_DIR, ONNX_DIR = FORMAT_DIRS = ("serve", "keras", "onnx")
# Directories with one of these files are ours, also damaged ones; no others are replaced or removed.
MODEL_MARKS = ("scenario_params.json", "weights.safetensors")
CHECKPOINT_MARKS = ("state.json", "state.safetensors", MANIFEST_FILE)


def write_manifest(directory: Path, facts: Mapping[str, Any], known: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Describe every file below a directory that is about to be committed."""
    write_json(directory / MANIFEST_FILE, {"files": fingerprints(directory, known), **facts})


def fingerprints(directory: Path, known: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return size and checksum of all files below a directory but its manifest, by path; see `write_manifest`."""
    found = {}
    for name in _files_below(directory):
        found[name] = known[name] if name in known else _fingerprint(directory / name)
    return found


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest; its `files` maps relative paths to `size` (bytes) and `sha256`."""
    path = directory / MANIFEST_FILE
    manifest = read_json(path)
    files, backend, versions = manifest.get("files"), manifest.get("backend", ""), manifest.get("versions", {})
    if not (isinstance(files, dict) and isinstance(backend, str) and isinstance(versions, dict)):
        raise TfaipError(f"{path} is damaged: expected files, backend and versions")
    for name, facts in files.items():
        if not _is_inside(directory, name):
            raise TfaipError(f"{path} names {shorten(name)}, which is outside of {directory}")
        if not (isinstance(facts, dict) and facts.keys() == {"size", "sha256"}):
            raise TfaipError(f"{path} is damaged: expected size and sha256 of {shorten(name)}")
    return manifest


def verify_files(directory: Path, names: Iterable[str] | None = None) -> None:
    """Compare files with the manifest."""
    expected = read_manifest(directory)["files"]
    for name in expected if names is None else names:
        path, known = directory / name, expected.get(name)
        try:
            is_file = path.is_file()
        except OSError:  # a name that is too long
            is_file = False
        if not is_file:
            raise TfaipError(f"{shorten_text(str(path), 200)} is missing")
        # The size first: a file that claims to be huge is not read to its end.
        if known is None or path.stat().st_size != known["size"] or _fingerprint(path) != known:
            raise TfaipError(f"{path} differs from its manifest")
    added = set(_files_below(directory)) - set(expected) if names is None else set()
    if added:
        raise TfaipError(f"{directory / min(added)} is not in the manifest of {directory}")


def _is_inside(directory: Path, name: str) -> bool:
    try:
        return (directory / name).resolve().is_relative_to(directory.resolve())
    except (OSError, ValueError):  # a NUL character, or links in a circle
        return False


def _files_below(directory: Path) -> list[str]:
    names = [path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()]
    return sorted(name for name in names if name != MANIFEST_FILE)


def _fingerprint(path: Path) -> dict[str, Any]:
    import hashlib  # loads OpenSSL, which only commands that write or read models need

    with open_file(path) as file:
        return {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


# Entry of a manifest: formats that were not written by the training but later, on demand.
ADDED_FORMATS = "added_formats"
# Entry of a manifest: weights with a regularizer that were not trained, so that it is no part of the loss.
FROZEN = "frozen"
_USUAL_ENTRIES = (*MODEL_MARKS, *FORMAT_DIRS, "training_data.json", "resources")


class ModelDirectory(NamedTuple):
    """Description of a model directory, which may be damaged or missing.

    Args:
        files: relative path -> size and checksum, as in the manifest; empty if that cannot be read.
        added_formats: formats that were added to the model later and still exist.
        problem: why the manifest cannot be read; None: it was read.
    """

    path: Path
    files: Mapping[str, Any] = MappingProxyType({})
    added_formats: tuple[str, ...] = ()
    problem: str | None = None

    @classmethod
    def at(cls, path: Path) -> ModelDirectory:
        """Describe the directory `path`; damage is no error."""
        try:
            manifest = read_manifest(path)
        except TfaipError as error:
            return cls(path, problem=str(error))
        added = manifest.get(ADDED_FORMATS, [])
        named = added if isinstance(added, list) else []
        existing = tuple(name for name in FORMAT_DIRS if name in named and (path / name).is_dir())
        return cls(path, manifest["files"], existing)

    def model_files(self) -> dict[str, Any]:
        """Return the entries of the manifest without the formats for other programs."""
        return {name: value for name, value in self.files.items() if name.split("/")[0] not in FORMAT_DIRS}

    def files_of(self, formats: Collection[str]) -> dict[str, Any]:
        """Return the entries of the manifest of some formats."""
        return {name: value for name, value in self.files.items() if name.split("/")[0] in formats}

    def damage(self) -> str | None:
        """Return a message about the first file that differs from the manifest, or None."""
        if self.problem is not None:
            return self.problem
        if not self.model_files():
            return f"the manifest of {self.path} names no files"
        try:
            verify_files(self.path, self.files)
        except (TfaipError, OSError) as error:
            return str(error)
        return None

    def foreign_entries(self) -> list[str]:
        """Return the relative paths that the manifest does not name: files of the user."""
        if not self.path.is_dir():
            return []
        if self.problem is not None:
            ours = {MANIFEST_FILE, *_USUAL_ENTRIES}
            return sorted(entry.name for entry in self.path.iterdir() if entry.name not in ours)
        files = {MANIFEST_FILE, *self.files}
        directories = {parent.as_posix() for name in files for parent in PurePosixPath(name).parents}
        return sorted(self._foreign_below(self.path, files, directories))

    def _foreign_below(self, directory: Path, files: Collection[str], directories: Collection[str]) -> Iterator[str]:
        for entry in directory.iterdir():
            name = entry.relative_to(self.path).as_posix()
            if name in directories and entry.is_dir() and not entry.is_symlink():
                yield from self._foreign_below(entry, files, directories)
            # A SavedModel has empty directories, which no manifest names.
            elif name not in files and (
                directory == self.path or entry.is_symlink() or not entry.is_dir() or any(entry.iterdir())
            ):
                yield name


def shown_names(names: Sequence[str]) -> str:
    """Return the first few names for a message, shortened."""
    return ", ".join(shorten_text(name, 40) for name in names[:6]) + (" ..." if names[6:] else "")
