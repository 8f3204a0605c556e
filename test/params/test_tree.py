"""Walking, reading, setting and comparing params trees."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.tree import Change, diff, place_at


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
    numbers: list[int] = field(default_factory=lambda: [1, 2])
    one: Leafy = field(default_factory=Leafy)
    many: list[Leafy] = field(default_factory=lambda: [Leafy(), Special(x=5)])
    by_key: dict[Any, Leafy] = field(default_factory=lambda: {"a": Leafy(), 2: Leafy(y=9)})
    maybe: Leafy | None = None


def test_diff() -> None:
    old, new = Tree(), Tree()
    new.numbers, new.one, new.maybe, new.by_key["a"].y = [1], Special(x=2), Leafy(), math.inf
    new.many.pop()
    assert [str(change) for change in diff(old, new)] == [
        "numbers: [1, 2] -> [1]",
        *("one: Leafy -> Special", "one.x: 1 -> 2", "one.z: (absent) -> 3"),
        *("many.1: Special -> (absent)", "many.1.x: 5 -> (absent)", "many.1.y: 0.5 -> (absent)"),
        *("many.1.z: 3 -> (absent)", "by_key.a.y: 0.5 -> inf"),
        *("maybe: None -> Leafy", "maybe.x: (absent) -> 1", "maybe.y: (absent) -> 0.5"),
    ]
    old.one.y = math.nan
    assert diff(old, copy.deepcopy(old)) == []
    assert diff([1.0, math.nan], [1.0, float("nan")]) == []
    assert diff([1.0, math.nan], [2.0, math.nan]) != []
    assert [change.path for change in diff(Tree(many=[]), Tree(many=[Leafy()]))] == ["many.0", "many.0.x", "many.0.y"]
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

    paths = ["no_flags.shown", "inner", "inner.shown", "inner.hidden", "items.0.shown", "items.0.hidden", "x.hidden"]
    assert [path for path in paths if place_at(Outer(), "", path).is_hidden] == [
        "no_flags.shown",
        "inner.hidden",
        "items.0.hidden",
    ]
