"""A scenario whose every part overrides all its hooks by ones that count their calls."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from test.trainer.line import (
    LineData,
    LineDataParams,
    LineGraph,
    LineModel,
    LineModelParams,
    Points,
    PointsParams,
    by_hand,
    line_params,
)
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import DataProcessor, MappingDataProcessor
from tfaip.data.pipeline.processor.params import DataProcessorParams, SequentialProcessorPipelineParams
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams
from tfaip.lav.callbacks import LAVCallback
from tfaip.lav.lav import LAV, MultiLAV
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.predict.multimodelpredictor import MultiModelPredictor
from tfaip.predict.multimodelvoter import MeanVoter, MultiModelVoter
from tfaip.predict.predictor import Predictor
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.params import TrainerParams, TrainerPipelineParams, TrainerPipelineParamsBase
from tfaip.trainer.trainer import Trainer
from tfaip.trainer.warmstart.warmstarter import WarmStarter

C = TypeVar("C", bound=type)

called: Counter[str] = Counter()


# Methods that are no hooks: users call them, or nobody would override them.
NOT_HOOKS = {
    DataBase: {"get_or_create_pipeline", "preload", "check_hooks", "with_params", "params_cls"},
    ModelBase: {"params_cls", "build_model", "all_custom_objects", "declared_losses"},
    MappingDataProcessor: {"apply_on_samples"},
    Trainer: {
        *("check_resume", "dry_run", "summary", "params_cls"),
        *("restore_trainer", "parse_trainer_params", "evaluate", "predict"),
    },
    Predictor: {"predict_raw", "raw"},
    MultiModelPredictor: {"set_model"},
    LAV: {"params_cls"},
    WarmStarter: {"apply_weights"},
}


def hooks_of(base: type) -> list[str]:
    """Names of the methods that a class declares for its subclasses; private ones are hooks of models and data."""
    own = {name: value for name, value in vars(base).items() if not name.startswith("__")}
    callables = {n for n, v in own.items() if inspect.isfunction(v) or isinstance(v, (classmethod, staticmethod))}
    private = base in (DataBase, ModelBase)
    public = {name for name in callables if private or not name.startswith("_")}
    return sorted(public - NOT_HOOKS.get(base, set()) - {"_specs"})


def records(*bases: type) -> Callable[[C], C]:
    """Override every hook of the bases in a class by one that counts its calls and then does what it did."""

    def decorate(cls: C) -> C:
        for base in bases:
            for name in hooks_of(base):
                setattr(cls, name, _recorded(inspect.getattr_static(cls, name), f"{base.__name__}.{name}"))
        return cls

    return decorate


def _recorded(method: Any, label: str) -> Any:
    if isinstance(method, (classmethod, staticmethod)):
        return type(method)(_recorded(method.__func__, label))

    @functools.wraps(method)
    def record(*args: Any, **kwargs: Any) -> Any:
        called[label] += 1
        return method(*args, **kwargs)

    return record


@records(DataGenerator)
class HookPoints(Points):
    pass


@records(DataGeneratorParams)
class HookPointsParams(PointsParams, cls=HookPoints):
    pass


class StreamParams(DataGeneratorParams, cls=":Stream"):
    pass


@records(DataGenerator)
class Stream(DataGenerator[StreamParams]):
    """Data that can only be iterated."""

    def generate(self) -> Iterable[Sample]:
        return iter([Sample(inputs={"x": np.array([1.0])})])


@records(MappingDataProcessor, DataProcessor)
class Doubling(MappingDataProcessor["DoublingParams"]):
    factor = 2

    def supports_preload(self) -> bool:
        return True

    def preload(self, sample: Sample) -> Sample:
        return self.apply(sample)

    def apply(self, sample: Sample) -> Sample:
        return sample.new_meta({"factor": self.factor})


@records(DataProcessorParams)
class DoublingParams(DataProcessorParams, cls=Doubling):
    pass


@records(DataBaseParams)
class HookDataParams(LineDataParams, cls=":HookData"):
    pass


@records(DataBase)
class HookData(LineData):
    @classmethod
    def default_params(cls) -> HookDataParams:
        return HookDataParams(pre_proc=SequentialProcessorPipelineParams(processors=[DoublingParams()]))

    def element_length_fn(self, sample: Sample) -> int:
        return 1


@records(ModelBaseParams)
class HookModelParams(LineModelParams, cls=":HookModel", graph_cls=":HookGraph"):
    pass


@records(ModelBase)
class HookModel(LineModel):
    pass


@records(GraphBase)
class HookGraph(LineGraph):
    pre_proc_targets = _recorded(LineGraph.pre_proc_targets, "GraphBase.pre_proc_targets")


class HookEvaluatorParams(EvaluatorParams):
    step: int = 3


@records(EvaluatorBase)
class HookEvaluator(EvaluatorBase[HookEvaluatorParams]):
    __enter__ = _recorded(EvaluatorBase.__enter__, "EvaluatorBase.__enter__")
    __exit__ = _recorded(EvaluatorBase.__exit__, "EvaluatorBase.__exit__")


@records(WarmStarter)
class HookWarmStarter(WarmStarter):
    pass


@records(Trainer)
class HookTrainer(Trainer[Any]):
    def create_warmstarter(self) -> WarmStarter:
        return HookWarmStarter(self.params.warmstart)


HookLAV = records(LAV)(type("HookLAV", (LAV,), {}))
HookMultiLAV = records(MultiLAV)(type("HookMultiLAV", (MultiLAV,), {}))
HookPredictor = records(Predictor)(type("HookPredictor", (Predictor,), {}))
HookVoter = records(MultiModelVoter)(type("HookVoter", (MeanVoter,), {}))
HookCallback = records(LAVCallback)(type("HookCallback", (LAVCallback,), {}))


@records(MultiModelPredictor)
class HookMultiPredictor(MultiModelPredictor):
    def create_voter(self, data_params: DataBaseParams) -> MultiModelVoter[Any]:
        return HookVoter(data_params)


class HookScenarioParams(ScenarioBaseParams[HookDataParams, HookModelParams]):
    pass


@records(TrainerPipelineParams, TrainerPipelineParamsBase)
class HookPipelineParams(TrainerPipelineParams[HookPointsParams, HookPointsParams]):
    pass


class HookTrainerParams(TrainerParams[HookScenarioParams, HookPipelineParams]):
    pass


@records(ScenarioBase)
class HookScenario(ScenarioBase[HookScenarioParams, HookTrainerParams]):
    def __init__(self, **kwargs: Any) -> None:  # all that build a scenario must pass the params by name
        super().__init__(**kwargs)

    evaluator_cls = classmethod(lambda cls: HookEvaluator)
    trainer_cls = classmethod(lambda cls: HookTrainer)
    lav_cls = classmethod(lambda cls: HookLAV)
    multi_lav_cls = classmethod(lambda cls: HookMultiLAV)
    predictor_cls = classmethod(lambda cls: HookPredictor)
    multi_predictor_cls = classmethod(lambda cls: HookMultiPredictor)

    @classmethod
    def predict_generator_params_cls(cls) -> type[DataGeneratorParams]:
        called["ScenarioBase.predict_generator_params_cls"] += 1
        return StreamParams


def hook_params(run: Path) -> HookTrainerParams:
    line, params = line_params([1, 2], [3]), HookScenario.default_trainer_params()
    params.gen.train.x, params.gen.val.x = [1.0, 2.0], [3.0]
    params.gen.setup = line.gen.setup
    params.gen.setup.train.max_element_length = 2
    params = by_hand(params, run, lav_every_n=1, preload_data=True)
    params.export_best = params.export_final = params.scenario.export_keras = True
    return params
