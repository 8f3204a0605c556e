"""Base class of scenarios: their components, and the factories of what works with these."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import TrainerPipelineParamsBase
from tfaip.components.scenario import ScenarioComponents
from tfaip.components.scenarioparamsfile import SCENARIO_PARAMS_FILE
from tfaip.params.declaration.generics import type_argument
from tfaip.scenario.declared import params_class_names
from tfaip.scenario.ondemand import make_when_looked_up
from tfaip.util.construction import construct, takes
from tfaip.util.oldnames import old_names
from tfaip.util.overriding import overrides

if TYPE_CHECKING:
    from tfaip.lav.lav import LAV
    from tfaip.lav.multilav import MultiLAV
    from tfaip.lav.params import LAVParams
    from tfaip.predict.multimodelpredictor import MultiModelPredictor
    from tfaip.predict.params import PredictorParams
    from tfaip.predict.predictor import Predictor
    from tfaip.trainer.params import TrainerParams
    from tfaip.trainer.trainer import Trainer

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

__all__ = ["SCENARIO_PARAMS_FILE", "ScenarioBase"]

_SET_LATE = ("checkpoint", "from_stage")

SP = TypeVar("SP", bound=ScenarioBaseParams)
TP = TypeVar("TP")


class ScenarioBase(ScenarioComponents[SP, TP], Generic[SP, TP]):
    """Base of scenarios: `class MyScenario(ScenarioBase[MyScenarioParams, MyTrainerParams])`.

    The second argument may also be the params of the data of a training (`TrainerPipelineParams[...]`,
    as a class of its own): trainer params with these are made then, see
    `tfaip.scenario.madeclasses.trainer_params_class`.

    `ScenarioComponents` describes what else a scenario may override.

    Args:
        params: the scenario params.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        module = sys.modules.get(cls.__module__)
        if module is not None and "." not in cls.__qualname__ and _has_pipeline_params(cls):
            make_when_looked_up(module, params_class_names(cls)[2:], lambda: cls.trainer_params_cls())

    # The classes are imported when they are needed: `--help` and data workers load no numeric
    # backend.

    @classmethod
    def trainer_params_cls(cls) -> type[TP]:
        declared: Any = super().trainer_params_cls()
        if not issubclass(declared, TrainerPipelineParamsBase):
            return declared
        from tfaip.scenario.madeclasses import trainer_params_class

        if overrides(cls, ScenarioComponents, "trainer_pipeline_params_cls"):
            declared = cls.trainer_pipeline_params_cls()
        scenario: Any = cls
        trainer_cls: Any = cls.trainer_cls() if overrides(cls, ScenarioBase, "trainer_cls") else None
        params_cls: type[TP] = trainer_params_class(scenario, declared, trainer_cls)
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
        from tfaip.lav.multilav import MultiLAV

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
    def create_trainer(cls, trainer_params: TrainerParams[Any, Any], **kwargs: Any) -> Trainer[Any]:
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
    def create_lav(cls, lav_params: LAVParams, scenario_params: SP) -> LAV:
        """Create the LAV of the model in `lav_params.model_path`, which has these scenario params."""
        return cls.lav_cls()(lav_params, scenario_params, cls)

    @classmethod
    def create_multi_lav(
        cls, lav_params: LAVParams, model_paths: Sequence[str | Path], trusted: Iterable[str] = ()
    ) -> MultiLAV:
        """Create the LAV of several models; `trusted` as in `params_from_path`."""
        return cls.multi_lav_cls()(lav_params, model_paths, cls, trusted)

    @classmethod
    def create_predictor(
        cls, model_path: str | Path, params: PredictorParams, trusted: Iterable[str] = ()
    ) -> Predictor:
        """Create a predictor for an exported model; `trusted` as in `params_from_path`."""
        from tfaip.device.devices import precision_scope
        from tfaip.export.modelloading import load_weights

        scenario = construct(cls, cls.params_from_path(model_path, trusted))
        with precision_scope(params.device.precision):
            load_weights(scenario, Path(model_path))
        predictor = cls.predictor_cls()(params, scenario.data)
        predictor.set_model(scenario.graph)
        return predictor

    @classmethod
    def create_multi_predictor(
        cls, model_paths: Sequence[str | Path], params: PredictorParams, trusted: Iterable[str] = ()
    ) -> MultiModelPredictor:
        """Create a predictor for models that vote; `trusted` as in `params_from_path`."""
        return cls.multi_predictor_cls().from_paths(model_paths, params, cls, trusted)


def _has_pipeline_params(scenario: type[ScenarioBase[Any, Any]]) -> bool:
    """Return True if the second type argument of a scenario is the class of its pipeline params."""
    try:
        declared = type_argument(scenario, ScenarioComponents, 1)
    except TypeError:  # there is none, or not yet
        return False
    return isinstance(declared, type) and issubclass(declared, TrainerPipelineParamsBase)
