"""Components of one scenario: params, data, model, graph and evaluator.

A scenario is declared by the classes of its params, which name the classes that they describe:

    class MyScenarioParams(ScenarioBaseParams[MyDataParams, MyModelParams]): ...
    class MyTrainerParams(TrainerParams[MyScenarioParams, MyPipelineParams]): ...
    class MyScenario(ScenarioBase[MyScenarioParams, MyTrainerParams]): ...

Training, LAV, prediction and export use `ScenarioComponents` only. `ScenarioBase`, which users
derive from, adds the factories of these on top (`create_trainer`, `create_lav` ...).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tfaip.components.modelfiles import params_file_of
from tfaip.components.params import ScenarioBaseParams
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import EvaluatorBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params.classes import is_part
from tfaip.params.names import top_package
from tfaip.params.resource import require_resources_inside
from tfaip.params.stored import load_params
from tfaip.params.tree import fill_shared, node_fields, nodes_of
from tfaip.params.trust import OwnPackage
from tfaip.params.types import field_types, type_argument
from tfaip.util.classes import check_hook_names, construct, overrides, refuse_uncalled, takes
from tfaip.util.logging import logger
from tfaip.util.text import shorten

if TYPE_CHECKING:
    from tfaip.model.graphbase import GenericGraphBase
    from tfaip.model.modelbase import ModelBase

SP = TypeVar("SP", bound=ScenarioBaseParams)
TP = TypeVar("TP")
# Component -> its hooks, in the order of the calls; later ones win. A scenario defines those that it needs.
ARGUMENT_HOOKS: Mapping[str, tuple[str, ...]] = {
    "data": ("static_data_kwargs", "additional_data_kwargs"),
    "model": ("static_model_kwargs", "additional_model_kwargs"),
    "graph": ("static_graph_kwargs", "additional_graph_kwargs", "additional_root_graph_kwargs"),
    "evaluator": ("static_evaluator_kwargs", "additional_evaluator_kwargs"),
}

_HOOKS = (
    *("params_cls", "data_cls", "model_cls", "evaluator_cls", "trainer_params_cls", "trainer_pipeline_params_cls"),
    *("trainer_cls", "lav_cls", "multi_lav_cls", "predictor_cls", "multi_predictor_cls", "default_params"),
    *("default_trainer_params", "predict_generator_params_cls", "pretraining", "params_for_epoch", "stages"),
    *("best_logging_settings", "create_data", "create_evaluator", "create_trainer", "create_lav", "create_multi_lav"),
    *("create_predictor", "create_multi_predictor", *chain.from_iterable(ARGUMENT_HOOKS.values())),
)
_UNCALLED = {
    "create_model_and_graph": "model_cls, or create_graph of the model",
    "static_lav_kwargs": "create_lav",
    "static_predictor_kwargs": "create_predictor",
    "setup_training": "setup_callbacks of the trainer",
    "class_weight": "the field class_weight of the model params",
}
log = logger(__name__)


class ScenarioComponents(Generic[SP, TP]):
    """Params, data, model, graph and evaluator of a scenario, each built when it is first used.

    The class methods can be overridden: `*_cls` name the classes, `default_*` change defaults,
    `static_*_kwargs` pass further constructor arguments.

    Args:
        params: the scenario params; what they declare with `shared()` is filled in.

    Raises:
        UsageError: if they do not have what is shared.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_hook_names(cls, ScenarioComponents, _HOOKS)

    def __init__(self, params: SP) -> None:
        refuse_uncalled(type(self), ScenarioComponents, _UNCALLED)
        self._params = params
        fill_shared(params, params)

    @property
    def params(self) -> SP:
        """The scenario params."""
        return self._params

    @cached_property
    def data(self) -> DataBase[Any]:
        """The data, built from `params.data`."""
        data = self.create_data()
        data.check_hooks()
        data.set_scenario_params(self._params)
        return data

    def create_data(self) -> DataBase[Any]:
        """Build new data from `params.data`; override it to build them in another way."""
        data: DataBase[Any] = self._build("data", DataBaseParams)
        return data

    @cached_property
    def model(self) -> ModelBase[Any]:
        """The model, built from `params.model`."""
        from tfaip.backend.kerastools import metrics_named_by

        with metrics_named_by({}) as counts:
            model: ModelBase[Any] = self._build("model", ModelBaseParams, data=lambda: self.data)
        model.metric_counts.update(counts)
        model.data_of = model.data_of or (lambda: self.data)
        return model

    @cached_property
    def graph(self) -> GenericGraphBase[Any]:
        """The outermost graph, which the model creates."""
        named = None if self.model.brings_network() else self.model.root_graph_cls
        arguments = self._arguments("graph", named, data=lambda: self.data, model=lambda: self.model)
        return self.model.create_graph(**arguments)

    def create_model_and_graph(self) -> tuple[ModelBase[Any], GenericGraphBase[Any]]:
        """Return `model` and `graph`, built when they are first asked for."""
        return self.model, self.graph

    def take_network(self, other: ScenarioComponents[Any, Any]) -> None:
        """Take over the model and the graph of another scenario, which must not be used any more.

        Args:
            other: of the same class, with equal params of the model and equal specs of the data.
        """
        vars(self).update(model=other.model, graph=other.graph)
        vars(other)["data"] = self.data  # which the model reads

    def best_logging_settings(self) -> tuple[str, str]:
        """Return mode and name of the logged value that selects the best model."""
        return self.model._best_logging_settings()

    def new_evaluator(self) -> EvaluatorBase[Any]:
        """Build an evaluator from `params.evaluator` and the further arguments of hooks."""
        params = self._params.evaluator
        named = self.evaluator_cls if overrides(type(self), ScenarioComponents, "evaluator_cls") else params.cls
        return self.create_evaluator(params, **self._arguments("evaluator", named, data=lambda: self.data))

    def _build(self, part: str, base: type, **built: Callable[[], Any]) -> Any:
        """Build a component of the class that an overridden hook names, or as its params do."""
        params, hook, cls = getattr(self._params, part), f"{part}_cls", None
        if overrides(type(self), ScenarioComponents, hook):
            cls = getattr(self, hook)()
            if overrides(type(params), base, "cls") and params.cls() is cls:
                cls = None  # the params can build it
        return build_part(cls, params, self._arguments(part, cls or params.cls, **built))

    def _arguments(self, part: str, named: Callable[[], Any] | None, **built: Callable[[], Any]) -> dict[str, Any]:
        """Return the arguments that hooks give to a constructor, and the data if the class has a parameter for them.

        Args:
            part: the component.
            named: its class, or a function that returns it; None: it gets no data.
            built: functions that return the components which hooks and the class may ask for.
        """
        params = self._params
        offered = {
            "params": lambda: params.model if part == "graph" else getattr(params, part),
            "data_params": lambda: params.data,
            "model_params": lambda: params.model,
            "evaluator_params": lambda: params.evaluator,
            "scenario_params": lambda: params,
            **built,
        }
        arguments: dict[str, Any] = {}
        for name in ARGUMENT_HOOKS[part]:
            hook = getattr(self, name, None)
            if hook is None:
                continue
            parameters = inspect.signature(hook).parameters
            takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
            given = hook(**{key: value() for key, value in offered.items() if takes_all or key in parameters})
            if not isinstance(given, Mapping):
                raise TypeError(f"{type(self).__name__}.{name} gave {shorten(given)}, expected a dict of arguments")
            arguments.update(given)
        if named is None or "data" not in built or "data" in arguments:
            return arguments
        try:
            cls = named if isinstance(named, type) else named()
        except NotImplementedError:
            return arguments
        return {**arguments, "data": self.data} if not is_part(cls) and takes(cls, "data") else arguments

    @classmethod
    def params_cls(cls) -> type[SP]:
        """Class of the scenario params."""
        return type_argument(cls, ScenarioComponents, 0)

    @classmethod
    def trainer_params_cls(cls) -> type[TP]:
        """Class of the trainer params."""
        return type_argument(cls, ScenarioComponents, 1)

    @classmethod
    def trainer_pipeline_params_cls(cls) -> type[Any]:
        """Class of the params of the training and validation data; default: the one that the trainer params declare."""
        params_cls: Any = cls.trainer_params_cls()
        pipeline_params_cls: type[Any] = field_types(params_cls)["gen"]
        return pipeline_params_cls

    @classmethod
    def data_cls(cls) -> type[DataBase[Any]]:
        """Class of the data; default: the one that the declared params name.

        A scenario object asks its own params instead.
        """
        return cls.params_cls()().data.cls()

    @classmethod
    def model_cls(cls) -> type[ModelBase[Any]]:
        """Class of the model; default: the one that the declared params name.

        A scenario object asks its own params instead.
        """
        return cls.params_cls()().model.cls()

    @classmethod
    def evaluator_cls(cls) -> type[EvaluatorBase[Any]]:
        """Class of the evaluator; default: the one that the declared params name.

        A scenario object asks its own params instead.
        """
        return type(cls.params_cls()().evaluator).cls()

    @classmethod
    def default_params(cls) -> SP:
        """Return scenario params with the defaults of this scenario; override to change them.

        If the data class overrides `DataBase.default_params`, the data params start from these. The
        evaluator params are of the class that the evaluator was declared with.
        """
        params = cls.params_cls()()
        params.scenario_id = cls.scenario_id()
        params.data = _default_data_params(cls, params.data)
        if overrides(cls, ScenarioComponents, "evaluator_cls"):
            evaluator_params_cls = cls.evaluator_cls().params_cls()
            if not isinstance(params.evaluator, evaluator_params_cls):
                params.evaluator = evaluator_params_cls()
        return params

    @classmethod
    def default_trainer_params(cls) -> TP:
        """Return trainer params with the defaults of this scenario; override to change them."""
        params: Any = cls.trainer_params_cls()()
        params.scenario = cls.default_params()
        fill_shared(params, params.scenario, strict=False)
        if overrides(cls, ScenarioComponents, "trainer_pipeline_params_cls"):
            params.gen = cls.trainer_pipeline_params_cls()()
        return params

    @classmethod
    def stages(cls, params: TP, history: Any) -> Any:
        """Yield the stages before the plain params, and get the result of each; override it.

        A resumed run calls it again and sends the recorded results, so it must write nothing, and depend on nothing
        but its results, `history`, `params`, and a generator that is seeded with `params.random_seed`.

        Args:
            params: a copy of the trainer params.
            history: rates and values of the epochs of the finished stages.

        Yields:
            `TrainStage`, `PredictStage` or `CallStage`, each with a name of its own.
        """
        return None

    @classmethod
    def pretraining(cls, idx: int, params: TP) -> TP | tuple[TP, int] | None:
        """Return the trainer params of a stage before the training proper, or None at the end; override it.

        Args:
            idx: number of the stage, from 0; it is asked until it returns None.
            params: a copy of the trainer params, which may be changed and returned.

        Returns:
            The params; or a tuple of the params and the number of epochs of the stage (otherwise
            `--pretraining.repetitions` says it).
        """
        return None

    @classmethod
    def params_for_epoch(cls, epoch: int, params: TP, **kwargs: Any) -> TP | None:
        """Return the trainer params of an epoch before the training proper, or None at the end; override it.

        Epochs that follow each other with equal params are one stage.

        Args:
            epoch: from 1; it is asked until it returns None.
            params: a copy of the trainer params, which may be changed and returned.
            kwargs: for arguments of later versions.
        """
        return None

    @classmethod
    def static_data_kwargs(cls, params: Any) -> dict[str, Any]:
        """Return further constructor arguments of the data class.

        This and the other hooks for arguments (see `tfaip.components.scenario`) get the values that their parameters
        name. Known are `params` (of the component), `data_params`, `model_params`, `evaluator_params`,
        `scenario_params`, and `data` and `model` as far as they are built before the component.
        """
        return {}

    @classmethod
    def static_model_kwargs(cls, params: Any) -> dict[str, Any]:
        """Return further constructor arguments of the model class."""
        return {}

    @classmethod
    def create_evaluator(cls, params: Any, **kwargs: Any) -> EvaluatorBase[Any]:
        """Build an evaluator from evaluator params; `kwargs` are further constructor arguments.

        Raises:
            UsageError: if the evaluator was declared with another class of params.
        """
        if not overrides(cls, ScenarioComponents, "evaluator_cls"):
            evaluator: EvaluatorBase[Any] = params.create(**kwargs)
            return evaluator
        evaluator_cls = cls.evaluator_cls()
        if not isinstance(params, evaluator_cls.params_cls()):
            raise UsageError(
                f"{evaluator_cls.__name__} needs {evaluator_cls.params_cls().__name__}, got {type(params).__name__}: "
                "set the evaluator of the scenario params (ScenarioBase.default_params does)"
            )
        return build_part(evaluator_cls, params, kwargs)

    @classmethod
    def scenario_id(cls) -> str:
        """Return `module:Class`, the name under which stored params find the scenario again."""
        return f"{cls.__module__}:{cls.__qualname__}"

    @classmethod
    def declared_packages(cls, defaults: Any = None) -> list[str]:
        """Return the packages that files of this scenario may name classes of, besides `tfaip`.

        These are its own package and those of the classes in its default params: importing the
        scenario has imported them.

        Args:
            defaults: the default trainer params, if they are made already.
        """
        own = top_package(cls.__module__)
        try:
            found = {top_package(type(node).__module__) for node in nodes_of(defaults or cls.default_trainer_params())}
        except Exception as error:  # code of the user, for data that may not be on this machine
            log.debug("only the package %s is trusted, the default params fail: %s", own, error)
            found = set()
        # Not `tfaip`, for the scenarios that it has: see `check_function`.
        return [OwnPackage(package) for package in (own, *sorted(found - {own})) if package != "tfaip"]

    @classmethod
    def params_from_path(cls, path: str | Path, trusted: Iterable[str] = ()) -> SP:
        """Load the scenario params of a model directory (`best/`, `export/`).

        Args:
            path: the directory. Of a model of tfaip 1.2 also its SavedModel, or its file of params.
            trusted: packages that the params may name classes of, besides tfaip and `declared_packages`.

        Raises:
            UsageError: if they are missing or damaged, or name a class or a file that they must not.
        """
        file, key = params_file_of(Path(path))
        packages = [*cls.declared_packages(), *trusted]
        params = load_params(file, cls.params_cls(), trusted=packages, key=key)
        require_resources_inside(params, file.parent)
        return params


def build_part(cls: Any, params: Any, arguments: dict[str, Any]) -> Any:
    """Return the object of a class that a hook names; None: of the one that the params name."""
    if cls is None or (is_part(cls) and isinstance(params, cls)):
        return params.create(**arguments)
    if is_part(cls):
        raise TypeError(
            f"{cls.__name__} is its own params, got {type(params).__name__}: declare it in the scenario params"
        )
    return construct(cls, params, **arguments)


def _default_data_params(scenario: type[ScenarioComponents[Any, Any]], declared: Any) -> Any:
    """Return the default params of the data class of a scenario as the class that it declares."""
    is_plain = type(declared) is DataBaseParams and not overrides(scenario, ScenarioComponents, "data_cls")
    data_cls = DataBase if is_plain else scenario.data_cls()
    if not overrides(data_cls, DataBase, "default_params"):
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
