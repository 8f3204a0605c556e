"""LAV of exported models."""

import json
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from test.lav.test_lav_in_training import LavScenario, lav_params, points
from test.support.tiny.scenario import TinyGenerator
from test.support.trained import best_values
from test.trainer.line import by_hand
from test.trainer.test_data_options import LENGTHS, SHAPES, RowsParams, SumsScenario
from tfaip.data.data import Data
from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.datagenerator import Generator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import Spec
from tfaip.device import Precision
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import scalar_results
from tfaip.export.trainingdata import load_training_data
from tfaip.lav.callbacks import LAVCallback, TensorBoardCallback
from tfaip.lav.evaluation import PredictionEvaluation
from tfaip.lav.lav import LAV
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import option
from tfaip.predict.params import LAVParams, PredictorParams
from tfaip.predict.predictor import Predictor
from tfaip.scenario.scenario import Scenario
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.scripts.lav import main
from tfaip.trainer.params import WeightPenaltyParams


def lav_of(model, scenario=TutorialScenario, **kwargs):
    return scenario.create_lav(LAVParams(model_path=str(model), **kwargs), scenario.params_from_path(model))


def results_of(model, batch_size=25, run_eagerly=False):
    stored = load_training_data(model, TutorialScenario)
    lav = lav_of(model, pipeline=stored.gen.setup.val, random_seed=stored.random_seed, silent=True)
    lav.params.pipeline.batch_size = batch_size
    (results,) = lav.run(stored.gen.lav_gen(), run_eagerly=run_eagerly)
    assert lav.benchmark_results.samples == 360
    assert lav.benchmark_results.batches == -(-360 // batch_size)
    return results


@pytest.fixture(scope="module")
def results(tutorial):
    return results_of(tutorial / "best")


@pytest.fixture(scope="module")
def two_graphs(tmp_path_factory):
    """An exported model with a prediction graph of its own, post-processing, an evaluator and two LAV generators."""
    run = tmp_path_factory.mktemp("two_graphs") / "run"
    params = lav_params(epochs=1, output_dir=str(run), export_final=True, lav_silent=True)
    logs = LavScenario.create_trainer(params).train()
    return run / "export", logs


@pytest.mark.guard
@pytest.mark.backend
def test_the_values_are_exactly_those_of_the_training(tutorial, results):
    logged = best_values(tutorial)
    expected = {n.removeprefix("lav_l0_"): v for n, v in logged.items() if n.startswith("lav_l0_") and "/" not in n}
    assert scalar_results(results) == expected
    assert {"val_acc", "val_loss", "val_crossentropy"} <= set(logged)
    for name in ("acc", "loss", "crossentropy"):
        assert results[name] == logged[f"val_{name}"]


@pytest.mark.parametrize(
    ("batch_size", "run_eagerly"), [(7, False), (360, False), pytest.param(100, True, marks=pytest.mark.backend)]
)
def test_neither_batches_nor_compilation_nor_place_matter(tutorial, results, batch_size, run_eagerly, tmp_path):
    moved = shutil.copytree(tutorial / "best", tmp_path / "moved", ignore=shutil.ignore_patterns("serve"))
    others = results_of(moved, batch_size, run_eagerly)
    assert scalar_results(others) == pytest.approx(scalar_results(results), rel=1e-5)


@pytest.mark.slow
@pytest.mark.backend
def test_the_command_computes_in_the_precision_of_the_training(tmp_path):
    params = lav_params(epochs=1, output_dir=str(tmp_path / "run"), export_final=True, lav_silent=True)
    params.device.precision = Precision.MIXED_BFLOAT16
    logs = LavScenario.create_trainer(params).train()
    main(["--export_dir", str(tmp_path / "run" / "export"), "--out", str(tmp_path / "lav.json")])
    results = json.loads((tmp_path / "lav.json").read_text())["results"]["lav_l0"]
    for name in ("loss", "mae", "mean_output"):
        assert results[name] == logs[f"lav_l0_{name}"]


class Recorder(LAVCallback):
    def __init__(self):
        self.samples, self.ends = [], []

    def on_sample_end(self, generator_params, sample):
        self.samples.append(sample)

    def on_lav_end(self, generator_params, results):
        self.ends.append((generator_params.samples, results))


@pytest.mark.slow
def test_every_generator_has_its_results(two_graphs, tmp_path):
    model, logs = two_graphs
    stored = load_training_data(model, LavScenario)
    recorder = Recorder()
    lav = lav_of(model, LavScenario, pipeline=stored.gen.setup.val, silent=True)
    results = list(lav.run(stored.gen.lav_gen(), [recorder, TensorBoardCallback(tmp_path)]))
    assert [one["samples"] for one in results] == [5, 7]
    for i, one in enumerate(results):
        expected = {n.removeprefix(f"lav_l{i}_"): v for n, v in logs.items() if n.startswith(f"lav_l{i}_")}
        del expected["loss/mean_epoch"]
        assert scalar_results(one) == expected
    # Not only numbers; callbacks see the samples behind the post-processing, in order.
    assert results[0]["list"] + results[1]["list"] == [float(s.outputs["y"][0]) for s in recorder.samples]
    targets = np.concatenate([points(5, 3)[1], points(7, 4)[1]])
    np.testing.assert_array_equal([s.targets["y"] for s in recorder.samples], targets)
    assert recorder.ends == [(5, results[0]), (7, results[1])]
    events = EventAccumulator(str(tmp_path / "lav_l1")).Reload()
    assert set(events.Tags()["scalars"]) == set(scalar_results(results[1]))


def test_what_a_lav_needs(two_graphs, tmp_path):
    model, _ = two_graphs
    # The scenario is found by its params.
    lav = LAV(LAVParams(model_path=str(model), silent=True), LavScenario.params_from_path(model))
    (results,) = lav.run([TinyGenerator(samples=3)])
    assert results["samples"] == 3
    # Scores of nothing are refused.
    lav = lav_of(model, LavScenario, silent=True)
    lav.params.pipeline.batch_size, lav.params.pipeline.batch_drop_remainder = 16, True
    results = lav.run([TinyGenerator(samples=17), TinyGenerator(samples=15)])
    next(results)
    with pytest.raises(UsageError, match="^the evaluation data give no batch: use a smaller batch size, or keep"):
        next(results)
    for lav in (lav_of(model, LavScenario), LavScenario.create_multi_lav(LAVParams(), [model])):
        with pytest.raises(TypeError, match="run takes the params of several generators, got .*: put them into a"):
            next(lav.run(TinyGenerator()))
    copy = shutil.copytree(model, tmp_path / "model")
    (copy / "training_data.json").unlink()
    assert load_training_data(copy, LavScenario) is None


GENERATOR = RowsParams(lengths=LENGTHS)  # from 1 to 20


@pytest.fixture(scope="module")
def scenario() -> SumsScenario:
    """Its model gives the length of a row."""
    made = SumsScenario(SumsScenario.default_params())
    made.graph.predict(made.data.create_input_layers())
    made.graph.set_weights([np.ones([1, 1])])
    return made


def expected_lengths(pipeline: DataPipelineParams) -> set[int | None]:
    """Buckets end with 4 and 8; what is longer stays as it is. TensorFlow compiles the first one and all others."""
    if keras.backend.backend() != "jax":
        return {LENGTHS[0], None}
    return {4, 8, 9, 10, 11, 12, 20} if pipeline.bucket_boundaries else set(LENGTHS)


@pytest.mark.backend
@pytest.mark.parametrize("evaluates", [False, True])
@pytest.mark.parametrize("boundaries", [[], [5, 9]], ids=["no buckets", "buckets"])
def test_lengths_of_buckets(boundaries: list[int], evaluates: bool, scenario: SumsScenario) -> None:
    """On JAX one compilation for each bucket, with the results that TensorFlow has, in LAV and in a prediction."""
    pipeline = DataPipelineParams(batch_size=1, bucket_boundaries=boundaries, num_processes=0)
    samples: list[Any] = []
    SHAPES.clear()
    if evaluates:
        evaluation = PredictionEvaluation(scenario, pipeline, silent=True)
        SHAPES.clear()  # of the symbolic build
        evaluation.run(GENERATOR, samples.append)
    else:
        predictor = Predictor(PredictorParams(silent=True, pipeline=pipeline), scenario.data)
        predictor.set_model(scenario.graph)
        samples.extend(predictor.predict(GENERATOR))
        assert len(SHAPES) == len(expected_lengths(pipeline))
    assert [sample.outputs["y"].item() for sample in sorted(samples, key=lambda sample: sample.meta)] == LENGTHS
    assert {shape[1] for shape in SHAPES} == expected_lengths(pipeline)


class Numbers(Data):
    inputs, targets = {"x": Spec(1)}, {"y": Spec(1)}


class Three(Generator):
    """1, 2, 3, each with the target 2."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Sample:
        return Sample(inputs={"x": [index + 1.0]}, targets={"y": [2.0]})


class RidgeModel(ModelBase[Any]):
    """x * 1 * 1, with an L2 of each weight."""

    loss = "mse"

    def build_model(self) -> keras.Model:
        def dense(name: str) -> keras.layers.Layer:
            l2 = keras.regularizers.L2(self.params.l2) if self.params.l2 else None
            return keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", kernel_regularizer=l2, name=name)

        x = keras.Input((1,), name="x")
        return keras.Model(x, dense("y")(dense("first")(x)))


class RidgeModelParams(ModelBaseParams, cls=":RidgeModel"):
    l2: float = option(0.1, "L2 of both layers")


class RidgeScenario(Scenario):
    data, model, train, val = Numbers, RidgeModelParams, Three(), Three()


PENALTY = [WeightPenaltyParams(match=".*kernel", l2=0.25)]


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize(
    ("l2", "fields", "loss", "expected"),
    [
        # The mean of 1, 0, 1; each L2 is that of a 1.
        (0.1, {}, 2 / 3 + 0.2, 2 / 3 + 0.2),
        (0.1, {"no_train_scope": "first"}, 2 / 3 + 0.1, 2 / 3 + 0.1),
        (0.0, {"weight_penalties": PENALTY}, 2 / 3 + 0.5, 2 / 3),  # a part of the training, not of the model
        (0.1, {"weight_penalties": PENALTY, "no_train_scope": "first"}, 2 / 3 + 0.35, 2 / 3 + 0.1),
    ],
)
def test_lav_is_what_was_logged(
    l2: float, fields: dict[str, Any], loss: float, expected: float, tmp_path: Path
) -> None:
    params = by_hand(RidgeScenario.default_trainer_params(), tmp_path / "run", lr=0.0, lav_every_n=1, **fields)
    params.scenario.model.l2, params.export_final = l2, True
    logs = RidgeScenario.create_trainer(params).train()
    assert [logs["loss"], logs["val_loss"], logs["lav_l0_loss"]] == pytest.approx([loss, expected, expected])
    assert ("val_regularization" in logs) == ("lav_l0_regularization" in logs) == (l2 > 0)
    model = tmp_path / "run" / "export"
    lav = RidgeScenario.create_lav(LAVParams(model_path=str(model), silent=True), RidgeScenario.params_from_path(model))
    (results,) = lav.run([Three()])
    assert results["loss"] == pytest.approx(expected)
    copy = shutil.copytree(model, tmp_path / "copy")
    (results,) = RidgeScenario.create_multi_lav(LAVParams(silent=True), [model, copy]).run([Three()])
    assert results[str(copy)]["loss"] == pytest.approx(expected)
