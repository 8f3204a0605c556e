"""Classes that params name by a string."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Any

import pytest

import tfaip
from tfaip.data.databaseparams import DataBaseParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import ParamsBase, pai_dataclass


class Built:
    """A class beside its params."""


class NamedHere(DataBaseParams, cls=":Built"):
    """Names a class of its own module."""


class NamedRelatively(DataBaseParams, cls=".test_implementation:Built"):
    """Names a module of its own package."""


@pai_dataclass
@dataclass
class NamedAbsolutely(ModelBaseParams, cls="test.params.test_implementation:Built", graph_cls=":Built"):
    """Names model and graph, with the decorators of older scenarios."""


class Inherits(NamedHere):
    """Names nothing itself."""


class Renames(NamedHere, cls="builtins:dict"):
    """Names another class than its base."""


@pytest.mark.parametrize("params_cls", [NamedHere, NamedRelatively, NamedAbsolutely, Inherits])
def test_class_is_found(params_cls: Any) -> None:
    assert params_cls.cls() is Built
    assert params_cls().cls() is Built


def test_subclass_may_name_another_class() -> None:
    assert Renames.cls() is dict
    assert NamedHere.cls() is Built


def test_graph_is_named_like_the_model() -> None:
    assert NamedAbsolutely().graph_cls() is Built


@pytest.mark.parametrize("name", ["Built", "module.Built", "a b:Built", "module:", "module:a.b", ".:", "", 3])
def test_other_forms_are_refused_when_the_class_is_declared(name: Any) -> None:
    with pytest.raises(TypeError, match=r"Wrong names the class .*, expected 'module:Class'"):
        type("Wrong", (DataBaseParams,), {}, cls=name)


def test_missing_class_is_named() -> None:
    class Missing(DataBaseParams, cls=":Nothing"):
        pass

    with pytest.raises(TypeError, match=r"Missing names ':Nothing', .*test_implementation"):
        Missing.cls()


@pytest.mark.backend
def test_every_class_that_is_named_in_the_package_exists() -> None:
    for module in pkgutil.walk_packages(tfaip.__path__, "tfaip."):
        importlib.import_module(module.name)
    named = [cls for cls in all_subclasses(ParamsBase) if cls.__module__.startswith("tfaip.") and names_a_class(cls)]
    assert {cls.__name__ for cls in named} >= {"TutorialModelParams", "MinModelParams", "CNNGraphParams"}
    for cls in named:
        assert callable(cls.cls()), cls  # activations of Keras are functions


def names_a_class(cls: Any) -> bool:
    """Return True if a params class names its implementation by a string."""
    own = getattr(vars(cls).get("cls"), "__func__", None)
    return getattr(own, "__module__", None) == "tfaip.params.declaration"


def all_subclasses(cls: type) -> set[type]:
    """Return all classes that derive from a class."""
    found = set()
    for subclass in cls.__subclasses__():
        found |= {subclass, *all_subclasses(subclass)}
    return found
