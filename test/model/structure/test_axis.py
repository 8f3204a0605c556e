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
    joined,
    matching_positions,
    product,
    renamed_axis,
    sizes_text,
)


def pairs(old: Axis, new: Axis) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in zip(*matching_positions(old, new), strict=True)]


def dimension(size: int, name: str = "d") -> Dimension:
    return Dimension(name, size)


def test_dimensions_share_their_leading_entries() -> None:
    assert pairs(dimension(2), dimension(4)) == [(0, 0), (1, 1)]
    assert pairs(dimension(4), dimension(2, "other")) == [(0, 0), (1, 1)]


def test_joined_axes_are_compared_part_by_part() -> None:
    old = Joined((dimension(2, "a"), dimension(1, "b")))
    new = Joined((dimension(3, "a"), dimension(2, "b")))
    assert pairs(old, new) == [(0, 0), (1, 1), (2, 3)]
    assert pairs(new, old) == [(0, 0), (1, 1), (3, 2)]


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


def test_unknown_axes_match_if_their_size_stays() -> None:
    assert pairs(Unknown(2, "why"), dimension(2)) == [(0, 0), (1, 1)]
    for old, new in ((Unknown(2, "why"), dimension(3)), (dimension(2), Unknown(3, "why"))):
        with pytest.raises(AmbiguousAxis, match="^why$"):
            pairs(old, new)


def test_sizes_as_text() -> None:
    axis = product([dimension(4), joined([dimension(3, "a"), joined([dimension(5, "b"), dimension(2, "c")])])])
    assert (sizes_text(axis), axis.size) == ("4*(3+5+2)", 40)
    assert product([dimension(4)]) == dimension(4)


def test_names_may_change() -> None:
    axis = product([dimension(4, "x/a"), joined([dimension(3, "x/b"), Unknown(2, "why")])])
    renamed = renamed_axis(axis, lambda name: name.replace("x", "y"))
    assert renamed == product([dimension(4, "y/a"), joined([dimension(3, "y/b"), Unknown(2, "why")])])
