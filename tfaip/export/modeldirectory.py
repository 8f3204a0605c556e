"""A model directory as it was written: its manifest, additions and damage. It loads no backend."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tfaip.errors import TfaipError
from tfaip.util.manifest import FORMAT_DIRS, MANIFEST_FILE, MODEL_MARKS, read_manifest, verify_files
from tfaip.util.text import shorten_text

# Entry of a manifest: formats that were not written by the training but later, on demand.
ADDED_FORMATS = "added_formats"
# Entry of a manifest: weights with a regularizer that were not trained, so that it is no part of the loss.
FROZEN = "frozen"
_USUAL_ENTRIES = (*MODEL_MARKS, *FORMAT_DIRS, "training_data.json", "resources")


@dataclass(frozen=True)
class ModelDirectory:
    """Description of a model directory, which may be damaged or missing.

    Args:
        path: the directory.
        files: relative path -> size and checksum, as in the manifest; empty if that cannot be read.
        added_formats: formats that were added to the model later and still exist.
        problem: why the manifest cannot be read; None: it was read.
    """

    path: Path
    files: dict[str, Any] = field(default_factory=dict)
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

    def damage(self, entries: Sequence[str] | None = None) -> str | None:
        """Return a message about the first file that differs from the manifest, or None.

        Args:
            entries: files and directories to check; None: all.
        """
        if self.problem is not None:
            return self.problem
        if not self.model_files():
            return f"the manifest of {self.path} names no files"
        names = [name for name in self.files if entries is None or name.split("/")[0] in entries]
        try:
            verify_files(self.path, names)
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
            elif name not in files and (directory == self.path or not _is_empty(entry)):
                yield name


def _is_empty(entry: Path) -> bool:
    return entry.is_dir() and not entry.is_symlink() and next(entry.iterdir(), None) is None


def shown_names(names: Sequence[str]) -> str:
    """Return the first few names for a message, shortened."""
    return ", ".join(shorten_text(name, 40) for name in names[:6]) + (" ..." if names[6:] else "")
