"""A config file names classes of trusted packages only; the command line may name any."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
from tfaip.errors import UsageError
from tfaip.params.cli import ParamsParser
from tfaip.trainer.optimizer import SGDOptimizer

MODULE = """
import pathlib
from dataclasses import dataclass
pathlib.Path(__file__).with_name("marker").touch()
from tfaip.params import pai_dataclass
from tfaip.trainer.optimizer import SGDOptimizer

@pai_dataclass
@dataclass
class Mine(SGDOptimizer):
    pass
"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on the path with a module that leaves a marker when it is imported."""
    (tmp_path / "foreign_optimizers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def parsed(*argv: str) -> TinyTrainerParams:
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TinyTrainerParams, default=TinyScenario.default_trainer_params())
    return parser.parse(["--trainer.output_dir", "unused", *argv]).trainer  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "choice", ["optimizer: foreign_optimizers:Mine", "optimizer: {__cls__: foreign_optimizers:Mine}"]
)
def test_a_foreign_class_in_a_file_is_refused_before_its_import(choice: str, foreign: Path) -> None:
    (foreign / "config.yaml").write_text(choice)
    with pytest.raises(UsageError, match=r"foreign_optimizers.* is refused.*or choose the class on the command line"):
        parsed("--config", str(foreign / "config.yaml"))
    assert not (foreign / "marker").exists()


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "tfaip.util.files:os"])
def test_what_is_no_params_class_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"optimizer: '{name}'")
    with pytest.raises(UsageError, match=name):
        parsed("--config", str(tmp_path / "config.yaml"))


def test_a_class_of_the_toolkit_may_be_named_completely(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("optimizer: tfaip.trainer.optimizer.optimizers:SGDOptimizer")
    assert type(parsed("--config", str(tmp_path / "config.yaml")).optimizer) is SGDOptimizer


def test_the_user_may_name_any_class(foreign: Path) -> None:
    assert type(parsed("--optimizer", "foreign_optimizers:Mine").optimizer).__name__ == "Mine"
    assert (foreign / "marker").exists()
