"""Scenarios: bind params to the classes that implement them. Factories, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tfaip.data.databaseparams import DataBaseParams
from tfaip.errors import UsageError
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params.generics import type_argument
from tfaip.params.resource import require_resources_inside
from tfaip.params.serialization import load_params
from tfaip.params.tree import node_fields
from tfaip.scenario.arguments import further_arguments
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.util.overriding import overrides

if TYPE_CHECKING:
    from tfaip.data.data import DataBase
    from tfaip.evaluator.evaluator import EvaluatorBase
    from tfaip.lav.lav import LAV
    from tfaip.lav.multilav import MultiLAV
    from tfaip.lav.params import LAVParams
    from tfaip.model.graphbase import GenericGraphBase
    from tfaip.model.modelbase import ModelBase
    from tfaip.predict.multimodelpredictor import MultiModelPredictor
    from tfaip.predict.params import PredictorParams
    from tfaip.predict.predictor import Predictor
    from tfaip.trainer.params import TrainerParams
    from tfaip.trainer.trainer import Trainer

SP = TypeVar("SP", bound=ScenarioBaseParams)
TP = TypeVar("TP")

SCENARIO_PARAMS_FILE = "scenario_params.json"


class ScenarioBase(Generic[SP, TP]):
    """A scenario, declared as `class MyScenario(ScenarioBase[MyScenarioParams, MyTrainerParams])`.

    Data, model and graph are built when they are first used.

    Args:
        params: the scenario params.
    """

    def __init__(self, params: SP) -> None:
        self._params = params

    @classmethod
    def params_cls(cls) -> type[SP]:
        """Class of the scenario params."""
        return type_argument(cls, ScenarioBase, 0)

    @classmethod
    def trainer_params_cls(cls) -> type[TP]:
        """Class of the trainer params."""
        return type_argument(cls, ScenarioBase, 1)

    @classmethod
    def default_params(cls) -> SP:
        """Scenario params with the defaults of this scenario; override to change them.

        The params of the data are those that `DataBase.default_params` gives, if the data overrides it, and those of
        the evaluator are of the class that the evaluator was declared with.
        """
        params = cls.params_cls()()
        params.data = _default_data_params(_class_of(cls, "data_cls", params.data), params.data)
        if overrides(cls, ScenarioBase, "evaluator_cls"):
            evaluator_params_cls = cls.evaluator_cls().params_cls()
            if not isinstance(params.evaluator, evaluator_params_cls):
                params.evaluator = evaluator_params_cls()
        return params

    @classmethod
    def default_trainer_params(cls) -> TP:
        """Trainer params with the defaults of this scenario; override to change them."""
        params: Any = cls.trainer_params_cls()()
        params.scenario = cls.default_params()
        pipeline_params_cls = getattr(cls, "trainer_pipeline_params_cls", None)
        if pipeline_params_cls is not None:
            params.gen = pipeline_params_cls()()
        return params

    @classmethod
    def scenario_id(cls) -> str:
        """`module:Class`, the name under which stored params find the scenario again."""
        return f"{cls.__module__}:{cls.__qualname__}"

    @classmethod
    def data_cls(cls) -> type[DataBase[Any]]:
        """Class of the data; default: what the default data params name (an instance asks its own params)."""
        # An overridden hook that asks this one is asked by `default_params` itself.
        is_asked = overrides(cls, ScenarioBase, "data_cls")
        params = cls.params_cls()() if is_asked else cls.default_params()
        return params.data.cls()

    @classmethod
    def model_cls(cls) -> type[ModelBase[Any]]:
        """Class of the model; default: what the default model params name (an instance asks its own params)."""
        return cls.default_params().model.cls()

    @classmethod
    def evaluator_cls(cls) -> type[EvaluatorBase[Any]]:
        """Class of the evaluator; default: one that evaluates nothing."""
        from tfaip.evaluator.evaluator import EvaluatorBase

        return EvaluatorBase

    @classmethod
    def trainer_cls(cls) -> type[Trainer[Any]]:
        """Class of the trainer."""
        from tfaip.trainer.trainer import Trainer

        return Trainer

    @classmethod
    def lav_cls(cls) -> type[LAV]:
        """Class that loads and validates a model."""
        from tfaip.lav.lav import LAV

        return LAV

    @classmethod
    def multi_lav_cls(cls) -> type[MultiLAV]:
        """Class that loads and validates several models."""
        from tfaip.lav.multilav import MultiLAV

        return MultiLAV

    @classmethod
    def predictor_cls(cls) -> type[Predictor]:
        """Class that applies a model."""
        from tfaip.predict.predictor import Predictor

        return Predictor

    @classmethod
    def multi_predictor_cls(cls) -> type[MultiModelPredictor]:
        """Class that applies several models; override it to have them vote in another way."""
        from tfaip.predict.multimodelpredictor import MultiModelPredictor

        return MultiModelPredictor

    @classmethod
    def static_data_kwargs(cls, params: Any) -> dict[str, Any]:
        """Further constructor arguments of the data class.

        This and the other hooks for arguments (see `tfaip.scenario.arguments`) get by name what they ask for: `params`
        (of the part), `data_params`, `model_params`, `evaluator_params`, `scenario_params`, and `data` and `model` as
        far as they are built before the part.
        """
        return {}

    @classmethod
    def static_model_kwargs(cls, params: Any) -> dict[str, Any]:
        """Further constructor arguments of the model class."""
        return {}

    @classmethod
    def create_trainer(cls, trainer_params: TrainerParams[Any, Any], **kwargs: Any) -> Trainer[Any]:
        """The trainer of a run; `kwargs` are further arguments of `Trainer`, e.g. `restore=True`."""
        return cls.trainer_cls()(trainer_params, cls(trainer_params.scenario), **kwargs)

    @classmethod
    def create_lav(cls, lav_params: LAVParams, scenario_params: SP) -> LAV:
        """What loads and validates the model in `lav_params.model_path`, whose scenario params are given."""
        return cls.lav_cls()(lav_params, scenario_params, cls)

    @classmethod
    def create_multi_lav(
        cls, lav_params: LAVParams, model_paths: Sequence[str | Path], trusted: Iterable[str] = ()
    ) -> MultiLAV:
        """What loads and validates several models; `trusted` as in `params_from_path`."""
        return cls.multi_lav_cls()(lav_params, model_paths, cls, trusted)

    @classmethod
    def create_predictor(
        cls, model_path: str | Path, params: PredictorParams, trusted: Iterable[str] = ()
    ) -> Predictor:
        """What applies an exported model; `trusted` as in `params_from_path`."""
        from tfaip.device.devices import precision_scope
        from tfaip.scenario.exported import load_weights

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
        """What applies several exported models and votes; `trusted` as in `params_from_path`."""
        return cls.multi_predictor_cls().from_paths(model_paths, params, cls, trusted)

    @classmethod
    def create_evaluator(cls, params: Any, **kwargs: Any) -> EvaluatorBase[Any]:
        """The evaluator of the scenario, built from evaluator params; `kwargs` are further constructor arguments.

        Raises:
            UsageError: if the evaluator was declared with another class of params.
        """
        evaluator_cls = cls.evaluator_cls()
        if not isinstance(params, evaluator_cls.params_cls()):
            raise UsageError(
                f"{evaluator_cls.__name__} needs {evaluator_cls.params_cls().__name__}, got {type(params).__name__}: "
                "set the evaluator of the scenario params (ScenarioBase.default_params does)"
            )
        return evaluator_cls(params, **kwargs)

    def new_evaluator(self) -> EvaluatorBase[Any]:
        """The evaluator of this very scenario, with the further arguments that its hooks give."""
        offered = self._offered("evaluator") | {"data": lambda: self.data}
        return self.create_evaluator(self._params.evaluator, **further_arguments(self, "evaluator", offered))

    @classmethod
    def params_from_path(cls, path: str | Path, trusted: Iterable[str] = ()) -> SP:
        """The scenario params of a model directory (`best/`, `export/`).

        Args:
            path: the directory.
            trusted: packages that the params may name classes of, besides tfaip and the scenario's own.

        Raises:
            UsageError: they are missing or damaged, or name a class or a file that they must not.
        """
        from tfaip.scenario.exported import require_model

        require_model(Path(path))
        packages = [cls.__module__.split(".")[0], *trusted]
        params = load_params(Path(path) / SCENARIO_PARAMS_FILE, cls.params_cls(), trusted=packages)
        require_resources_inside(params, Path(path))
        return params

    @property
    def params(self) -> SP:
        """The scenario params."""
        return self._params

    @cached_property
    def data(self) -> DataBase[Any]:
        """The data, built from `params.data`."""
        params = self._params.data
        arguments = further_arguments(self, "data", self._offered("data"))
        data_cls = _other_class(self, "data_cls", params, DataBaseParams)
        data: DataBase[Any] = params.create(**arguments) if data_cls is None else data_cls(params, **arguments)
        data.check_hooks()
        return data

    @cached_property
    def model(self) -> ModelBase[Any]:
        """The model, built from `params.model`."""
        params = self._params.model
        arguments = further_arguments(self, "model", self._offered("model") | {"data": lambda: self.data})
        model_cls = _other_class(self, "model_cls", params, ModelBaseParams)
        model: ModelBase[Any] = params.create(**arguments) if model_cls is None else model_cls(params, **arguments)
        return model

    @cached_property
    def graph(self) -> GenericGraphBase[Any]:
        """The outermost graph of the model."""
        offered = self._offered("model") | {"data": lambda: self.data, "model": lambda: self.model}
        return self.model.create_graph(**further_arguments(self, "graph", offered))

    def _offered(self, part: str) -> dict[str, Callable[[], Any]]:
        """Params for the hooks of a part: those of the part are `params`, too."""
        params = self._params
        return {
            "params": lambda: getattr(params, part),
            "data_params": lambda: params.data,
            "model_params": lambda: params.model,
            "evaluator_params": lambda: params.evaluator,
            "scenario_params": lambda: params,
        }


def _class_of(scenario: type[ScenarioBase[Any, Any]], hook: str, params: Any) -> Any:
    """Return what an overridden hook gives, else what the params name; None if they name nothing."""
    if overrides(scenario, ScenarioBase, hook):
        return getattr(scenario, hook)()
    return None if type(params) is DataBaseParams else params.cls()


def _other_class(scenario: ScenarioBase[Any, Any], hook: str, params: Any, base: type) -> Any:
    """The class that an overridden hook names; None if there is none, or the params name the same and build it."""
    if not overrides(type(scenario), ScenarioBase, hook):
        return None
    cls = getattr(scenario, hook)()
    return None if overrides(type(params), base, "cls") and params.cls() is cls else cls


def _default_data_params(data_cls: Any, declared: Any) -> Any:
    """The params that a data class wants to start from, as the declared class.

    Args:
        data_cls: class of the data, or None.
        declared: params of the declared class, with its own defaults.
    """
    from tfaip.data.data import DataBase

    if data_cls is None or not overrides(data_cls, DataBase, "default_params"):
        return declared
    params = data_cls.default_params()
    if isinstance(params, type(declared)):
        return params
    if not isinstance(declared, type(params)):
        raise TypeError(
            f"{data_cls.__name__}.default_params gave {type(params).__name__}, the scenario declares "
            f"{type(declared).__name__}: return params of that class"
        )
    # The scenario derives params of its own from those of the data.
    for field in node_fields(params):
        setattr(declared, field.name, getattr(params, field.name))
    return declared
