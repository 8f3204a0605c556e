"""The lazy namespaces: every name resolves, and nothing heavy is loaded before it is needed."""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

import tfaip
import tfaip.imports
from test.support.commands import finish_command, start_python
from tfaip.util.oldnames import stub_imports

PUBLIC_NAMES = stub_imports(f"{tfaip.__file__}i")
WIDE_NAMES = stub_imports(f"{tfaip.imports.__file__}i")


@pytest.mark.parametrize(("package", "names"), [(tfaip, PUBLIC_NAMES), (tfaip.imports, WIDE_NAMES)])
def test_public_names_resolve(package: ModuleType, names: dict[str, str], subtests: pytest.Subtests) -> None:
    for name, module in names.items():
        with subtests.test(name=name):
            assert getattr(package, name) is getattr(importlib.import_module(module), name)
    assert set(package.__all__) <= set(dir(package))
    assert PUBLIC_NAMES.keys() - WIDE_NAMES.keys() == {"__version__"}
    # Type checkers: in a stub only `Name as Name` is visible to those who import it.
    imports = ast.parse(Path(f"{package.__file__}i").read_text()).body
    assert all(isinstance(node, ast.ImportFrom) for node in imports)
    assert all(alias.asname == alias.name for node in imports for alias in node.names)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'tfaip' has no attribute 'Smaple'"):
        _ = tfaip.Smaple
    with pytest.raises(ImportError, match="cannot import name 'Smaple'"):
        from tfaip.imports import Smaple  # noqa: F401


@pytest.mark.parametrize(
    ("code", "loads"),
    [
        ("from tfaip.imports import Sample, TrainerParams, DataBase, MappingDataProcessor", False),
        ("from tfaip import *", False),
        pytest.param("from tfaip.imports import ModelBase", True, marks=pytest.mark.slow),
    ],
)
def test_only_a_model_class_loads_a_backend(code: str, loads: bool) -> None:
    report = "import sys; print(not {'keras', 'tensorflow', 'jax'}.isdisjoint(sys.modules))"
    result = finish_command(start_python("-c", f"{code}\n{report}"))
    assert (result.rc, result.stdout) == (0, f"{loads}\n"), result
