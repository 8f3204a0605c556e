"""Module attributes that are imported on first use."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tfaip.util.oldnames import lazy_attributes

STUB = """
from fractions import (
    Fraction as Fraction,
    wrong as wrong,
)
from no_such_module import lost as lost
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """A module that offers `Fraction` of the standard library lazily, and two names that no module defines."""
    made = ModuleType("lazy_test_module")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    (tmp_path / "lazy_test_module.pyi").write_text(STUB)
    made.__getattr__, made.__dir__ = lazy_attributes(  # type: ignore[method-assign]
        made.__name__, str(tmp_path / "lazy_test_module.py")
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


def test_a_star_imports_all_names(module: ModuleType) -> None:
    assert module.__all__ == ["Fraction", "wrong", "lost"]
