"""Our decorators and metadata against those of `paiargparse`, for which older scenarios were written."""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import dataclass, field, fields
from typing import Any

import paiargparse
import pytest
from dataclasses_json import dataclass_json

from test.support.commands import finish_command, start_python
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option, pai_dataclass, pai_meta
from tfaip.params.fields import FieldError
from tfaip.params.resolver import ClassChoice


@dataclass
class First(ParamsBase):
    x: int = 1


@dataclass
class Second(First):
    y: int = 2


def test_the_signatures_are_equal() -> None:
    def arguments(function: Any) -> list[tuple[str, Any, Any]]:
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert arguments(pai_meta) == arguments(paiargparse.pai_meta)
    assert arguments(pai_dataclass) == arguments(paiargparse.pai_dataclass)


def test_the_metadata_are_equal(subtests: pytest.Subtests) -> None:
    for given in [
        {},
        {"help": "Text", "required": True, "separator": "/"},
        {"mode": "ssnake", "nargs": "+"},
        {"mode": "flat"},
        {"mode": "ignore"},
        {"choices": [1, 2]},
        {"choices": []},
        {"choices": ["a"], "enforce_choices": False},
        {"choices": [First, Second]},
        {"choices": [First], "enforce_choices": True, "disable_subclass_check": True},
        {"fix_dc": True},
    ]:
        with subtests.test(given=given):
            theirs = paiargparse.pai_meta(**given)
            # Theirs are all local variables of the function, also two auxiliary ones.
            assert pai_meta(**given) == {
                key: value for key, value in theirs.items() if not key.endswith("_choices") or key == "enforce_choices"
            }


def test_both_refuse_the_same(subtests: pytest.Subtests) -> None:
    for given, message in [
        ({"separator": ":"}, r"separator=':'\): expected one of"),
        ({"mode": "camel"}, r"mode='camel'\): expected snake, ssnake, flat or ignore"),
        ({"nargs": "?"}, r"nargs='\?'\): expected \* or \+"),
        ({"enforce_choices": True}, "needs choices"),
    ]:
        with subtests.test(given=given):
            with pytest.raises((ValueError, AssertionError)):
                paiargparse.pai_meta(**given)
            with pytest.raises(ValueError, match=message):
                pai_meta(**given)


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


def test_what_is_not_a_dataclass_is_refused() -> None:
    class Naked:
        pass

    with pytest.raises(TypeError, match="Naked is not a dataclass: write @pai_dataclass above @dataclass"):
        pai_dataclass(Naked)


def test_params_need_no_other_library() -> None:
    code = "import json, sys; old = set(sys.modules); import tfaip.params; print(json.dumps([*{*sys.modules} - old]))"
    result = finish_command(start_python("-c", code))
    assert result.rc == 0, result
    packages = {name.partition(".")[0] for name in json.loads(result.stdout)}
    assert packages - {"__future__", *sys.stdlib_module_names} == {"tfaip"}


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
        sizes: list[int] = [1]  # noqa: RUF012
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


def test_a_class_of_the_library_keeps_the_chosen_classes_of_its_parts() -> None:
    @paiargparse.pai_dataclass
    @dataclass
    class Theirs:
        part: First = field(default_factory=First)

    theirs: Any = Theirs(part=Second(y=7))
    assert type(Theirs.from_dict(theirs.to_dict()).part) is Second  # type: ignore[attr-defined]


@dataclass
class Base(ParamsBase):
    x: int = 1
    names: list[str] = option(["base"], "Names")


class Left(Base):
    pass


class Right(Base):
    x = 2
    names = option(["right"])


class Fast:
    x = 3


@pytest.mark.parametrize("decorate", [lambda cls: cls, dataclass])
@pytest.mark.parametrize(("bases", "x"), [((Left, Right), 2), ((Right, Left), 2), ((Fast, Left), 3), ((Left, Fast), 1)])
def test_defaults_follow_the_order_of_the_bases(decorate: Any, bases: tuple[type, ...], x: int) -> None:
    cls: Any = decorate(type("Both", bases, {}))
    expected = "right" if Right in bases else "base"
    assert (cls().x, cls().names, cls(5).x) == (x, [expected], 5)
    assert [known.metadata.get("help") for known in fields(cls)] == [None, "Names"]
