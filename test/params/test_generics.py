"""Type arguments select the classes of fields."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Generic, Optional, TypeVar

import paiargparse
import pytest

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
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


@pai_dataclass
@dataclass
class Scenario(ParamsBase, Generic[TData, TModel]):
    before: int = 5
    data: TData = bound_field(pai_meta(help="the data"))
    model: TModel = bound_field()
    many: list[TData] = field(default_factory=list)
    maybe: Optional[TModel] = None  # noqa: UP045 - the old spelling must work as well


@pai_dataclass
@dataclass
class Full(Scenario[MyData, MyModel]):
    after: int = 6


@pai_dataclass
@dataclass
class Partial(Scenario[MyData, TModel], Generic[TModel]):
    pass


@pai_dataclass
@dataclass
class Completed(Partial[MyModel]):
    pass


# The same TypeVar again, for another position and another meaning.
@pai_dataclass
@dataclass
class Rebound(Scenario[OtherData, TData], Generic[TData]):
    pass


@dataclass
class OnlyDataclass(Scenario[MyData, MyModel]):
    more: int = 1


class Undecorated(Scenario[MyData, MyModel]):
    more: int = 1


class UndecoratedTwice(Undecorated):
    again: int = 2


class NonGeneric(Completed):
    model: MyModel = field(default_factory=lambda: MyModel(units=99))


@dataclass
class BelowNonGeneric(NonGeneric):
    pass


@dataclass
class OnlyAnnotated(Full):
    data: OtherData


@dataclass
class Forward(Scenario["Later", "MyModel"]):
    pass


class Later(Data):
    size: int = 4


@paiargparse.pai_dataclass
@dataclass
class Outer(ParamsBase, Generic[TData, TModel]):
    scenario: Scenario[TData, TModel] = field(default_factory=Scenario)
    chosen: TData = bound_field()


@dataclass
class OuterBound(Outer[MyData, MyModel]):
    pass


TAny = TypeVar("TAny")


class Holder(ParamsBase, Generic[TAny]):
    it: TAny = bound_field()


class HoldsAlias(Holder[Scenario[OtherData, MyModel]]):
    pass


class Box(ParamsBase, Generic[TAny]):
    it: TAny = field(default=None)  # type: ignore[assignment]


class ListBox(ParamsBase, Generic[TAny]):
    it: TAny = field(default_factory=lambda: [3])  # type: ignore[assignment]


class IntListBox(ListBox[list[int]]):
    pass


class IntBox(Box[int]):
    pass


class DataBox(Box[MyData]):
    pass


def test_defaults_are_the_bound_classes(subtests: pytest.Subtests) -> None:
    for cls, data, model in [
        (Scenario, Data, Model),
        (Full, MyData, MyModel),
        (Partial, MyData, Model),
        (Completed, MyData, MyModel),
        (Rebound, OtherData, Data),
        (OnlyDataclass, MyData, MyModel),
        (Undecorated, MyData, MyModel),
        (UndecoratedTwice, MyData, MyModel),
        (NonGeneric, MyData, MyModel),
        (BelowNonGeneric, MyData, MyModel),
        (OnlyAnnotated, OtherData, MyModel),
        (Forward, Later, MyModel),
    ]:
        with subtests.test(cls=cls):
            params = cls()
            assert (type(params.data), type(params.model)) == (data, model)
            types = field_types(cls)
            assert (types["data"], types["model"]) == (data, model)


def test_type_variables_inside_containers_are_replaced() -> None:
    assert field_types(Full)["many"] == list[MyData]
    assert field_types(Full)["maybe"] == Optional[MyModel]  # noqa: UP045
    assert field_types(Scenario)["many"] == list[Data]
    assert field_types(OuterBound)["scenario"] == Scenario[MyData, MyModel]


def test_order_help_and_values_of_inherited_fields_are_kept() -> None:
    names = [f.name for f in fields(Full)]
    assert names == ["before", "data", "model", "many", "maybe", "after"]
    assert fields(Full)[1].metadata["help"] == "the data"
    full = Full(before=1, data=MyData(size=8), after=9)
    assert (full.before, full.data.size, full.data.extra, full.model.units, full.after) == (1, 8, 7, 20, 9)


def test_explicit_default_of_a_subclass_wins_from_there_on() -> None:
    assert NonGeneric().model.units == 99
    assert BelowNonGeneric().model.units == 99


def test_undecorated_subclasses_have_their_fields() -> None:
    params = UndecoratedTwice(more=4, again=5)
    assert (params.more, params.again, params.before) == (4, 5, 5)


def test_type_arguments_of_a_field_class_reach_its_own_fields() -> None:
    it = HoldsAlias().it
    assert type(it) is Scenario
    assert type(it.data) is OtherData
    assert type(it.model) is MyModel
    assert field_types(Partial[MyModel])["model"] is MyModel
    assert field_types(Scenario[OtherData, MyModel])["data"] is OtherData


def test_binding_a_plain_type_keeps_the_default() -> None:
    assert IntBox().it is None
    assert field_types(IntBox)["it"] == Optional[int]  # noqa: UP045
    assert IntListBox().it == [3]
    assert field_types(IntListBox)["it"] == list[int]
    assert type(DataBox().it) is MyData


def test_unbound_field_without_a_bound_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Holder\.it is bound to typing\.Any, expected a params class"):
        Holder()


def test_bound_field_outside_params_is_an_error() -> None:
    @dataclass
    class Plain:
        x: Data = bound_field()

    with pytest.raises(TypeError, match="derive from ParamsBase"):
        Plain()


def test_annotation_that_exists_only_for_type_checkers_is_explained() -> None:
    class Bad(ParamsBase):
        x: NoSuchName = None  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match="Bad: annotation 'NoSuchName' cannot be resolved.*top level of module"):
        field_types(Bad)


SP = TypeVar("SP", bound=Scenario)
TP = TypeVar("TP")


class ScenarioRoot(Generic[SP, TP]):
    pass


class Middle(ScenarioRoot[SP, int]):
    pass


class Leaf(Middle[Full]):
    pass


class LeafOfLeaf(Leaf):
    pass


class Mixin(ScenarioRoot):
    pass


class Diamond(Mixin, Leaf):
    pass


class AliasArgument(ScenarioRoot[Full, Scenario[MyData, MyModel]]):
    pass


class StringArgument(ScenarioRoot["Full", "Later"]):
    pass


def test_type_argument_through_several_levels(subtests: pytest.Subtests) -> None:
    for cls in [Leaf, LeafOfLeaf, Diamond]:
        with subtests.test(cls=cls):
            assert type_argument(cls, ScenarioRoot, 0) is Full
            assert type_argument(cls, ScenarioRoot, 1) is int


def test_type_argument_falls_back_to_the_bound() -> None:
    assert type_argument(Middle, ScenarioRoot, 0) is Scenario
    assert type_argument(StringArgument, ScenarioRoot, 1) is Later


def test_type_argument_says_what_to_bind() -> None:
    with pytest.raises(TypeError, match=r"Mixin must bind TP of ScenarioRoot to a class, got typing\.Any"):
        type_argument(Mixin, ScenarioRoot, 1)
    with pytest.raises(TypeError, match="generic itself needs a class of its own"):
        type_argument(AliasArgument, ScenarioRoot, 1)
