"""Params classes that are made from the parts of a scenario; see `tfaip.scenario.scenario.Scenario`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import TrainerPipelineParams, TrainerPipelineParamsBase
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.params import ParamsBase, option
from tfaip.params.fields import pai_meta
from tfaip.params.types import bound_field
from tfaip.scenario.declared import ParamsClasses, as_object, has_own_params, make_class
from tfaip.scenario.listfile.listfilescenario import ListFilePipelineParams
from tfaip.trainer.params import TrainerParams

TTrain = TypeVar("TTrain", bound=DataGeneratorParams)
TLav = TypeVar("TLav", bound=DataGeneratorParams)


class TrainingOnlyParams(TrainerPipelineParamsBase[TTrain, DataGeneratorParams], Generic[TTrain]):
    """One generator for training, and no validation."""

    train: TTrain = bound_field(pai_meta(mode="ssnake", help="Generator of the training data"))

    def train_gen(self) -> TTrain:
        return self.train

    def val_gen(self) -> None:
        return None


class WithLAV(ParamsBase, Generic[TLav]):
    """Generator of its own for LAV."""

    lav: TLav = bound_field(pai_meta(mode="ssnake", help="Generator of the data to load and validate on"))

    def lav_gen(self) -> Iterable[DataGeneratorParams]:
        return [self.lav]


class WithSeveralLAV(ParamsBase):
    """Several generators for LAV."""

    lav: list[DataGeneratorParams] = option(
        factory=list, help="Generators of the data to load and validate on, each separately", mode="ssnake"
    )

    def lav_gen(self) -> Iterable[DataGeneratorParams]:
        return self.lav


def make_params_classes(scenario: type, declared: Mapping[str, Any], given: ParamsClasses) -> ParamsClasses:
    """Make the params classes of a scenario from its parts, but for those that it is declared with."""
    params, trainer = given.scenario, given.trainer
    base: Any
    if params is None:
        base = ScenarioBaseParams
        parts = {name: declared.get(name) for name in ("data", "model", "evaluator")}
        if parts["evaluator"] is not None and not has_own_params(parts["evaluator"]):
            parts["evaluator"] = as_object(parts["evaluator"])
        bases = (base[_class(declared["data"]), _class(declared["model"])],)
        params = make_class(scenario, "ScenarioParams", bases, "Data and model of", _objects(parts))
    if trainer is None:
        base = TrainerParams
        bases = (base[params, _make_pipeline(scenario, declared)],)
        trainer = make_class(scenario, "TrainerParams", bases, "Training of")
    return ParamsClasses(params, trainer)


def _make_pipeline(scenario: type, declared: Mapping[str, Any]) -> type:
    train, val, lav = declared["train"], declared.get("val"), declared.get("lav")
    defaults = _objects({"train": train, "val": val, "lav": lav})
    base: Any
    if lav is None and _class(train) is _class(val) and issubclass(_class(train), ListsFileGeneratorParams):
        bases: list[Any] = [ListFilePipelineParams[_class(train)]]  # type: ignore[misc]
    elif val is None:
        base = TrainingOnlyParams
        bases = [base[_class(train)]]
    else:
        base = TrainerPipelineParams
        bases = [base[_class(train), _class(val)]]
    if isinstance(lav, list):
        bases.insert(0, WithSeveralLAV)
    elif lav is not None:
        base = WithLAV
        bases.insert(0, base[_class(lav)])
    return make_class(scenario, "PipelineParams", tuple(bases), "Data of", defaults)


def _class(value: Any) -> Any:
    return value if isinstance(value, type) else type(value)


def _objects(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts that are objects, which hold defaults."""
    return {name: value for name, value in parts.items() if value is not None and not isinstance(value, type)}
