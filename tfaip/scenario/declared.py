"""Parts of a scenario as the body of its class declares them, and the params classes that are made from these."""

import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import TrainerPipelineParamsBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams
from tfaip.data.pipeline.processor.params import DataProcessorPipelineParams, SequentialProcessorPipelineParams
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import option
from tfaip.params.classes import is_part
from tfaip.scenario.scenariobase import make_class
from tfaip.util.classes import near_hooks
from tfaip.util.text import shorten

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

    Objects of the class have properties of some of these names. Methods and properties of the body stay where they are.
    """
    # Without methods and properties.
    own = vars(scenario).items()
    values = {name: value for name, value in own if isinstance(value, type) or not hasattr(value, "__get__")}
    for name, near in near_hooks(scenario, NAMES).items():
        if name in values:
            raise TypeError(
                f"{scenario.__qualname__}.{name} declares nothing; did you mean {near}? If it is something of your "
                f"own, choose another name, or begin it with an underscore"
            )
    found = {}
    for name in values.keys() & {*NAMES}:
        delattr(scenario, name)
        found[name] = _checked(f"{scenario.__qualname__}.{name}", name, values[name])
    return found


def _checked(place: str, name: str, value: Any) -> Any:
    """Return a declared value as the scenario keeps it."""
    if name == "best":
        words = str(value).split()
        if len(words) == 2 and words[0] in ("min", "max"):
            return words[0], words[1]
        text = 'expected the mode and the name of a value, as in "min lav_l0_cer"'
        raise TypeError(f"{place} is {shorten(value)}, {text}")
    if name == "defaults" or (value is None and name in _OPTIONAL) or (name == "evaluator" and has_own_params(value)):
        return value
    if isinstance(value, list | tuple) and name == "lav":
        return [as_object(_of_kind(place, _KINDS[name], item)) for item in value]
    if isinstance(value, list | tuple) and name in _PROCESSORS:
        processors = [as_object(_of_kind(place, DataProcessorParams, item)) for item in value]
        return SequentialProcessorPipelineParams(processors=processors)
    return _of_kind(place, _KINDS.get(name, DataProcessorPipelineParams), value)


def _of_kind(place: str, kind: type, value: Any) -> Any:
    """Return the value of a part, which must be a class of the kind or an object of one."""
    if not issubclass(_class(value), kind):
        shown = value.__name__ if isinstance(value, type) else shorten(value)
        what = f"a class derived from {kind.__name__}, or an object of one"
        what = "a list of processors" if kind is DataProcessorPipelineParams else what
        raise TypeError(f"{place} is {shown}, expected {what}")
    return value


def has_own_params(evaluator: Any) -> bool:
    """Return True for a class of evaluators that is not its own params."""
    return isinstance(evaluator, type) and issubclass(evaluator, EvaluatorBase) and not is_part(evaluator)


def as_object(value: Any) -> Any:
    return value() if isinstance(value, type) else value


class DeclaredPipelineParams(TrainerPipelineParamsBase[Any, Any]):
    """Generators of a declared scenario: a subclass has those of `train`, `val` and `lav` that it names."""

    def train_gen(self) -> Any:
        return self.train  # type: ignore[attr-defined]

    def val_gen(self) -> Any:
        return getattr(self, "val", None)

    def lav_gen(self) -> Iterable[DataGeneratorParams]:
        lav = getattr(self, "lav", None)
        if lav is None:
            return super().lav_gen()
        return lav if isinstance(lav, list) else [lav]


_GENERATORS = {
    "train": "Generator of the training data",
    "val": "Generator of the validation data",
    "lav": "Generator of the data to load and validate on",
}


@cache
def make_scenario_params(scenario: Any) -> Any:
    """Make the class of the scenario params of a scenario from its parts."""
    parts = {name: scenario._declared.get(name) for name in ("data", "model", "evaluator")}
    if parts["evaluator"] is not None and not has_own_params(parts["evaluator"]):
        parts["evaluator"] = as_object(parts["evaluator"])
    base: Any = ScenarioBaseParams
    bases = (base[_class(parts["data"]), _class(parts["model"])],)
    return make_class(scenario, "ScenarioParams", bases, "Data and model of", _objects(parts))


@cache
def make_trainer_params(scenario: Any) -> Any:
    """Make the class of the trainer params of a scenario from its parts."""
    # Imported here: data workers import scenarios, and need no params of trainings.
    from tfaip.trainer.params import TrainerParams

    base: Any = TrainerParams
    bases = (base[scenario.params_cls(), _make_pipeline(scenario, scenario._declared)],)
    return make_class(scenario, "TrainerParams", bases, "Training of")


def _make_pipeline(scenario: type, declared: Mapping[str, Any]) -> type:
    generators = {name: declared.get(name) for name in _GENERATORS}
    cls = _class(generators["train"])
    base: Any = DeclaredPipelineParams
    if generators["lav"] is None and cls is _class(generators["val"]) and issubclass(cls, ListsFileGeneratorParams):
        from tfaip.scenario.listfile.listfilescenario import ListFilePipelineParams

        base = ListFilePipelineParams[cls]  # type: ignore[valid-type]
        return make_class(scenario, "PipelineParams", (base,), "Data of", _objects(generators))
    # Of this module, so that the overview of the help does not take their choices for options of the user.
    body: dict[str, Any] = {"__annotations__": {}, "__module__": __name__}
    for name, value in generators.items():
        if isinstance(value, list):
            body["__annotations__"][name] = list[DataGeneratorParams]
            body[name] = option(value, "Generators of the data to load and validate on, each separately", mode="ssnake")
        elif value is not None:
            body["__annotations__"][name] = _class(value)
            body[name] = option(as_object(value), _GENERATORS[name], mode="ssnake")
    base = types.new_class("Generators", (base,), exec_body=lambda namespace: namespace.update(body))
    return make_class(scenario, "PipelineParams", (base,), "Data of")


def _class(value: Any) -> Any:
    return value if isinstance(value, type) else type(value)


def _objects(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts that are objects, which hold defaults."""
    return {name: value for name, value in parts.items() if value is not None and not isinstance(value, type)}
