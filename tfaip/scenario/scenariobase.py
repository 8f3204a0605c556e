"""Base class of scenarios: their components, and the factories of what works with these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tfaip.components.params import ScenarioBaseParams
from tfaip.components.scenario import ScenarioComponents
from tfaip.components.scenarioparamsfile import SCENARIO_PARAMS_FILE

if TYPE_CHECKING:
    from tfaip.lav.lav import LAV
    from tfaip.lav.multilav import MultiLAV
    from tfaip.lav.params import LAVParams
    from tfaip.predict.multimodelpredictor import MultiModelPredictor
    from tfaip.predict.params import PredictorParams
    from tfaip.predict.predictor import Predictor
    from tfaip.trainer.params import TrainerParams
    from tfaip.trainer.trainer import Trainer

__all__ = ["SCENARIO_PARAMS_FILE", "ScenarioBase"]

SP = TypeVar("SP", bound=ScenarioBaseParams)
TP = TypeVar("TP")


class ScenarioBase(ScenarioComponents[SP, TP], Generic[SP, TP]):
    """Base of scenarios: `class MyScenario(ScenarioBase[MyScenarioParams, MyTrainerParams])`.

    `ScenarioComponents` describes what else a scenario may override.

    Args:
        params: the scenario params.
    """

    # The classes are imported when they are needed: `--help` and data workers load no numeric
    # backend.

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
        """Create a trainer; `kwargs` are further arguments of `Trainer`, e.g. `restore=True`."""
        return cls.trainer_cls()(trainer_params, cls(trainer_params.scenario), **kwargs)

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

        scenario = cls(cls.params_from_path(model_path, trusted))
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
