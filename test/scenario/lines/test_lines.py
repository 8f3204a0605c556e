"""Training, export, LAV and prediction of a scenario whose parts are params and code in one class."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from test.scenario.lines.lines import LineData, Lines, LineScenario
from test.support.commands import run_several
from test.support.runs import make_once, printed_epochs, run_well
from tfaip.predict.params import PredictorParams

SOURCES = ("lines.py", "lines_model.py")
HERE = LineScenario.__module__
CLASSES = ("a", "b", "c")
WORKERS = ("--train.num_processes", "2", "--train.worker_start_s", "0")


def prepare(directory: Path) -> None:
    """Copy the scenario to a directory, where its modules are at the top level, with a folder of classes."""
    for name in SOURCES:
        shutil.copyfile(Path(__file__).parent / name, directory / name)
    (directory / "classes").mkdir()
    for name in CLASSES:
        (directory / "classes" / f"{name}.txt").touch()


def train(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    prepare(directory)
    data = ["--data.folder", str(directory / "classes"), "--data.height", "6"]
    options = ["--trainer.lav_every_n", "1", "--trainer.random_seed", "1", "--learning_rate.lr", "0.1"]
    run_well(
        "train", "./lines.py", "--trainer.output_dir", "run", *data, *options, *WORKERS, "--train", "OtherLines",
        "--train.size", "30", "--trainer.epochs", "6", cwd=directory,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the scenario and a finished run of it; not to be changed."""
    return make_once(tmp_path_factory, "lines", train)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name in CLASSES:
        (tmp_path / name).touch()
    return str(tmp_path)


def small(folder: str, **data: Any) -> Any:
    params = LineScenario.default_trainer_params()
    params.scenario.data.folder, params.random_seed, params.epochs = folder, 3, 1
    for name, value in data.items():
        setattr(params.scenario.data, name, value)
    return params


@pytest.mark.slow
def test_workers_and_preloaded_data_change_nothing(folder: str) -> None:
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


def test_model_and_graph_see_the_data(folder: str) -> None:
    params = small(folder, height=7)
    scenario = LineScenario(params.scenario)
    assert scenario.model.names == ["a", "b", "c"]  # type: ignore[attr-defined]
    assert scenario.graph.logits.units == 3
    assert scenario.data.input_layer_specs()["img"].shape == (None, 7)
    assert scenario.data.params is params.scenario.data
    assert isinstance(scenario.data, LineData)


@pytest.mark.slow
def test_files_of_a_run_hold_no_copies_and_nothing_that_code_stored(trained: Path) -> None:
    for name in ("run/trainer_params.json", "run/best/scenario_params.json"):
        text = (trained / name).read_text()
        assert text.count('"height": 6') == text.count('"height"') == text.count('"folder"') == 1
        assert "last_index" not in text
        assert "classes" not in text.replace(str(trained / "classes"), "")
    text = (trained / "run/best/training_data.json").read_text()
    assert "height" not in text
    assert json.loads(text)["gen"]["train"] == {"__cls__": "lines:OtherLines", "size": 30, "brightness": 2.0}


@pytest.mark.slow
@pytest.mark.backend
def test_an_exported_model_works_in_other_processes(trained: Path, tmp_path: Path) -> None:
    predict = ["predict", "--export_dir", "run", "--predict.include_targets", "True", "--dump"]
    shutil.copytree(trained, tmp_path / "copy")
    commands: list[list[str | Path]] = [
        ["lav", "--export_dir", "run", "--out", tmp_path / "lav.json"],
        [*predict, tmp_path / "p.jsonl"],
        [*predict, tmp_path / "other.jsonl", "--data", "lines:OtherLines", "--data.size", "5"],
        ["evaluate", "--prediction", tmp_path / "p.jsonl", "--scenario", "run", "--evaluator.ignore", "a",
         "--out", tmp_path / "e.json"],
        ["export", "run/best", "--check"],
        ["resume_training", "run", "--trainer.epochs", "7", "--train.size", "20"],
    ]  # fmt: skip
    result = run_several(commands, cwd=tmp_path / "copy")
    assert result.rc == 0, result
    assert "changed --train.size: 30 -> 20" in result.stdout
    assert printed_epochs(result.stdout)[-1] == 7

    samples = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [sample["targets"]["label"] for sample in samples] == [[index % 3] for index in range(12)]
    wrong = [sample["outputs"]["name"] != CLASSES[sample["targets"]["label"][0]] for sample in samples]
    results = json.loads((tmp_path / "e.json").read_text())["results"]
    without_a = [is_wrong for index, is_wrong in enumerate(wrong) if index % 3]
    assert results == {"error": sum(without_a) / 8, "lines": 8}
    assert f'"error": {sum(wrong) / 12}'[:14] in (tmp_path / "lav.json").read_text()
    assert len((tmp_path / "other.jsonl").read_text().splitlines()) == 5


@pytest.mark.slow
def test_a_predictor_fills_in_what_its_generator_shares(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    stored = json.loads((trained / "run/best/scenario_params.json").read_text().replace('"lines:', f'"{HERE}:'))
    values = {name: value for name, value in stored.items() if name not in ("__version__", "__tfaip__")}
    params = LineScenario.params_cls().from_dict(values)
    predictor = LineScenario.predictor_cls()(PredictorParams(silent=True), LineScenario(params).data)
    predictor.set_model(LineScenario(params).graph)
    samples = list(predictor.predict(Lines(size=2)))
    assert [sample.inputs["img"].shape for sample in samples] == [(4, 6), (4, 6)]
    assert {sample.outputs["name"] for sample in samples} <= set(CLASSES)
