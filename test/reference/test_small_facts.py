"""Facts of the documents that no other test asserts: names of commands, and defaults."""

import importlib
import tomllib

from test.support.commands import REPOSITORY
from tfaip.scenario.tutorial.min.scenario import MinScenario
from tfaip.trainer.optimizer import AdamOptimizer, SGDOptimizer
from tfaip.trainer.scheduler import Divisor, NewbobAbsParams, NewbobMultiEpochParams, NewbobRelParams


def test_commands_of_the_guide() -> None:
    scripts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["scripts"]
    for name in ("train", "resume_training", "benchmark_input_pipeline"):
        assert scripts[f"tfaip-{name.replace('_', '-')}"] == f"tfaip.scripts.{name}:main"
        assert callable(importlib.import_module(f"tfaip.scripts.{name}").main)


def test_defaults_of_the_guide() -> None:
    params = MinScenario.default_trainer_params()
    assert params.val_every_n == 1
    assert params.learning_rate.lr == 0.001
    assert (params.early_stopping.n_to_go, params.early_stopping.frequency) == (-1, 1)
    assert (AdamOptimizer().weight_decay, SGDOptimizer().weight_decay) == (0.0, 0.0)


def test_defaults_of_the_controls() -> None:
    for control in (NewbobAbsParams(), NewbobRelParams(), NewbobMultiEpochParams()):
        assert (control.min_lr, control.hold_epochs, control.growth) == (0.0, 0, 1.0)
    for relative in (NewbobRelParams(), NewbobMultiEpochParams()):
        assert (relative.divide_by, relative.relative_to_lr) == (Divisor.NEW, False)
