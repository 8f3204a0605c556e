"""Fields of params classes without decorators: defaults, `Annotated`, and defaults of subclasses."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np
import paiargparse
import pytest

from tfaip.params import ParamsBase, option, pai_dataclass, pai_meta
from tfaip.params.declaration.generics import bound_field, field_types
from tfaip.params.limits import FieldError, limits, limits_of
from tfaip.params.stored import from_json, to_json

Share = Annotated[float, limits(low=0, high=1), "A share"]


class Tone(ParamsBase):
    frequency: int = 440


class Sound(ParamsBase):
    rate: int = option(16, "Rate in kHz", low=1)
    tones: list[Tone] = [Tone(1), Tone(2)]  # noqa: RUF012
    names: dict[str, list[int]] = {"a": [1]}  # noqa: RUF012
    tone: Tone = Tone(7)
    pair: tuple[Tone, int] = (Tone(8), 9)
    volume: Share = 0.5
    quiet: Share | None = None
    mode: Annotated[Literal["a", "b"], "The mode", option("a", choices=["a", "b"])] = "a"
    later: Annotated[Later | None, "Known later"] = None
    shared: ClassVar[list[int]] = []


class Later(ParamsBase):
    x: int = 1


class Louder(Sound):
    rate = 32
    tones = [Tone(3)]  # noqa: RUF012
    volume = 0.9


def metadata(cls: type, name: str, key: str) -> Any:
    return next(field for field in dataclasses.fields(cls) if field.name == name).metadata.get(key)


def test_everything_is_there_before_the_first_object() -> None:
    class Fresh(Sound):
        more: int = 3

    assert [field.name for field in dataclasses.fields(Fresh)][-2:] == ["later", "more"]

    class Signed(Fresh):
        again: float = 1.5

    assert list(inspect.signature(Signed).parameters)[-2:] == ["more", "again"]
    assert Signed.__match_args__[-1] == "again"
    assert metadata(Signed, "rate", "help") == "Rate in kHz"

    class Limited(Fresh):
        volume: Share = 0.3

    assert limits_of(Limited, "volume") == limits_of(Sound, "volume") is not None


def test_defaults_are_copied_for_each_object() -> None:
    first, second = Sound(), Sound()
    first.tones[0].frequency = 5
    first.tones.append(Tone(6))
    first.names["a"].append(2)
    first.tone.frequency = 70
    first.pair[0].frequency = 80
    assert second.tones == [Tone(1), Tone(2)]
    assert second.names == {"a": [1]}
    assert (second.tone, second.pair) == (Tone(7), (Tone(8), 9))
    assert second == Sound()
    assert Sound.shared is Sound().shared


def test_defaults_of_fields_are_copied_whatever_declares_them() -> None:
    Pair = namedtuple("Pair", "left right")

    @pai_dataclass
    @dataclasses.dataclass
    class Decorated(ParamsBase):
        a: list[int] = [1]  # noqa: RUF008, RUF012
        b: list[int] = dataclasses.field(default=[2], metadata=pai_meta(help="b"))  # type: ignore[arg-type]  # noqa: RUF008
        c: set[int] = option({3}, "c")
        d: Any = Pair([4], 5)

    first, second = Decorated(), Decorated()
    first.a.append(0)
    first.b.append(0)
    first.c.add(0)
    first.d.left.append(0)
    assert (second.a, second.b, second.c, second.d) == ([1], [2], {3}, Pair([4], 5))
    assert type(second.d) is Pair
    assert metadata(Decorated, "b", "help") == "b"


def test_arrays_in_a_default_are_not_copied() -> None:
    array = np.zeros(3)

    class WithArray(ParamsBase):
        arrays: list[Any] = [array]  # noqa: RUF012
        single: Any = array

    assert WithArray().arrays[0] is WithArray().single is array
    assert WithArray().arrays is not WithArray().arrays


def test_a_subclass_that_gives_only_a_default_keeps_type_help_and_limits() -> None:
    assert Louder() == Louder(rate=32, tones=[Tone(3)], volume=0.9)
    assert [field.name for field in dataclasses.fields(Louder)] == [field.name for field in dataclasses.fields(Sound)]
    assert metadata(Louder, "rate", "help") == "Rate in kHz"
    assert field_types(Louder) == field_types(Sound)
    with pytest.raises(FieldError, match="rate is 0, expected at least 1"):
        Louder(rate=0)
    louder = Louder()
    louder.tones[0].frequency = 9
    assert Louder().tones == [Tone(3)]
    assert Sound().rate == 16


def test_a_default_may_be_an_option_and_comes_with_a_decorator_too() -> None:
    @dataclasses.dataclass
    class Higher(Sound):
        rate = option(48, high=100)

        @property
        def volume(self) -> float:  # type: ignore[override]
            return 0.1

        @volume.setter
        def volume(self, value: float) -> None: ...

    assert Higher().rate == 48
    assert Higher().volume == 0.1
    assert metadata(Higher, "rate", "help") == "Rate in kHz"
    with pytest.raises(FieldError, match="rate is 101, expected at most 100"):
        Higher(rate=101)


T = TypeVar("T", bound=Tone)


class Pitch(Tone):
    cents: int = 3


class Holder(ParamsBase, Generic[T]):
    it: T = bound_field()
    many: list[T] = []  # noqa: RUF012


class PitchHolder(Holder[Pitch]):
    it = Pitch(cents=4)
    many = [Pitch(cents=5)]  # noqa: RUF012


class BelowPitchHolder(PitchHolder):
    pass


def test_a_default_of_a_field_of_a_type_parameter(subtests: pytest.Subtests) -> None:
    for cls in [PitchHolder, BelowPitchHolder]:
        with subtests.test(cls=cls):
            assert field_types(cls) == {"it": Pitch, "many": list[Pitch]}
            assert cls() == cls(it=Pitch(cents=4), many=[Pitch(cents=5)])
            assert from_json(cls, to_json(cls())) == cls()


def test_a_class_as_the_default_of_an_inherited_field_is_explained() -> None:
    with pytest.raises(TypeError, match=r"Wrong.tone is the class Tone, expected a value: write tone: Tone, or tone"):

        class Wrong(Sound):
            tone = Tone  # type: ignore[assignment]


def test_annotated_carries_help_and_metadata() -> None:
    assert metadata(Sound, "volume", "help") == "A share"
    assert metadata(Sound, "mode", "choices") == ["a", "b"]
    assert metadata(Sound, "mode", "help") == "The mode"
    assert metadata(Sound, "later", "help") == "Known later"
    assert field_types(Sound)["volume"] is float
    with pytest.raises(FieldError, match="volume is 2, expected a number from 0 to 1"):
        Sound(volume=2)
    with pytest.raises(FieldError, match="quiet is -1, expected a number from 0 to 1, or None"):
        Sound(quiet=-1)
    with pytest.raises(FieldError, match="mode is 'c', expected one of a, b"):
        Sound(mode="c")  # type: ignore[arg-type]


def test_what_the_field_says_goes_before_what_its_type_says() -> None:
    class Own(ParamsBase):
        x: Share = option(0.25, "My share")
        y: Share = option(0.75, high=0.8)

    assert metadata(Own, "x", "help") == "My share"
    assert metadata(Own, "y", "help") == "A share"
    with pytest.raises(FieldError, match="y is 0.9, expected at most 0.8"):
        Own(y=0.9)
    with pytest.raises(FieldError, match="x is 1.5"):
        Own(x=1.5)


def test_option_refuses_what_has_no_meaning() -> None:
    with pytest.raises(ValueError, match=r"option\(\[1\], factory=...\): give a default or a factory"):
        option([1], factory=list)
    with pytest.raises(ValueError, match=r"mode='camel'\): expected snake"):
        option(1, mode="camel")
    with pytest.raises(TypeError, match=r"option\(\) has no argument 'lo'; did you mean low"):
        option(1, lo=1)  # type: ignore[call-arg]


def test_a_required_option_has_no_default() -> None:
    class Named(ParamsBase):
        name: str = option(help="The name", required=True)

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Named()
    assert Named("a").name == "a"
    assert option(factory=list).default_factory is list  # type: ignore[attr-defined]


def test_copies_pickles_comparisons_and_hashes() -> None:
    louder = Louder(rate=3)
    copies = [copy.copy(louder), copy.deepcopy(louder), pickle.loads(pickle.dumps(louder))]  # noqa: S301
    copies.append(dataclasses.replace(louder))
    assert copies == [louder] * 4
    assert dataclasses.replace(louder, rate=4) != louder
    with pytest.raises(TypeError, match="unhashable type"):
        hash(louder)

    @dataclasses.dataclass(frozen=True, eq=True)
    class Frozen:
        x: int = 1

    class HasFrozen(ParamsBase):
        it: Frozen = Frozen()

    assert HasFrozen().it is HasFrozen().it


class Named(Protocol):
    def name(self) -> str: ...


def test_protocols_and_abstract_classes_as_further_bases() -> None:
    class Card(Tone, Named):
        def name(self) -> str:
            return str(self.frequency)

    assert Card(3).name() == "3"
    assert isinstance(Card(), Tone)
    assert not isinstance(Tone(), Card)
    assert not isinstance(3, Tone)


def test_two_threads_that_use_a_class_first() -> None:
    def declare(index: int) -> type[ParamsBase]:
        return type(f"Declared{index}", (ParamsBase,), {"__annotations__": {"x": int}, "x": option(index, "Help")})

    classes = [declare(index) for index in range(200)]
    with ThreadPoolExecutor(8) as pool:
        objects = list(pool.map(lambda cls: cls(), [cls for cls in classes for _ in range(4)]))
    assert [one.x for one in objects[::4]] == list(range(200))  # type: ignore[attr-defined]
    assert all(metadata(cls, "x", "help") == "Help" for cls in classes)


def test_names_of_python_are_no_fields(subtests: pytest.Subtests) -> None:
    for name in ["__cls__", "__post_init__", "__class__"]:
        with (
            subtests.test(name=name),
            pytest.raises(TypeError, match=rf"Bad\.{name} cannot be a field, Python uses such names"),
        ):
            type("Bad", (ParamsBase,), {"__annotations__": {name: str}})


def test_the_first_use_of_a_class_decorated_by_paiargparse_is_safe() -> None:
    @paiargparse.pai_dataclass
    @dataclasses.dataclass
    class Theirs(Tone):
        y: int = 1

    from tfaip.errors import UsageError

    with pytest.raises(UsageError, match="antigravity is not among the trusted packages"):
        Theirs.from_json('{"__cls__": "antigravity:X"}')
