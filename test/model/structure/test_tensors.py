"""Axes of tensors that are reshaped, cut and combined; no backend."""

from __future__ import annotations

from tfaip.model.structure.axis import Axis, Dimension, Unknown, joined, product, sizes_text
from tfaip.model.structure.bindings import Bindings
from tfaip.model.structure.tensors import ONE, TensorAxes, broadcast, reshaped

A, B, C, D = (Dimension(name, size) for name, size in (("a", 3), ("b", 5), ("c", 8), ("d", 2)))


def text(axes: TensorAxes) -> list[str | None]:
    return [None if axis is None else "?" if isinstance(axis, Unknown) else sizes_text(axis) for axis in axes]


def test_what_is_added_consists_of_the_same_parts() -> None:
    bindings = Bindings()
    both = joined([A, B])
    assert broadcast(bindings, [(None, C), (both,)], (None, 8)) == (None, both)
    assert bindings.resolve(C) == both
    assert bindings.resolve(product([D, C])) == product([D, both])
    # A later name of a part is that part.
    assert bindings.unify(joined([A, B]), joined([Dimension("e", 3), B])) == both
    assert bindings.resolve(Dimension("e", 3)) == A


def test_parts_that_do_not_fit_are_unknown() -> None:
    assert isinstance(Bindings().unify(joined([A, B]), joined([B, A])), Unknown)
    assert Bindings().unify(Unknown(3, "why"), A) == A


def test_dimensions_of_the_data_are_given() -> None:
    bindings = Bindings()
    given = bindings.given("input", 8)
    assert bindings.unify(given, C) == given
    assert bindings.resolve(C) == given
    assert isinstance(bindings.unify(given, joined([A, B])), Unknown)
    assert text(tuple(bindings.cut(given, [3, 5], "cut"))) == ["3", "5"]


def test_a_reshape_joins_and_splits_axes() -> None:
    bindings = Bindings()
    heads = reshaped(bindings, (None, None, C), (None, None, 8), (None, None, 2, 4), "r")
    assert (text(heads), sizes_text(bindings.resolve(C))) == ([None, None, "2", "4"], "2*4")
    assert reshaped(bindings, heads, (None, None, 2, 4), (None, None, 8), "s")[-1] == bindings.resolve(C)
    # In other groups, and again as it was.
    picture: tuple[Axis | None, ...] = (None, A, D, B)
    assert text(reshaped(bindings, picture, (None, 3, 2, 5), (None, 6, 5), "t")) == [None, "3*2", "5"]
    assert text(reshaped(bindings, picture, (None, 3, 2, 5), (None, 30), "t")) == [None, "3*2*5"]
    whole = reshaped(bindings, picture, (None, 3, 2, 5), (None, 30), "t")
    assert reshaped(bindings, whole, (None, 30), (None, 3, 10), "u")[1:] == (A, product([D, B]))
    assert text(reshaped(bindings, whole, (None, 30), (None, 5, 6), "u")) == [None, "?", "?"]


def test_axes_of_size_one_come_and_go() -> None:
    bindings = Bindings()
    assert reshaped(bindings, (None, A, B), (None, 3, 5), (None, 3, 1, 5), "r") == (None, product([A]), ONE, B)
    assert reshaped(bindings, (None, A, ONE, B), (None, 3, 1, 5), (None, 3, 5), "r") == (None, A, B)


def test_a_reshape_ends_at_an_axis_of_any_size() -> None:
    assert text(reshaped(Bindings(), (None, None, A), (None, None, 3), (None, 3), "r")) == [None, "3"]
    assert text(reshaped(Bindings(), (None, None, A), (None, None, 3), (None, 6), "r")) == [None, "?"]


def test_pieces_of_an_axis() -> None:
    bindings = Bindings()
    assert bindings.cut(joined([A, B]), [3, 5], "x") == [A, B]
    # A dimension becomes a join, at first of two parts, then of three.
    assert text(tuple(bindings.cut(C, [2, 6], "x"))) == ["2", "6"]
    assert text(tuple(bindings.cut(C, [4, 4], "y"))) == ["2+2", "4"]
    assert sizes_text(bindings.resolve(C)) == "2+2+4"
    product_axis = product([A, D])
    assert text(tuple(bindings.cut(product_axis, [1, 5], "z"))) == ["?", "?"]
