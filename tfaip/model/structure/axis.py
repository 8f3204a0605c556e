"""Axes of weights, described by the dimensions that they consist of. Needs no backend.

A file of weights tells shapes, but not which layers were joined. If the model is that of a known structure in another
size, most dimensions follow: the units of a layer are an axis of its bias, so both parts of a kernel after the
`Concatenate` of two layers are known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np


@dataclass(frozen=True)
class Dimension:
    """Axis of a single dimension, e.g. the units of a layer.

    Args:
        name: tells it from other dimensions of the same graph.
        is_fixed: True for entries that never become more or fewer, as the gates of a layer.
    """

    name: str
    size: int
    is_fixed: bool = False


@dataclass(frozen=True)
class Compound:
    """Axis that consists of several axes."""

    parts: tuple[Axis, ...]


class Joined(Compound):
    """Axis of several axes, one after the other, as `Concatenate` joins them."""

    @property
    def size(self) -> int:
        """Number of entries."""
        return sum(part.size for part in self.parts)


class Product(Compound):
    """Axis of all combinations of several axes, the last one changing fastest, as `Flatten` makes it."""

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(part.size for part in self.parts)


@dataclass(frozen=True)
class Unknown:
    """Axis of which nothing is known: it is compared as one block, unless the other one consists of parts.

    Args:
        size: number of entries.
        reason: why it is unknown, for messages.
    """

    size: int
    reason: str


Axis: TypeAlias = Dimension | Joined | Product | Unknown
Axes: TypeAlias = tuple[Axis, ...]
Positions: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class WeightStructure:
    """Structure of a weight.

    Args:
        axes: one per axis of its shape.
        inputs: the axes whose entries belong to inputs of the layer; None: no known layer uses the weight.
    """

    axes: Axes
    inputs: tuple[int, ...] | None = ()


Structure: TypeAlias = Mapping[str, WeightStructure]


class AmbiguousAxis(Exception):
    """Error: it cannot be told which entries of two axes belong together."""


def combined(kind: type[Joined] | type[Product], parts: Sequence[Axis]) -> Axis:
    """Return the axis of a class that consists of several axes: none of them is of the same class."""
    flat: list[Axis] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else [part])
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def matching_positions(old: Axis, new: Axis) -> Positions:
    """Return the positions of the entries of two axes that belong together, in the old and in the new one.

    Dimensions share their leading entries; joined axes are compared part by part, products factor by factor.

    Raises:
        AmbiguousAxis: if it cannot be told; the message is the reason.
    """
    shared = np.arange(min(old.size, new.size))
    for axis, other in ((new, old), (old, new)):
        if isinstance(axis, Unknown):
            if isinstance(other, Compound) and old.size != new.size:
                raise AmbiguousAxis(axis.reason)
            return shared, shared
    if isinstance(old, Joined) or isinstance(new, Joined):
        return _positions_of_parts(_parts(old), _parts(new))
    if isinstance(old, Product) and isinstance(new, Product) and len(old.parts) == len(new.parts):
        return _positions_of_factors(old, new)
    is_plain = isinstance(old, Dimension) and isinstance(new, Dimension) and not (old.is_fixed or new.is_fixed)
    if not is_plain and old.size != new.size:
        raise AmbiguousAxis(f"its parts differ: {sizes_text(old)}, {sizes_text(new)}")
    return shared, shared


def sizes_text(axis: Axis) -> str:
    """Return the sizes of an axis as text: `3+5` if it is joined, `4*5` for a product."""
    if isinstance(axis, Joined):
        return "+".join(sizes_text(part) for part in axis.parts)
    if isinstance(axis, Product):
        texts = [sizes_text(part) for part in axis.parts]
        return "*".join(f"({text})" if "+" in text else text for text in texts)
    return str(axis.size)


def renamed_axis(axis: Axis, renamed: Callable[[str], str]) -> Axis:
    """Return an axis with other names of its dimensions (`renamed`: returns the new name of a dimension)."""
    return _with_dimensions(axis, lambda dimension: replace(dimension, name=renamed(dimension.name)))


def _with_dimensions(axis: Axis, change: Callable[[Dimension], Dimension]) -> Axis:
    """Return an axis with other dimensions in the place of its own."""
    if isinstance(axis, Compound):
        return replace(axis, parts=tuple(_with_dimensions(part, change) for part in axis.parts))
    return change(axis) if isinstance(axis, Dimension) else axis


def dimensions_of(axis: Axis) -> dict[str, int]:
    """Return the sizes of the dimensions of an axis by name."""
    if isinstance(axis, Compound):
        return {name: size for part in axis.parts for name, size in dimensions_of(part).items()}
    return {axis.name: axis.size} if isinstance(axis, Dimension) else {}


def _parts(axis: Axis) -> Axes:
    return axis.parts if isinstance(axis, Joined) else (axis,)


def _positions_of_factors(old: Product, new: Product) -> Positions:
    old_at = new_at = np.zeros(1, dtype=np.int64)
    for before, after in zip(old.parts, new.parts, strict=True):
        old_inner, new_inner = matching_positions(before, after)
        old_at = (old_at[:, None] * before.size + old_inner).reshape(-1)
        new_at = (new_at[:, None] * after.size + new_inner).reshape(-1)
    return old_at, new_at


def _positions_of_parts(old: Axes, new: Axes) -> Positions:
    old_starts, new_starts = _starts(old), _starts(new)
    all_old, all_new = [], []
    for i, j in _matching_parts(old, new):
        old_inner, new_inner = matching_positions(old[i], new[j])
        all_old.append(old_starts[i] + old_inner)
        all_new.append(new_starts[j] + new_inner)
    return np.concatenate(all_old), np.concatenate(all_new)


def _starts(parts: Axes) -> list[int]:
    return [sum(part.size for part in parts[:i]) for i in range(len(parts))]


def _matching_parts(old: Axes, new: Axes) -> list[tuple[int, int]]:
    """Return the parts that belong together: those of one name, or of one position if no part has moved."""
    named = _parts_of_one_name(old, new)
    has_moved = any(i != j for i, j in named)
    if len(old) == len(new) and not has_moved:
        return [(i, i) for i in range(len(old))]
    if named:
        return named
    raise AmbiguousAxis(f"it was joined of {len(old)} inputs, now of {len(new)}, and none of them is the same")


def _parts_of_one_name(old: Axes, new: Axes) -> list[tuple[int, int]]:
    places: dict[Any, list[int]] = defaultdict(list)
    for i, part in enumerate(old):
        places[tuple(dimensions_of(part))].append(i)
    found = []
    for j, part in enumerate(new):
        names = tuple(dimensions_of(part))
        if names and places[names]:
            found.append((places[names].pop(0), j))
    return found


def resized_structure(structure: Structure, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, WeightStructure]:
    """Return the structure of a model whose weights have other shapes.

    Args:
        structure: of a model that consists of the same dimensions.
        shapes: of the weights of the other model, by the paths of `structure`. Weights that it lacks, or that have
            another number of axes, tell nothing.

    Returns:
        The structure of the weights in `shapes`; an axis whose parts do not follow is `Unknown`.
    """
    sizes = {f"{path}/{axis}": size for path, shape in shapes.items() for axis, size in enumerate(shape)}
    found = {}
    for path, shape in shapes.items():
        known = structure.get(path)
        if known is not None and len(known.axes) == len(shape):
            axes = [resized_axis(axis, size, sizes) for axis, size in zip(known.axes, shape, strict=True)]
            found[path] = replace(known, axes=tuple(axes))
    return found


def resized_axis(axis: Axis, size: int, sizes: Mapping[str, int]) -> Axis:
    """Return an axis with another size.

    Args:
        size: its other size.
        sizes: sizes of dimensions by name, where they are known.
    """
    if isinstance(axis, Dimension):
        return replace(axis, size=size)
    # Of what is in no weight, as the positions of a picture, nothing tells that it has changed.
    resized = _with_dimensions(axis, lambda d: replace(d, size=sizes.get(d.name, d.size)))
    if resized.size == size:
        return resized
    reason = axis.reason if isinstance(axis, Unknown) else "the sizes of its parts in the source are not known"
    return Unknown(size, reason)
