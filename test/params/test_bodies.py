"""Fields of params classes without decorators: defaults, and defaults of subclasses."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections import namedtuple
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import pytest

from tfaip.params import ParamsBase, option, pai_dataclass, pai_meta
from tfaip.params.fields import FieldError, help_of, limits, limits_of
from tfaip.params.stored import from_json, to_json
from tfaip.params.types import bound_field, field_types


class Tone(ParamsBase):
    frequency: int = 440


class Sound(ParamsBase):
    rate: int = option(16, "Rate in kHz", low=1)
    tones: list[Tone] = [Tone(1), Tone(2)]  # noqa: RUF012
    names: dict[str, list[int]] = {"a": [1]}  # noqa: RUF012
    tone: Tone = Tone(7)
    pair: tuple[Tone, int] = (Tone(8), 9)
    volume: float = option(0.5, "A share", low=0, high=1)
    quiet: float | None = option(None, "A share", low=0, high=1)
    later: Later | None = option(None, "Known later")
    shared: ClassVar[list[int]] = []


class Later(ParamsBase):
    x: int = 1


class Louder(Sound):
    rate = 32
    tones = [Tone(3)]  # noqa: RUF012
    volume = 0.9


def metadata(cls: type, name: str, key: str) -> Any:
    return next(field for field in dataclasses.fields(cls) if field.name == name).metadata.get(key)


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

    with pytest.raises(TypeError, match="misses the argument 'name'"):
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


def test_names_of_python_are_no_fields(subtests: pytest.Subtests) -> None:
    for name in ["__cls__", "__post_init__", "__class__"]:
        with (
            subtests.test(name=name),
            pytest.raises(TypeError, match=rf"Bad\.{name} cannot be a field, Python uses such names"),
        ):
            type("Bad", (ParamsBase,), {"__annotations__": {name: str}})


Share = Annotated[float, limits(low=0, high=1), "A share"]


def test_metadata_may_be_attached_to_types() -> None:
    class Sound(ParamsBase):
        volume: Share = 0.5
        quiet: Share | None = option(None, "Own help")
        mode: Annotated[Literal["a", "b"], "The mode", option("a", choices=["a", "b"])] = "a"
        tones: list[Annotated[int, limits(low=1)]] = [1]  # noqa: RUF012
        plain: int = 3

    assert [help_of(Sound, name) for name in ("volume", "quiet", "mode", "plain")] == [
        "A share",
        "Own help",
        "The mode",
        "",
    ]
    assert Sound() == Sound(0.5, None, "a", [1], 3)
    for values in ({"volume": 1.5}, {"quiet": -1.0}, {"tones": [0]}):
        with pytest.raises(FieldError, match=f"{next(iter(values))}.* is "):
            Sound(**values)
    assert limits_of(Sound, "volume") == limits_of(Sound, "quiet") is not None

    class Louder(Sound):
        volume = 0.9

    with pytest.raises(FieldError, match="volume"):
        Louder(volume=2.0)
    with pytest.raises(TypeError, match="Unknown"):
        type("Late", (ParamsBase,), {"__annotations__": {"x": "Annotated[Unknown, 'text']"}, "__module__": __name__})
