"""Classes that params name by a string."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tfaip
from test.support.commands import finish_command, start_python
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


class NamedWithoutModule(DataBaseParams, cls="Built"):
    """Names a class of its own module, as in a notebook."""


class Holds(DataBaseParams, cls=Built):
    """Holds the class itself."""


class Inherits(NamedHere):
    """Names nothing itself."""


class Renames(NamedHere, cls="builtins:dict"):
    """Names another class than its base."""


def test_class_is_found(subtests: pytest.Subtests) -> None:
    for params_cls in [NamedHere, NamedRelatively, NamedAbsolutely, NamedWithoutModule, Holds, Inherits]:
        with subtests.test(params_cls=params_cls):
            assert params_cls.cls() is Built
            assert params_cls().cls() is Built


def test_subclass_may_name_another_class() -> None:
    assert Renames.cls() is dict
    assert NamedHere.cls() is Built


def test_graph_is_named_like_the_model() -> None:
    assert NamedAbsolutely().graph_cls() is Built


def test_other_forms_are_refused_when_the_class_is_declared(subtests: pytest.Subtests) -> None:
    for name in ["module.Built", "a b:Built", "module:", "module:a.b", ".:", "", 3]:
        with (
            subtests.test(name=name),
            pytest.raises(TypeError, match=r"Wrong names the class .*, expected 'module:Class'"),
        ):
            type("Wrong", (DataBaseParams,), {}, cls=name)


def test_missing_class_is_named() -> None:
    class Missing(DataBaseParams, cls=":Nothing"):
        pass

    with pytest.raises(TypeError, match=r"Missing names ':Nothing', .*test_implementation"):
        Missing.cls()


DECLARING = """
from tfaip import DataBaseParams, Data, Generator, PipelineMode, Spec, Sample

class Params(DataBaseParams, cls=".code:Code"): ...
class Own(DataBaseParams, cls=":Here"): ...
class Here: ...
"""
SHOW = """
if __name__ == "__main__":
    print(Params.cls().__module__, Own.cls() is Here)
"""


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "command", "expected"),
    [
        (["decl.py", "code.py"], ["decl.py"], "code True"),  # __main__
        (["p/decl.py", "p/code.py", "p/__init__.py"], ["-m", "p.decl"], "p.code True"),
        (["n/decl.py", "n/code.py"], ["-c", "from n.decl import *; SHOW"], "n.code True"),  # no __init__.py
        (["p/__init__.py", "p/code.py"], ["-c", "from p import *; SHOW"], "p.code True"),  # the package declares it
    ],
)
def test_a_dot_means_beside_the_declaring_module(
    files: list[str], command: list[str], expected: str, tmp_path: Path
) -> None:
    code = "class Code: ..."
    write(tmp_path, {name: code if "code" in name else "" for name in files} | {files[0]: DECLARING + SHOW})
    shown = SHOW.strip().splitlines()[1].strip()
    result = finish_command(start_python(*[word.replace("SHOW", shown) for word in command], cwd=tmp_path))
    assert (result.rc, result.stdout.strip()) == (0, expected), result


def test_a_dot_means_beside_a_scenario_that_is_named_by_its_path(tmp_path: Path) -> None:
    write(tmp_path, {"decl.py": DECLARING + ZOO, "code.py": "class Code: ..."})
    code = "import sys; from tfaip.components.loading import load_scenario; "
    code += "load_scenario('sub/../decl.py'); import decl; print(decl.Params.cls().__module__)"
    (tmp_path / "sub").mkdir()
    result = finish_command(start_python("-c", code, cwd=tmp_path))
    assert (result.rc, result.stdout.strip()) == (0, "code"), result


ZOO = """
from tfaip.scenario.scenariobase import ScenarioBase
class Zoo(ScenarioBase): ...
"""
WORKERS = """
class Numbers(Generator):
    start: int = 3
    def __len__(self): return 4
    def __getitem__(self, index): return Sample(inputs={"x": [index + self.start]})

class Rows(Data):
    inputs = {"x": Spec(1, int)}

if __name__ == "__main__":
    from tfaip.data.databaseparams import DataPipelineParams
    setup = DataPipelineParams(mode=PipelineMode.EVALUATION, num_processes=2, worker_start_s=0.0, batch_size=2)
    with Rows().create().create_pipeline(setup, Numbers(start=5)).generate_input_batches() as batches:
        print([batch.inputs["x"].ravel().tolist() for batch in batches], Params.cls().__module__)
"""


def test_parts_of_a_script_work_in_its_workers(tmp_path: Path) -> None:
    write(tmp_path, {"decl.py": DECLARING + WORKERS, "code.py": "class Code: ..."})
    result = finish_command(start_python("decl.py", cwd=tmp_path))
    assert (result.rc, result.stdout.strip()) == (0, "[[5, 6], [7, 8]] code"), result


@pytest.mark.parametrize("name", ["..code:Code", ".:Code"])
def test_too_many_dots_are_refused_when_the_class_is_declared(name: str, tmp_path: Path) -> None:
    write(tmp_path, {"decl.py": DECLARING.replace(".code:Code", name)})
    result = finish_command(start_python("-c", "import decl", cwd=tmp_path))
    assert result.rc == 1
    assert "is in no package: name it from the top, without a dot" in result.stderr


def test_more_dots_name_packages_above() -> None:
    class Above(DataBaseParams, cls="..params.test_implementation:Built"):
        pass

    assert Above.cls() is Built
    with pytest.raises(TypeError, match=r"Wrong names the module '\.\.\.\.code', .* is in the package test.params"):
        type("Wrong", (DataBaseParams,), {"__module__": __name__}, cls="....code:Code")


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
    return getattr(own, "__module__", None) == "tfaip.params.classes"


def all_subclasses(cls: type) -> set[type]:
    """Return all classes that derive from a class."""
    found = set()
    for subclass in cls.__subclasses__():
        found |= {subclass, *all_subclasses(subclass)}
    return found
