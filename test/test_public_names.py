"""The lazy namespaces: every name resolves, and nothing heavy is loaded before it is needed."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from types import ModuleType

import pytest

import tfaip
import tfaip.imports
from test.support.commands import finish_command, start_python

BACKENDS = ("keras", "tensorflow", "jax")


def loaded_after(code: str) -> list[str]:
    """The backends that a fresh interpreter has loaded after `code`."""
    report = f"import json, sys; print(json.dumps([name for name in {BACKENDS!r} if name in sys.modules]))"
    result = finish_command(start_python("-c", f"{code}\n{report}"))
    assert result.rc == 0, result
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", tfaip.PUBLIC_NAMES)
def test_public_name_resolves(name: str) -> None:
    module = importlib.import_module(tfaip.PUBLIC_NAMES[name])
    assert getattr(tfaip, name) is getattr(module, name)


@pytest.mark.parametrize("name", tfaip.imports.WIDE_NAMES)
def test_wide_name_resolves(name: str) -> None:
    module = importlib.import_module(tfaip.imports.WIDE_NAMES[name])
    assert getattr(tfaip.imports, name) is getattr(module, name)


@pytest.mark.parametrize(
    ("module", "names"),
    [(tfaip, tfaip.PUBLIC_NAMES), (tfaip.imports, tfaip.imports.WIDE_NAMES)],
    ids=["tfaip", "imports"],
)
def test_type_checkers_see_the_same_names(module: ModuleType, names: dict[str, str]) -> None:
    (block,) = (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {alias.asname: node.module for node in imports for alias in node.names} == names


def test_names_are_listed() -> None:
    assert set(tfaip.__all__) <= set(dir(tfaip))
    assert set(tfaip.imports.__all__) <= set(dir(tfaip.imports))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'tfaip' has no attribute 'Smaple'"):
        _ = tfaip.Smaple
    with pytest.raises(ImportError, match="cannot import name 'Smaple'"):
        from tfaip.imports import Smaple  # noqa: F401


@pytest.mark.parametrize(
    "code",
    [
        "import tfaip",
        "import tfaip.imports",
        "from tfaip.imports import Sample, TrainerParams, DataBase, MappingDataProcessor",
        "import tfaip\nfor name in tfaip.PUBLIC_NAMES: getattr(tfaip, name)",
    ],
)
def test_no_backend_is_loaded(code: str) -> None:
    assert loaded_after(code) == []


@pytest.mark.backend
def test_a_model_class_loads_the_backend() -> None:
    assert "keras" in loaded_after("from tfaip.imports import ModelBase")
