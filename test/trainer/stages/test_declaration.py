"""Stages on the command line, in config files, in Python and in stored params."""

import json
from pathlib import Path
from typing import Any

import pytest

from test.params.tiny_flags import tiny_params
from test.support.tiny.scenario import TinyGenerator, TinyScenario, TinyTrainerParams
from tfaip.errors import UsageError
from tfaip.model.weightrules import TransferMode
from tfaip.params.trust import UntrustedName
from tfaip.params.types import FunctionName
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.stages.params import CallStage, PredictData, PredictStage, PretrainingParams, StageParams, TrainStage
from tfaip.trainer.transferparams import TransferParams

FLAGS = [
    *["--stages", "small=TrainStage", "align=Predict", "--stages.small.epochs", "3"],
    *["--stages.small.transfer.mode", "exact", "--stages.small.overrides", "model.units=32", "optimizer=SGD"],
    *["trainer.loss_weights=mse=0.5 x=1", "--stages.align.data", "val", "--pretraining.repetitions", "0=2", "1=1"],
    *["--stages.align.generator", "TinyGenerator", "--stages.align.generator.samples", "3"],
]
FILE = """
stages:
  small:
    epochs: 3
    transfer: {mode: exact}
    overrides:
      model.units: 32
      optimizer: SGD
      trainer.loss_weights: {mse: 0.5, x: 1}
  align: {__cls__: Predict, data: val, generator: {__cls__: TinyGenerator, samples: 3}}
pretraining: {repetitions: {0: 2, 1: 1}}
"""
PYTHON: dict[str, StageParams] = {
    "small": TrainStage(
        epochs=3,
        overrides={"model.units": 32, "optimizer": "SGD", "trainer.loss_weights": {"mse": 0.5, "x": 1}},
        transfer=TransferParams(mode=TransferMode.EXACT),
    ),
    "align": PredictStage(data=PredictData.VAL, generator=TinyGenerator(samples=3)),
}


def from_file(path: Path, text: str, *argv: str) -> TinyTrainerParams:
    (path / "config.yaml").write_text(text)
    return tiny_params("--trainer.epochs", "30", "--config", str(path / "config.yaml"), *argv)


def test_flags_files_and_python_say_the_same(tmp_path: Path) -> None:
    flags, file = tiny_params(*FLAGS), from_file(tmp_path, FILE)
    assert flags.stages == file.stages == PYTHON
    assert flags.pretraining == file.pretraining == PretrainingParams(repetitions={0: 2, 1: 1})
    changed: Any = from_file(tmp_path, FILE, "--stages.small.epochs", "5").stages["small"]
    assert changed.epochs == 5
    restored = TinyTrainerParams.from_json(file.to_json())
    assert (restored, restored.to_json()) == (file, file.to_json())
    # A stage without a class trains.
    plain = tiny_params("--stages", "a", "--stages.a.epochs=2", "--stages.a.overrides=model.units=3")
    assert plain.stages == {"a": TrainStage(epochs=2, overrides={"model.units": "3"})}


FOREIGN = {"a": "x=1 b=foreign:f", "learning_rate": "function=\"'foreign.'tfaip:f\"", "optimizer": "foreign:Mine"}
LOAD = "tfaip.components.loading:load_scenario"


@pytest.mark.parametrize("name", FOREIGN)
def test_overrides_of_a_file_name_trusted_packages_only(name: str, tmp_path: Path) -> None:
    stage = {"epochs": 1, "overrides": {name: FOREIGN[name]}}
    with pytest.raises(UsageError, match=r"is refused: foreign is not among the trusted .*--trust foreign"):
        from_file(tmp_path, json.dumps({"stages": {"a": {"__cls__": "Train", **stage}}}))
    with pytest.raises(UntrustedName):
        stored_with(TrainStage, **stage)


def stored_with(cls: type[StageParams], trusted: Any = (), **fields: Any) -> StageParams:
    """Return a stage of stored params."""
    stage = {"__cls__": f"tfaip.trainer.stages.params:{cls.__name__}", **fields}
    return TinyTrainerParams.from_dict({**tiny_params().to_dict(), "stages": {"a": stage}}, trusted=trusted).stages["a"]


def test_a_stage_of_a_file_calls_no_function_of_the_toolkit(tmp_path: Path) -> None:
    """This one imports the file that its argument names."""
    call = {"function": LOAD, "arguments": {"name": str(tmp_path / "evil.py")}}
    for packages in ([], TinyScenario.declared_packages(), TutorialScenario.declared_packages()):
        with pytest.raises(UntrustedName, match="load_scenario' is refused: tfaip is not among the trusted"):
            stored_with(CallStage, packages, **call)
    with pytest.raises(UsageError, match="load_scenario' is refused: .*; if you know the file, trust it"):
        from_file(tmp_path, json.dumps({"stages": {"a": {"__cls__": "Call", **call}}}))
    typed = ["--stages", "a=Call", "--stages.a.function", LOAD]
    assert tiny_params(*typed).stages["a"] == CallStage(function=FunctionName(LOAD))
    assert stored_with(CallStage, ["tfaip"], **call).function == LOAD  # type: ignore[attr-defined]
