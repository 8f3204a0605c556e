"""What params hold is checked against their types and what a file would give back; differences of trees."""

from __future__ import annotations

import copy
import math
import tracemalloc
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Tuple  # noqa: UP035

import numpy as np
import pytest

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option
from tfaip.params.resource import Resource
from tfaip.params.settings import conform, prepare, require_readable
from tfaip.params.tree import Change, diff
from tfaip.params.types import FunctionName


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class PartParams(ParamsBase):
    units: int = 8
    rate: float = 0.5


def begin(params: HolderParams) -> None:
    prepare(params, "holder")
    require_readable(params, HolderParams, "holder")


class HolderParams(ParamsBase):
    epochs: int = 3
    scale: float = 1.0
    eager: bool = False
    name: str = "n"
    shape: Tuple[int, int, int] = (1, 2, 3)  # noqa: UP006
    rates: dict[str, float] = {}
    sizes: list[int] = []
    either: float | bool = 0.5
    color: Color = Color.RED
    file: Resource | None = None
    directory: Path | None = None
    function: FunctionName = FunctionName("")
    anything: Any = None
    part: PartParams = PartParams()
    near: PartParams = option(PartParams(), mode="ssnake")
    parts: list[PartParams] = []
    slashed: list[PartParams] = option([], separator="/")
    hidden: int = option(0, mode="ignore")
    late: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.epochs < 0:
            raise ValueError("epochs is negative")


class MisfitParams(ParamsBase):
    masking: int = False
    extra: Tuple[int, int] = (4, 0.3)  # type: ignore[assignment]  # noqa: UP006


def test_a_default_of_the_class_need_not_fit_its_type() -> None:
    params = MisfitParams()
    prepare(params, "misfit")
    require_readable(params, MisfitParams, "misfit")
    assert MisfitParams.from_json(params.to_json()) == params == MisfitParams(False, (4, 0.3))  # type: ignore[arg-type]
    params.extra = (4, 0.4)  # type: ignore[assignment]
    with pytest.raises(UsageError, match="misfit.extra"):
        prepare(params, "misfit")
    with pytest.raises(UsageError, match=r"extra.*0\.4"):
        MisfitParams.from_dict({"extra": [4, 0.4]})


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("scale", 2, 2.0),
        ("scale", np.float64(0.25), 0.25),
        ("epochs", 4.0, 4),
        ("eager", 1, True),
        ("either", 1, 1.0),
        ("shape", [4, 1.0, 0], (4, 1, 0)),
        ("rates", {"ctc": 1}, {"ctc": 1.0}),
        ("sizes", (1, 2), [1, 2]),
        ("color", "BLUE", Color.BLUE),
        ("name", Path("a") / "b", "a/b"),
        ("file", "/a/b", Resource("/a/b")),
        ("function", "math:sqrt", FunctionName("math:sqrt")),
        ("anything", (1, [2.5, "x"]), [1, [2.5, "x"]]),
    ],
)
def test_what_a_type_can_hold_without_loss_is_converted(name: str, given: Any, kept: Any) -> None:
    params = HolderParams()
    setattr(params, name, given)
    sizes, params.near.rate = params.sizes, math.nan
    conform(params, "holder")
    value = getattr(params, name)
    assert (type(value), value) == (type(kept), kept)
    assert params.sizes is sizes or name == "sizes"  # what fits stays the same object
    require_readable(params, HolderParams, "holder")


NESTED: list[Any] = []
NESTED.append(NESTED)


class CountingParams(ParamsBase):
    """Not as params should be: each run of `__post_init__` changes them."""

    count: int = 0

    def __post_init__(self) -> None:
        self.count += 1


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("epochs", 2.5, "--holder.epochs: expected int, got 2.5"),
        ("shape", (4, 1.0, 0.3), "--holder.shape.2: expected int, got 0.3"),
        ("function", "math:nothing", "--holder.function is 'math:nothing', expected a function that module math has"),
        ("near.units", "x", "--near.units: expected int, got 'x'"),
        ("parts", [PartParams(units=None)], "--holder.parts.0.units: expected int, got None"),  # type: ignore[arg-type]
        ("slashed", [PartParams(rate="r")], "--holder/slashed/0.rate: expected float, got 'r'"),  # type: ignore[arg-type]
        ("part", None, "--holder.part: expected PartParams, got None"),
        ("part", object(), "--holder.part: expected PartParams, got <object object at"),
        ("part", PartParams, "--holder.part: expected PartParams, got <class 'test.params.test_storable.PartParams'>"),
        ("parts", [PartParams], "--holder.parts: expected list[PartParams], got [<class"),
        ("hidden", "x", "holder.hidden: expected int, got 'x'"),
        ("anything", Color.RED, "--holder.anything is <Color.RED: 'red'>, but would be read from a file as 'red'"),
        ("anything", {1: 2}, "--holder.anything is {1: 2}, but would be read from a file as {'1': 2}"),
        ("anything", {"a": [PartParams("x")]}, "--holder.anything.a.0.units: expected int, got 'x'"),  # type: ignore[arg-type]
        ("anything", [None, PartParams("x")], "--holder.anything.1.units: expected int, got 'x'"),  # type: ignore[arg-type]
        ("anything", NESTED, "--holder.anything contains itself, or is nested too deeply"),
        ("anything", CountingParams(), "--holder.anything.count is 2, but would be read from a file as 3"),
        ("epochs", -1, "--holder.*: epochs is negative"),
    ],
)
def test_a_value_of_a_wrong_type_is_named_with_its_flag(path: str, value: Any, message: str) -> None:
    params = HolderParams()
    *nodes, name = path.split(".")
    setattr(getattr(params, nodes[0]) if nodes else params, name, value)
    with pytest.raises(UsageError) as error:
        begin(params)
    assert str(error.value).startswith(message)


def test_what_no_file_can_hold() -> None:
    params = HolderParams()
    params.anything = params
    with pytest.raises(UsageError, match=r"^the params of --holder contain themselves: give the inner ones a copy$"):
        prepare(params, "holder")
    with pytest.raises(UsageError, match=r"^the params contain themselves: give the inner ones a copy$"):
        params.to_json()
    params = HolderParams(anything=10**5000)
    with pytest.raises(UsageError, match=r"anything: expected an int of at most 64 bits, got <integer of 16610 bits>$"):
        require_readable(params, HolderParams, "holder")
    params = HolderParams(anything=[np.zeros(2)])
    conform(params, "holder")  # it may be trained with
    with pytest.raises(UsageError, match=r"^holder\.anything\.0 is a numpy\.ndarray, which params cannot store"):
        require_readable(params, HolderParams, "holder")
    with pytest.raises(UsageError, match="is not a params class derived from CountingParams"):
        require_readable(HolderParams(), CountingParams, "holder")


class KeysParams(ParamsBase):
    nested: dict[str, dict[str, float]] = {}  # noqa: RUF012
    free: dict = {}  # type: ignore[type-arg] # noqa: RUF012


def test_keys_are_those_of_the_file_and_take_no_memory_of_their_own() -> None:
    free = {"a": {"b": 1}, "a.b": 2, 3: 4, "part": PartParams(), "part.units": 5}
    params = KeysParams(nested={"a": {"b": 1.0}, "a.b": {"c": 1.0}}, free=free)
    read = KeysParams.from_dict(params.to_dict())
    assert (read.nested, {**free, 3: 4, "3": 4}) == (params.nested, {3: 4, **read.free})
    wide = {"k" * 2**17: {str(number): number for number in range(1000)}}
    tracemalloc.start()
    try:
        assert KeysParams.from_dict({"free": wide}).free == wide
        with pytest.raises(UsageError, match="KeysParams has no 'kkk"):
            KeysParams.from_dict(wide)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


class RequiredParams(ParamsBase):
    units: list[int] = option([], required=True)
    file: str | None = option(None, required=True)


def test_a_required_value_must_not_be_empty_in_python_either() -> None:
    conform(RequiredParams(units=[1]), "holder")  # None is a value of its type
    for params, name in [(RequiredParams(), "units"), (RequiredParams(units=[1], file=""), "file")]:
        with pytest.raises(UsageError, match=f"^--holder.{name} is required, and empty: give it a value$"):
            conform(params, "holder")


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
