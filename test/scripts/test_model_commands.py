"""The commands that use exported models, from the command line to files and exit codes."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.scripts.conftest import refused, well
from test.support.commands import Run
from test.support.trained import best_values
from tfaip.predict.samplefile import read_samples
from tfaip.trainer.run.directory import model_of_run


def table(out: str) -> dict[str, list[str]]:
    """The rows of the last table."""
    rows = [line.split() for line in out.splitlines()]
    return {row[0]: row[1:] for row in rows if row}


@pytest.mark.guard
@pytest.mark.backend
def test_the_best_model_proves_itself(run: Run, tutorial: Path, tmp_path: Path) -> None:
    """Training, LAV, and prediction with a later evaluation agree in every bit."""
    best = tutorial / "best"
    logged = best_values(tutorial)
    out = well(run("lav", "--export_dir", best, "--out", "lav.json", "--dump", "lav.npz", "--tensorboard", "events"))
    written = json.loads((tmp_path / "lav.json").read_text())
    results = written["results"]["lav_l0"]
    assert {f"lav_l0_{name}": value for name, value in results.items()}.items() <= logged.items()
    assert results["acc"] == logged["val_acc"]
    assert results["loss"] == logged["val_loss"]
    assert written["benchmark"]["samples"] == 360
    assert table(out)["acc"] == [f"{results['acc']:.6g}"]
    assert out.count(" sure)") == 10
    assert (tmp_path / "events" / "lav_l0").is_dir()

    for name in ("predicted.jsonl", "predicted.npz"):
        well(run("predict", "--export_dir", best, "--dump", name, "--predict.include_targets", "True"))
    for name in ("lav.npz", "predicted.jsonl", "predicted.npz"):
        well(run("evaluate", "--prediction", name, "--scenario", best, "--out", "evaluated.json"))
        evaluated = json.loads((tmp_path / "evaluated.json").read_text())["results"]
        assert sorted(evaluated) == ["eval_acc", "worst_class", "worst_class_acc"]
        assert {name: results[name] for name in evaluated} == evaluated
    for one, other in zip(read_samples(Path("lav.npz")), read_samples(Path("predicted.jsonl")), strict=True):
        np.testing.assert_array_equal(one.targets["label"], other.targets["label"])
        assert one.meta == other.meta
        # The same layers, compiled without and with the losses.
        np.testing.assert_allclose(one.outputs["prob"], other.outputs["prob"], rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_flags_of_the_data_and_the_pipeline(run: Run, tutorial: Path) -> None:
    best = tutorial / "best"
    # `--lav.pipeline.*` is the former name.
    flags = ["--lav.silent", "True", "--pipeline.batch_size", "300", "--out", "a.json"]
    out = well(run("lav", "--export_dir", best, "--data.part", "train", "--lav.pipeline.limit", "900", *flags))
    assert json.loads(Path("a.json").read_text())["benchmark"]["samples"] == 900
    assert " sure)" not in out
    well(run("lav", "--export_dir", best, "--run_eagerly", *flags, "--dump", "d.jsonl", "--dump_inputs"))
    first = next(read_samples(Path("d.jsonl")))
    assert first.inputs["img"].shape == (8, 8, 1)
    assert 0.5 < first.inputs["img"].max() <= 1  # as the model sees it
    silent = ["--predict.silent", "True"]
    well(run("predict", "--export_dir", best, "--predict.pipeline.limit", "7", "--dump", "p.npz", *silent))
    assert [(s.targets, s.meta) for s in read_samples(Path("p.npz"))] == [(None, i) for i in range(7)]
    out = well(run("predict", "--export_dir", best, "--pipeline.limit", "7"))
    before, _, after = out.partition("the predictions are not stored: write them with --dump FILE")
    assert "7 samples were predicted, none was stored" in after
    assert "samples" not in before


@pytest.mark.slow
def test_all_samples_are_predicted_even_if_the_training_left_some_out(run: Run, model: Path) -> None:
    data = json.loads((model / "training_data.json").read_text())
    limits = {"limit": 250, "max_element_length": 7, "on_error": "skip"}
    data["gen"]["setup"]["val"] |= {"batch_drop_remainder": True, "batch_size": 100, **limits}
    (model / "training_data.json").write_text(json.dumps(data))
    well(run("predict", "--export_dir", model, "--dump", "p.npz", "--predict.silent", "True"))
    assert len(list(read_samples(Path("p.npz")))) == 360
    assert "--pipeline.on_error str = raise" in well(run("predict", "--export_dir", model, "--help", "all"))
    well(run("predict", "--export_dir", model, "--dump", "p.npz", "--pipeline.batch_drop_remainder"))
    assert len(list(read_samples(Path("p.npz")))) == 300
    well(run("predict", "--export_dir", model, "--dump", "p.npz", "--pipeline.limit", "250"))
    assert len(list(read_samples(Path("p.npz")))) == 250
    # LAV gives the scores of the validation.
    out = well(run("lav", "--export_dir", model, "--pipeline.max_element_length", "None", "--out", "lav.json"))
    assert "pipeline.limit 250: the first samples are evaluated, the others are left out" in out
    assert json.loads(Path("lav.json").read_text())["benchmark"]["samples"] == 200


@pytest.mark.slow
def test_models_side_by_side_and_voted(run: Run, tutorial: Path) -> None:
    models = [tutorial / "best", tutorial / "export"]
    flags = ["--out", "multi.json", "--dump", "multi.jsonl"]
    out = well(run("multi_lav", "--export_dirs", *models, *flags))
    assert " sure)" not in out  # the samples of a vote are printed on demand only
    results = json.loads(Path("multi.json").read_text())["results"]["lav_l0"]
    assert list(results) == [*map(str, models), "voted"]
    assert table(out)["acc"] == [f"{one['acc']:.6g}" for one in results.values()]
    well(run("predict", "--export_dir", *models, "--dump", "voted.jsonl", "--predict.include_targets", "True"))
    well(run("evaluate", "--prediction", "voted.jsonl", "--scenario", models[0], "--out", "evaluated.json"))
    evaluated = json.loads(Path("evaluated.json").read_text())["results"]
    assert evaluated == {name: results["voted"][name] for name in evaluated}
    assert len(list(read_samples(Path("multi.jsonl")))) == 360
    limited = ["--lav.print_samples", "True", "--pipeline.limit", "12"]
    assert well(run("multi_lav", "--export_dirs", *models, *limited)).count(" sure)") == 10


def test_the_best_model_of_a_run_by_its_own_name(run: Run, tutorial: Path, tmp_path: Path) -> None:
    own = tmp_path / "run"
    shutil.copytree(tutorial / "best", own / "my_best", ignore=shutil.ignore_patterns("serve"))
    params = json.loads((tutorial / "trainer_params.json").read_text())
    for name, found in [("my_best", "my_best"), ("../run/my_best", None), ("..", None), (7, None), (None, None)]:
        params["early_stopping"]["best_model_name"] = name
        (own / "trainer_params.json").write_text(json.dumps(params))
        assert model_of_run(own) == (own / found if found else None), name
    refused(run("lav", "--export_dir", own), f"the run {own} holds no exported model yet")
    refused(run("export", own, "--check"), f"the run {own} holds no exported model yet")


def test_evaluating_with_a_scenario_by_name(run: Run) -> None:
    lines = [
        {"outputs": {"class": c}, "targets": {"label": [t]}, "meta": None, "arrays": {}}
        for c, t in [(1, 1), (1, 2), (2, 2), (3, 3)]
    ]
    Path("p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = well(run("evaluate", "--prediction", "p.jsonl", "--scenario", "tfaip.scenario.tutorial.full"))
    assert table(out)["eval_acc"] == ["0.75"]
    assert table(out)["worst_class_acc"] == ["0.5"]


@pytest.mark.parametrize(
    ("scenario", "parts", "fragments"),
    [
        ("full", {"outputs": {"class": 1}}, ("sample 0 of p.jsonl has no targets", "--predict.include_targets True")),
        ("min", {"outputs": {}, "targets": {}}, ("EvaluatorBase of MinScenario gives no results", "evaluator_cls")),
    ],
)
def test_predictions_without_what_the_evaluator_reads(
    scenario: str, parts: dict[str, Any], fragments: tuple[str, ...], run: Run
) -> None:
    Path("p.jsonl").write_text(json.dumps({**parts, "meta": None, "arrays": {}}))
    result = run("evaluate", "--prediction", "p.jsonl", "--scenario", f"tfaip.scenario.tutorial.{scenario}")
    refused(result, *fragments)
    assert len(result[2]) <= 300


@pytest.fixture
def model(tutorial: Path, tmp_path: Path) -> Path:
    """A copy of the best model, to be damaged."""
    return Path(shutil.copytree(tutorial / "best", tmp_path / "model", ignore=shutil.ignore_patterns("serve")))


def test_damaged_and_foreign_models(run: Run, model: Path) -> None:
    (model / "weights.safetensors").unlink()
    refused(run("lav", "--export_dir", model), "weights.safetensors", code=1)
    (model / "training_data.json").write_text("{")
    refused(run("lav", "--export_dir", model), "training_data.json", "broken JSON")
    params = model / "scenario_params.json"
    params.write_text(json.dumps({**json.loads(params.read_text()), "scenario_id": None}))
    refused(run("lav", "--export_dir", model), "scenario_params.json names no scenario")


@pytest.mark.slow
def test_a_model_that_does_not_name_its_data(run: Run, model: Path) -> None:
    (model / "training_data.json").unlink()
    refused(run("lav", "--export_dir", model), "which data?", "--data my.package:MyGeneratorParams")
    generator = "tfaip.scenario.tutorial.full.data:TutorialGenerator"
    limited = ["--lav.silent", "True", "--pipeline.limit", "50"]
    out = well(run("lav", "--export_dir", model, "--data", generator, "--data.part", "val", *limited))
    assert float(table(out)["acc"][0]) > 0.5
    refused(run("lav", "--export_dir", model, "--data.part", "val"), "unknown flag --data.part")
