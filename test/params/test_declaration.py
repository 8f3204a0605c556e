"""Our decorators and metadata against those of `paiargparse`, for which older scenarios were written."""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import dataclass
from typing import Any

import paiargparse
import pytest

from test.support.commands import finish_command, start_python
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.choices import ClassChoice


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
        {"tuple_like": True},
        {"tuple_like": True, "fix_dc": False},
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
        ({"choices": [1, 1]}, "must be unique, got 1, 1"),
        ({"choices": [First, First]}, "must be unique, got First, First"),
        ({"choices": [First, 1]}, "mixes params classes and values"),
    ]:
        with subtests.test(given=given):
            with pytest.raises((ValueError, AssertionError)):
                paiargparse.pai_meta(**given)
            with pytest.raises(ValueError, match=message):
                pai_meta(**given)


def test_decorated_params(subtests: pytest.Subtests) -> None:
    for decorator in [pai_dataclass, paiargparse.pai_dataclass]:
        with subtests.test(decorator=decorator):

            @decorator(alt=decorator.__module__)
            @dataclass
            class Third(First):
                z: int = 3

            third: Any = Third(z=4)
            assert (third.x, third.z) == (1, 4)
            assert ClassChoice(First, {}, [Third]).name_of(Third) == decorator.__module__
            assert Third.to_dict is ParamsBase.to_dict
            with pytest.raises(AttributeError):
                third.zz = 1


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
