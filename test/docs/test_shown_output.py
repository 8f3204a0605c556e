"""What pages show below a command is what it prints, and the rates below flags are theirs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from test.docs.test_docs import DOCS, SHORT, UNEXPORTED, commands, shorten, write_files
from test.support.commands import run_several
from tfaip.params.commandline import ParamsParser
from tfaip.scenario.tutorial.min.scenario import MinScenario
from tfaip.scripts import preview_schedule, replay_learning_rate
from tfaip.trainer.history import History
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.scheduler import FEEDBACK, SCHEDULES, FunctionParams

RATES, RETURNN = "learning_rate.md", "migration_returnn.md"
# Flags, and the rates of ten epochs in units of 0.001.
WITH_RATES = re.compile(r"```text\n(--learning_rate [^`]+)\n\n([\d. ]+)\n```$", re.MULTILINE)
# A command, and what it prints.
WITH_OUTPUT = re.compile(r"```shell\n(tfaip-[^\n]+)\n```\n\n```text\n(.*?)```$", re.MULTILINE | re.DOTALL)
TOOLS: dict[str, Callable[[list[str]], int]] = {
    "tfaip-preview-schedule": preview_schedule.main,
    "tfaip-replay-learning-rate": replay_learning_rate.main,
}


def text_of(page: str) -> str:
    return (DOCS / page).read_text().replace("\\\n", "")


def tables() -> list[tuple[list[str], list[float]]]:
    found = WITH_RATES.findall(text_of(RATES))
    return [(shlex.split(flags), [float(rate) / 1000 for rate in row.split()]) for flags, row in found]


def test_every_rule_has_the_rates_of_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(RATES, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TrainerParams, default=MinScenario.default_trainer_params())
    used = set()
    for flags, table in tables():
        rule = parser.parse(["--trainer.epochs", "10", *flags]).trainer.learning_rate
        assert [rule.rate(epoch, History()) for epoch in range(1, 11)] == pytest.approx(table, rel=1e-3), flags
        used.add(type(rule))
    assert set(SCHEDULES) - {*FEEDBACK, FunctionParams} < used


@pytest.mark.slow
def test_a_rule_of_ones_own_and_all_other_commands_train(tmp_path: Path) -> None:
    write_files(RATES, tmp_path)
    flags, table = tables()[-1]
    own = ["train", "tfaip.scenario.tutorial.min", "--trainer.epochs", "10", "--trainer.output_dir", "own", *flags]
    others = [command for command in commands(RATES) if command[0] != "preview_schedule"]
    assert [command[0] for command in others] == ["train", "train", "replay_learning_rate"]
    result = run_several([shorten(command, SHORT | UNEXPORTED) for command in [own, *others]], cwd=tmp_path)
    assert result.rc == 0, result
    records = json.loads((tmp_path / "own" / "history.json").read_text())
    assert [record["lr"] for record in records.values()] == pytest.approx(table, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "count"), [(RATES, 1), ("stages.md", 2), (RETURNN, 1)])
def test_commands_print_what_is_shown(
    page: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    shown = WITH_OUTPUT.findall(text_of(page))
    assert len(shown) == count
    for line, expected in shown:
        name, *arguments = shlex.split(line)
        assert TOOLS[name](arguments) == 0
        printed = capsys.readouterr().out.split()[: len(expected.split())]
        # Other processors round the last digits of a float32 in other ways.
        for ours, theirs in zip(printed, expected.split(), strict=True):
            assert ours == theirs or float(ours) == pytest.approx(float(theirs), rel=1e-4), line
