"""Type arguments select the classes of fields."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from types import new_class
from typing import Any, Generic, Optional, TypeVar

import paiargparse
import pytest

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.stored import from_json, to_json
from tfaip.params.types import bound_field, field_types, type_argument


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


# The same TypeVar again, for another position and another meaning.
class Rebound(Scenario[OtherData, TData], Generic[TData]): ...


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


@paiargparse.pai_dataclass
@dataclass
class Outer(ParamsBase, Generic[TData, TModel]):
    scenario: Scenario[TData, TModel] = field(default_factory=Scenario)
    chosen: TData = bound_field()


class OuterBound(Outer[MyData, MyModel]): ...


class Holder(ParamsBase, Generic[TAny]):
    it: TAny = bound_field()


class HoldsAlias(Holder[Scenario[OtherData, MyModel]]): ...


class Box(ParamsBase, Generic[TAny]):
    it: TAny = None  # type: ignore[assignment]
    items: TAny = [3]  # type: ignore[assignment]


class IntBox(Box[int]): ...


class DataBox(Box[MyData]):
    items: Any = None


@pytest.mark.parametrize(
    ("cls", "data", "model"),
    [
        (Full, MyData, MyModel),
        (Partial, MyData, Model),
        (Completed, MyData, MyModel),
        (Rebound, OtherData, Data),
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
    assert from_json(cls, to_json(params)) == params


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
    assert field_types(Partial[MyModel])["model"] is MyModel
    assert field_types(Scenario[OtherData, MyModel])["data"] is OtherData
    assert (field_types(Full)["many"], field_types(Full)["maybe"]) == (list[MyData], Optional[MyModel])  # noqa: UP045
    assert field_types(Scenario)["many"] == list[Data]
    assert field_types(OuterBound)["scenario"] == Scenario[MyData, MyModel]


def test_binding_a_plain_type_keeps_the_default() -> None:
    assert (IntBox().it, IntBox().items, type(DataBox().it)) == (None, [3], MyData)
    assert field_types(IntBox) == {"it": Optional[int], "items": int}  # noqa: UP045


def test_declarations_that_cannot_work() -> None:
    @dataclass
    class Plain:
        x: Data = bound_field()

    class Bad(ParamsBase):
        x: NoSuchName = None  # type: ignore[name-defined]  # noqa: F821

    for fail, message in [
        (Holder, r"Holder\.it is bound to typing\.Any, expected a params class"),
        (Plain, "derive from ParamsBase"),
        (lambda: field_types(Bad), "Bad: annotation 'NoSuchName' cannot be resolved.*top level of module"),
    ]:
        with pytest.raises(TypeError, match=message):
            fail()


SP = TypeVar("SP", bound=Scenario)


class Root(Generic[SP, TAny]): ...


class Middle(Root[SP, int]): ...


class Leaf(Middle[Full]): ...


class Mixin(Root): ...


class Diamond(Mixin, Leaf): ...


class Named(Root["Full", "Later"]): ...


def test_type_argument_through_several_levels() -> None:
    for cls in (Leaf, Diamond):
        assert (type_argument(cls, Root, 0), type_argument(cls, Root, 1)) == (Full, int)
    assert type_argument(Middle, Root, 0) is Scenario
    assert type_argument(Named, Root, 1) is Later
    with pytest.raises(TypeError, match=r"Mixin must bind TAny of Root to a class, got typing\.Any"):
        type_argument(Mixin, Root, 1)
    with pytest.raises(TypeError, match="generic itself needs a class of its own"):
        type_argument(new_class("Alias", (Root[Full, Scenario[MyData, MyModel]],)), Root, 1)
