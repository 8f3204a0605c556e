"""Every method that a scenario may override is called on a real run, or refused when the training starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from test.components.hooks import (
    DoublingParams,
    HookCallback,
    HookDataParams,
    HookEvaluatorParams,
    HookModelParams,
    HookScenario,
    HookTrainerParams,
    StreamParams,
    called,
    hook_params,
    hooks_of,
)
from test.trainer.line import (
    LineData,
    LineDataParams,
    LineGraph,
    LineModel,
    LineModelParams,
    LineScenario,
    PointsParams,
    line_params,
)
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.processor.dataprocessor import MappingDataProcessor
from tfaip.data.pipeline.processor.params import DataProcessorParams
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams
from tfaip.lav.callbacks import LAVCallback
from tfaip.lav.lav import LAV, MultiLAV
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.predict.multimodelpredictor import MultiModelPredictor
from tfaip.predict.multimodelvoter import MultiModelVoter
from tfaip.predict.params import LAVParams, PredictorParams
from tfaip.predict.predictor import Predictor
from tfaip.predict.samplefile import read_samples
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.scripts import predict
from tfaip.trainer.params import TrainerPipelineParams, TrainerPipelineParamsBase
from tfaip.trainer.trainer import Trainer
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.classes import construct


@pytest.mark.slow
def test_every_hook_is_called_on_a_run_and_on_its_models(tmp_path: Path) -> None:
    called.clear()
    HookScenario.create_trainer(hook_params(tmp_path / "run")).train()
    best = tmp_path / "run/best"
    generator = PointsParams(x=[1.0])
    params = HookScenario.params_from_path(best)
    lav_params = LAVParams(model_path=str(best))
    list(HookScenario.create_lav(lav_params, params).run([generator], [HookCallback()]))
    list(HookScenario.create_multi_lav(LAVParams(), [best, tmp_path / "run/export"]).run([generator], [HookCallback()]))
    (expected,) = HookScenario.create_predictor(best, PredictorParams()).predict(StreamParams())
    list(HookScenario.create_multi_predictor([best, best], PredictorParams()).predict(generator))
    assert predict.main(["--export_dir", str(best), "--dump", str(tmp_path / "predicted.jsonl")]) == 0
    (predicted,) = read_samples(tmp_path / "predicted.jsonl")
    assert predicted.outputs["y"].tolist() == expected.outputs["y"].tolist()
    bases = (
        *(DataBase, DataBaseParams, DataGenerator, DataGeneratorParams, DataProcessorParams, MappingDataProcessor),
        *(ModelBase, ModelBaseParams, GraphBase, EvaluatorBase, ScenarioBase, Trainer),
        *(TrainerPipelineParams, TrainerPipelineParamsBase),
        *(WarmStarter, LAV, MultiLAV, LAVCallback, Predictor, MultiModelPredictor, MultiModelVoter),
    )
    hooks = {f"{base.__name__}.{name}" for base in bases for name in hooks_of(base)}
    hooks |= {"GraphBase.pre_proc_targets"}
    hooks |= {"EvaluatorBase.__enter__", "EvaluatorBase.__exit__", "ScenarioBase.predict_generator_params_cls"}
    assert hooks - called.keys() == set()


def test_the_params_of_data_and_evaluator_are_those_that_their_classes_start_from() -> None:
    params = HookScenario.default_trainer_params().scenario
    assert params.data.pre_proc.processors == [DoublingParams()]
    assert params.evaluator == HookEvaluatorParams()
    assert LineScenario.default_params().evaluator == EvaluatorParams()


class WiderDataParams(HookDataParams):
    """Params of a scenario's own, of the same data."""

    width: int = 7


class WiderScenarioParams(ScenarioBaseParams[WiderDataParams, HookModelParams]):
    pass


class WiderScenario(ScenarioBase[WiderScenarioParams, HookTrainerParams]):
    pass


def test_params_derived_from_those_of_the_data_take_over_its_defaults() -> None:
    data = WiderScenario.default_params().data
    assert (type(data), data.width, data.pre_proc.processors) == (WiderDataParams, 7, [DoublingParams()])


class First:
    """Constructors as scenarios have them."""

    def __init__(self, params: Any, extra: int = 0) -> None:
        self.got = params, extra


@pytest.mark.parametrize(
    ("init", "extra"),
    [
        (First.__init__, 0),
        (lambda self, extra, **kwargs: First.__init__(self, extra=extra, **kwargs), None),
        (lambda self, extra=3, **kwargs: First.__init__(self, extra=extra, **kwargs), 3),
        (lambda self, *args, **kwargs: First.__init__(self, *args, **kwargs), 0),
        (lambda self, **kwargs: First.__init__(self, **kwargs), 0),
    ],
)
def test_params_come_first_or_by_keyword(init: Any, extra: int | None) -> None:
    cls = type("Own", (First,), {"__init__": init})
    assert construct(cls, "params", extra=2).got == ("params", 2)
    assert extra is None or construct(cls, "params").got == ("params", extra)


class Overriding(LineScenario):
    def create_model_and_graph(self) -> Any:
        raise AssertionError("never called")


def test_scenario_params_know_their_scenario() -> None:
    params = LineScenario.default_params()
    assert params.scenario_id == "test.trainer.line:LineScenario"
    assert LineScenario.default_trainer_params().scenario.scenario_id == params.scenario_id
    assert params.cls() is LineScenario
    scenario = params.create()
    assert (type(scenario), scenario.params) == (LineScenario, params)
    model, graph = params.create_model_and_graph()
    assert (type(model), type(graph)) == (LineModel, LineGraph)
    params.scenario_id = None
    with pytest.raises(UsageError, match="^LineScenarioParams does not know its scenario: take the params from "):
        params.create()
    params.scenario_id = "subprocess:Popen"
    with pytest.raises(UsageError, match="scenario_id: function 'subprocess:Popen' is refused: subprocess is not"):
        params.create()
    with pytest.raises(TypeError, match=r"^Overriding\.create_model_and_graph would never be called: override model_"):
        Overriding(LineScenario.default_params())


def test_params_and_scenarios_may_build_their_parts_themselves() -> None:
    class Data(LineDataParams):
        def create(self) -> Any:  # type: ignore[override]
            return LineData(self)

    class Model(LineModelParams):
        def create_graph(self, **kwargs: Any) -> Any:
            return LineGraph(self, **{**kwargs, "name": "own"})

    class Scenario(LineScenario):
        def create_data(self) -> LineData:
            data = super().create_data()
            data.mark = "own"  # type: ignore[attr-defined]
            return data  # type: ignore[return-value]

    params = LineScenario.default_params()
    params.data, params.model = Data(), Model()
    scenario = Scenario(params=params)
    assert (scenario.data.mark, scenario.data.shared_source) == ("own", params)  # type: ignore[attr-defined]
    assert scenario.data.params is params.data
    assert scenario.graph.name == "own"


def test_an_evaluator_with_params_of_another_class_is_refused_before_the_first_epoch(tmp_path: Path) -> None:
    params = hook_params(tmp_path / "run")
    params.scenario.evaluator = EvaluatorParams()
    with pytest.raises(UsageError, match="HookEvaluator needs HookEvaluatorParams, got EvaluatorParams: set the"):
        HookScenario.create_trainer(params).train()
    assert list(tmp_path.iterdir()) == []


def test_methods_and_fields_that_nothing_would_read_are_refused() -> None:
    params = line_params([1])
    data_cls = type("Preloading", (LineData,), {"preload": lambda self: None})
    scenario: Any = type("Scenario", (LineScenario,), {"data_cls": classmethod(lambda cls: data_cls)})
    with pytest.raises(TypeError, match=r"^Preloading\.preload would never be called: override create_pipeline"):
        Trainer(params, scenario(params.scenario)).train()
    weighted: Any = type("Weighted", (LineScenario,), {"class_weight": [1, 2]})
    with pytest.raises(TypeError, match="Weighted.class_weight would never .* field class_weight of the model params"):
        weighted(params.scenario)
