"""Stages on the command line, in config files, in Python and in stored params."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from test.params.tiny_flags import tiny_params
from test.support.tiny.scenario import TinyGenerator, TinyScenario, TinyTrainerParams
from tfaip.errors import UsageError
from tfaip.params.trust import UntrustedName
from tfaip.params.types import FunctionName
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.stages.params import CallStage, PredictData, PredictStage, PretrainingParams, StageParams, TrainStage
from tfaip.trainer.stages.program import preview_stages
from tfaip.trainer.transfer.params import TransferMode, TransferParams

FLAT = ["small=TrainStage", "align=Predict"]
FLAGS = [
    *["--stages", *FLAT, "--stages.small.epochs", "3", "--stages.small.transfer.mode", "exact"],
    *["--stages.small.overrides", "model.units=32", "optimizer=SGD", "trainer.loss_weights=mse=0.5 x=1"],
    *["--stages.align.data", "val", "--pretraining.repetitions", "0=2", "1=1"],
]
FLAT_FILE = """
stages:
  small:
    __cls__: TrainStage
    epochs: 3
    transfer: {mode: exact}
    overrides:
      model.units: 32
      optimizer: SGD
      trainer.loss_weights: {mse: 0.5, x: 1}
  align: {__cls__: Predict, data: val}
pretraining: {repetitions: {0: 2, 1: 1}}
"""
PYTHON: dict[str, StageParams] = {
    "small": TrainStage(
        epochs=3,
        overrides={"model.units": 32, "optimizer": "SGD", "trainer.loss_weights": {"mse": 0.5, "x": 1}},
        transfer=TransferParams(mode=TransferMode.EXACT),
    ),
    "align": PredictStage(data=PredictData.VAL),
}


def from_file(path: Path, text: str, *argv: str) -> TinyTrainerParams:
    (path / "config.yaml").write_text(text)
    return tiny_params("--trainer.epochs", "30", "--config", str(path / "config.yaml"), *argv)


def test_flags_files_and_python_say_the_same(tmp_path: Path) -> None:
    flags = tiny_params("--trainer.epochs", "30", *FLAGS)
    file = from_file(tmp_path, FLAT_FILE)
    python = tiny_params("--trainer.epochs", "30")
    python.stages = PYTHON
    python.pretraining = PretrainingParams(repetitions={0: 2, 1: 1})
    assert flags.stages == file.stages == PYTHON
    assert flags.pretraining == file.pretraining == python.pretraining
    small, align, main = preview_stages(python, TinyScenario).stages
    assert (align.name, main.name) == ("align", "main")
    assert (small.first_epoch, small.last_epoch, small.settings.transfer.mode) == (1, 3, TransferMode.EXACT)
    assert (small.params.scenario.model.units, small.params.loss_weights) == (32, {"mse": 0.5, "x": 1.0})
    assert from_file(tmp_path, FLAT_FILE, "--stages.small.epochs", "5").stages["small"].epochs == 5  # type: ignore[attr-defined]
    restored = TinyTrainerParams.from_json(file.to_json())
    assert (restored, restored.to_json()) == (file, file.to_json())


def test_a_stage_without_a_class_trains(tmp_path: Path) -> None:
    expected = {"a": TrainStage(epochs=2, overrides={"model.units": "3"})}
    assert from_file(tmp_path, "stages: {a: {epochs: 2, overrides: {model.units: 3}}}").stages == expected
    assert tiny_params("--stages", "a", "--stages.a.epochs=2", "--stages.a.overrides=model.units=3").stages == expected


def test_a_generator_of_a_stage() -> None:
    generator = ["--stages.p.generator", "TinyGenerator", "--stages.p.generator.samples", "3"]
    params = tiny_params("--stages", "p=Predict", *generator)
    assert params.stages["p"] == PredictStage(generator=TinyGenerator(samples=3))


@pytest.mark.parametrize(
    ("overrides", "argument"),
    [
        ({"optimizer": "foreign:Mine"}, "foreign"),
        ({"a": "x=1 b=foreign:f"}, "foreign"),
        ({"learning_rate": "function=\"'foreign.'tfaip:f\""}, "foreign"),
        ({"learning_rate.decay": "tfaip.trainer.stages.program:contextmanager"}, "contextlib"),
    ],
)
def test_overrides_of_a_file_name_trusted_packages_only(
    overrides: dict[str, Any], argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "foreign.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w').close()\nclass Mine: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    file = json.dumps({"stages": {"a": {"__cls__": "Train", "epochs": 1, "overrides": overrides}}})
    (tmp_path / "config.json").write_text(file)
    with pytest.raises(UsageError, match=rf"is refused: {argument} is not among the trusted .*--trust {argument}"):
        tiny_params("--config", str(tmp_path / "config.json"))
    values = tiny_params().to_dict()
    values["stages"] = {"a": {"__cls__": "tfaip.trainer.stages.params:TrainStage", "overrides": overrides}}
    with pytest.raises(UntrustedName):
        TinyTrainerParams.from_dict(values)
    assert not (tmp_path / "marker").exists()


def test_a_stage_of_a_file_calls_no_function_of_the_toolkit(tmp_path: Path) -> None:
    """One of them imports the file that its argument names."""
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w').close()\n")
    function, arguments = "tfaip.components.loading:load_scenario", {"name": str(tmp_path / "evil.py")}
    call = {"__cls__": "tfaip.trainer.stages.params:CallStage", "function": function, "arguments": arguments}
    values = {**tiny_params().to_dict(), "stages": {"a": call}}
    for packages in ([], TinyScenario.declared_packages(), TutorialScenario.declared_packages()):
        with pytest.raises(UntrustedName, match="load_scenario' is refused: tfaip is not among the trusted"):
            TinyTrainerParams.from_dict(values, trusted=packages)
    (tmp_path / "config.json").write_text(json.dumps({"stages": {"a": {**call, "__cls__": "Call"}}}))
    with pytest.raises(UsageError, match="load_scenario' is refused: .*: name it on the command line"):
        tiny_params("--config", str(tmp_path / "config.json"))
    assert not (tmp_path / "marker").exists()
    typed = ["--stages", "a=Call", "--stages.a.function", function]
    assert tiny_params(*typed).stages["a"] == CallStage(function=FunctionName(function))
    assert TinyTrainerParams.from_dict(values, trusted=["tfaip"]).stages["a"].function == function  # type: ignore[attr-defined]


def test_a_module_of_a_file_is_not_put_together_later(tmp_path: Path) -> None:
    """A reference to a file could complete the name of a module or of a function."""
    for text in ("foreign{a.file}:f", "'foreign'{a.file}:f", "tfaip.v{a.file}:f"):
        overrides = {"learning_rate": "Function", "learning_rate.function": text}
        stages = {"b": {"__cls__": "Train", "epochs": 1, "overrides": overrides}}
        (tmp_path / "config.json").write_text(json.dumps({"stages": stages}))
        message = "its module is known only when the placeholder is filled in: name it.* in full$"
        with pytest.raises(UsageError, match=message):
            tiny_params("--config", str(tmp_path / "config.json"))
