"""Classes that params name by a string, and those that type arguments select."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, Optional, TypeVar

import pytest

import tfaip
from test.support.commands import finish_command, start_python
from tfaip.data.databaseparams import DataBaseParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.stored import from_json
from tfaip.params.types import bound_field, field_types, type_argument


class Built:
    """A class beside its params."""


class NamedHere(DataBaseParams, cls=":Built"): ...


class NamedRelatively(DataBaseParams, cls=".test_classes:Built"): ...


@pai_dataclass
@dataclass
class NamedAbsolutely(ModelBaseParams, cls="test.params.test_classes:Built", graph_cls=":Built"):
    """Names model and graph, with the decorators of older scenarios."""


class NamedWithoutModule(DataBaseParams, cls="Built"):
    """As in a notebook."""


class Holds(DataBaseParams, cls=Built): ...


class Inherits(NamedHere): ...


class Renames(NamedHere, cls="builtins:dict"): ...


def test_class_is_found() -> None:
    for params_cls in (NamedHere, NamedRelatively, NamedAbsolutely, NamedWithoutModule, Holds, Inherits):
        assert params_cls.cls() is params_cls().cls() is Built, params_cls
    assert Renames.cls() is dict
    assert NamedAbsolutely().graph_cls() is Built


@pytest.mark.parametrize("name", ["module.Built", "a b:Built", "module:", "module:a.b", ".:", "", 3])
def test_other_forms_are_refused_when_the_class_is_declared(name: Any) -> None:
    with pytest.raises(TypeError, match=r"Wrong names the class .*, expected 'module:Class'"):
        type("Wrong", (DataBaseParams,), {"__module__": __name__}, cls=name)


DECLARING = """
from tfaip import DataBaseParams, Data, Generator, PipelineMode, Spec, Sample
from tfaip.scenario.scenariobase import ScenarioBase

class Params(DataBaseParams, cls=".code:Code"): ...
class Own(DataBaseParams, cls=":Here"): ...
class Here: ...
class Zoo(ScenarioBase): ...
"""
PRINT = "print(Params.cls().__module__, Own.cls() is Here)"
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
    setup = DataPipelineParams(mode=PipelineMode.EVALUATION, num_processes=2, batch_size=2)
    with Rows().create().create_pipeline(setup, Numbers(start=5)).generate_input_batches() as batches:
        print([batch.inputs["x"].ravel().tolist() for batch in batches])
    {PRINT}
"""


@pytest.mark.parametrize(
    ("files", "command", "expected"),
    [
        # A scenario that is named by its path; data workers.
        ({"decl.py": DECLARING, "code.py": "", "sub/x": ""}, ["-c", LOAD + PRINT], "code True\n"),
        ({"decl.py": WORKERS, "code.py": ""}, ["decl.py"], "[[5, 6], [7, 8]]\ncode True\n"),
    ],
)
def test_a_dot_means_beside_the_declaring_module(
    files: dict[str, str], command: list[str], expected: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("class Code: ..." if "code" in name else text)
    result = finish_command(start_python(*command, cwd=tmp_path))
    assert result.rc == 0, result
    assert expected in result.stdout


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


class Data(ParamsBase):
    size: int = 1


class MyData(Data):
    size: int = 2
    extra: int = 7


class OtherData(Data):
    size: int = 3


class Model(ParamsBase):
    units: int = 10


class MyModel(Model):
    units: int = 20


TData = TypeVar("TData", bound=Data)
TModel = TypeVar("TModel", bound="Model")
TAny = TypeVar("TAny")


@pai_dataclass
@dataclass
class Scenario(ParamsBase, Generic[TData, TModel]):
    before: int = 5
    data: TData = bound_field(pai_meta(help="the data"))
    model: TModel = bound_field()
    many: list[TData] = []
    maybe: Optional[TModel] = None  # noqa: UP045 - the old spelling must work as well


@pai_dataclass
@dataclass
class Full(Scenario[MyData, MyModel]):
    after: int = 6


class Partial(Scenario[MyData, TModel], Generic[TModel]): ...


class Completed(Partial[MyModel]):
    more: int = 1


class NonGeneric(Completed):
    model: MyModel = field(default_factory=lambda: MyModel(units=99))


@dataclass
class OnlyAnnotated(Full):
    data: OtherData


class OnlyDefaults(Scenario[MyData, MyModel]):
    data = MyData(extra=4)
    many = [MyData(extra=5)]


@dataclass
class Forward(Scenario["Later", "MyModel"]): ...


class Later(Data):
    size: int = 4


class Holder(ParamsBase, Generic[TAny]):
    it: TAny = bound_field()


class HoldsAlias(Holder[Scenario[OtherData, MyModel]]): ...


@pytest.mark.parametrize(
    ("cls", "data", "model"),
    [
        (Full, MyData, MyModel),
        (Partial, MyData, Model),
        (Completed, MyData, MyModel),
        (NonGeneric, MyData, MyModel),
        (OnlyAnnotated, OtherData, MyModel),
        (OnlyDefaults, MyData, MyModel),
        (Forward, Later, MyModel),
    ],
)
def test_defaults_are_the_bound_classes(cls: Any, data: type, model: type) -> None:
    params = cls()
    assert (type(params.data), type(params.model)) == (data, model)
    types = field_types(cls)
    assert (types["data"], types["model"]) == (data, model)
    assert from_json(cls, params.to_json()) == params


def test_order_help_and_values_of_inherited_fields_are_kept() -> None:
    assert [f.name for f in fields(Full)] == ["before", "data", "model", "many", "maybe", "after"]
    assert fields(Full)[1].metadata["help"] == "the data"
    full = Full(before=1, data=MyData(size=8), after=9)
    assert (full.before, full.data.size, full.data.extra, full.model.units, full.after) == (1, 8, 7, 20, 9)
    assert (NonGeneric(more=4).more, NonGeneric().model.units) == (4, 99)
    assert OnlyDefaults() == OnlyDefaults(data=MyData(extra=4), many=[MyData(extra=5)])


def test_type_arguments_of_a_field_class_reach_its_own_fields() -> None:
    it = HoldsAlias().it
    assert (type(it), type(it.data), type(it.model)) == (Scenario, OtherData, MyModel)
    stored = {"it": {"__cls__": f"{__name__}:Scenario", "data": {"size": 5}}}
    assert type(HoldsAlias.from_dict(stored).it.data) is OtherData
    assert field_types(Partial[MyModel])["model"] is MyModel
    assert field_types(Scenario[OtherData, MyModel])["data"] is OtherData
    assert (field_types(Full)["many"], field_types(Full)["maybe"]) == (list[MyData], Optional[MyModel])  # noqa: UP045
    assert field_types(Scenario)["many"] == list[Data]


def test_declarations_that_cannot_work() -> None:
    class Bad(ParamsBase):
        x: NoSuchName = None  # type: ignore[name-defined]  # noqa: F821

    for fail, message in [
        (Holder, r"Holder\.it is bound to typing\.Any, expected a params class"),
        (lambda: field_types(Bad), "Bad: annotation 'NoSuchName' cannot be resolved.*top level of module"),
    ]:
        with pytest.raises(TypeError, match=message):
            fail()


SP = TypeVar("SP", bound=Scenario)


class Root(Generic[SP, TAny]): ...


class Middle(Root[SP, int]): ...


class Leaf(Middle[Full]): ...


class Mixin(Root): ...


class Named(Root["Full", "Later"]): ...


def test_type_argument_through_several_levels() -> None:
    assert (type_argument(Leaf, Root, 0), type_argument(Leaf, Root, 1)) == (Full, int)
    assert type_argument(Middle, Root, 0) is Scenario
    assert type_argument(Named, Root, 1) is Later
    with pytest.raises(TypeError, match=r"Mixin must bind TAny of Root to a class, got typing\.Any"):
        type_argument(Mixin, Root, 1)
