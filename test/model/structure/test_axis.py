"""Entries of two axes that belong together; no backend."""

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


def joined(parts: list[Axis]) -> Axis:
    return combined(Joined, parts)


def product(parts: list[Axis]) -> Axis:
    return combined(Product, parts)


def dimension(size: int, name: str = "d") -> Dimension:
    return Dimension(name, size)


a, b, c = dimension(2, "a"), dimension(1, "b"), dimension(2, "c")
PARTS = Joined((a, b))
TWO, LSTM, GRU = (Product((Dimension("gates", gates, is_fixed=True), dimension(2))) for gates in (2, 4, 3))
# A flattened picture of 2 positions whose channels were joined: 1+1 -> 2+1.
BEFORE, AFTER = (
    product([dimension(2, "positions"), joined([dimension(units, "a"), dimension(1, "b")])]) for units in (1, 2)
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Dimensions share their leading entries; what is joined is compared part by part.
        (dimension(2), dimension(4, "other"), [(0, 0), (1, 1)]),
        (PARTS, Joined((dimension(3, "a"), dimension(2, "b"))), [(0, 0), (1, 1), (2, 3)]),
        # Parts are found by their names if they have moved or are new,
        (PARTS, Joined((b, a)), [(2, 0), (0, 1), (1, 2)]),
        (PARTS, Joined((c, a, b)), [(0, 2), (1, 3), (2, 4)]),
        (Joined((b, b)), Joined((b, b, b)), [(0, 0), (1, 1)]),
        # else one of another name at the same place is the successor: a deeper network.
        (PARTS, Joined((c, b)), [(0, 0), (1, 1), (2, 2)]),
        (PARTS, dimension(3, "c"), "^it was joined of 2 inputs, now of 1, and none of them is the same$"),
        # Products are compared factor by factor; gates are never more or fewer.
        (TWO, Product((TWO.parts[0], dimension(3))), [(0, 0), (1, 1), (2, 3), (3, 4)]),
        (BEFORE, AFTER, [(0, 0), (1, 2), (2, 3), (3, 5)]),
        (LSTM, GRU, "^its parts differ: 4, 3$"),
        # Unknown axes are one block beside what has no parts.
        (Unknown(2, "why"), dimension(3), [(0, 0), (1, 1)]),
        (Unknown(3, "why"), PARTS, [(0, 0), (1, 1), (2, 2)]),
        (Unknown(2, "why"), PARTS, "^why$"),
    ],
)
def test_entries_that_belong_together(old: Axis, new: Axis, expected: list[tuple[int, int]] | str) -> None:
    for before, after, place in ((old, new, 1), (new, old, -1)):
        if isinstance(expected, str):
            if place == 1:
                with pytest.raises(AmbiguousAxis, match=expected):
                    matching_positions(before, after)
        else:
            pairs = zip(*matching_positions(before, after), strict=True)
            assert sorted((int(i), int(j))[::place] for i, j in pairs) == sorted(expected)


A, B, C = Dimension("a/0", 5), Dimension("b/0", 7), Dimension("c/0", 2)
GATES = Dimension("gates", 4, is_fixed=True)
AXES: dict[str, list[Axis]] = {"a": [A], "b": [B], "c": [C], "top": [joined([A, B]), product([GATES, C])]}
PICTURE: dict[str, list[Axis]] = {"a": [A], "top": [product([Dimension("height", 3), Dimension("width", 2), A])]}


@pytest.mark.parametrize(
    ("axes", "shapes", "expected"),
    [
        (AXES, {"a": (3,), "b": (4,), "c": (3,), "top": (7, 12)}, "3+4, 4*3"),
        (AXES, {"a": (3,), "c": (2,), "top": (10, 8)}, "3+7, 4*2"),  # what is in no weight has not changed
        (AXES, {"a": (3,), "b": (4,), "c": (3,), "top": (9, 13)}, "?, ?"),  # they do not add up
        (PICTURE, {"a": (4,), "top": (24,)}, "3*2*4"),
        (AXES, {"top": (7,)}, None),  # another number of axes, or another name, tell nothing
    ],
)
def test_parts_follow_from_the_shapes_of_other_weights(
    axes: dict[str, list[Axis]], shapes: dict[str, tuple[int, ...]], expected: str | None
) -> None:
    found = resized_structure({path: WeightStructure(tuple(own)) for path, own in axes.items()}, shapes)
    texts = {
        path: ", ".join("?" if isinstance(axis, Unknown) else sizes_text(axis) for axis in weight.axes)
        for path, weight in found.items()
    }
    alone = {path: str(shape[0]) for path, shape in shapes.items() if path in ("a", "b", "c")}
    assert texts == alone | ({} if expected is None else {"top": expected})


def test_sizes_as_text_and_new_names() -> None:
    axis = product([dimension(4), joined([dimension(3, "a"), joined([dimension(5, "b"), dimension(2, "c")])])])
    assert (sizes_text(axis), axis.size) == ("4*(3+5+2)", 40)
    axis = product([dimension(4, "x/a"), joined([dimension(3, "x/b"), Unknown(2, "why")])])
    renamed = renamed_axis(axis, lambda name: name.replace("x", "y"))
    assert renamed == product([dimension(4, "y/a"), joined([dimension(3, "y/b"), Unknown(2, "why")])])
