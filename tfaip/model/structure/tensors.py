"""Axes of tensors, and what operations that only move entries do with them. Needs no backend.

The axes of a tensor are those of weights, or None for an axis that may have any size: samples and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tfaip.model.structure.axis import Axis, Dimension, Unknown, product
from tfaip.model.structure.bindings import Bindings

TensorAxis: TypeAlias = Axis | None
TensorAxes: TypeAlias = tuple[TensorAxis, ...]
Shape: TypeAlias = tuple[int | None, ...]

ONE = Dimension("one", 1, is_fixed=True)


def unknown_axes(shape: Shape, reason: str) -> TensorAxes:
    """Return the axes of a tensor of which nothing but the shape is known."""
    return tuple(None if size is None else Unknown(size, reason) for size in shape)


def sized_like(axes: TensorAxes, shape: Shape, reason: str) -> TensorAxes:
    """Return axes, but those that do not have the size in a shape as unknown."""
    if len(axes) != len(shape):
        return unknown_axes(shape, reason)
    found: list[TensorAxis] = []
    for axis, size in zip(axes, shape, strict=True):
        if size is None:
            found.append(None)
        else:
            found.append(axis if axis is not None and axis.size == size else Unknown(size, reason))
    return tuple(found)


def broadcast(bindings: Bindings, tensors: Sequence[TensorAxes], shape: Shape) -> TensorAxes:
    """Return the axes of tensors that are combined entry by entry.

    Args:
        bindings: told which entries are the same.
        tensors: axes of the operands.
        shape: of the result.
    """
    result: list[TensorAxis] = []
    for place, size in enumerate(shape):
        found: TensorAxis = None
        for axes in tensors:
            at = place - len(shape) + len(axes)
            axis = axes[at] if at >= 0 else None
            if axis is None or axis.size != size:
                continue
            found = axis if found is None else bindings.unify(found, axis)
        if size is not None and found is None:
            found = Unknown(size, "it is made of constants")
        result.append(None if size is None else found)
    return tuple(result)


def reshaped(bindings: Bindings, axes: TensorAxes, old: Shape, new: Shape, name: str) -> TensorAxes:
    """Return the axes of a reshaped tensor.

    Axes are compared from the last one on, up to one that may have any size.

    Args:
        bindings: told of dimensions that are cut.
        axes: before.
        old: shape before.
        new: shape after.
        name: of new dimensions.
    """
    result: list[TensorAxis] = []
    i, j = len(old), len(new)
    while i > 0 and j > 0:
        start_i, start_j = _group(old[:i], new[:j])
        if start_i < 0:
            break
        before = [axis for axis in axes[start_i:i] if axis is not None]
        made = _regrouped(bindings, before, new[start_j:j], f"{name}/{start_j}")
        result = [*made, *result]
        i, j = start_i, start_j
    rest = unknown_axes(new[:j], "a reshape mixes it with an axis of any size")
    return (*rest, *result)


def _group(old: Shape, new: Shape) -> tuple[int, int]:
    """Return where the shortest equal products begin that two shapes end with; -1: there are none."""
    i, j = len(old) - 1, len(new) - 1
    left, right = old[i], new[j]
    while left is not None and right is not None and left != right:
        if left < right:
            i -= 1
            factor = old[i] if i >= 0 else None
            left = None if factor is None else left * factor
        else:
            j -= 1
            factor = new[j] if j >= 0 else None
            right = None if factor is None else right * factor
    return (-1, -1) if left is None or right is None else (i, j)


def _regrouped(bindings: Bindings, axes: Sequence[Axis], shape: Shape, name: str) -> list[TensorAxis]:
    sizes = [size for size in shape if size is not None]
    above_one = [axis for axis in axes if axis.size > 1]
    whole = product(above_one if len(above_one) == 1 else axes)
    if len(sizes) == 1:
        return [whole]
    if sum(size > 1 for size in sizes) == 1:
        return [whole if size > 1 else ONE for size in sizes]
    factors = [Dimension(f"{name}/{i}", size) for i, size in enumerate(sizes)]
    return list(bindings.split(whole, factors))
