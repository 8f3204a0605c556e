"""Comparison of a weight with its source in another size: which of their entries belong together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tfaip.model.structure.axis import (
    AmbiguousAxis,
    Axes,
    Axis,
    Dimension,
    Joined,
    Positions,
    Structure,
    Unknown,
    WeightStructure,
    combined,
    matching_positions,
    renamed_axis,
    resized_axis,
    sizes_text,
)
from tfaip.params.fields import FieldAdvice
from tfaip.trainer.pathpatterns import matching_paths, path_matches
from tfaip.util.text import shorten, shorten_text

if TYPE_CHECKING:
    from collections.abc import Callable

Shape = tuple[int, ...]
Blocks = Mapping[str, Sequence[int]]

_NO_STRUCTURE = WeightStructure((), inputs=None)


@dataclass(frozen=True)
class Fit:
    """Entries of a weight that come from its source.

    Args:
        old: axes of the source.
        new: axes of the weight.
    """

    old: Axes
    new: Axes

    def positions(self) -> list[Positions]:
        """Return the positions that belong together, for each axis.

        Raises:
            AmbiguousAxis: if they cannot be told.
        """
        return [matching_positions(old, new) for old, new in zip(self.old, self.new, strict=True)]

    @property
    def reason(self) -> str:
        """Reason why it may be wrong to take an axis as one block; empty: there is none."""
        pairs = [(old, new) for old, new in zip(self.old, self.new, strict=True) if old.size != new.size]
        reasons = [axis.reason for pair in pairs for axis in reversed(pair) if isinstance(axis, Unknown)]
        return f"as one block, since {reasons[0]}: if its inputs were joined, give blocks" if reasons else ""

    def is_whole(self) -> bool:
        """Return True if source and weight are equal, entry by entry."""
        for axis, (old, new) in zip(self.new, self.positions(), strict=True):
            everything = np.arange(axis.size)
            if not (np.array_equal(old, everything) and np.array_equal(new, everything)):
                return False
        return all(old.size == new.size for old, new in zip(self.old, self.new, strict=True))

    def copy(self, source: np.ndarray, initial: np.ndarray) -> np.ndarray:
        """Return the values of the weight.

        Args:
            source: values of its source.
            initial: its own values, for the entries that the source lacks.
        """
        positions = self.positions()
        values = np.array(initial)
        if not positions:
            return np.array(source, dtype=values.dtype)
        values[np.ix_(*(new for _, new in positions))] = source[np.ix_(*(old for old, _ in positions))]
        return values

    def __str__(self) -> str:
        texts = [", ".join(sizes_text(axis) for axis in axes) for axes in (self.old, self.new)]
        return " -> ".join(f"[{text}]" for text in texts)


@dataclass(frozen=True)
class Fitting:
    """Rules by which a weight is compared with its source.

    Args:
        structure: of the target.
        blocks: sizes of joined inputs in the source, by a pattern on paths of the target. A list may also hold the
            new sizes after the old ones, for inputs that the structure does not tell.
        renamed: the name in the target of a dimension of a source.
    """

    structure: Structure = field(default_factory=dict)
    blocks: Blocks = field(default_factory=dict)
    renamed: Callable[[str], str] = str

    def fit(self, path: str, shape: Shape, source_shape: Shape, source: WeightStructure | None) -> Fit:
        """Compare a weight with its source, which has as many axes.

        Args:
            path: of the weight.
            shape: its shape.
            source_shape: shape of the source.
            source: structure of the source; None: not known.

        Raises:
            AmbiguousAxis: if it cannot be told which entries belong together.
        """
        target = self._structure_of(path, shape)
        old = [_unknown(size) for size in source_shape]
        if source is not None and tuple(axis.size for axis in source.axes) == source_shape:
            old = [renamed_axis(axis, self.renamed) for axis in source.axes]
        new = list(target.axes)
        given = self._blocks_of(path)
        if given is not None:
            for axis in _axes_of_blocks(target, source_shape, given):
                old[axis], new[axis] = _given_axis(new[axis], shape[axis], source_shape[axis], given)
            # Who knows the inputs of a weight knows that nothing else in it is joined.
            for axis in range(len(new)):
                if isinstance(old[axis], Unknown) or isinstance(new[axis], Unknown):
                    old[axis], new[axis] = Dimension("", source_shape[axis]), Dimension("", shape[axis])
        fit = Fit(tuple(old), tuple(new))
        fit.positions()
        return fit

    def check_blocks(self, source_shapes: Mapping[str, Shape | None]) -> None:
        """Raise unless each entry of `blocks` fits a weight.

        Args:
            source_shapes: shape of the source of each target; None: it has none.

        Raises:
            FieldAdvice: if a pattern matches no target, or its sizes do not add up to inputs of any of them.
        """
        for pattern, sizes in self.blocks.items():
            paths = matching_paths(pattern, "blocks", "weight", source_shapes)
            shapes = {path: source_shapes[path] for path in paths}
            fits = [_axes_of_blocks(self.structure.get(p, _NO_STRUCTURE), s, sizes) for p, s in shapes.items() if s]
            if not any(fits):
                listed = [
                    f"{path} ({'x'.join(map(str, shape)) if shape else 'no source'})" for path, shape in shapes.items()
                ]
                raise FieldAdvice(
                    f"{{blocks}} {shorten(pattern)} gives {shorten(list(sizes))}, which are the inputs of no weight "
                    f"that it matches; in the source these are {shorten_text(', '.join(listed), 120)}",
                    "blocks",
                )

    def _blocks_of(self, path: str) -> Sequence[int] | None:
        """Return the blocks that the user gave for a weight, if any."""
        for pattern, sizes in self.blocks.items():
            if path_matches(re.compile(pattern), path):
                return sizes
        return None

    def _structure_of(self, path: str, shape: Shape) -> WeightStructure:
        known = self.structure.get(path, _NO_STRUCTURE)
        if tuple(axis.size for axis in known.axes) == shape:
            return known
        return WeightStructure(tuple(_unknown(size) for size in shape))


def _unknown(size: int) -> Axis:
    return Unknown(size, "its inputs are not known")


def _axes_of_blocks(target: WeightStructure, source_shape: Shape, sizes: Sequence[int]) -> list[int]:
    """Return the axes of a weight that blocks are meant for: those of inputs, else the first one that fits."""
    totals = _totals(sizes)
    if target.inputs is not None:
        return [axis for axis in target.inputs if axis < len(source_shape) and source_shape[axis] in totals]
    return [axis for axis, size in enumerate(source_shape) if size in totals][:1]


def _totals(sizes: Sequence[int]) -> set[int]:
    totals = {sum(sizes)}
    if len(sizes) % 2 == 0:
        totals.add(sum(sizes[: len(sizes) // 2]))
    return totals


def _given_axis(axis: Axis, new_size: int, old_size: int, sizes: Sequence[int]) -> tuple[Axis, Axis]:
    """Return the old and the new axis of inputs whose sizes the user gave."""
    half = len(sizes) // 2
    if len(sizes) % 2 == 0 and sum(sizes[:half]) == old_size:
        if sum(sizes[half:]) != new_size:
            raise AmbiguousAxis(
                f"blocks gives {list(sizes)}, but there are {old_size} inputs in the source, {new_size} here"
            )
        return _named(sizes[:half]), _named(sizes[half:])
    if len(sizes) == 1:
        return _named(sizes), _named([new_size])
    parts = axis.parts if isinstance(axis, Joined) else ()
    if len(parts) != len(sizes):
        raise AmbiguousAxis(
            f"blocks gives {len(sizes)} inputs, the model joins {len(parts) or 'an unknown number'}: "
            "give the new sizes after the old ones"
        )
    return combined(Joined, [resized_axis(part, size, {}) for part, size in zip(parts, sizes, strict=True)]), axis


def _named(sizes: Sequence[int]) -> Axis:
    return combined(Joined, [Dimension(f"block {i}", size) for i, size in enumerate(sizes)])
