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
from tfaip import Data, Evaluator, Generator, ModelBaseParams, Scenario, Spec
class Points(Data):
    inputs, targets = {"x": Spec(2)}, {"y": Spec(1)}
class Sums(Generator):
    size: int = 8
class Error(Evaluator):
    digits: int = 3
class TaggerModel(ModelBaseParams, cls="tagger.model:TaggerModel"):
    pass
class Tagger(Scenario):
    data, model, train, val, evaluator = Points, TaggerModel, Sums(), Sums(size=4), Error
"""
MINE = "from tagger.scenario import Tagger\nclass Mine(Tagger):\n    defaults = {'trainer.epochs': 1}\n"
STRANGE = """
import pathlib
from tagger.scenario import Error
pathlib.Path(__file__).with_name("imported").touch()
class Strange(Error):
    more: int = 1
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Scenario of the package `mine`, which uses `tagger`; `strange` is imported by nobody."""
    files = {"tagger": TAGGER, "mine": MINE, "strange": STRANGE}
    for package, text in files.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        (tmp_path / package / "scenario.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("mine.scenario").Mine
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


def test_what_the_code_declares_is_trusted_and_what_only_a_file_names_is_refused(mine: Any, tmp_path: Path) -> None:
    assert mine.declared_packages() == ["mine", "tagger"]
    path = stored(mine, tmp_path / "model")
    assert type(mine.params_from_path(path).evaluator).__name__ == "Error"
    data = load_training_data(path, mine)
    assert data is not None
    assert type(data.gen.val_gen()).__name__ == "Sums"
    file = path / "scenario_params.json"
    content = json.loads(file.read_text())
    assert content["evaluator"]["__cls__"] == "tagger.scenario:Error"
    content["evaluator"]["__cls__"] = "strange.scenario:Strange"
    file.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"strange is not among the trusted packages \(mine, tagger, tfaip\)"):
        mine.params_from_path(path)
    assert not (tmp_path / "strange" / "imported").exists()
    assert type(mine.params_from_path(path, ["strange"]).evaluator).__name__ == "Strange"
