"""Files that belong to a model: paths in params, copied into every export."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from tfaip.errors import UsageError
from tfaip.params.tree import Place, items_of, walk_places
from tfaip.util.text import shorten

RESOURCES_DIR = "resources"
T = TypeVar("T")


class Resource(os.PathLike[str]):
    """File that belongs to a model, for example a vocabulary: usable wherever a path is.

    As a flag and in stored params it is written as its path. Params in the directory of the file,
    or above it, store the path relative to themselves, so that the whole directory can be moved.

    Args:
        path: of the file; made absolute at once.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # At once: the working directory may be another one when the file is opened, as in a worker.
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
        """Return the path as params in `directory` store it."""
        if directory is not None and self.path.is_relative_to(os.path.abspath(directory)):
            return self.path.relative_to(os.path.abspath(directory)).as_posix()
        return str(self.path)

    @classmethod
    def loaded(cls, text: str, directory: Path | None, place: str) -> Resource:
        """Return the resource that params in `directory` store as `text` at a dotted path.

        Raises:
            UsageError: a relative path leads out of the directory.
        """
        if directory is None or os.path.isabs(text):
            return cls(text)
        # Resolved, since a symbolic link may lead out as well.
        if not (directory / text).resolve().is_relative_to(directory.resolve()):
            raise UsageError(f"{place}: resource {shorten(text)} lies outside of {directory}")
        return cls(directory / text)


def copy_resources(params: T, directory: Path) -> T:
    """Copy all resources of a tree into `directory`/resources.

    Args:
        params: the tree; not changed. Resources are fields, or items of lists or dicts.
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
        # The file is there already if the params were loaded from this directory.
        if not target.exists() or not target.samefile(resource.path):
            shutil.copyfile(resource.path, target)
        # `deepcopy` takes an object from here, by its id, instead of copying it.
        moved[id(resource)] = Resource(target)
    return copy.deepcopy(params, moved)


def require_resources_inside(params: Any, directory: Path) -> None:
    """Raise unless a model directory holds all resources of its params.

    Another path could be that of any file of the machine, which the model would then read.

    Raises:
        UsageError: a resource is outside of `directory`; it is named.
    """
    for resource in _resources(params):
        if not resource.path.resolve().is_relative_to(directory.resolve()):
            raise UsageError(f"resource {resource.path} is refused: it lies outside of the model directory {directory}")


def _resources(params: Any) -> Iterable[Resource]:
    for _, leaf in walk_places(params, Place.of_root("")):
        items = items_of(leaf) or {"": leaf}
        yield from (item for item in items.values() if isinstance(item, Resource))


def _free_name(path: Path, taken: dict[str, Path]) -> str:
    name, count = path.name, 0
    while taken.setdefault(name, path) != path:
        count += 1
        name = f"{path.stem}_{count}{path.suffix}"
    return name
