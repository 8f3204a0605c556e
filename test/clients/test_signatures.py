"""Classes with the methods, constructors and attributes that programs of tfaip 1.2 have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pytest

from test.support.tiny.scenario import TinyData, TinyGenerator, TinyScenario
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import (
    DataProcessorParams,
    GeneratingDataProcessor,
    MappingDataProcessor,
)
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import EvaluatorBase
from tfaip.lav.lav import LAV
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.params import option
from tfaip.params.stored import save_params
from tfaip.predict.multimodelpredictor import MultiModelPredictor
from tfaip.predict.multimodelvoter import MultiModelVoter
from tfaip.predict.params import LAVParams, PredictorParams
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.testing.checks import check_params
from tfaip.trainer.params import TrainerParams, TrainerPipelineParams
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.output import RunOutput
from tfaip.trainer.trainer import Trainer
from tfaip.trainer.transferparams import WarmStartParams
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.tfaipargparse import TFAIPArgumentParser


class PlusParams(DataProcessorParams, cls=":Plus"):
    pass


class Plus(MappingDataProcessor[PlusParams]):
    def apply(self, sample: Sample, *args: Any, **kwargs: Any) -> Sample:
        return sample.new_inputs({"x": sample.inputs["x"] + 1})


class TwiceParams(DataProcessorParams, cls=":Twice"):
    pass


class Twice(MappingDataProcessor[TwiceParams]):
    def preload(
        self, samples: Any, num_processes: int = 1, drop_invalid: bool = True, progress_bar: bool = False
    ) -> Any:  # type: ignore[override]  # noqa: E501
        return [copy for sample in samples for copy in (sample, sample)]

    def apply(self, sample: Sample, *args: Any, **kwargs: Any) -> Sample:
        return sample


class StreamParams(DataProcessorParams, cls=":Stream"):
    pass


class Stream(GeneratingDataProcessor[StreamParams]):
    pass


class OwnPipeline(DataPipeline):
    """Keeps its generator under a private name of its own."""

    def __init__(
        self,
        pipeline_params: Any,
        data_base: Any,
        generator_params: Any,
        input_processors: Any = None,
        output_processors: Any = None,
    ) -> None:
        super().__init__(pipeline_params, data_base, generator_params, input_processors, output_processors)
        self._reader: Any = None

    def reader(self) -> str:
        return "mine"

    def create_data_generator(self) -> Any:
        if self._reader is None:
            self._reader = self.generator_params.create(self.mode)
        return self._reader


def tiny_data(*processors: DataProcessorParams) -> Any:
    return TinyData(pre_proc=SequentialProcessorPipelineParams(processors=list(processors))).create()


@pytest.fixture
def params() -> DataPipelineParams:
    return DataPipelineParams(mode=PipelineMode.EVALUATION, batch_size=2, num_processes=0)


def test_a_pipeline_that_keeps_its_generator(params: DataPipelineParams) -> None:
    pipeline = OwnPipeline(params, tiny_data(PlusParams()), TinyGenerator(samples=3))
    raw = [sample.inputs["x"] for sample in pipeline.create_data_generator().generate()]
    preloaded = pipeline.as_preloaded()
    kept = [sample.inputs["x"] for sample in preloaded.create_data_generator().generate()]
    np.testing.assert_array_equal(kept, np.array(raw) + 1)
    assert preloaded.generator_params is pipeline.generator_params
    np.testing.assert_array_equal([sample.inputs["x"] for sample in preloaded.samples], kept)
    assert pipeline.to_mode(PipelineMode.TARGETS).create_data_generator().mode is PipelineMode.TARGETS
    assert preloaded.with_seed(1).reader() == "mine"
    for one in (pipeline, preloaded):
        with one.generate_input_samples() as samples:
            np.testing.assert_array_equal([sample.inputs["x"] for sample in samples], np.array(raw) + 1)


def test_lengths_of_what_a_pipeline_generates(params: DataPipelineParams) -> None:
    pipeline = tiny_data().create_pipeline(params, TinyGenerator(samples=3))
    with pipeline.generate_input_samples() as samples:
        assert samples
        assert (len(samples), len(list(samples))) == (3, 3)
    with pipeline.generate_input_batches() as batches:
        assert len(next(batches)) == 3  # inputs, targets, meta
        with pytest.raises(TypeError, match="number of these samples or batches is not known"):
            len(batches)


def test_preload_of_a_list_of_samples_and_of_what_was_made(params: DataPipelineParams) -> None:
    pipeline = tiny_data(TwiceParams()).create_pipeline(params, TinyGenerator(samples=3))
    assert len(pipeline.preload_input_samples()) == 6
    pipelines = Pipelines(train=TinyGenerator(), val=TinyGenerator(samples=4))
    data = tiny_data(PlusParams())
    made = [pipelines.train_data(data), pipelines.val_data(data)]
    assert made == [pipelines.train_data(data), pipelines.val_data(data)]
    data.preload(progress_bar=False)
    assert [pipeline.mode for pipeline in made] == [PipelineMode.TRAINING, PipelineMode.EVALUATION]
    for before, after in zip(made, [pipelines.train_data(data), pipelines.val_data(data)], strict=True):
        assert after is not before
        assert after.generator.in_memory()


def test_processors_on_one_sample(params: DataPipelineParams) -> None:
    sample = Sample(inputs={"x": np.zeros(4)})
    for processors in ([PlusParams()], [PlusParams(), PlusParams()]):
        pipeline = tiny_data(*processors).params.pre_proc.create(params, TinyData())
        (part,) = pipeline.pipeline
        for apply in (pipeline.apply_on_sample, part.create_processor_fn()):
            np.testing.assert_array_equal(apply(sample).inputs["x"], np.full(4, len(processors)))
        assert [type(processor) for processor in part.create_processor_fn()] == [Plus] * len(processors)
    stream = tiny_data(StreamParams()).params.pre_proc.create(params, TinyData())
    with pytest.raises(TypeError, match=r"use apply\(samples\)"):
        stream.apply_on_sample(sample)


def test_a_trainer_with_the_constructor_of_its_time() -> None:
    class Own(Trainer[Any]):
        def __init__(self, params: Any, scenario: Any, restore: bool = False) -> None:
            super().__init__(params, scenario, restore)

    class OwnScenario(TinyScenario):
        @classmethod
        def trainer_cls(cls) -> Any:
            return Own

    params = OwnScenario.default_trainer_params()
    trainer = OwnScenario.create_trainer(params, restore=True, checkpoint="epoch_0002")
    assert (trainer._restore, trainer._checkpoint, trainer._from_stage) == (True, "epoch_0002", None)
    with pytest.raises(TypeError, match="restored"):
        OwnScenario.create_trainer(params, restored=True)


@pytest.mark.slow
def test_the_names_of_a_client_and_its_params_after_a_training(tmp_path: Path) -> None:
    params = TinyScenario.default_trainer_params()
    params.epochs, params.export_final, params.output_dir = 2, False, str(tmp_path / "run")
    params.early_stopping.best_model_name, params.early_stopping.best_model_output_dir = "", str(tmp_path / "models")
    params.scenario.default_serve_dir, params.scenario.trainer_params_filename = "best.ckpt", "best.ckpt.json"
    logs = TinyScenario.create_trainer(params).train()
    assert params.current_epoch == 2
    run = RunDirectory.stored(tmp_path / "run")
    assert (run.best, list(run.foreign_entries())) == (tmp_path / "run" / "best.ckpt", [])
    copied = json.loads((tmp_path / "run" / "best.ckpt.json").read_text())
    assert copied == json.loads(run.params_file.read_text())
    TinyScenario.create_predictor(tmp_path / "run" / "best.ckpt.json")
    (tmp_path / "run").rename(tmp_path / "moved")
    TinyScenario.create_predictor(tmp_path / "models" / "best.ckpt.json")
    (tmp_path / "moved").rename(tmp_path / "run")
    # The params of the ended training do not train again; changed ones are those of another run.
    written = run.best.stat().st_mtime_ns
    assert TinyScenario.create_trainer(params).train() == logs
    assert run.best.stat().st_mtime_ns == written
    params.learning_rate.lr = 0.5
    with pytest.raises(UsageError, match="holds another run"):
        TinyScenario.create_trainer(params).train()


@pytest.mark.parametrize("name", ["train.log", "../params.json", "best", "checkpoint"])
def test_a_copy_of_the_params_is_a_file_of_its_own(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"trainer_params_filename is .*, expected the name of a file"):
        RunDirectory(tmp_path, params_copy=name)


class Weighted(MultiModelVoter[Any]):
    def __init__(self, weight: int, datas: list[Any]) -> None:
        super().__init__()
        self.weight, self.datas = weight, datas

    def vote(self, sample: Sample) -> Sample:
        return sample.new_outputs({"y": self.weight * sample.outputs[0]["y"]}).new_meta(len(self.datas))


class WeightedPredictor(MultiModelPredictor):
    def __init__(self, weight: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.weight = weight

    def create_voter(self, data_params: Any) -> Weighted:
        return Weighted(self.weight, self.datas)


def test_a_voter_is_made_when_it_is_needed() -> None:
    data = tiny_data()
    predictor = WeightedPredictor(weight=3, params=PredictorParams(silent=True), data=data)
    predictor.set_models([lambda batch: {"y": batch["x"][:, :1]}] * 2, [data, data])
    (sample,) = predictor.predict_raw([Sample(inputs={"x": np.full(4, 2.0, "float32")})])
    assert (sample.outputs["y"].tolist(), sample.meta) == ([6.0], 2)


def test_params_in_any_file(tmp_path: Path) -> None:
    params = TinyScenario.default_trainer_params()
    params.scenario.model.units = 5
    for name, part in (("trainer.json", params), ("model.json", params.scenario)):
        (tmp_path / name).write_text(part.to_json())
        assert TinyScenario.params_from_path(tmp_path / name).model.units == 5
    save_params(tmp_path / "saved.json", params)
    content = json.loads((tmp_path / "saved.json").read_text())
    assert type(params).from_dict(content) == params
    with pytest.raises(UsageError, match="newer format"):
        type(params).from_dict({**content, "__version__": 1000})
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}))
    with pytest.raises(UsageError):
        TinyScenario.params_from_path(tmp_path / "other.json")


def test_the_directory_of_a_start_that_failed_and_of_the_best_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "train.log").write_text("a wrong value")
    RunDirectory(tmp_path).check_free(overwrite=False)
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.early_stopping.best_model_name = str(tmp_path), ""
    assert vars(params.run_directory()) == vars(RunDirectory(tmp_path))
    with caplog.at_level("WARNING", logger="tfaip"):
        RunOutput(None).copy_best(tmp_path / "models")
    assert "there is no best model to copy" in caplog.text


class Pipelines(TrainerPipelineParams[TinyGenerator, TinyGenerator]):
    pass


class OwnTrainerParams(TrainerParams[TinyScenario.params_cls(), Pipelines]):  # type: ignore[misc]
    gen: Pipelines = option(factory=Pipelines, choices=[Pipelines])
    quiet: bool = 0  # type: ignore[assignment]


def test_flags_of_pipelines_stay_if_gen_is_declared_again() -> None:
    parser = TFAIPArgumentParser()
    parser.add_root_argument("trainer", OwnTrainerParams, default=OwnTrainerParams())
    params = parser.parse_args(["--train.batch_size", "3"]).trainer
    assert params.gen.setup.train.batch_size == 3

    class Own(TinyScenario):
        trainer_params_cls = classmethod(lambda cls: OwnTrainerParams)

    check_params(OwnTrainerParams(), Own)  # the default of `quiet` has another type


def test_trainer_params_of_the_trainer_serve_scenarios_with_other_params() -> None:
    class Own(Trainer[OwnTrainerParams]):
        pass

    S = TypeVar("S")

    class BaseScenario(ScenarioBase[S, Pipelines], Generic[S]):  # type: ignore[type-var]
        trainer_cls = classmethod(lambda cls: Own)

    class OtherParams(TinyScenario.params_cls()):  # type: ignore[misc]
        voters: int = 2

    class OwnScenario(BaseScenario[TinyScenario.params_cls()]):  # type: ignore[misc]
        pass

    class OtherScenario(BaseScenario[OtherParams]):
        pass

    assert type(OwnScenario.default_trainer_params()) is OwnTrainerParams
    params = OtherScenario.default_trainer_params()
    assert (type(params.scenario), params.scenario.voters, params.quiet) == (OtherParams, 2, False)
    assert isinstance(params, OwnTrainerParams)
    assert type(OtherScenario.trainer_params_cls()().scenario) is OtherParams


@pytest.mark.backend
def test_a_graph_of_a_bare_array() -> None:
    class Double(GraphBase[Any]):
        def build_graph(self, inputs: Any, training: bool | None = None) -> Any:
            return inputs * 2

    graph, values = Double(None), np.ones((2, 3), "float32")
    for outputs in (graph.predict(values), graph.train(values, None)):  # type: ignore[arg-type]
        np.testing.assert_array_equal(np.asarray(outputs), values * 2)


@pytest.mark.parametrize(("setup", "expected"), [("", ["one", "two"]), ("logging.basicConfig(); ", [])])
def test_a_program_sees_its_messages(setup: str, expected: list[str]) -> None:
    code = f"""
import logging
import tfaip.util.logging as tfaip_logging
{setup}
tfaip_logging.logger("client").info("one")
logging.getLogger("client.part").info("two")
logging.getLogger("library").info("three")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert result.stdout.split() == expected
    assert ("INFO:tfaip.client:one" in result.stderr) is bool(setup)


@pytest.mark.parametrize(
    ("base", "name", "hook", "message"),
    [
        (ModelBase, "_target_output_metric", lambda self: [], "would never be called: override _metric"),
        (ModelBase, "_multi_metric", lambda self: [], "would never be called: override _metric"),
        (ModelBase, "_export_graphs", lambda self, i, o, t: {}, r"is called as _export_graphs\(self, graph\): missing"),
        (ModelBase, "_loss", lambda self, i, o: {}, r"is called as _loss\(self, inputs, targets, outputs\): too many"),
        (EvaluatorBase, "update_state", lambda self, t, o: None, r"is called as update_state\(self, sample\): missing"),
    ],
)
def test_hooks_that_were_called_in_another_way_are_refused(base: Any, name: str, hook: Any, message: str) -> None:
    place = r"test_signatures\.py:\d+: " if "called as" in message else "^"
    with pytest.raises(TypeError, match=rf"{place}Own\.{name} {message}"):
        type("Own", (base,), {name: hook})


@pytest.mark.parametrize(
    ("base", "name", "arguments", "better"),
    [
        (WarmStarter, "_apply_renamings", [WarmStartParams()], "_trim"),
        (MultiModelPredictor, "_on_sample_end", [PredictorParams(), None], "predict_pipeline"),
        (LAV, "_custom_callbacks", [LAVParams(), None], "run, and pass callbacks"),
    ],
)
def test_hooks_that_nothing_calls_are_refused_when_their_object_is_made(
    base: Any, name: str, arguments: list[Any], better: str
) -> None:
    with pytest.raises(TypeError, match=rf"Own\.{name} would never be called: override {better}"):
        type("Own", (base,), {name: lambda self: None})(*arguments)
