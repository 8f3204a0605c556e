"""Bad input: one clear line on stderr, exit code 2, and nothing is written."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from test.scripts.conftest import read_params, well
from test.support.commands import CommandResult
from test.support.runs import checkpoints, copy_tiny, files_below

Run = Callable[..., CommandResult]
EVIL = "open('executed', 'w').close()\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with the tiny scenario, and a module that must not be imported."""
    copy_tiny(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    return tmp_path


def refused(result: CommandResult, *fragments: str) -> None:
    """The command ended with exit code 2 and one line that holds all fragments."""
    assert result.rc == 2, result
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: "), result
    assert [fragment for fragment in fragments if fragment not in line] == [], line


def contents(directory: Path) -> dict[str, Any]:
    """All that lies below a directory."""
    return {**{str(path): None for path in directory.rglob("*")}, **files_below(directory)}


OUT = ["--trainer.output_dir", "run"]


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ([], ["which scenario?", "tfaip-train --help"]),
        (["--trainer.epochs", "3"], ["which scenario? it comes first, got --trainer.epochs"]),
        (["tiny", *OUT, "--trainer.epoch", "3"], ["unknown flag --trainer.epoch", "did you mean --trainer.epochs"]),
        (["tiny", *OUT, "--epochs", "3"], ["unknown flag --epochs", "--trainer.epochs"]),
        (["tiny", *OUT, "stray"], ["stray"]),
        (["tinny", *OUT], ["no module named 'tinny'", "did you mean tiny"]),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else None,
)
def test_train(arguments: list[str], fragments: list[str], place: Path, run: Run) -> None:
    before = contents(place)
    result = run("train", *arguments)
    refused(result, *fragments)
    assert result.stdout == ""
    assert contents(place) == before


def changed(params: dict[str, Any], path: str, value: Any) -> str:
    """The params as JSON with another value at a dotted path."""
    node = params
    *parents, last = path.split(".")
    for name in parents:
        node = node[name]
    node[last] = value
    return json.dumps(params)


@pytest.mark.parametrize(
    ("damage", "fragments"),
    [
        (lambda p: json.dumps(p)[:-1], ["trainer_params.json", "JSON"]),
        (lambda p: "{}", ["trainer_params.json", "names no scenario"]),
        (lambda p: changed(p, "epochz", 3), ["trainer_params.json", "epochz", "did you mean", "epochs"]),
        (lambda p: changed(p, "epochs", "four"), ["trainer_params.json", "epochs", "four"]),
        (lambda p: changed(p, "optimizer.__cls__", "evil:Params"), ["'evil:Params'", "refused", "evil is not among"]),
        (lambda p: changed(p, "scenario.scenario_id", "evil"), ["'evil'", "module:Class"]),
        (lambda p: changed(p, "scenario.scenario_id", "tinny:T"), ["no module named 'tinny'", "did you mean tiny"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_stored_params(
    damage: Callable[[dict[str, Any]], str], fragments: list[str], place: Path, whole: Path, run: Run
) -> None:
    (place / "old").mkdir()
    params = place / "old" / "trainer_params.json"
    params.write_text(damage(read_params(whole / "run")))
    before = contents(place)
    refused(run("resume_training", "old"), *fragments)
    # Neither the file that evil.py writes when it is imported, nor anything else.
    assert contents(place) == before


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["resume_training"], ["which run?"]),
        (["resume_training", "nowhere"], ["no run at nowhere", "does not exist"]),
        (["resume_training", "tiny"], ["no run at tiny", "trainer_params.json"]),
        (["resume_training", "run", "--trust"], ["--trust needs the name of a package"]),
        (["resume_training", "run", "--model.units", "5"], ["does not fit the model", "(8,) there and (5,)"]),
        (["train_from_params"], ["which params file?"]),
        (["train_from_params", "nowhere.json"], ["nowhere.json", "No such file"]),
        (["train_from_params", "tiny"], ["tiny", "it is a directory"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_stored_runs(arguments: list[str], fragments: list[str], place: Path, whole: Path, run: Run) -> None:
    shutil.copytree(whole / "run", place / "run")
    before = contents(place)
    refused(run(*arguments), *fragments)
    assert contents(place) == before


def test_a_trusted_package_may_be_named(place: Path, whole: Path, run: Run) -> None:
    (place / "mine.py").write_text("from tiny.scenario import *\nclass Mine(TinyGenerator): pass\n")
    params = place / "params.json"
    params.write_text(changed(read_params(whole / "run"), "gen.train.__cls__", "mine:Mine"))
    refused(run("train_from_params", params, *OUT, "--print_config"), "'mine:Mine'", "refused")
    printed = well(run("train_from_params", params, "--trust", "mine", *OUT, "--print_config"))
    assert any(re.fullmatch("train: .?mine:Mine.?  # default", line) for line in printed.splitlines()), printed


@pytest.mark.slow
def test_output_dir_of_another_run(place: Path, half: Path, run: Run) -> None:
    before = contents(half)
    result = run("train", "tiny", "--trainer.output_dir", half)
    refused(result, f"{half} holds another run", "--trainer.output_dir", "--overwrite", "tfaip-resume-training")
    assert contents(half) == before

    (half / "notes.txt").write_text("of a user")
    flags = ["--trainer.output_dir", half, "--overwrite", "--trainer.epochs", "1", "--trainer.export_final", "False"]
    result = run("train", "tiny", *flags)
    refused(result, f"{half}/notes.txt is not what a run writes: move it away, or choose another --trainer.output_dir")
    (half / "notes.txt").unlink()
    well(run("train", "tiny", *flags))
    assert checkpoints(half) == ["epoch_0001"]
    assert not (half / "export").exists()


def test_output_dir_with_files_of_somebody(place: Path, run: Run) -> None:
    """They are not replaced, whatever is typed."""
    before = contents(place)
    result = run("train", "tiny", "--trainer.output_dir", "tiny", "--overwrite")
    refused(result, "tiny exists and is not the directory of a run", "--trainer.output_dir")
    assert contents(place) == before


def test_output_dir_that_cannot_be_made(place: Path, run: Run) -> None:
    before = contents(place)
    result = run("train", "tiny", "--trainer.output_dir", "evil.py/run")
    refused(result, "evil.py/run")
    assert contents(place) == before


def test_resume_of_a_run_that_lost_its_checkpoints(place: Path, whole: Path, run: Run) -> None:
    """It has epochs, which must not be replaced."""
    shutil.copytree(whole / "run", place / "run", ignore=shutil.ignore_patterns("checkpoint", "export"))
    before = contents(place)
    refused(run("resume_training", "run"), "no checkpoint in run/checkpoint: nothing to resume")
    assert contents(place) == before


@pytest.mark.parametrize("path", ["x" * 300, "x/" * 3000])
def test_a_path_that_is_too_long(path: str, run: Run) -> None:
    models = [["lav", "--export_dir", path], ["predict", "--export_dir", path], ["export", path, "--format", "keras"]]
    for words in (*models, ["export", path, "--check"], ["resume_training", path], ["replay_learning_rate", path]):
        result = run(*words)
        refused(result)
        message = result.stderr.rstrip()
        assert "the name is too long" in message or "has a part of more than" in message or "is longer than" in message
        assert len(message) <= 300
