"""Module attributes that are imported on first use."""

import sys
from fractions import Fraction
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


def test_attributes_of_a_stub_are_imported_when_they_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = ModuleType("lazy_test_module")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    (tmp_path / "lazy_test_module.pyi").write_text(STUB)
    module.__getattr__, module.__dir__ = lazy_attributes(  # type: ignore[method-assign]
        module.__name__, str(tmp_path / "lazy_test_module.py")
    )
    assert "Fraction" not in vars(module)
    assert {"Fraction", "wrong", "lost", "__name__"} <= set(dir(module))
    assert dir(module) == sorted(dir(module))
    assert module.__all__ == ["Fraction", "wrong", "lost"]  # for a star
    assert module.Fraction is vars(module)["Fraction"] is Fraction
    for name, error, message in [
        ("Decimal", AttributeError, "module 'lazy_test_module' has no attribute 'Decimal'"),
        ("wrong", AttributeError, "wrong"),
        ("lost", ModuleNotFoundError, "no_such_module"),
    ]:
        with pytest.raises(error, match=message):
            getattr(module, name)
