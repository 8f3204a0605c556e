"""Files that travel with a model: their paths are params, their content is copied into every export."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from tfaip.errors import UsageError

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
        # Symbolic links count as well: they are the other way out.
        root, path = Path(directory).resolve(), (Path(directory) / text).resolve()
        if not path.is_relative_to(root):
            raise ValueError(f"resource {text!r} lies outside of {directory}")
        return cls(Path(directory) / text)


def copy_resources(params: T, directory: Path) -> T:
    """Copy all resources of a tree into `directory`/resources.

    Args:
        params: the tree; not changed.
        directory: of an export, which is about to be written.

    Returns:
        A copy of the tree that refers to the copied files.

    Raises:
        UsageError: a resource is no file.
    """
    moved: dict[int, Any] = {}
    taken: dict[str, Path] = {}
    for resource in _resources(params):
        name = _free_name(resource.path, taken)
        target = directory / RESOURCES_DIR / name
        if not resource.path.is_file():
            raise UsageError(f"resource {resource.path} is not a file: nothing to copy into the export")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or not target.samefile(resource.path):
            shutil.copyfile(resource.path, target)
        # deepcopy looks objects up here before it copies them.
        moved[id(resource)] = Resource(target)
    return copy.deepcopy(params, moved)


def _resources(value: Any) -> Iterable[Resource]:
    from tfaip.params.tree import walk

    for _, leaf in walk(value):
        parts = leaf.values() if isinstance(leaf, dict) else leaf if isinstance(leaf, list | tuple | set) else [leaf]
        yield from (part for part in parts if isinstance(part, Resource))


def _free_name(path: Path, taken: dict[str, Path]) -> str:
    name, count = path.name, 1
    while taken.setdefault(name, path) != path:
        name, count = f"{path.stem}_{count}{path.suffix}", count + 1
    return name
