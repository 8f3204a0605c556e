"""The tables of the page about learning rates are those of its commands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from test.docs.test_docs import DOCS, commands, write_files
from test.support.commands import CommandResult
from tfaip.params.cli import ParamsParser
from tfaip.scenario.tutorial.min.scenario import MinScenario
from tfaip.trainer.history import History
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.scheduler import SCHEDULES

PAGE = "learning_rate.md"
TABLE = re.compile(r"^\| rate \| ([\d. |]+) \|$", re.MULTILINE)


def tables() -> list[list[float]]:
    return [[float(rate) / 1000 for rate in row.split("|")] for row in TABLE.findall((DOCS / PAGE).read_text())]


def test_every_command_has_the_rates_of_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(PAGE, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TrainerParams, default=MinScenario.default_trainer_params())
    used = set()
    for (_, scenario, *flags), table in zip(commands(PAGE), tables(), strict=True):
        assert scenario == "tfaip.scenario.tutorial.min"
        schedule = parser.parse(flags).trainer.learning_rate
        assert [schedule.rate(epoch, History()) for epoch in range(1, 11)] == pytest.approx(table, rel=1e-3), flags
        used.add(type(schedule))
    assert set(SCHEDULES) < used


@pytest.mark.parametrize("index", [0, -1])
def test_commands_train(index: int, tmp_path: Path, run_command: Callable[..., CommandResult]) -> None:
    write_files(PAGE, tmp_path)
    command = commands(PAGE)[index]
    result = run_command(*command, cwd=tmp_path)
    assert result.rc == 0, result
    output_dir = tmp_path / command[command.index("--trainer.output_dir") + 1]
    records = json.loads((output_dir / "history.json").read_text())
    assert [record["lr"] for record in records.values()] == pytest.approx(tables()[index], rel=1e-3)
