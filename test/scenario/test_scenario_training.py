"""A scenario that is declared by its parts trains, in all commands; its JSON is that of the long form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from test.scenario.waves.new import Waves, WavesScenario
from tfaip.errors import UsageError


def params_of(scenario: Any, output_dir: Path | None = None, epochs: int = 2) -> Any:
    params = scenario.default_trainer_params()
    params.random_seed, params.epochs, params.skip_model_load_test = 7, epochs, True
    params.output_dir = None if output_dir is None else str(output_dir)
    params.lav_every_n = 1
    return params


@pytest.mark.slow
def test_best_selects_the_best_model(tmp_path: Path) -> None:
    class Best(WavesScenario):
        best = "min lav_l0_sure"

    class Wrong(WavesScenario):
        best = "max accuracy"

    trainer = Best.create_trainer(params_of(Best))
    trainer.train()
    assert trainer.params.early_stopping.monitor == "lav_l0_sure"
    assert trainer.params.early_stopping.mode == "min"
    with pytest.raises(UsageError, match="the best model follows 'accuracy' .* best of the scenario.*, which is not"):
        Wrong.create_trainer(params_of(Wrong)).train()


def test_a_scenario_in_a_function_trains_but_writes_nothing(tmp_path: Path) -> None:
    class Local(WavesScenario):
        train = Waves(size=8)
        val = None  # type: ignore[assignment]

    params = params_of(Local, epochs=1)
    params.lav_every_n = 0
    logs = Local.create_trainer(params).train()
    assert "val_loss" not in logs
    with pytest.raises(UsageError, match=r"<locals>\.Local cannot be stored: move it to the top level of test\.scen"):
        Local.create_trainer(params_of(Local, tmp_path / "run", epochs=1)).train()
    assert not (tmp_path / "run").exists()
