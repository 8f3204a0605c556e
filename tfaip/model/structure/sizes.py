"""Sizes of the dimensions of another model, worked out from the shapes of its weights. Needs no backend.

A file of weights tells shapes, but not which layers were joined. If the model is that of a known structure in another
size, most dimensions follow: the units of a layer are an axis of its bias, so both parts of a kernel after the
`Concatenate` of two layers are known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tfaip.model.structure.axis import Axis, Compound, Dimension, Joined, Structure, Unknown, WeightStructure

Shape = tuple[int, ...]
Sizes = dict[str, int]


def resized_structure(structure: Structure, shapes: Mapping[str, Shape]) -> dict[str, WeightStructure]:
    """Return the structure of a model whose weights have other shapes.

    Args:
        structure: of a model that consists of the same dimensions.
        shapes: of the weights of the other model, by the paths of `structure`. Weights that it lacks, or that have
            another number of axes, tell nothing.

    Returns:
        The structure of the weights in `shapes`; an axis whose parts do not follow is `Unknown`.
    """
    usable = {path: shape for path, shape in shapes.items() if _fits(structure.get(path), shape)}
    sizes = _solved_sizes(structure, usable)
    result = {}
    for path, shape in usable.items():
        weight = structure[path]
        axes = [resized_axis(axis, size, sizes) for axis, size in zip(weight.axes, shape, strict=True)]
        result[path] = replace(weight, axes=tuple(axes))
    return result


def resized_axis(axis: Axis, size: int, sizes: Mapping[str, int]) -> Axis:
    """Return an axis with another size.

    Args:
        axis: the axis.
        size: its other size.
        sizes: sizes of dimensions by name, where they are known.
    """
    if isinstance(axis, Dimension):
        return axis if axis.is_fixed and axis.size == size else Dimension(axis.name, size, axis.is_fixed)
    found = dict(sizes)
    _solve(axis, size, found)
    # Of what is in no weight, as the positions of a picture, nothing tells that it has changed.
    for known in (found, {**_sizes_of(axis), **found}):
        resized = _with_sizes(axis, known)
        if resized is not None and resized.size == size:
            return resized
    reason = axis.reason if isinstance(axis, Unknown) else "the sizes of its parts in the source are not known"
    return Unknown(size, reason)


def _fits(weight: WeightStructure | None, shape: Shape) -> bool:
    return weight is not None and len(weight.axes) == len(shape)


def _solved_sizes(structure: Structure, shapes: Mapping[str, Shape]) -> Sizes:
    sizes: Sizes = {}
    count = -1
    while len(sizes) > count:
        count = len(sizes)
        for path, shape in shapes.items():
            for axis, size in zip(structure[path].axes, shape, strict=True):
                _solve(axis, size, sizes)
    return sizes


def _solve(axis: Axis, size: int, sizes: Sizes) -> None:
    """Add the sizes that follow from the size of an axis: those of a single part that is not yet known."""
    if isinstance(axis, Dimension):
        if not axis.is_fixed:
            sizes.setdefault(axis.name, size)
        return
    if isinstance(axis, Unknown):
        return
    missing = [part for part in axis.parts if _size(part, sizes) is None]
    known = [part_size for part in axis.parts if (part_size := _size(part, sizes)) is not None]
    # The same part may be joined several times.
    if not missing or any(part != missing[0] for part in missing):
        return
    if isinstance(axis, Joined):
        rest, remainder = divmod(size - sum(known), len(missing))
    elif len(missing) > 1:
        return
    else:
        rest, remainder = divmod(size, math.prod(known))
    if rest > 0 and remainder == 0:
        _solve(missing[0], rest, sizes)


def _sizes_of(axis: Axis) -> Sizes:
    """Return the sizes of the dimensions of an axis by name."""
    if isinstance(axis, Dimension):
        return {axis.name: axis.size}
    sizes: Sizes = {}
    if isinstance(axis, Compound):
        for part in axis.parts:
            sizes.update(_sizes_of(part))
    return sizes


def _size(axis: Axis, sizes: Mapping[str, int]) -> int | None:
    resized = _with_sizes(axis, sizes)
    return None if resized is None else resized.size


def _with_sizes(axis: Axis, sizes: Mapping[str, int]) -> Axis | None:
    """Return an axis whose dimensions have these sizes; None if one is not known."""
    if isinstance(axis, Dimension):
        if axis.is_fixed:
            return axis
        return Dimension(axis.name, sizes[axis.name]) if axis.name in sizes else None
    if isinstance(axis, Unknown):
        return None
    resized = [_with_sizes(part, sizes) for part in axis.parts]
    known = tuple(part for part in resized if part is not None)
    return replace(axis, parts=known) if len(known) == len(resized) else None
