"""Base class of scenarios: their components, and the factories of what works with these."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tfaip.components.modelfiles import SCENARIO_PARAMS_FILE
from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import TrainerPipelineParamsBase
from tfaip.components.scenario import ScenarioComponents
from tfaip.params.fields import option
from tfaip.params.trust import SCENARIO_MARK
from tfaip.params.types import field_types
from tfaip.util.classes import construct, overrides, takes
from tfaip.util.oldnames import old_names

if TYPE_CHECKING:
    from tfaip.lav.lav import LAV, MultiLAV
    from tfaip.predict.multimodelpredictor import MultiModelPredictor
    from tfaip.predict.params import LAVParams, PredictorParams
    from tfaip.predict.predictor import Predictor
    from tfaip.trainer.params import TrainerParams as AnyTrainerParams
    from tfaip.trainer.trainer import Trainer

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

__all__ = ["SCENARIO_PARAMS_FILE", "ScenarioBase"]

_SET_LATE = ("checkpoint", "from_stage", "permission")

SP = TypeVar("SP", bound=ScenarioBaseParams)
TP = TypeVar("TP")


class _ParamsClass:
    """Attribute of scenarios: a params class, made when it is first looked up, by `pickle` in another process too.

    A data worker imports the scenario for the sake of a generator: to make the classes there, and to import the
    params of trainings for it, would take 70 ms of each start.
    """

    def __init__(self, method: str) -> None:
        self._method = method

    def __get__(self, scenario: Any, owner: Any) -> Any:
        return getattr(owner, self._method)()


class ScenarioBase(ScenarioComponents[SP, TP], Generic[SP, TP]):
    """Base of scenarios: `class MyScenario(ScenarioBase[MyScenarioParams, MyTrainerParams])`.

    The second argument may also be the params of the data of a training (`TrainerPipelineParams[...]`, as a class of
    its own): trainer params with these are made then, see `_trainer_params_class`. `ScenarioParams`, `PipelineParams`
    and `TrainerParams` of the scenario are its params classes.

    `ScenarioComponents` describes what else a scenario may override.

    Args:
        params: the scenario params.
    """

    if TYPE_CHECKING:
        ScenarioParams: ClassVar[type[Any]]
        PipelineParams: ClassVar[type[Any]]
        TrainerParams: ClassVar[type[Any]]
    else:
        ScenarioParams = _ParamsClass("params_cls")
        PipelineParams = _ParamsClass("trainer_pipeline_params_cls")
        TrainerParams = _ParamsClass("trainer_params_cls")

    # The classes are imported when they are needed: `--help` and data workers load no numeric backend.

    @classmethod
    def trainer_params_cls(cls) -> type[TP]:
        declared: Any = super().trainer_params_cls()
        if not issubclass(declared, TrainerPipelineParamsBase):
            return declared
        if overrides(cls, ScenarioComponents, "trainer_pipeline_params_cls"):
            declared = cls.trainer_pipeline_params_cls()
        scenario: Any = cls
        params_cls: type[TP] = _trainer_params_class(scenario, declared)
        return params_cls

    @classmethod
    def trainer_cls(cls) -> type[Trainer[Any]]:
        """Class of the trainer."""
        from tfaip.trainer.trainer import Trainer

        return Trainer

    @classmethod
    def lav_cls(cls) -> type[LAV]:
        """Class of the LAV of a model."""
        from tfaip.lav.lav import LAV

        return LAV

    @classmethod
    def multi_lav_cls(cls) -> type[MultiLAV]:
        """Class of the LAV of several models."""
        from tfaip.lav.lav import MultiLAV

        return MultiLAV

    @classmethod
    def predictor_cls(cls) -> type[Predictor]:
        """Class of the predictor for a model."""
        from tfaip.predict.predictor import Predictor

        return Predictor

    @classmethod
    def multi_predictor_cls(cls) -> type[MultiModelPredictor]:
        """Class of the predictor for several models; override it for another kind of vote."""
        from tfaip.predict.multimodelpredictor import MultiModelPredictor

        return MultiModelPredictor

    @classmethod
    def create_trainer(cls, trainer_params: AnyTrainerParams[Any, Any], **kwargs: Any) -> Trainer[Any]:
        """Create a trainer; `kwargs` are further arguments of `Trainer`, e.g. `restore=True` (None: its default).

        What the constructor of a subclass does not take is set after it.
        """
        scenario = construct(cls, trainer_params.scenario)
        trainer_cls = cls.trainer_cls()
        given = {name: value for name, value in kwargs.items() if value is not None}
        late = {name: value for name, value in given.items() if name in _SET_LATE and not takes(trainer_cls, name)}
        taken = {name: value for name, value in given.items() if name not in late}
        trainer: Trainer[Any] = trainer_cls(trainer_params, scenario, **taken)
        for name, value in late.items():
            setattr(trainer, f"_{name}", value)
        return trainer

    @classmethod
    def create_lav(cls, lav_params: LAVParams | str | Path, scenario_params: SP | None = None) -> LAV:
        """Create the LAV of the model in `lav_params.model_path`, or at a path; None: with its scenario params."""
        if isinstance(lav_params, str | Path):
            lav_params = cls.lav_cls().params_cls()(model_path=str(lav_params))
        if scenario_params is None:
            scenario_params = cls.params_from_path(lav_params.model_path or "")
        return cls.lav_cls()(lav_params, scenario_params, cls)

    @classmethod
    def create_multi_lav(
        cls, lav_params: LAVParams, model_paths: Sequence[str | Path], trusted: Iterable[str] = ()
    ) -> MultiLAV:
        """Create the LAV of several models; `trusted` as in `params_from_path`."""
        return cls.multi_lav_cls()(lav_params, model_paths, cls, trusted)

    @classmethod
    def create_predictor(
        cls, model_path: str | Path, params: PredictorParams | None = None, trusted: Iterable[str] = ()
    ) -> Predictor:
        """Create a predictor for an exported model; `trusted` as in `params_from_path`."""
        from tfaip.device.devices import precision_scope
        from tfaip.export.modelloading import load_weights
        from tfaip.predict.params import PredictorParams

        params = PredictorParams() if params is None else params
        scenario = construct(cls, cls.params_from_path(model_path, trusted))
        with precision_scope(params.device.precision):
            load_weights(scenario, Path(model_path))
        predictor = cls.predictor_cls()(params, scenario.data)
        predictor.set_model(scenario.graph)
        return predictor

    @classmethod
    def create_multi_predictor(
        cls, model_paths: Sequence[str | Path], params: PredictorParams | None = None, trusted: Iterable[str] = ()
    ) -> MultiModelPredictor:
        """Create a predictor for models that vote; `trusted` as in `params_from_path`."""
        from tfaip.predict.params import PredictorParams

        params = PredictorParams() if params is None else params
        return cls.multi_predictor_cls().from_paths(model_paths, params, cls, trusted)


@functools.cache
def _trainer_params_class(scenario: Any, pipeline_params: Any) -> Any:
    """Return the class of the trainer params of a scenario that is declared without one, by default of its trainer."""
    from tfaip.trainer.params import TrainerParams

    own: Any = TrainerParams
    if overrides(scenario, ScenarioBase, "trainer_cls"):
        with contextlib.suppress(TypeError):  # the trainer has none, as Trainer[Any]
            own = scenario.trainer_cls().params_cls()
    if own is not TrainerParams:
        wanted = field_types(own)["scenario"]
        if isinstance(wanted, type) and issubclass(wanted, scenario.params_cls()):
            return own
        node = option(help="Params of the scenario", factory=scenario.params_cls(), fix_dc=True, mode="ssnake")
        body = {"__annotations__": {"scenario": scenario.params_cls()}, "scenario": node}
        return make_class(scenario, "TrainerParams", (own,), "Training of", body)
    base: Any = TrainerParams
    return make_class(scenario, "TrainerParams", (base[scenario.params_cls(), pipeline_params],), "Training of")


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
    name = f"{scenario.__name__.removesuffix('Scenario') or scenario.__name__}{kind}"
    return types.new_class(name, bases, exec_body=lambda namespace: namespace.update(body))
