"""Every method that a scenario may override is called on a real run, or refused when the training starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from test.components.hooks import (
    DoublingParams,
    HookCallback,
    HookDataParams,
    HookEvaluator,
    HookEvaluatorParams,
    HookModelParams,
    HookPipelineParams,
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
from tfaip.evaluator.evaluator import EvaluatorBase
from tfaip.evaluator.params import EvaluatorParams
from tfaip.lav.callbacks import LAVCallback
from tfaip.lav.lav import LAV
from tfaip.lav.multilav import MultiLAV
from tfaip.lav.params import LAVParams
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import pai_dataclass
from tfaip.predict.multimodelpredictor import MultiModelPredictor
from tfaip.predict.multimodelvoter import MultiModelVoter
from tfaip.predict.params import PredictorParams
from tfaip.predict.predictor import Predictor
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.params import TrainerPipelineParams
from tfaip.trainer.trainer import Trainer
from tfaip.trainer.warmstart.warmstarter import WarmStarter

pytestmark = pytest.mark.backend


def test_every_hook_is_called_on_a_run_and_on_its_models(tmp_path: Path) -> None:
    called.clear()
    HookScenario.create_trainer(hook_params(tmp_path / "run")).train()
    best = tmp_path / "run/best"
    generator = PointsParams(x=[1.0])
    params = HookScenario.params_from_path(best)
    lav_params = LAVParams(model_path=str(best))
    list(HookScenario.create_lav(lav_params, params).run([generator], [HookCallback()]))
    list(HookScenario.create_multi_lav(LAVParams(), [best, tmp_path / "run/export"]).run([generator], [HookCallback()]))
    list(HookScenario.create_predictor(best, PredictorParams()).predict(StreamParams()))
    list(HookScenario.create_multi_predictor([best, best], PredictorParams()).predict(generator))
    bases = (
        *(DataBase, DataBaseParams, DataGenerator, DataGeneratorParams, DataProcessorParams, MappingDataProcessor),
        *(ModelBase, ModelBaseParams, GraphBase, EvaluatorBase, ScenarioBase, TrainerPipelineParams, Trainer),
        *(WarmStarter, LAV, MultiLAV, LAVCallback, Predictor, MultiModelPredictor, MultiModelVoter),
    )
    hooks = {f"{base.__name__}.{name}" for base in bases for name in hooks_of(base)}
    hooks |= {"TrainerPipelineParams.lav_gen", "GraphBase.pre_proc_targets"}
    hooks |= {"EvaluatorBase.__enter__", "EvaluatorBase.__exit__"}
    assert hooks - called.keys() == set()


def test_the_params_of_data_and_evaluator_are_those_that_their_classes_start_from() -> None:
    params = HookScenario.default_trainer_params().scenario
    assert params.data.pre_proc.processors == [DoublingParams()]
    assert params.evaluator == HookEvaluatorParams()
    assert LineScenario.default_params().evaluator == EvaluatorParams()


@pai_dataclass
@dataclass
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


def test_default_params_of_another_class_are_refused() -> None:
    class Other(HookScenario):
        data_cls = classmethod(lambda cls: OtherData)

    class OtherData(LineData):
        @classmethod
        def default_params(cls) -> Any:
            return LineModelParams()

    with pytest.raises(TypeError, match="default_params gave LineModelParams, the scenario declares HookDataParams"):
        Other.default_params()


def test_hooks_for_arguments_get_what_they_name() -> None:
    seen: dict[str, Any] = {}

    class Graph(LineGraph):
        def __init__(self, params: Any, text: str, **kwargs: Any) -> None:
            super().__init__(params, **kwargs)
            seen["graph"] = text

    class Model(LineModel):
        def __init__(self, params: Any, size: int = 0) -> None:
            super().__init__(params)
            seen["model"] = size

        def root_graph_cls(self) -> Any:
            return Graph

    class Data(LineData):
        def __init__(self, params: Any, a: int, b: int) -> None:
            super().__init__(params)
            self.sum = a + b

    class Evaluator(HookEvaluator):
        def __init__(self, params: Any, size: int) -> None:
            super().__init__(params)
            seen["evaluator"] = size

    class Scenario(LineScenario):
        data_cls = classmethod(lambda cls: Data)
        model_cls = classmethod(lambda cls: Model)
        evaluator_cls = classmethod(lambda cls: Evaluator)

        @classmethod
        def static_data_kwargs(cls, scenario_params: Any) -> dict[str, int]:
            return {"a": scenario_params.print_eval_limit}

        @classmethod
        def additional_data_kwargs(cls, params: Any, data_params: Any, none: int = 4) -> dict[str, int]:
            assert params is data_params
            return {"b": none}

        @classmethod
        def additional_model_kwargs(cls, data: Any, scenario_params: Any) -> dict[str, int]:
            return {"size": data.sum}

        @classmethod
        def additional_graph_kwargs(cls, data: Any, scenario_params: Any) -> dict[str, str]:
            return {"text": f"{data.sum} {scenario_params.model.loss}"}

        @classmethod
        def additional_evaluator_kwargs(cls, data: Any, **others: Any) -> dict[str, int]:
            assert others["evaluator_params"] == HookEvaluatorParams()
            return {"size": data.sum}

    scenario = Scenario(Scenario.default_params())
    assert scenario.graph.name == "graph"
    scenario.new_evaluator()
    assert seen == {"model": 14, "graph": "14 output", "evaluator": 14}


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (lambda self, graph: {}, "Scenario.additional_model_kwargs needs the argument 'graph'; it may take params,"),
        (lambda self, data: None, "Scenario.additional_model_kwargs gave a NoneType, expected a dict"),
    ],
)
def test_hooks_for_arguments_that_cannot_work_are_refused(hook: Any, message: str) -> None:
    scenario_cls = type("Scenario", (LineScenario,), {"additional_model_kwargs": hook})
    trainer = Trainer(line_params([1]), scenario_cls(LineScenario.default_params()))
    with pytest.raises(TypeError, match=message):
        trainer.train()


def test_params_may_build_their_parts_themselves() -> None:
    class Data(LineDataParams):
        def create(self) -> Any:  # type: ignore[override]
            return LineData(self)

    class Model(LineModelParams):
        def create(self, **kwargs: Any) -> Any:
            model = LineModel(self)
            model.mark = "own"  # type: ignore[attr-defined]
            return model

        def create_graph(self, **kwargs: Any) -> Any:
            kwargs["name"] = "own"
            return LineGraph(self, **kwargs)

    params = LineScenario.default_params()
    params.data, params.model = Data(), Model()
    scenario = LineScenario(params)
    assert scenario.data.params is params.data
    assert (scenario.model.mark, scenario.graph.name) == ("own", "own")


def test_the_pipeline_params_of_a_hook_are_the_default() -> None:
    class Scenario(HookScenario):
        @classmethod
        def trainer_pipeline_params_cls(cls) -> Any:
            return OwnPipelineParams

    class OwnPipelineParams(HookPipelineParams):
        pass

    assert type(Scenario.default_trainer_params().gen) is OwnPipelineParams


def test_an_evaluator_with_params_of_another_class_is_refused_before_the_first_epoch(tmp_path: Path) -> None:
    params = hook_params(tmp_path / "run")
    params.scenario.evaluator = EvaluatorParams()
    with pytest.raises(UsageError, match="HookEvaluator needs HookEvaluatorParams, got EvaluatorParams: set the"):
        HookScenario.create_trainer(params).train()
    assert list(tmp_path.iterdir()) == []


class PreloadingData(LineData):
    def preload(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("never called")


class FittingTrainer(Trainer[Any]):
    def setup_data(self) -> None:
        raise AssertionError("never called")


class TrimmingWarmStarter(WarmStarter):
    def apply_weights(self) -> None:
        raise AssertionError("never called")


def test_methods_that_nothing_would_call_are_refused() -> None:
    params = line_params([1])
    data_scenario = type("Scenario", (LineScenario,), {"data_cls": classmethod(lambda cls: PreloadingData)})
    with pytest.raises(TypeError, match=r"^PreloadingData\.preload would never be called: override create_pipeline"):
        Trainer(params, data_scenario(params.scenario)).train()
    with pytest.raises(TypeError, match=r"^FittingTrainer\.setup_data would never be called: override DataBase\."):
        FittingTrainer(params, LineScenario(params.scenario))
    with pytest.raises(TypeError, match=r"^TrimmingWarmStarter\.apply_weights would never be called: override apply "):
        TrimmingWarmStarter(params.warmstart)
