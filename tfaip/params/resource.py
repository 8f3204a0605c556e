"""Files that travel with a model: their paths are params, their content is copied into every export."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from tfaip.errors import UsageError
from tfaip.params.tree import walk
from tfaip.util.text import shorten

RESOURCES_DIR = "resources"
T = TypeVar("T")


class Resource(os.PathLike[str]):
    """A file that belongs to a model, for example a vocabulary: usable wherever a path is.

    As a flag and in stored params it is written as its path. Params in the directory of the file, or above
    it, store the path relative to themselves, so that the whole directory can be moved.

    Args:
        path: of the file; made absolute at once.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Resource({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resource) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def stored(self, directory: Path | None) -> str:
        """The path as params in `directory` store it."""
        if directory is not None and self.path.is_relative_to(os.path.abspath(directory)):
            return self.path.relative_to(os.path.abspath(directory)).as_posix()
        return str(self.path)

    @classmethod
    def loaded(cls, text: str, directory: Path | None) -> Resource:
        """The resource that params in `directory` store as `text`.

        Raises:
            ValueError: a relative path leads out of the directory.
        """
        if directory is None or os.path.isabs(text):
            return cls(text)
        # Resolved, because symbolic links are the other way out.
        if not (directory / text).resolve().is_relative_to(directory.resolve()):
            raise ValueError(f"resource {shorten(text)} lies outside of {directory}")
        return cls(directory / text)


def copy_resources(params: T, directory: Path) -> T:
    """Copy all resources of a tree into `directory`/resources.

    Args:
        params: the tree; not changed. Resources are fields, or stand in lists or dicts.
        directory: of an export, which is about to be written.

    Returns: a copy of the tree that refers to the copied files.

    Raises:
        UsageError: a resource is no file.
    """
    moved, taken = dict[int, Any](), dict[str, Path]()
    for resource in _resources(params):
        target = directory / RESOURCES_DIR / _free_name(resource.path, taken)
        if not resource.path.is_file():
            raise UsageError(f"resource {resource.path} is not a file: nothing to copy into the export")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or not target.samefile(resource.path):
            shutil.copyfile(resource.path, target)
        # deepcopy looks objects up here before it copies them.
        moved[id(resource)] = Resource(target)
    return copy.deepcopy(params, moved)


def require_resources_inside(params: Any, directory: Path) -> None:
    """A model directory holds all its files: another path in it would make a program read some file of the machine.

    Raises:
        UsageError: a resource lies outside of `directory`; it is named.
    """
    for resource in _resources(params):
        if not resource.path.resolve().is_relative_to(directory.resolve()):
            raise UsageError(f"resource {resource.path} is refused: it lies outside of the model directory {directory}")


def _resources(params: Any) -> Iterable[Resource]:
    for _, leaf in walk(params):
        items = leaf.values() if isinstance(leaf, dict) else leaf if isinstance(leaf, list) else [leaf]
        yield from (item for item in items if isinstance(item, Resource))


def _free_name(path: Path, taken: dict[str, Path]) -> str:
    name, count = path.name, 1
    while taken.setdefault(name, path) != path:
        name, count = f"{path.stem}_{count}{path.suffix}", count + 1
    return name
