"""The lazy namespaces: every name resolves, and nothing heavy is loaded before it is needed."""

from __future__ import annotations

import ast
import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

import tfaip
import tfaip.imports
from test.support.commands import finish_command, start_python
from tfaip.util.oldnames import stub_imports

BACKENDS = ("keras", "tensorflow", "jax")


def loaded_after(code: str) -> list[str]:
    """The backends that a fresh interpreter has loaded after `code`."""
    report = f"import json, sys; print(json.dumps([name for name in {BACKENDS!r} if name in sys.modules]))"
    result = finish_command(start_python("-c", f"{code}\n{report}"))
    assert result.rc == 0, result
    return json.loads(result.stdout)


PUBLIC_NAMES = stub_imports(f"{tfaip.__file__}i")
WIDE_NAMES = stub_imports(f"{tfaip.imports.__file__}i")


@pytest.mark.parametrize(("package", "names"), [(tfaip, PUBLIC_NAMES), (tfaip.imports, WIDE_NAMES)])
def test_public_names_resolve(package: ModuleType, names: dict[str, str], subtests: pytest.Subtests) -> None:
    for name, module in names.items():
        with subtests.test(name=name):
            assert getattr(package, name) is getattr(importlib.import_module(module), name)


def test_the_wide_names_contain_the_public_ones() -> None:
    assert PUBLIC_NAMES.keys() - WIDE_NAMES.keys() == {"__version__"}


@pytest.mark.parametrize("module", [tfaip, tfaip.imports])
def test_type_checkers_re_export_the_names(module: ModuleType) -> None:
    """In a stub only `Name as Name` is visible to those who import it."""
    imports = ast.parse(Path(f"{module.__file__}i").read_text()).body
    assert all(isinstance(node, ast.ImportFrom) for node in imports)
    assert all(alias.asname == alias.name for node in imports for alias in node.names)


def test_names_are_listed() -> None:
    assert set(tfaip.__all__) <= set(dir(tfaip))
    assert set(tfaip.imports.__all__) <= set(dir(tfaip.imports))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'tfaip' has no attribute 'Smaple'"):
        _ = tfaip.Smaple
    with pytest.raises(ImportError, match="cannot import name 'Smaple'"):
        from tfaip.imports import Smaple  # noqa: F401


@pytest.mark.parametrize(
    "code", ["from tfaip.imports import Sample, TrainerParams, DataBase, MappingDataProcessor", "from tfaip import *"]
)
def test_no_backend_is_loaded(code: str) -> None:
    assert loaded_after(code) == []


@pytest.mark.slow
def test_a_model_class_loads_the_backend() -> None:
    assert "keras" in loaded_after("from tfaip.imports import ModelBase")
