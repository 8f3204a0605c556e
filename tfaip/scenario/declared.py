"""Parts of a scenario as the body of its class declares them; see `tfaip.scenario.scenario.Scenario`."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfaip.components.params import ScenarioBaseParams
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams, SequentialProcessorPipelineParams
from tfaip.evaluator.evaluator import EvaluatorBase
from tfaip.evaluator.params import EvaluatorParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params.classes import is_part
from tfaip.params.trust import SCENARIO_MARK
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


def name_of(scenario: type, kind: str) -> str:
    """Return the short name of a params class of a scenario."""
    return f"{scenario.__name__.removesuffix('Scenario') or scenario.__name__}{kind}"


def make_class(
    scenario: Any, kind: str, bases: tuple[Any, ...], doc: str, defaults: Mapping[str, Any] | None = None
) -> Any:
    """Make a params class in the body of a scenario, whose inherited fields have the given defaults."""
    body = {
        "__module__": scenario.__module__,
        "__qualname__": f"{scenario.__qualname__}.{kind}",
        "__doc__": f"{doc} {scenario.__name__}.",
        SCENARIO_MARK: scenario.__qualname__,
        **(defaults or {}),
    }
    # The short name is a choice of a class in commands.
    return types.new_class(name_of(scenario, kind), bases, exec_body=lambda namespace: namespace.update(body))
