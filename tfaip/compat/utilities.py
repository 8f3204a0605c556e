"""Small functions of tfaip 1.2, and its resources."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from tfaip.params.resource import Resource as PathResource

T = TypeVar("T")


class Resource(PathResource):
    """Resource with the attributes of tfaip 1.2; `dataclasses_json.config(encoder=Resource.encode)` changes nothing."""

    encode = decode = None

    def __str__(self) -> str:
        return str(self.path)

    abs_path = initial_path = property(__str__)

    @property
    def basename(self) -> str:
        """Name of the file."""
        return self.path.name


def enforce_types(decorated: T) -> T:
    """Return a class or function as it is: params check their values themselves."""
    return decorated


def glob_all(paths: str | Iterable[str]) -> list[str]:
    """Return the files of one or several patterns, in their order, each pattern sorted."""
    patterns = [paths] if isinstance(paths, str) else paths
    return [path for pattern in patterns for path in sorted(glob.glob(pattern))]


def packsize(size: int) -> int:
    """Return the number of bytes for so many bits."""
    return (size + 7) // 8


def packbits(array: Any) -> np.ndarray:
    """Pack the bits of the last axis into bytes."""
    return np.packbits(array, axis=-1)


def unpackbits(array: Any, length: int) -> np.ndarray:
    """Return so many bits of the last axis of packed bytes."""
    return np.unpackbits(np.asarray(array), axis=-1, count=length)
