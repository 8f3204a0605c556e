"""JSON in and out, and files that travel with a model."""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Dict, List, Literal, NewType, Optional, Set, Tuple, Union  # noqa: UP035

import numpy as np
import pytest
from hypothesis import given, strategies as st

from test.params.cli_params import parser_of
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, names as oldnames
from tfaip.params.resource import Resource, copy_resources
from tfaip.params.stored import from_dict, from_json, load_params, save_params
from tfaip.params.trust import nameable


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


Seconds = NewType("Seconds", float)


@nameable
@dataclass
class Point:
    x: int = 0
    y: float = 0.0


@dataclass
class Point3(Point):
    z: int = 9


class Needs(ParamsBase):
    a: int
    b: int = 2

    def __post_init__(self) -> None:
        if self.b < 0:
            raise ValueError("b is negative")


class Everything(ParamsBase):
    i: int = 1
    f: float = 1.5
    s: str = "s"
    b: bool = False
    color: Color = Color.RED
    level: Level = Level.LOW
    path: Path = Path("p")
    time: Seconds = Seconds(1.0)
    literal: Literal["a", 1] = "a"
    anything: Any = None
    optional: Optional[int] = None  # noqa: UP045
    pep604: int | str | None = None
    union: Union[int, List[int], Color] = 1  # noqa: UP006, UP007
    wrongly_typed: str = None  # type: ignore[assignment]
    nested: list[list[float]] = []
    strings: Set[str] = set()  # noqa: UP006
    colors: frozenset[Color] = frozenset()
    pair: Tuple[int, str] = (1, "a")  # noqa: UP006
    row: tuple[float, ...] = ()
    plain_list: list = []  # type: ignore[type-arg]
    by_name: Dict[str, int] = {}  # noqa: UP006
    by_int: dict[int, float] = {}
    by_float: dict[float, str] = {}
    by_color: dict[Color, int] = {}
    point: Point = Point()
    maybe_point: Point | None = None
    points: list[Point] = []
    point_by_name: dict[str, Point] = {}
    two_points: tuple[Point, Point3] = (Point(), Point3())
    needs: Needs | None = None
    late: int = field(default=0, init=False)


def test_the_stored_form() -> None:
    params = Everything(i=np.int64(3), f=np.float32(0.5), strings={"b", "a"}, by_int={1: 2.0}, points=[Point3()])  # type: ignore[arg-type]
    stored = params.to_dict()
    expected: dict[str, Any] = {
        "i": 3,
        "f": 0.5,
        "color": "red",
        "level": 1,
        "strings": ["a", "b"],
        "by_int": {"1": 2.0},
    }
    expected["points"] = [{"__cls__": f"{__name__}:Point3", "x": 0, "y": 0.0, "z": 9}]
    assert stored.items() >= {**expected, "__cls__": f"{__name__}:Everything"}.items()
    assert json.loads(json.dumps(stored)) == stored
    assert (type(stored["i"]), type(stored["f"])) == (int, float)
    assert math.isnan(from_json(Everything, Everything(f=math.nan).to_json()).f)
    # Missing keys take their defaults; an int becomes a float where one is declared.
    loaded = from_dict(Everything, {"i": 5, "f": 2, "by_int": {"1": 2}})
    assert loaded == Everything(i=5, f=2.0, by_int={1: 2.0})
    assert (type(loaded.f), type(loaded.by_int[1])) == (float, float)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"i": 1.5}, "params.i: expected int, got 1.5"),
        ({"i": 2**63}, "params.i: expected an int of at most 64 bits, got 9223372036854775808"),
        ({"literal": "1"}, "params.literal: expected 'a' | 1, got '1'"),
        ({"pep604": 1.5}, "params.pep604: expected int | str | None, got 1.5"),
        ({"by_int": {"a": 1.0}}, "params.by_int.a: expected int, got 'a'"),
        ({"points": [{"xx": 3}]}, "params.points.0: Point has no 'xx'; did you mean x?"),
        ({"point_by_name": {"k": {"x": 0.5}}}, "params.point_by_name.k.x: expected int, got 0.5"),
        ({"colour": 1}, "params: Everything has no 'colour'; did you mean color or colors or by_color?"),
        ({"needs": {}}, "params.needs.a: Needs needs this value"),
    ],
)
def test_wrong_values_name_their_place(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        from_dict(Everything, values)
    assert str(error.value) == message


def test_old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldnames, "RENAMED_FIELDS", {"Needs": {"old": "a"}})
    monkeypatch.setattr(oldnames, "REMOVED_FIELDS", {"Needs": {"gone": ""}})
    monkeypatch.setitem(oldnames.RENAMED_CLASSES, "gone.module:OldPoint", f"{__name__}:Point3")
    assert Needs.from_dict({"old": 3, "gone": 1}) == Needs.from_json('{"a": 3}') == Needs(3)
    with pytest.raises(UsageError, match=r"^both params\.old and params\.a are given: give only params\.a$"):
        Needs.from_dict({"old": 3, "a": 4})
    with pytest.raises(UsageError, match=r"^params\.old: expected int, got 'x'"):
        Needs.from_dict({"old": "x"})
    assert from_dict(Everything, {"point": {"__cls__": "gone.module:OldPoint", "z": 1}}).point == Point3(z=1)


def test_files_round_trip_and_a_failed_write_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "params.json"
    params = Everything(i=4, points=[Point3()])
    save_params(path, params)
    stored = json.loads(path.read_text())
    assert (stored["__version__"], bool(stored["__tfaip__"])) == (1, True)
    with pytest.raises(TypeError):
        save_params(path, Everything(anything=object()))
    assert load_params(path, Everything) == load_params(str(path), ParamsBase, trusted=["test"]) == params
    assert os.listdir(tmp_path) == ["params.json"]
    with pytest.raises(UsageError, match="read it with load_params"):
        Everything.from_json(path.read_text())


def test_damaged_files_are_explained_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "params.json"
    for text, message in [
        ('{"i": 1', "broken JSON in line 1, column 8"),
        ('{"__version__": 2}', "written by tfaip of an unknown version in a newer format: update tfaip"),
        ('{"ii": 1}', "params: Everything has no 'ii'; did you mean i?"),
    ]:
        path.write_text(text)
        with pytest.raises(UsageError) as error:
            load_params(path, Everything)
        assert str(error.value).startswith(f"{path}: {message}")


integers, floats = st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)
points = st.builds(Point, integers, floats) | st.builds(Point3, z=integers)
plain = st.recursive(
    st.none() | st.booleans() | integers | floats | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda key: key != "__cls__"), inner),
    max_leaves=5,
)


@given(
    st.builds(
        Everything,
        i=integers,
        f=floats,
        s=st.text(),
        b=st.booleans(),
        color=st.sampled_from(Color),
        level=st.sampled_from(Level),
        path=st.sampled_from([Path("/a/b"), Path("p")]),
        literal=st.sampled_from(["a", 1]),
        colors=st.frozensets(st.sampled_from(Color)),
        plain_list=st.lists(st.none() | integers | st.text()),
        by_color=st.dictionaries(st.sampled_from(Color), integers),
        anything=plain | st.dictionaries(st.just("a"), st.lists(st.builds(Point))),
        optional=st.none() | integers,
        pep604=st.none() | integers | st.text(),
        union=integers | st.lists(integers) | st.sampled_from(Color),
        nested=st.lists(st.lists(floats)),
        strings=st.sets(st.text()),
        pair=st.tuples(integers, st.text()),
        row=st.lists(floats).map(tuple),
        by_int=st.dictionaries(integers, floats),
        by_float=st.dictionaries(floats, st.text()),
        point=points,
        maybe_point=st.none() | points,
        points=st.lists(points),
        point_by_name=st.dictionaries(st.text(), points),
    )
)
@pytest.mark.guard
def test_round_trip_property(params: Everything) -> None:
    params.late = params.i
    again = from_json(Everything, params.to_json())
    assert again == params
    assert again.to_json() == params.to_json()


class Inner(ParamsBase):
    codec: Resource | None = None


class WithResources(ParamsBase):
    words: Resource | None = None
    files: list[Resource] = []
    by_name: dict[str, Resource] = {}
    inner: Inner = Inner()


def _file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_resources_are_copied_once_and_the_export_can_be_moved(tmp_path: Path) -> None:
    one, two = _file(tmp_path / "a/words.txt", "one"), _file(tmp_path / "b/words.txt", "two")
    params = WithResources(Resource(one), [Resource(two), Resource(one)], {"k": Resource(two)}, Inner(Resource(one)))
    export = tmp_path / "export"
    save_params(tmp_path / "params.json", params)
    assert load_params(tmp_path / "params.json", WithResources) == params
    copied = copy_resources(params, export)
    assert copy_resources(copied, export) == copied != params
    save_params(export / "params.json", copied)
    # Equal names do not collide, equal files are copied once.
    written = {path.name: path.read_text() for path in (export / "resources").iterdir()}
    assert written == {"words.txt": "one", "words_1.txt": "two"}
    assert '"words": "resources/words.txt"' in (export / "params.json").read_text()
    moved = Path(shutil.move(export, tmp_path / "elsewhere"))
    loaded = load_params(moved / "params.json", WithResources)
    assert loaded.words == loaded.files[1] == loaded.inner.codec == Resource(moved / "resources/words.txt")
    assert loaded.files[0] == loaded.by_name["k"]
    assert Path(loaded.files[0]).read_text() == "two"
    for name in ["missing.txt", "."]:
        with pytest.raises(UsageError, match="is not a file"):
            copy_resources(WithResources(Resource(tmp_path / name)), tmp_path / "export")


def test_relative_paths_are_made_absolute_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    params = parser_of(WithResources).parse(["--p.words", "words.txt", "--p.files", "a", "b"]).p
    assert [resource.path for resource in (params.words, *params.files)] == [
        tmp_path / n for n in ("words.txt", "a", "b")
    ]


@pytest.mark.parametrize("text", ["../secret.txt", "resources/../../secret.txt", "link.txt", ".."])
def test_stored_paths_cannot_lead_out_of_the_directory(tmp_path: Path, text: str) -> None:
    secret = _file(tmp_path / "secret.txt", "secret")
    export = tmp_path / "export"
    export.mkdir()
    (export / "link.txt").symlink_to(secret)
    (export / "params.json").write_text(f'{{"words": "{text}"}}')
    with pytest.raises(UsageError, match=r"params\.words: resource .* lies outside of"):
        load_params(export / "params.json", WithResources)
