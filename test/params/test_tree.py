"""Walking, reading, setting and comparing params trees."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.tree import ABSENT, Change, diff, place_at


@dataclass
class Leafy:
    """A dataclass that is not ours: a node as well."""

    x: int = 1
    y: float = 0.5


@dataclass
class Special(Leafy):
    z: int = 3


@dataclass
class Tree(ParamsBase):
    name: str = "tree"
    numbers: list[int] = field(default_factory=lambda: [1, 2])
    one: Leafy = field(default_factory=Leafy)
    many: list[Leafy] = field(default_factory=lambda: [Leafy(), Special(x=5)])
    by_key: dict[Any, Leafy] = field(default_factory=lambda: {"a": Leafy(), 2: Leafy(y=9)})
    pair: tuple[Leafy, int] = field(default_factory=lambda: (Leafy(), 7))
    maybe: Leafy | None = None
    points: dict[float, float] = field(default_factory=lambda: {0.5: 1.0})


def test_diff_of_values() -> None:
    old, new = Tree(), Tree()
    new.one.y, new.numbers, new.by_key["a"].x = math.inf, [1], 4
    assert diff(old, new) == [
        Change("numbers", [1, 2], [1]),
        Change("one.y", 0.5, math.inf),
        Change("by_key.a.x", 1, 4),
    ]
    assert str(diff(old, new)[1]) == "one.y: 0.5 -> inf"


def test_diff_of_classes_and_lengths() -> None:
    old, new = Tree(), Tree()
    new.one, new.maybe = Special(x=2), Leafy()
    new.many.pop()
    assert diff(old, new) == [
        Change("one", Leafy, Special),
        Change("one.x", 1, 2),
        Change("one.z", ABSENT, 3),
        Change("many.1", Special, ABSENT),
        Change("many.1.x", 5, ABSENT),
        Change("many.1.y", 0.5, ABSENT),
        Change("many.1.z", 3, ABSENT),
        Change("maybe", None, Leafy),
        Change("maybe.x", ABSENT, 1),
        Change("maybe.y", ABSENT, 0.5),
    ]
    assert str(diff(old, new)[0]) == "one: Leafy -> Special"
    assert str(diff(old, new)[2]) == "one.z: (absent) -> 3"


def test_equal_trees_have_no_differences() -> None:
    tree = Tree()
    tree.one.y = math.nan
    assert diff(tree, copy.deepcopy(tree)) == []
    assert diff([1.0, math.nan], [1.0, float("nan")]) == []
    assert diff([1.0, math.nan], [2.0, math.nan]) != []
    emptied = Tree(many=[])
    assert [change.path for change in diff(emptied, Tree(many=[Leafy()]))] == ["many.0", "many.0.x", "many.0.y"]
    assert diff(Leafy(x=True), Leafy(x=1)) == [Change("x", True, 1)]


def test_hidden_fields_are_those_without_a_flag():
    @pai_dataclass
    @dataclass
    class Inner(ParamsBase):
        shown: int = 1
        hidden: int = field(default=2, metadata=pai_meta(mode="ignore"))

    @pai_dataclass
    @dataclass
    class Outer(ParamsBase):
        inner: Inner = field(default_factory=Inner)
        items: list[Inner] = field(default_factory=lambda: [Inner()])
        no_flags: Inner = field(default_factory=Inner, metadata=pai_meta(mode="ignore"))

    paths = [
        "no_flags.shown",
        "inner",
        "inner.shown",
        "inner.hidden",
        "items.0.shown",
        "items.0.hidden",
        "nowhere.hidden",
        "__cls__",
    ]
    assert [path for path in paths if place_at(Outer(), "", path).is_hidden] == [
        "no_flags.shown",
        "inner.hidden",
        "items.0.hidden",
    ]
