"""Entries of two axes that belong together; no backend."""

from __future__ import annotations

import pytest

from tfaip.model.structure.axis import (
    AmbiguousAxis,
    Axis,
    Dimension,
    Joined,
    Product,
    Unknown,
    WeightStructure,
    combined,
    matching_positions,
    renamed_axis,
    resized_structure,
    sizes_text,
)


def pairs(old: Axis, new: Axis) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in zip(*matching_positions(old, new), strict=True)]


def joined(parts: list[Axis]) -> Axis:
    return combined(Joined, parts)


def product(parts: list[Axis]) -> Axis:
    return combined(Product, parts)


def dimension(size: int, name: str = "d") -> Dimension:
    return Dimension(name, size)


def test_joined_axes_are_compared_part_by_part() -> None:
    old = Joined((dimension(2, "a"), dimension(1, "b")))
    new = Joined((dimension(3, "a"), dimension(2, "b")))
    assert pairs(old, new) == [(0, 0), (1, 1), (2, 3)]
    assert pairs(new, old) == [(0, 0), (1, 1), (3, 2)]
    # Dimensions share their leading entries.
    assert pairs(dimension(2), dimension(4)) == pairs(dimension(4), dimension(2, "other")) == [(0, 0), (1, 1)]


def test_parts_are_found_by_their_names_if_they_have_moved_or_are_new() -> None:
    a, b, c = dimension(2, "a"), dimension(1, "b"), dimension(2, "c")
    assert pairs(Joined((a, b)), Joined((b, a))) == [(2, 0), (0, 1), (1, 2)]
    assert pairs(Joined((a, b)), Joined((c, a, b))) == [(0, 2), (1, 3), (2, 4)]
    assert pairs(Joined((c, a, b)), b) == [(4, 0)]
    # A part that has another name at the same place is its successor: a deeper network.
    assert pairs(Joined((a, b)), Joined((c, b))) == [(0, 0), (1, 1), (2, 2)]
    # The same layer twice.
    assert pairs(Joined((b, b)), Joined((b, b, b))) == [(0, 0), (1, 1)]


def test_parts_of_another_number_and_other_names_are_ambiguous() -> None:
    with pytest.raises(AmbiguousAxis, match="^it was joined of 2 inputs, now of 1, and none of them is the same$"):
        pairs(Joined((dimension(2, "a"), dimension(1, "b"))), dimension(3, "c"))


def test_the_factors_of_a_product_are_compared_one_by_one() -> None:
    old = product([Dimension("gates", 2, is_fixed=True), dimension(2)])
    new = product([Dimension("gates", 2, is_fixed=True), dimension(3)])
    assert pairs(old, new) == [(0, 0), (1, 1), (2, 3), (3, 4)]
    # A flattened picture of 2 positions whose channels were joined: 1+1 -> 2+1.
    channels = joined([dimension(1, "a"), dimension(1, "b")]), joined([dimension(2, "a"), dimension(1, "b")])
    old, new = (product([dimension(2, "positions"), axis]) for axis in channels)
    assert pairs(old, new) == [(0, 0), (1, 2), (2, 3), (3, 5)]


def test_entries_that_are_never_more_or_fewer_must_be_equal() -> None:
    lstm, gru = (Product((Dimension("gates", gates, is_fixed=True), dimension(2))) for gates in (4, 3))
    with pytest.raises(AmbiguousAxis, match="^its parts differ: 4, 3$"):
        pairs(lstm, gru)
    with pytest.raises(AmbiguousAxis, match=r"^its parts differ: 4\*2, 6$"):
        pairs(lstm, dimension(6))


def test_unknown_axes_are_one_block_beside_what_has_no_parts() -> None:
    assert pairs(Unknown(2, "why"), dimension(3)) == pairs(dimension(3), Unknown(2, "why")) == [(0, 0), (1, 1)]
    parts = Joined((dimension(2, "a"), dimension(1, "b")))
    assert pairs(Unknown(3, "why"), parts) == [(0, 0), (1, 1), (2, 2)]
    with pytest.raises(AmbiguousAxis, match="^why$"):
        pairs(Unknown(2, "why"), parts)


A, B, C = Dimension("a", 5), Dimension("b", 7), Dimension("c", 2)
GATES = Dimension("gates", 4, is_fixed=True)


def sizes(axes: dict[str, list[Axis]], **shapes: tuple[int, ...]) -> dict[str, str]:
    """The sizes of the axes of each weight, `?` if they are not known."""
    found = resized_structure({path: WeightStructure(tuple(own)) for path, own in axes.items()}, shapes)
    return {
        path: ", ".join("?" if isinstance(axis, Unknown) else sizes_text(axis) for axis in weight.axes)
        for path, weight in found.items()
    }


def test_the_parts_of_a_join_follow_from_other_weights() -> None:
    axes: dict[str, list[Axis]] = {"a": [A], "b": [B], "top": [joined([A, B]), product([GATES, C])]}
    assert sizes(axes, a=(3,), b=(4,), top=(7, 12)) == {"a": "3", "b": "4", "top": "3+4, 4*3"}
    # All but one suffice.
    assert sizes(axes, a=(3,), top=(8, 12)) == {"a": "3", "top": "3+5, 4*3"}
    assert sizes(axes, top=(8, 12)) == {"top": "?, 4*3"}
    # They do not add up, or not to whole gates.
    assert sizes(axes, a=(3,), b=(4,), top=(9, 13))["top"] == "?, ?"
    # In several steps.
    axes = {"x": [joined([A, B])], "y": [joined([B, C])], "c": [C]}
    assert sizes(axes, x=(10,), y=(6,), c=(2,)) == {"x": "6+4", "y": "4+2", "c": "2"}
    # A part that is joined twice.
    assert sizes({"x": [joined([A, A])]}, x=(6,)) == {"x": "3+3"}
    assert sizes({"x": [joined([A, A])]}, x=(7,)) == {"x": "?"}
    # What is in no weight has not changed.
    axes = {"a": [A], "top": [product([Dimension("height", 3), Dimension("width", 2), A])]}
    assert sizes(axes, a=(4,), top=(24,))["top"] == "3*2*4"
    assert sizes(axes, a=(4,), top=(28,))["top"] == "?"
    # Weights that the structure does not have tell nothing.
    assert sizes({"a": [A]}, b=(3,)) == sizes({"a": [A]}, a=(3, 2)) == {}


def test_sizes_as_text_and_new_names() -> None:
    axis = product([dimension(4), joined([dimension(3, "a"), joined([dimension(5, "b"), dimension(2, "c")])])])
    assert (sizes_text(axis), axis.size) == ("4*(3+5+2)", 40)
    assert product([dimension(4)]) == dimension(4)
    axis = product([dimension(4, "x/a"), joined([dimension(3, "x/b"), Unknown(2, "why")])])
    renamed = renamed_axis(axis, lambda name: name.replace("x", "y"))
    assert renamed == product([dimension(4, "y/a"), joined([dimension(3, "y/b"), Unknown(2, "why")])])
