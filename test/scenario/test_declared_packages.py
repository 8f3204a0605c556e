"""A scenario of parts from other packages: its files may name what its code declares, and nothing else."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tfaip.errors import UsageError
from tfaip.export.trainingdata import TRAINING_DATA_FILE, TrainingDataParams, load_training_data
from tfaip.params.stored import save_params

TAGGER = """
import numpy as np
from tfaip import Data, Evaluator, Generator, ModelBaseParams, Sample, Scenario, Spec


class Points(Data):
    inputs, targets = {"x": Spec(2)}, {"y": Spec(1)}


class Sums(Generator):
    size: int = 8

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        x = np.array([index, 1], np.float32)
        return Sample(inputs={"x": x}, targets={"y": [x.sum()]})


class Error(Evaluator):
    digits: int = 3

    def __enter__(self):
        self.errors = []
        return self

    def update_state(self, sample):
        self.errors.append(abs(sample.outputs["y"] - sample.targets["y"]).item())

    def result(self):
        return {"error": round(max(self.errors), self.digits)}


class TaggerModel(ModelBaseParams, cls="tagger.model:TaggerModel"):
    pass


class Tagger(Scenario):
    data, model, train, val, evaluator = Points, TaggerModel, Sums(), Sums(size=4), Error
"""
MODEL = """
import keras
from tfaip.imports import ModelBase


class TaggerModel(ModelBase):
    loss = "mse"

    def build_model(self):
        return keras.Sequential([keras.layers.Dense(1, name="y")])
"""
MINE = """
from tagger.scenario import Tagger


class Mine(Tagger):
    defaults = {"trainer.epochs": 1, "trainer.random_seed": 1}
"""
STRANGE = """
import pathlib
from tagger.scenario import Error
pathlib.Path(__file__).with_name("imported").touch()


class Strange(Error):
    more: int = 1
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Directory with the packages `tagger`, `mine`, which uses it, and `strange`, which nobody imports."""
    files = {
        "tagger": {"scenario": TAGGER, "model": MODEL},
        "mine": {"scenario": MINE},
        "strange": {"scenario": STRANGE},
    }
    for package, modules in files.items():
        (tmp_path / package).mkdir()
        for name, text in {"__init__": "", **modules}.items():
            (tmp_path / package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in files]:
        del sys.modules[name]


def stored(scenario: Any, path: Path) -> Path:
    """The params of a model directory."""
    params: Any = scenario.default_trainer_params()
    path.mkdir()
    params.scenario.scenario_id = scenario.scenario_id()
    save_params(path / "scenario_params.json", params.scenario)
    save_params(path / TRAINING_DATA_FILE, TrainingDataParams(gen=params.gen))
    return path


def change(path: Path, cls: str) -> None:
    """Let the params name another class of evaluator."""
    file = path / "scenario_params.json"
    content = json.loads(file.read_text())
    content["evaluator"]["__cls__"] = cls
    file.write_text(json.dumps(content))


def test_what_the_code_declares_is_trusted(packages: Path) -> None:
    mine = importlib.import_module("mine.scenario").Mine
    assert mine.declared_packages() == ["mine", "tagger"]
    path = stored(mine, packages / "model")
    assert "tagger.scenario:Error" in (path / "scenario_params.json").read_text()
    assert type(mine.params_from_path(path).evaluator).__name__ == "Error"
    data = load_training_data(path, mine)
    assert data is not None
    assert type(data.gen.val_gen()).__name__ == "Sums"


def test_what_only_the_file_names_is_refused(packages: Path) -> None:
    mine = importlib.import_module("mine.scenario").Mine
    path = stored(mine, packages / "model")
    change(path, "strange.scenario:Strange")
    with pytest.raises(UsageError, match=r"strange is not among the trusted packages \(mine, tagger, tfaip\)"):
        mine.params_from_path(path)
    assert not (packages / "strange" / "imported").exists()
    assert type(mine.params_from_path(path, ["strange"]).evaluator).__name__ == "Strange"


def test_defaults_that_fail_declare_nothing(packages: Path) -> None:
    mine = importlib.import_module("mine.scenario").Mine

    class Missing(mine):  # type: ignore[misc, valid-type]
        @classmethod
        def default_trainer_params(cls) -> Any:
            raise FileNotFoundError("words.txt")

    assert Missing.declared_packages() == ["test"]
