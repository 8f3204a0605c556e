"""Sizes of another model that follow from the shapes of its weights; no backend."""

from __future__ import annotations

from tfaip.model.structure.axis import Axis, Dimension, Unknown, WeightStructure, joined, product, sizes_text
from tfaip.model.structure.sizes import resized_structure

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


def test_sizes_follow_in_several_steps() -> None:
    axes: dict[str, list[Axis]] = {"x": [joined([A, B])], "y": [joined([B, C])], "c": [C]}
    assert sizes(axes, x=(10,), y=(6,), c=(2,)) == {"x": "6+4", "y": "4+2", "c": "2"}


def test_a_part_that_is_joined_twice() -> None:
    assert sizes({"x": [joined([A, A])]}, x=(6,)) == {"x": "3+3"}
    assert sizes({"x": [joined([A, A])]}, x=(7,)) == {"x": "?"}


def test_what_is_in_no_weight_has_not_changed() -> None:
    height, width = Dimension("height", 3), Dimension("width", 2)
    axes: dict[str, list[Axis]] = {"a": [A], "top": [product([height, width, A])]}
    assert sizes(axes, a=(4,), top=(24,))["top"] == "3*2*4"
    assert sizes(axes, a=(4,), top=(28,))["top"] == "?"


def test_weights_that_the_structure_does_not_have_tell_nothing() -> None:
    assert sizes({"a": [A]}, b=(3,)) == {}
    assert sizes({"a": [A]}, a=(3, 2)) == {}
