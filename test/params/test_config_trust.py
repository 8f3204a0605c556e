"""A config file names classes of trusted packages only; the command line may name any."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.params.tiny_flags import tiny_params
from tfaip.errors import UsageError
from tfaip.params.codec import parse_words
from tfaip.trainer.optimizer import OptimizerParams, SGDOptimizer


def test_a_foreign_class_in_a_file_is_refused_before_its_import(foreign: Path, subtests: pytest.Subtests) -> None:
    for choice in ["optimizer: foreign:Mine", "optimizer: {__cls__: foreign:Mine}"]:
        with subtests.test(choice=choice):
            (foreign / "config.yaml").write_text(choice)
            with pytest.raises(UsageError, match=r"foreign.* is refused.*; if you know the file, trust it: --trust"):
                tiny_params("--config", str(foreign / "config.yaml"))
            assert not (foreign / "marker").exists()


def test_what_is_no_params_class_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in ["os:system", "subprocess:Popen", "tfaip.util.files:os"]:
        with subtests.test(name=name):
            (tmp_path / "config.yaml").write_text(f"optimizer: '{name}'")
            with pytest.raises(UsageError, match=name):
                tiny_params("--config", str(tmp_path / "config.yaml"))


def test_a_class_of_the_toolkit_may_be_named_completely(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("optimizer: tfaip.trainer.optimizer.optimizers:SGDOptimizer")
    assert type(tiny_params("--config", str(tmp_path / "config.yaml")).optimizer) is SGDOptimizer


def test_the_user_may_name_any_class(foreign: Path) -> None:
    assert type(tiny_params("--optimizer", "foreign:Mine").optimizer).__name__ == "Mine"
    assert (foreign / "marker").exists()


def test_names_that_json_hides_are_not_those_of_the_user(foreign: Path) -> None:
    with pytest.raises(UsageError, match=r"^--x: __cls__ 'foreign:Mine' is refused"):
        parse_words(['{"__cls__": "foreign\\u003aMine"}'], OptimizerParams, "--x")
    assert not (foreign / "marker").exists()
