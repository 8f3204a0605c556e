"""Scenarios that are declared by their parts, without params classes of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from tfaip.components.params import ScenarioBaseParams
from tfaip.components.scenario import ScenarioComponents
from tfaip.errors import UsageError
from tfaip.params.fields import copied
from tfaip.params.tree import fill_shared, node_fields
from tfaip.params.types import UNBOUND, arguments, type_argument
from tfaip.scenario.declared import (
    PARTS,
    ParamsClasses,
    has_own_params,
    make_params_classes,
    missing_parts,
    refuse_parts_of_given,
    take_declared,
)
from tfaip.scenario.scenariobase import ScenarioBase

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from tfaip.trainer.params import TrainerParams

    # Without type arguments, the params are those of any scenario.
    SP = TypeVar("SP", bound=ScenarioBaseParams[Any, Any], default=ScenarioBaseParams[Any, Any])
    TP = TypeVar("TP", default=TrainerParams[Any, Any])
else:
    from typing import TypeVar

    from tfaip.scenario.scenariobase import SP, TP


class Scenario(ScenarioBase[SP, TP], Generic[SP, TP]):
    """Scenario that is declared by its parts.

        class LineScenario(Scenario):
            data, model, evaluator = LineData, LineModel, CharacterErrors
            train, val = Lines(), Lines(seed=2, size=200)
            processors, post_processors = [Distort(), Encode()], [Decode()]
            best = "min lav_l0_cer"
            defaults = {"trainer.epochs": 12, "learning_rate": "WarmupCosineDecay"}

    Its params classes are made from these, when they are first asked for: `LineScenario.ScenarioParams`,
    `LineScenario.PipelineParams` and `LineScenario.TrainerParams`. A subclass changes single parts; what it does
    not name stays as in its base, and its `defaults` are added to those of the base. All methods of
    `ScenarioBase` can be overridden as well. Params classes of one's own are given as in
    `ScenarioBase`: `Scenario[MyScenarioParams]`, which has data, model and evaluator, or
    `Scenario[MyScenarioParams, MyTrainerParams]`; the other parts are declared as before.

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
        best: ClassVar[str | Sequence[str]]
        defaults: ClassVar[Mapping[str, Any]]

    else:

        def __class_getitem__(cls, arguments: Any) -> Any:
            # The trainer params may be left out, as the default of the type parameter says.
            return super().__class_getitem__(arguments if isinstance(arguments, tuple) else (arguments, Any))

    _declared: ClassVar[Mapping[str, Any]] = {}
    # Makes them when it is first called.
    _params_classes: ClassVar[Callable[[], ParamsClasses]] = ParamsClasses

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
        given = ParamsClasses(_type_argument(cls, 0), _type_argument(cls, 1))
        is_changed = bool(own.keys() & set(PARTS)) or cls._params_classes is ParamsClasses
        if is_changed and not missing_parts(cls._declared, given):
            refuse_parts_of_given(cls, cls._declared, given)
            cls._params_classes = staticmethod(cache(partial(make_params_classes, cls, cls._declared, given)))

    @classmethod
    def _set_evaluator(cls, evaluator: Any) -> None:
        """Name a class of evaluators that has params of its own; any other is named by its params."""
        if has_own_params(evaluator):
            cls.evaluator_cls = classmethod(lambda _: evaluator)  # type: ignore[assignment]
        else:
            cls.evaluator_cls = vars(ScenarioComponents)["evaluator_cls"]  # type: ignore[method-assign]

    @classmethod
    def params_cls(cls) -> type[SP]:
        params_cls: Any = cls._params_classes().scenario or cls._refuse_missing()
        return params_cls

    @classmethod
    def trainer_params_cls(cls) -> type[TP]:
        params_cls: Any = cls._params_classes().trainer or cls._refuse_missing()
        return params_cls

    @classmethod
    def _refuse_missing(cls) -> None:
        missing = missing_parts(cls._declared, cls._params_classes())
        names = " and ".join(missing)
        raise TypeError(f"{cls.__qualname__} does not declare {names}: write {missing[0]} = ... in its body")

    @classmethod
    def default_params(cls) -> SP:
        params = super().default_params()
        for name, field in (("processors", "pre_proc"), ("post_processors", "post_proc")):
            if name in cls._declared:
                setattr(params.data, field, copied(cls._declared[name]))
        cls._set_defaults(params, of_scenario=True)
        fill_shared(params, params, strict=False)
        return params

    @classmethod
    def default_trainer_params(cls) -> TP:
        params: Any = super().default_trainer_params()
        cls._set_defaults(params, of_scenario=False)
        return params

    @classmethod
    def _set_defaults(cls, params: Any, of_scenario: bool) -> None:
        """Set the declared defaults that belong to the scenario params, or all others."""
        fields = node_fields(cls.params_cls())
        groups = {field.name for field in fields if field.metadata.get("mode") in ("ssnake", "flat")}
        groups.add(ScenarioBaseParams.flag_root)
        declared = cls._declared.get("defaults", {})
        flags = {flag: value for flag, value in declared.items() if (flag.partition(".")[0] in groups) == of_scenario}
        if not flags:
            return
        try:
            params.set_flags(flags)
        except UsageError as error:
            raise UsageError(f"{cls.__qualname__}.defaults: {error}") from error

    def best_logging_settings(self) -> tuple[str, str]:
        return self._declared.get("best") or super().best_logging_settings()


def _type_argument(cls: type[Scenario[Any, Any]], index: int) -> Any:
    """Return the params class that a scenario is declared with, or None."""
    argument = arguments(cls, Scenario)[index]
    if argument in (UNBOUND, Any) or isinstance(argument, TypeVar):
        return None
    return type_argument(cls, ScenarioComponents, index)
