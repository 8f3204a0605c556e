"""Module attributes that are imported on first use."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from tfaip.util.lazy import lazy_attributes


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that offers `Fraction` of the standard library lazily, and a name that nobody defines."""
    made = ModuleType("lazy_test_module")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    made.__getattr__, made.__dir__ = lazy_attributes(  # type: ignore[method-assign]
        made.__name__, {"Fraction": "fractions", "wrong": "fractions", "lost": "no_such_module"}
    )
    return made


def test_an_attribute_is_imported_once_and_kept(module: ModuleType) -> None:
    from fractions import Fraction

    assert "Fraction" not in vars(module)
    assert module.Fraction is Fraction
    assert vars(module)["Fraction"] is Fraction


def test_dir_lists_what_is_not_imported_yet(module: ModuleType) -> None:
    assert {"Fraction", "wrong", "lost", "__name__"} <= set(dir(module))
    assert dir(module) == sorted(dir(module))


def test_unknown_and_broken_names(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'lazy_test_module' has no attribute 'Decimal'"):
        _ = module.Decimal
    with pytest.raises(AttributeError, match="wrong"):
        _ = module.wrong
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = module.lost
