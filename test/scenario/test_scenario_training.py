"""A scenario that is declared by its parts trains as one in the long form, in all commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.scenario.waves.new import WavesScenario
from test.scenario.waves.old import OldScenario

pytestmark = pytest.mark.backend


def params_of(scenario: Any, output_dir: Path | None = None, epochs: int = 2) -> Any:
    params = scenario.default_trainer_params()
    params.random_seed, params.epochs, params.skip_model_load_test = 7, epochs, True
    params.output_dir = None if output_dir is None else str(output_dir)
    params.lav_every_n = 1
    return params


def train(scenario: Any, params: Any, restore: bool = False) -> tuple[dict[str, float], list[np.ndarray]]:
    trainer = scenario.create_trainer(params, restore=restore)
    logs = trainer.train()
    return logs, [np.array(weight) for weight in trainer.scenario.graph.get_weights()]


def assert_equal(one: tuple[dict[str, float], list[np.ndarray]], other: tuple[dict[str, float], Any]) -> None:
    assert one[0] == other[0]
    assert len(one[1]) == len(other[1]) == 4
    assert all(np.array_equal(a, b) for a, b in zip(one[1], other[1], strict=True))


def test_both_declarations_train_alike_and_resume_the_run_of_the_other(tmp_path: Path) -> None:
    expected = train(OldScenario, params_of(OldScenario))
    assert {"val_acc", "lav_l0_sure", "crossentropy"} <= expected[0].keys()
    assert_equal(train(WavesScenario, params_of(WavesScenario)), expected)
    for first, second in ((OldScenario, WavesScenario), (WavesScenario, OldScenario)):
        run = tmp_path / first.__name__
        train(first, params_of(first, run, epochs=1))
        assert_equal(train(second, params_of(second, run, epochs=2), restore=True), expected)
        stored = json.loads((run / "trainer_params.json").read_text())
        assert stored["scenario"]["scenario_id"] == second.scenario_id()
