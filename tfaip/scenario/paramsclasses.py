"""Params classes that are made from the parts of a scenario; see `tfaip.scenario.scenario.Scenario`."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import TrainerPipelineParams, TrainerPipelineParamsBase
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.params import ParamsBase, option
from tfaip.params.fields import pai_meta
from tfaip.params.generics import bound_field, field_types
from tfaip.params.names.trust import SCENARIO_MARK
from tfaip.scenario.declared import ParamsClasses, as_object, has_own_params
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
        params = _make(scenario, "ScenarioParams", bases, "Data and model of", _objects(parts))
    if trainer is None:
        base = TrainerParams
        bases = (base[params, _make_pipeline(scenario, declared)],)
        trainer = _make(scenario, "TrainerParams", bases, "Training of")
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
    return _make(scenario, "PipelineParams", tuple(bases), "Data of", defaults)


def _class(value: Any) -> Any:
    return value if isinstance(value, type) else type(value)


def _objects(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts that are objects, which hold defaults."""
    return {name: value for name, value in parts.items() if value is not None and not isinstance(value, type)}


def _make(scenario: Any, kind: str, bases: tuple[Any, ...], doc: str, defaults: Mapping[str, Any] | None = None) -> Any:
    """Make a params class in the body of a scenario, whose inherited fields have the given defaults."""
    stem = scenario.__name__.removesuffix("Scenario") or scenario.__name__
    body = {
        "__module__": scenario.__module__,
        "__qualname__": f"{scenario.__qualname__}.{kind}",
        "__doc__": f"{doc} {scenario.__name__}.",
        SCENARIO_MARK: scenario.__qualname__,
        **(defaults or {}),
    }
    # The short name is a choice of a class in commands.
    return types.new_class(f"{stem}{kind}", bases, exec_body=lambda namespace: namespace.update(body))


@functools.cache
def trainer_params_class(scenario: Any, pipeline_params: Any, trainer_cls: Any) -> Any:
    """Return the class of the trainer params of a scenario that is declared without one.

    A class of the author takes its place: the one that the trainer is declared with, or `MyTrainerParams` beside
    `MyScenario`.

    Args:
        scenario: class of the scenario.
        pipeline_params: class of the params of its training and validation data, the field `gen`.
        trainer_cls: class of its trainer; None: that of the toolkit.
    """
    stem = scenario.__name__.removesuffix("Scenario") or scenario.__name__
    in_module = vars(sys.modules.get(scenario.__module__, object)).get(f"{stem}TrainerParams")
    for own in (_params_of_trainer(trainer_cls), in_module):
        if _is_written_for(own, scenario.params_cls()):
            return own
    base: Any = TrainerParams
    return _make(scenario, "TrainerParams", (base[scenario.params_cls(), pipeline_params],), "Training of")


def _params_of_trainer(trainer_cls: Any) -> Any:
    """Return the params class that a trainer was declared with, or None."""
    try:
        return None if trainer_cls is None else trainer_cls.params_cls()
    except TypeError:  # with none, as in Trainer[Any]
        return None


def _is_written_for(trainer_params: Any, scenario_params: type) -> bool:
    """Return True for trainer params that an author has declared for a class of scenario params."""
    is_params = isinstance(trainer_params, type) and issubclass(trainer_params, TrainerParams)
    if not is_params or trainer_params is TrainerParams or SCENARIO_MARK in vars(trainer_params):
        return False
    wanted = field_types(trainer_params)["scenario"]
    return isinstance(wanted, type) and issubclass(wanted, scenario_params)
