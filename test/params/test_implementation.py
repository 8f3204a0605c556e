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


class NamedHere(DataBaseParams, cls=":Built"): ...


class NamedRelatively(DataBaseParams, cls=".test_implementation:Built"): ...


class NamedAbove(DataBaseParams, cls="..params.test_implementation:Built"): ...


@pai_dataclass
@dataclass
class NamedAbsolutely(ModelBaseParams, cls="test.params.test_implementation:Built", graph_cls=":Built"):
    """Names model and graph, with the decorators of older scenarios."""


class NamedWithoutModule(DataBaseParams, cls="Built"):
    """As in a notebook."""


class Holds(DataBaseParams, cls=Built): ...


class Inherits(NamedHere): ...


class Renames(NamedHere, cls="builtins:dict"): ...


def test_class_is_found() -> None:
    for params_cls in (NamedHere, NamedRelatively, NamedAbove, NamedAbsolutely, NamedWithoutModule, Holds, Inherits):
        assert params_cls.cls() is params_cls().cls() is Built, params_cls
    assert Renames.cls() is dict
    assert NamedAbsolutely().graph_cls() is Built


@pytest.mark.parametrize("name", ["module.Built", "a b:Built", "module:", "module:a.b", ".:", "", 3, "....code:Code"])
def test_other_forms_are_refused_when_the_class_is_declared(name: Any) -> None:
    expected = r"Wrong names the class .*, expected 'module:Class'"
    if name == "....code:Code":
        expected = r"Wrong names the module '\.\.\.\.code', .* is in the package test.params"
    with pytest.raises(TypeError, match=expected):
        type("Wrong", (DataBaseParams,), {"__module__": __name__}, cls=name)
    missing: Any = type("Missing", (DataBaseParams,), {"__module__": __name__}, cls=":Nothing")
    with pytest.raises(TypeError, match=r"Missing names ':Nothing', .*test_implementation"):
        missing.cls()


DECLARING = """
from tfaip import DataBaseParams, Data, Generator, PipelineMode, Spec, Sample
from tfaip.scenario.scenariobase import ScenarioBase

class Params(DataBaseParams, cls=".code:Code"): ...
class Own(DataBaseParams, cls=":Here"): ...
class Here: ...
class Zoo(ScenarioBase): ...
"""
PRINT = "print(Params.cls().__module__, Own.cls() is Here)"
SHOW = f"{DECLARING}if __name__ == '__main__': {PRINT}\n"
LOAD = "from tfaip.components.loading import load_scenario; load_scenario('sub/../decl.py'); from decl import *; "
WORKERS = f"""{DECLARING}
class Numbers(Generator):
    start: int = 3
    def __len__(self): return 4
    def __getitem__(self, index): return Sample(inputs={{"x": [index + self.start]}})

class Rows(Data):
    inputs = {{"x": Spec(1, int)}}

if __name__ == "__main__":
    from tfaip.data.databaseparams import DataPipelineParams
    setup = DataPipelineParams(mode=PipelineMode.EVALUATION, num_processes=2, worker_start_s=0.0, batch_size=2)
    with Rows().create().create_pipeline(setup, Numbers(start=5)).generate_input_batches() as batches:
        print([batch.inputs["x"].ravel().tolist() for batch in batches], Params.cls().__module__)
"""
REFUSED = "is in no package: name it from the top, without a dot"


@pytest.mark.parametrize(
    ("files", "command", "expected"),
    [
        ({"decl.py": SHOW, "code.py": ""}, ["decl.py"], "code True\n"),  # __main__
        # A scenario that is named by its path; data workers.
        ({"decl.py": DECLARING, "code.py": "", "sub/x": ""}, ["-c", LOAD + PRINT], "code True\n"),
        ({"decl.py": WORKERS, "code.py": ""}, ["decl.py"], "[[5, 6], [7, 8]] code\n"),
        ({"decl.py": DECLARING.replace(".code:Code", "..code:Code")}, ["-c", "import decl"], REFUSED),
    ],
)
def test_a_dot_means_beside_the_declaring_module(
    files: dict[str, str], command: list[str], expected: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("class Code: ..." if "code" in name else text)
    result = finish_command(start_python(*command, cwd=tmp_path))
    assert result.rc == (1 if expected is REFUSED else 0), result
    assert expected in (result.stderr if expected is REFUSED else result.stdout)


def test_every_class_that_is_named_in_the_package_exists() -> None:
    for module in pkgutil.walk_packages(tfaip.__path__, "tfaip."):
        importlib.import_module(module.name)
    waiting, named = [ParamsBase], []
    while waiting:
        cls: Any = waiting.pop()
        waiting += type.__subclasses__(cls)
        own = getattr(vars(cls).get("cls"), "__func__", None)
        if cls.__module__.startswith("tfaip.") and getattr(own, "__module__", None) == "tfaip.params.classes":
            named.append(cls.__name__)
            assert callable(cls.cls()), cls  # activations of Keras are functions
    assert set(named) >= {"TutorialModelParams", "MinModelParams", "CNNGraphParams"}
