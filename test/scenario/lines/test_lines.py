"""Training, export, LAV and prediction of a scenario whose parts are params and code in one class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from test.scenario.lines.lines import LineData, Lines, LineScenario, OtherLines
from tfaip.predict.params import LAVParams, PredictorParams

CLASSES = ("a", "b", "c")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "classes").mkdir()
    for name in CLASSES:
        (tmp_path / "classes" / f"{name}.txt").touch()
    return tmp_path / "classes"


def small(folder: Path, **data: Any) -> Any:
    params = LineScenario.default_trainer_params()
    params.scenario.data.folder, params.random_seed, params.epochs = str(folder), 3, 1
    for name, value in data.items():
        setattr(params.scenario.data, name, value)
    return params


@pytest.mark.slow
def test_workers_and_preloaded_data_change_nothing(folder: Path) -> None:
    logs = []
    for processes, preload in ((0, False), (2, False), (0, True)):
        params = small(folder, height=5)
        params.gen.setup.train.num_processes, params.gen.setup.train.worker_start_s = processes, 0.0
        params.preload_data = preload
        before = params.to_json()
        logs.append(LineScenario.create_trainer(params).train())
        params.current_epoch = 0  # counted by the trainer
        assert params.to_json() == before
        assert vars(params.gen.train).keys() == {"size", "brightness", "data"}
        processors: Any = params.scenario.data.pre_proc
        assert vars(processors.processors[0]).keys() == {"modes", "stddev"}
    assert logs[0] == logs[1] == logs[2]
    assert {"loss", "acc", "val_ce"} <= logs[0].keys()


def test_model_and_graph_see_the_data(folder: Path) -> None:
    params = small(folder, height=7)
    scenario = LineScenario(params.scenario)
    assert scenario.model.names == ["a", "b", "c"]  # type: ignore[attr-defined]
    assert scenario.graph.logits.units == 3
    assert scenario.data.input_layer_specs()["img"].shape == (None, 7)
    assert scenario.data.params is params.scenario.data
    assert isinstance(scenario.data, LineData)


@pytest.mark.slow
@pytest.mark.backend
def test_a_run_its_files_and_its_model(folder: Path, tmp_path: Path) -> None:
    params = small(folder, height=6)
    params.gen.train, params.output_dir = OtherLines(size=30), str(tmp_path / "run")
    LineScenario.create_trainer(params).train()
    # The files hold no copies of what is shared, and nothing that code stored.
    for name in ("run/trainer_params.json", "run/best/scenario_params.json"):
        text = (tmp_path / name).read_text()
        assert text.count('"height": 6') == text.count('"height"') == text.count('"folder"') == 1
        assert "last_index" not in text
        assert "classes" not in text.replace(str(folder), "")
    text = (tmp_path / "run/best/training_data.json").read_text()
    assert "height" not in text
    stored = {"__cls__": f"{OtherLines.__module__}:OtherLines", "size": 30, "brightness": 2.0}
    assert json.loads(text)["gen"]["train"] == stored

    model = tmp_path / "run/best"
    predictor = LineScenario.create_predictor(model, PredictorParams(silent=True, include_targets=True))
    samples = list(predictor.predict(Lines(size=12)))
    assert {sample.inputs["img"].shape[1] for sample in samples} == {6}
    assert [sample.targets["label"].tolist() for sample in samples] == [[index % 3] for index in range(12)]
    wrong = [sample.outputs["name"] != CLASSES[sample.targets["label"][0]] for sample in samples]
    loaded = LineScenario.params_from_path(model)
    loaded.evaluator.ignore = "a"  # type: ignore[attr-defined]
    (results,) = LineScenario.create_lav(LAVParams(model_path=str(model), silent=True), loaded).run([Lines(size=12)])
    without_a = [is_wrong for index, is_wrong in enumerate(wrong) if index % 3]
    assert (results["error"], results["lines"]) == (sum(without_a) / 8, 8)
