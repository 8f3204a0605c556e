"""LAV of exported models."""

from __future__ import annotations

import json
import os
import shutil

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from test.lav.test_lav_in_training import LavScenario, lav_params, points
from test.support.commands import finish_command, start_python
from test.support.tiny.scenario import TinyGenerator
from test.support.trained import best_values
from tfaip.device import DeviceConfigParams, Precision
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import scalar_results
from tfaip.export.trainingdata import load_training_data
from tfaip.lav.callbacks import LAVCallback, TensorBoardCallback
from tfaip.lav.lav import LAV
from tfaip.predict.params import LAVParams
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.scripts.lav import main


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


@pytest.mark.backend
def test_a_model_may_be_scored_in_half_precision(tutorial, results):
    device = DeviceConfigParams(precision=Precision.MIXED_BFLOAT16)
    stored = load_training_data(tutorial / "best", TutorialScenario)
    lav = lav_of(tutorial / "best", pipeline=stored.gen.setup.val, device=device, silent=True)
    (half,) = lav.run(stored.gen.lav_gen())
    assert half["crossentropy"] != results["crossentropy"]
    # bfloat16 has 8 bits: 0.4 % per operation.
    assert half["crossentropy"] == pytest.approx(results["crossentropy"], rel=0.05)
    assert keras.config.dtype_policy().name == "float32"


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


@pytest.mark.slow
@pytest.mark.backend
def test_the_other_backend_gives_the_same(tutorial, results):
    other = {"tensorflow": "jax", "jax": "tensorflow"}[os.environ["KERAS_BACKEND"]]
    code = f"""
import json
from pathlib import Path
import keras
from test.lav.test_lav import results_of
print("BACKEND", keras.backend.backend())
print("RESULTS", json.dumps(results_of(Path({str(tutorial / "best")!r}))))
"""
    result = finish_command(start_python("-c", code, env={"KERAS_BACKEND": other}))
    assert result.rc == 0, result
    lines = dict(line.split(" ", 1) for line in result.stdout.splitlines() if " " in line)
    assert lines["BACKEND"] == other
    assert json.loads(lines["RESULTS"]) == pytest.approx(scalar_results(results), rel=1e-5)


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
    assert set(events.Tags()["tensors"]) == set(scalar_results(results[1]))


def test_results_come_one_after_the_other(two_graphs):
    model, _ = two_graphs
    asked = []

    def generators():
        for samples in (3, 4):
            asked.append(samples)
            yield TinyGenerator(samples=samples)

    results = lav_of(model, LavScenario, silent=True).run(generators())
    assert asked == []
    assert next(results)["samples"] == 3
    assert asked == [3]


def test_samples_are_printed_up_to_the_limit(two_graphs, console, capsys):
    model, _ = two_graphs
    for kwargs, printed in (({}, 10), ({"print_samples": False}, 0), ({"silent": True}, 0)):
        list(lav_of(model, LavScenario, **kwargs).run([TinyGenerator(samples=12)]))
        out = capsys.readouterr().out
        assert sum(line.startswith("sample ") for line in out.splitlines()) == printed
        assert ("12 samples in" in out) == ("silent" not in kwargs)


def test_what_a_lav_needs(two_graphs, tmp_path):
    model, _ = two_graphs
    # The scenario is found by its params.
    lav = LAV(LAVParams(model_path=str(model), silent=True), LavScenario.params_from_path(model))
    (results,) = lav.run([TinyGenerator(samples=3)])
    assert results["samples"] == 3
    with pytest.raises(UsageError, match="no model to load: set model_path"):
        next(LavScenario.create_lav(LAVParams(), LavScenario.default_params()).run([TinyGenerator()]))
    # Scores of nothing are refused.
    lav = lav_of(model, LavScenario, silent=True)
    lav.params.pipeline.batch_size, lav.params.pipeline.batch_drop_remainder = 16, True
    results = lav.run([TinyGenerator(samples=17), TinyGenerator(samples=15)])
    next(results)
    with pytest.raises(UsageError, match="^the evaluation data give no batch: use a smaller batch size, or keep"):
        next(results)
    for lav in (lav_of(model, LavScenario), LavScenario.create_multi_lav(LAVParams(), [model])):
        for value in (TinyGenerator(), 3):
            with pytest.raises(TypeError, match="run takes the params of several generators, got .*: put them into a"):
                lav.run(value)
    copy = shutil.copytree(model, tmp_path / "model")
    (copy / "training_data.json").unlink()
    assert load_training_data(copy, LavScenario) is None
