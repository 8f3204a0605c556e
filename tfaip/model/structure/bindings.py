"""Equations between axes: what is known of a dimension is known wherever it occurs. Needs no backend.

Entries that are added or multiplied belong together: if the outputs of a `Dense` layer are added to two joined inputs,
the columns of its kernel consist of two parts, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfaip.model.structure.axis import Axis, Compound, Dimension, Joined, Product, Unknown, combined, joined, product

_CONFLICT = "layers with different parts meet in it"


class Bindings:
    """Dimensions that turned out to be another axis.

    The dimensions of the data are given: they are never bound.
    """

    def __init__(self) -> None:
        self._axes: dict[str, Axis] = {}
        self._given: set[str] = set()

    def given(self, name: str, size: int) -> Dimension:
        """Return a dimension that is never bound."""
        self._given.add(name)
        return Dimension(name, size)

    def resolve(self, axis: Axis) -> Axis:
        """Return an axis in terms of dimensions that are not bound."""
        if isinstance(axis, Dimension):
            bound = self._axes.get(axis.name)
            return axis if bound is None else self.resolve(bound)
        if isinstance(axis, Compound):
            return combined(type(axis), [self.resolve(part) for part in axis.parts])
        return axis

    def unify(self, first: Axis, second: Axis) -> Axis:
        """Note that the entries of two axes of one size are the same, and return them as one axis."""
        first, second = self.resolve(first), self.resolve(second)
        if first == second or isinstance(second, Unknown):
            return first
        if isinstance(first, Unknown):
            return second
        if first.size != second.size:
            return Unknown(first.size, _CONFLICT)
        # The earlier name stays, unless the later axis has parts.
        if self._bind(second, first) or self._bind(first, second):
            return self.resolve(first)
        if not (isinstance(first, Compound) and isinstance(second, Compound) and _are_alike(first, second)):
            return Unknown(first.size, _CONFLICT)
        return combined(type(first), [self.unify(*pair) for pair in zip(first.parts, second.parts, strict=True)])

    def split(self, axis: Axis, factors: Sequence[Axis]) -> list[Axis]:
        """Return the factors of an axis that is reshaped to several.

        Args:
            axis: the axis.
            factors: new dimensions with the sizes of the factors.
        """
        axis = self.resolve(axis)
        if isinstance(axis, Product):
            split = _split_product(axis, [factor.size for factor in factors])
            if split is not None:
                return split
        if self._bind(axis, product(factors)):
            return list(factors)
        return [
            Unknown(factor.size, "a dimension is cut by a reshape that does not follow its parts") for factor in factors
        ]

    def cut(self, axis: Axis, sizes: Sequence[int], name: str) -> list[Axis]:
        """Return the parts of an axis that is cut into pieces.

        Args:
            axis: the axis.
            sizes: of the pieces, in order.
            name: of new dimensions, if the axis has no parts yet.
        """
        axis = self.resolve(axis)
        if isinstance(axis, Joined):
            return _grouped(axis.parts, sizes) or self._cut_parts(axis, sizes, name)
        if len(sizes) == 1:
            return [axis]
        new: list[Axis] = [Dimension(f"{name}/{i}", size) for i, size in enumerate(sizes)]
        if isinstance(axis, Dimension) and axis.name in self._given:
            return new
        if self._bind(axis, joined(new)):
            return new
        return [Unknown(size, "it is cut where no part of it ends") for size in sizes]

    def _cut_parts(self, axis: Joined, sizes: Sequence[int], name: str) -> list[Axis]:
        """Cut the parts of an axis that contain the ends of pieces, then try again."""
        ends = {sum(sizes[: i + 1]) for i in range(len(sizes))}
        start, was_cut = 0, False
        for i, part in enumerate(axis.parts):
            inner = sorted(end - start for end in ends if start < end < start + part.size)
            start += part.size
            if inner:
                bounds = [0, *inner, part.size]
                lengths = [bounds[k + 1] - bounds[k] for k in range(len(bounds) - 1)]
                cut = self.cut(part, lengths, f"{name}/{i}")
                was_cut = was_cut or not any(isinstance(piece, Unknown) for piece in cut)
        resolved = self.resolve(axis)
        pieces = _grouped(resolved.parts, sizes) if was_cut and isinstance(resolved, Joined) else None
        return pieces or [Unknown(size, "it is cut where no part of it ends") for size in sizes]

    def _bind(self, axis: Axis, other: Axis) -> bool:
        if not isinstance(axis, Dimension) or axis.is_fixed or axis.name in self._given or _contains(other, axis):
            return False
        self._axes[axis.name] = other
        return True


def _contains(axis: Axis, dimension: Dimension) -> bool:
    if isinstance(axis, Compound):
        return any(_contains(part, dimension) for part in axis.parts)
    return isinstance(axis, Dimension) and axis.name == dimension.name


def _are_alike(first: Compound, second: Compound) -> bool:
    """Return True if two axes consist in the same way of parts of the same sizes."""
    return type(first) is type(second) and [part.size for part in first.parts] == [part.size for part in second.parts]


def _split_product(axis: Product, sizes: Sequence[int]) -> list[Axis] | None:
    """Return the factors of a product in groups of these sizes; None: there are none."""
    groups: list[Axis] = []
    factors = list(axis.parts)
    for size in sizes:
        group = [factors.pop(0)] if factors else []
        while factors and math.prod(factor.size for factor in group) < size:
            group.append(factors.pop(0))
        if not group or math.prod(factor.size for factor in group) != size:
            return None
        groups.append(product(group))
    return None if factors else groups


def _grouped(parts: Sequence[Axis], sizes: Sequence[int]) -> list[Axis] | None:
    """Return joined parts in groups of these sizes; None: there are none."""
    groups: list[Axis] = []
    left = list(parts)
    for size in sizes:
        group: list[Axis] = []
        while left and sum(part.size for part in group) < size:
            group.append(left.pop(0))
        if sum(part.size for part in group) != size:
            return None
        groups.append(joined(group))
    return None if left else groups
