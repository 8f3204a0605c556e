"""Declarations of params: alone, and with the decorators and dataclasses of `paiargparse` and `dataclasses_json`."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import sys
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np
import paiargparse
import pytest
from dataclasses_json import Undefined, dataclass_json

from test.params.cli_params import parser_of
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, names as oldnames, option, pai_dataclass, pai_meta, post_init
from tfaip.params.choices import ClassChoice
from tfaip.params.fields import FieldError, Limits, help_of, limits_of
from tfaip.params.settings import prepare, require_readable, set_flags
from tfaip.params.types import field_types


@dataclass
class First(ParamsBase):
    x: int = 1


@dataclass
class Second(First):
    y: int = 2


def test_signatures_and_metadata_are_those_of_paiargparse() -> None:
    def arguments(function: Any) -> list[tuple[str, Any, Any]]:
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert arguments(pai_meta) == arguments(paiargparse.pai_meta)
    assert arguments(pai_dataclass) == arguments(paiargparse.pai_dataclass)
    for given in [
        {"help": "Text", "required": True, "separator": "/", "mode": "flat", "nargs": "+", "fix_dc": True},
        {"choices": [1, 2]},
        {"choices": []},
        {"choices": ["a"], "enforce_choices": False},
        {"choices": [First, Second]},
        {"choices": [First], "enforce_choices": True, "disable_subclass_check": True},
    ]:
        # Theirs are all local variables of the function, also two auxiliary ones.
        theirs: dict[str, Any] = paiargparse.pai_meta(**given)
        assert theirs.items() >= pai_meta(**given).items()  # type: ignore[arg-type]


@pai_dataclass
@dataclass
class Plain:
    number: int = 1


def test_a_dataclass_that_is_no_params_class_gets_the_safe_methods() -> None:
    plain: Any = Plain(2)
    assert plain.to_dict() == {"__cls__": f"{__name__}:Plain", "number": 2}
    assert Plain.from_json(plain.to_json()) == plain  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="os is not among the trusted packages"):
        Plain.from_dict({"__cls__": "os:system"})  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="numbr does not exist; did you mean number"):
        plain.numbr = 3


DECORATORS: dict[str, Any] = {
    "none": lambda cls: cls,
    "dataclass": dataclass,
    "slots": dataclass(slots=True),
    "kw_only": dataclass(kw_only=True),
    "ours": lambda cls: pai_dataclass(dataclass(cls)),
    "paiargparse": lambda cls: paiargparse.pai_dataclass(dataclass(cls)),
    "paiargparse alone": paiargparse.pai_dataclass(alt="Other"),
    "json alone": dataclass_json,
    "json": lambda cls: dataclass_json(dataclass(cls)),
    "all": lambda cls: dataclass_json(paiargparse.pai_dataclass(dataclass(kw_only=True)(cls))),
}


@pytest.mark.parametrize("name", DECORATORS)
def test_a_decorator_finds_the_class_as_it_was_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Params(ParamsBase):
        count: int = option(3, "Number of them", low=1)
        names: list[str] = field(default_factory=lambda: ["a"], metadata=pai_meta(help="Names"))
        sizes: list[int] = [1]
        part: First = Second(y=5)

    cls: Any = DECORATORS[name](Params)
    assert ClassChoice(cls, {}).name_of(cls) == ("Other" if name == "paiargparse alone" else "Params")
    cls.__qualname__ = "Params"
    monkeypatch.setattr(sys.modules[__name__], "Params", cls, raising=False)
    with pytest.raises(UsageError, match="os is not among the trusted packages"):
        cls.from_dict({"__cls__": "os:system"})
    params = cls(count=4)
    params.names.append("b")
    params.sizes.append(2)
    assert (cls().count, cls().names, cls().sizes, cls().part) == (3, ["a"], [1], Second(y=5))
    assert cls.from_json(params.to_json()) == params == cls(count=4, names=["a", "b"], sizes=[1, 2])
    assert [known.metadata.get("help") for known in fields(cls)] == ["Number of them", "Names", None, None]
    with pytest.raises(FieldError, match="count is 0, expected at least 1"):
        cls(count=0)
    with pytest.raises(AttributeError, match="conut does not exist; did you mean count"):
        params.conut = 3
    if name in ("kw_only", "all"):
        with pytest.raises(TypeError, match="takes up to 0 positional arguments, got 1"):
            cls(4)
    else:
        assert cls(4).count == 4


@paiargparse.pai_dataclass(alt="L")
@dataclass
class LibraryParams:
    """Declared with the two libraries alone."""

    x: int = field(default=1, metadata=paiargparse.pai_meta(help="Number", mode="snake"))
    child: Second = field(default_factory=Second)


@paiargparse.pai_dataclass
@dataclass
class SubLibraryParams(LibraryParams):
    y: str = "a"


@dataclass_json(undefined=Undefined.EXCLUDE)
@dataclass
class JsonParams:
    first_value: int = 1


class LibraryTree(ParamsBase):
    library: LibraryParams = LibraryParams()
    json_: JsonParams = JsonParams()
    items: list[LibraryParams] = []


def test_classes_of_the_libraries_are_nodes_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    line = "--p.library SubLibrary --p.library.y b --p.json_.first_value 3 --p.items L L --p.items.1.child.y 4"
    tree: Any = parser_of(LibraryTree).parse(line.split()).p
    items = [LibraryParams(), LibraryParams(child=Second(y=4))]
    assert tree == LibraryTree(SubLibraryParams(y="b"), JsonParams(3), items)
    encoded = json.loads(tree.to_json())
    assert encoded["json_"] == {"__cls__": f"{__name__}:JsonParams", "first_value": 3}
    assert LibraryTree.from_dict(encoded) == tree
    with pytest.raises(UsageError, match=r"has no 'frist'; expected one of"):  # whatever `undefined` says
        LibraryTree.from_dict({"json_": {"frist": 2}})
    encoded["items"][0]["__cls__"] = "subprocess:Popen"
    with pytest.raises(UsageError, match="refused"):
        LibraryTree.from_dict(encoded)
    prepare(tree, "p")
    require_readable(tree, LibraryTree, "p")
    set_flags(tree, {"library.x": "7"})
    assert tree.library.x == 7
    with pytest.raises(SystemExit):
        parser_of(LibraryTree).parse(["--help", "library"])
    assert "  --p.library.x int = 1\n      Number.\n" in capsys.readouterr().out


class Tone(ParamsBase):
    frequency: int = 440


ARRAY = np.zeros(3)


class Sound(ParamsBase):
    rate: int = option(16, "Rate in kHz", low=1)
    tones: list[Tone] = [Tone(1), Tone(2)]
    names: dict[str, list[int]] = {"a": [1]}
    pair: tuple[Tone, int] = (Tone(8), 9)
    arrays: list[Any] = [ARRAY]
    volume: float = option(0.5, "A share", low=0, high=1)
    quiet: float | None = option(None, "Own help", low=0, high=1)
    mode: Literal["a", "b"] = option("a", choices=["a", "b"])
    counts: list[int] = field(default=[1], metadata=pai_meta(help="n") | {"limits": Limits(low=1)})  # type: ignore[arg-type]
    later: Later | None = option(None, "Known later")
    shared: ClassVar[list[int]] = []


class Later(ParamsBase):
    x: int = 1


class Louder(Sound):
    rate = option(32, high=100)
    tones = [Tone(3)]
    volume = 0.9


def test_defaults_are_copied_for_each_object() -> None:
    first, second = Sound(), Sound()
    first.tones[0].frequency = 5
    first.tones.append(Tone(6))
    first.names["a"].append(2)
    first.pair[0].frequency = 80
    first.counts.append(0)
    assert (second.tones, second.names, second.pair) == ([Tone(1), Tone(2)], {"a": [1]}, (Tone(8), 9))
    assert second.counts == [1]
    assert first.arrays[0] is second.arrays[0] is ARRAY  # not copied
    assert first.arrays is not second.arrays
    assert Sound.shared is Sound().shared


def test_a_subclass_that_gives_only_a_default_keeps_type_help_and_limits() -> None:
    louder = Louder()
    assert (louder.rate, louder.tones, louder.volume) == (32, [Tone(3)], 0.9)
    assert [known.name for known in fields(Louder)] == [known.name for known in fields(Sound)]
    assert field_types(Louder) == field_types(Sound)
    names = ("rate", "volume", "quiet", "mode", "counts", "names")
    assert [help_of(Louder, name) for name in names] == ["Rate in kHz", "A share", "Own help", "", "n", ""]
    assert limits_of(Louder, "volume") == limits_of(Louder, "quiet") is not None
    for cls, name, value, expected in [
        (Louder, "rate", 101, "at most 100"),
        (Louder, "quiet", -1.0, "a number from 0 to 1, or None"),
        (Louder, "mode", "c", "one of a, b"),
        (Louder, "counts", [0], "at least 1"),
        (Sound, "rate", 0, "at least 1"),
    ]:
        with pytest.raises(FieldError, match=f"{name}.* is .*, expected {expected}"):
            cls(**{name: value})
    louder.tones[0].frequency = 9
    assert (Louder().tones, Sound().rate) == ([Tone(3)], 16)
    assert type("Both", (type("Left", (Tone,), {}), type("Right", (Tone,), {"frequency": 2})), {})().frequency == 2


@pytest.mark.parametrize(
    ("error", "declare", "message"),
    [
        (TypeError, lambda: type("Wrong", (Sound,), {"pair": Tone}), "Wrong.pair is the class Tone, expected a value"),
        (TypeError, lambda: type("Bad", (ParamsBase,), {"__annotations__": {"__cls__": str}}), "__cls__ cannot be a"),
        (ValueError, lambda: pai_meta(separator=":"), r"separator=':'\): expected one of"),
        (ValueError, lambda: option(1, enforce_choices=True), "needs choices"),
        (TypeError, lambda: option(1, lo=1), "unexpected keyword argument 'lo'"),
    ],
)
def test_declarations_without_meaning_are_refused(error: type[Exception], declare: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        declare()


class Ours(ParamsBase):
    lr: float = 0.1


@paiargparse.pai_dataclass(alt="theirs")
@dataclass
class Theirs(Ours):
    decay: float = 0.9


class Bare(Theirs):
    alpha: float = field(init=False)
    part: Sound = Sound()
    other: Sound = Sound()

    @property
    def double(self) -> float:
        return self.alpha * 2

    @double.setter
    def double(self, value: float) -> None:
        self.alpha = value / 2


def test_attributes_that_are_not_there() -> None:
    bare = Bare()
    hint = r"Bare.volume does not exist; did you mean part\.volume or other\.volume\?"
    with pytest.raises(AttributeError, match=hint):
        _ = bare.volume  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=hint):
        bare.volume = 2  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="unexpected keyword argument 'lrr'"):
        Bare(lrr=1)  # type: ignore[call-arg]
    for name in ("alpha", "double"):  # directly, and within a property
        with pytest.raises(AttributeError, match=r"Bare\.alpha is not set yet"):
            getattr(bare, name)
    bare.double = 8.0
    assert bare.alpha == 4.0
    assert not hasattr(bare, "__no_such_protocol__")


def test_old_names_work_and_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldnames, "RENAMED_FIELDS", {"Ours": {"rate": "lr"}, "Theirs": {"fade": "decay"}})
    with pytest.warns(DeprecationWarning, match=r"Bare\.rate is now called lr") as constructor:
        bare = Bare(rate=0.5)  # type: ignore[call-arg]
    assert bare.lr == 0.5
    with pytest.warns(DeprecationWarning, match=r"Bare\.fade is now called decay") as setter:
        bare.fade = 0.3
    # The warning shows the line to change.
    assert constructor[0].filename == setter[0].filename == __file__
    with pytest.raises(UsageError, match="both Ours.rate and Ours.lr are given: give only Ours.lr"):
        Ours(rate=1, lr=2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        _ = Ours().fade


def test_a_constructor_of_ones_own_calls_that_of_its_base() -> None:
    class Own(Ours):
        size: int

        def __init__(self, size: int) -> None:
            super().__init__(lr=0.5)
            with pytest.raises(AttributeError, match="size is not set yet"):
                _ = self.size
            self.size = size

    assert (Own(3).lr, Own(3).size, list(inspect.signature(Own).parameters)) == (0.5, 3, ["size"])


ORDER: list[str] = []


class Leaf(ParamsBase):
    name: str = ""

    def __post_init__(self) -> None:
        ORDER.append(self.name)


class Root(Leaf):
    one: Leaf = Leaf("one")
    more: list[Leaf] = [Leaf("a"), Leaf("b")]
    by_name: dict[str, Leaf] = {"x": Leaf("c")}
    named: tuple[str, Leaf] = ("first", Leaf("d"))


def test_post_init_runs_children_first_and_again() -> None:
    root = Root("root")
    ORDER.clear()
    post_init(root)
    assert ORDER == ["one", "a", "b", "c", "d", "root"]


def test_params_are_compared_printed_and_copied() -> None:
    assert repr(Tone(8)) == "Tone(frequency=8)"
    louder = Louder(rate=3, arrays=[])
    copies = [copy.copy(louder), copy.deepcopy(louder), pickle.loads(pickle.dumps(louder))]  # noqa: S301
    assert [*copies, dataclasses.replace(louder)] == [louder] * 4
    assert dataclasses.replace(louder, rate=4) != louder
