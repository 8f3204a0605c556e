"""Parts of a scenario as the body of its class declares them, and the params classes that are made from these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import TrainerPipelineParams, TrainerPipelineParamsBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams, SequentialProcessorPipelineParams
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import ParamsBase, option
from tfaip.params.classes import is_part
from tfaip.params.fields import pai_meta
from tfaip.params.types import bound_field
from tfaip.scenario.scenariobase import make_class
from tfaip.util.classes import log_near_hook, near_hooks
from tfaip.util.text import shorten

if TYPE_CHECKING:
    from tfaip.trainer.params import TrainerParams

# Attribute of a scenario -> the params that it may be, as a class or as an object.
_KINDS: Mapping[str, type] = {
    "data": DataBaseParams,
    "model": ModelBaseParams,
    "evaluator": EvaluatorParams,
    "train": DataGeneratorParams,
    "val": DataGeneratorParams,
    "lav": DataGeneratorParams,
}
_OPTIONAL = {"evaluator", "val", "lav"}
_PROCESSORS = ("processors", "post_processors")
NAMES = (*_KINDS, *_PROCESSORS, "best", "defaults")
# Those that the params classes depend on.
PARTS = tuple(_KINDS)


def take_declared(scenario: type) -> dict[str, Any]:
    """Remove what the body of a scenario declares from the class, and return it by name.

    Objects of the class have properties of some of these names. Methods and properties of the body
    stay where they are.

    Raises:
        TypeError: if a value is of the wrong kind, or a name is mistyped.
    """
    found = {}
    for name, near in near_hooks(scenario, NAMES).items():
        if not _is_value(vars(scenario)[name]):
            log_near_hook(scenario, name, near)
            continue
        raise TypeError(
            f"{scenario.__qualname__}.{name} declares nothing; did you mean {near}? If it is something of your own, "
            f"choose another name, or begin it with an underscore"
        )
    for name in NAMES:
        value = vars(scenario).get(name)
        if name not in vars(scenario) or not _is_value(value):
            continue
        delattr(scenario, name)
        found[name] = _checked(f"{scenario.__qualname__}.{name}", name, value)
    return found


def _is_value(value: Any) -> bool:
    """Return False for methods and properties."""
    return isinstance(value, type) or not hasattr(value, "__get__")


def _checked(place: str, name: str, value: Any) -> Any:
    if name == "best":
        return _best(place, value)
    if name == "defaults":
        if isinstance(value, Mapping) and all(isinstance(flag, str) for flag in value):
            return {flag.lstrip("-"): default for flag, default in value.items()}
        raise TypeError(f'{place} is {shorten(value)}, expected flags with values: {{"trainer.epochs": 12}}')
    if name in _PROCESSORS:
        if isinstance(value, list | tuple):
            for item in value:
                _require_kind(place, DataProcessorParams, item)
            return SequentialProcessorPipelineParams(processors=list(map(as_object, value)))
        if isinstance(value, DataProcessorPipelineParams):
            return value
        raise TypeError(f"{place} is {shorten(value)}, expected a list of processors")
    if value is None and name in _OPTIONAL:
        return None
    if name == "lav" and isinstance(value, list | tuple):
        for item in value:
            _require_kind(place, _KINDS[name], item)
        return list(map(as_object, value))
    if name != "evaluator" or not has_own_params(value):
        _require_kind(place, _KINDS[name], value)
    return value


def _require_kind(place: str, kind: type, value: Any) -> None:
    if not (isinstance(value, kind) or (isinstance(value, type) and issubclass(value, kind))):
        shown = value.__name__ if isinstance(value, type) else shorten(value)
        raise TypeError(f"{place} is {shown}, expected a class derived from {kind.__name__}, or an object of one")


def has_own_params(evaluator: Any) -> bool:
    """Return True for a class of evaluators that is not its own params."""
    return isinstance(evaluator, type) and issubclass(evaluator, EvaluatorBase) and not is_part(evaluator)


def _best(place: str, value: Any) -> tuple[str, str]:
    words = value.split() if isinstance(value, str) else value
    if isinstance(words, list | tuple) and len(words) == 2 and words[0] in ("min", "max"):
        return words[0], str(words[1])
    raise TypeError(f'{place} is {shorten(value)}, expected the mode and the name of a value, as in "min lav_l0_cer"')


@dataclass(frozen=True)
class ParamsClasses:
    """Params classes of a scenario.

    Args:
        scenario: class of the scenario params; None: not known yet.
        trainer: class of the trainer params; None: not known yet.
    """

    scenario: type[ScenarioBaseParams[Any, Any]] | None = None
    trainer: type[TrainerParams[Any, Any]] | None = None


def missing_parts(declared: Mapping[str, Any], given: ParamsClasses) -> list[str]:
    """Return the parts that are not declared, and without which not all params classes can be made."""
    needed = {"data": given.scenario, "model": given.scenario, "train": given.trainer}
    return [name for name, made in needed.items() if made is None and declared.get(name) is None]


def refuse_parts_of_given(scenario: type, declared: Mapping[str, Any], given: ParamsClasses) -> None:
    """Raise if a part belongs to a params class that the scenario is declared with."""
    made_from: dict[str, Any] = {"data": given.scenario, "model": given.scenario, "evaluator": given.scenario}
    made_from |= {"train": given.trainer, "val": given.trainer, "lav": given.trainer}
    for part, cls in made_from.items():
        if cls is not None and part in declared:
            raise TypeError(f"{scenario.__qualname__}.{part} is declared by {cls.__name__}: set its default there")


def as_object(value: Any) -> Any:
    return value() if isinstance(value, type) else value


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
        # Imported here: data workers import scenarios, and need no params of trainings.
        from tfaip.trainer.params import TrainerParams as AnyTrainerParams

        base = AnyTrainerParams
        bases = (base[params, _make_pipeline(scenario, declared)],)
        trainer = make_class(scenario, "TrainerParams", bases, "Training of")
    return ParamsClasses(params, trainer)


def _make_pipeline(scenario: type, declared: Mapping[str, Any]) -> type:
    train, val, lav = declared["train"], declared.get("val"), declared.get("lav")
    defaults = _objects({"train": train, "val": val, "lav": lav})
    base: Any
    if lav is None and _class(train) is _class(val) and issubclass(_class(train), ListsFileGeneratorParams):
        from tfaip.scenario.listfile.listfilescenario import ListFilePipelineParams

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
