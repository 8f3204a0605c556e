"""Scenarios that are declared by their parts, without params classes of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tfaip.components.params import ScenarioBaseParams
from tfaip.components.scenario import ScenarioComponents
from tfaip.errors import UsageError
from tfaip.params.fields import copied
from tfaip.params.tree import fill_shared, node_fields
from tfaip.scenario.declared import (
    PARTS,
    has_own_params,
    make_scenario_params,
    make_trainer_params,
    take_declared,
)
from tfaip.scenario.scenariobase import ScenarioBase


class Scenario(ScenarioBase[Any, Any]):
    """Scenario that is declared by its parts.

        class LineScenario(Scenario):
            data, model, evaluator = LineData, LineModel, CharacterErrors
            train, val = Lines(), Lines(seed=2, size=200)
            processors, post_processors = [Distort(), Encode()], [Decode()]
            best = "min lav_l0_cer"
            defaults = {"trainer.epochs": 12, "learning_rate": "WarmupCosineDecay"}

    Its params classes are made from these, when they are first asked for: `LineScenario.ScenarioParams`,
    `LineScenario.PipelineParams` and `LineScenario.TrainerParams`. A subclass changes single parts; what it does not
    name stays as in its base, and its `defaults` are added to those of the base. All methods of `ScenarioBase` can be
    overridden as well; one that has params classes of its own overrides `params_cls` or `trainer_params_cls`.

    Objects of the class have `data`, `model` and `graph` of their params, as all scenarios.

    Args:
        data: class of the params of the data, or an object of it, which holds the defaults.
        model: the same for the model.
        evaluator: the same for the evaluator, or a class of evaluators; None: nothing is evaluated.
        train: generator of the training data: params, or their class.
        val: generator of the validation data; None: no validation.
        lav: generator, or list of generators, to load and validate on; default: that of `val`.
        processors: processors between generator and model, in order.
        post_processors: processors of predicted samples.
        best: mode and name of the logged value that selects the best model, instead of
            `_best_logging_settings` of the model; names as there, or one of LAV.
        defaults: flags with the values that they have if a user does not give them.

    Raises:
        TypeError: if a value is of the wrong kind.
    """

    if TYPE_CHECKING:  # these are removed from the class, where objects have properties
        data: Any
        model: Any
        evaluator: ClassVar[Any]
        train: ClassVar[Any]
        val: ClassVar[Any]
        lav: ClassVar[Any]
        processors: ClassVar[Any]
        post_processors: ClassVar[Any]
        best: ClassVar[str]
        defaults: ClassVar[Mapping[str, Any]]

    _declared: ClassVar[Mapping[str, Any]] = {}
    """Parts, those of bases included."""
    # The class whose parts the params classes are made from, when they are first asked for.
    _owner: ClassVar[Any] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = take_declared(cls)
        inherited: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited |= vars(base).get("_declared", {})
        if "defaults" in own:
            own["defaults"] = {**inherited.get("defaults", {}), **own["defaults"]}
        cls._declared = {**inherited, **own}
        if "evaluator" in own:
            cls._set_evaluator(own["evaluator"])
        if own.keys() & {*PARTS} or "params_cls" in vars(cls):
            cls._owner = cls

    @classmethod
    def _set_evaluator(cls, evaluator: Any) -> None:
        """Name a class of evaluators that has params of its own; any other is named by its params."""
        if has_own_params(evaluator):
            cls.evaluator_cls = classmethod(lambda _: evaluator)  # type: ignore[assignment]
        else:
            cls.evaluator_cls = vars(ScenarioComponents)["evaluator_cls"]  # type: ignore[method-assign]

    @classmethod
    def params_cls(cls) -> Any:
        cls._require("data", "model")
        return make_scenario_params(cls._owner)

    @classmethod
    def trainer_params_cls(cls) -> Any:
        cls._require("train")
        return make_trainer_params(cls._owner)

    @classmethod
    def _require(cls, *needed: str) -> None:
        missing = [name for name in ("data", "model", "train") if cls._declared.get(name) is None]
        if set(missing) & set(needed):
            raise TypeError(
                f"{cls.__qualname__} does not declare {' and '.join(missing)}: write {missing[0]} = ... in its body"
            )

    @classmethod
    def default_params(cls) -> Any:
        params = super().default_params()
        for name, field in (("processors", "pre_proc"), ("post_processors", "post_proc")):
            if name in cls._declared:
                setattr(params.data, field, copied(cls._declared[name]))
        cls._set_defaults(params, of_scenario=True)
        fill_shared(params, params, strict=False)
        return params

    @classmethod
    def default_trainer_params(cls) -> Any:
        params = super().default_trainer_params()
        cls._set_defaults(params, of_scenario=False)
        return params

    @classmethod
    def _set_defaults(cls, params: Any, of_scenario: bool) -> None:
        """Set the declared defaults that belong to the scenario params, or all others."""
        fields = node_fields(cls.params_cls())
        groups = {field.name for field in fields if field.metadata.get("mode") in ("ssnake", "flat")}
        groups.add(ScenarioBaseParams.flag_root)
        declared = cls._declared.get("defaults", {})
        flags = {
            flag: value
            for flag, value in declared.items()
            if (flag.lstrip("-").partition(".")[0] in groups) == of_scenario
        }
        if not flags:
            return
        try:
            params.set_flags(flags)
        except UsageError as error:
            raise UsageError(f"{cls.__qualname__}.defaults: {error}") from error

    def best_logging_settings(self) -> tuple[str, str]:
        return self._declared.get("best") or super().best_logging_settings()
