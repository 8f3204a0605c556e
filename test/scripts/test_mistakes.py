"""Bad input: one clear line on stderr, exit code 2, and nothing is written."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from test.scripts.conftest import read_params
from test.support.commands import CommandResult
from test.support.runs import checkpoints, copy_tiny, files_below, run_well
from tfaip.scripts import export, lav, predict, replay_learning_rate, resume_training

RunCommand = Callable[..., CommandResult]
MODULES = {
    "broken_syntax.py": "def f(:\n",
    "broken_import.py": "import nothing_of_that_name\n",
    "broken_name.py": "print_me_not = undefined_thing\n",
    "broken_exit.py": "raise SystemExit(0)\n",
    "no_scenario.py": "x = 1\n",
    "two.py": "from tiny.scenario import TinyScenario\nclass A(TinyScenario): pass\nclass B(TinyScenario): pass\n",
    "evil.py": "open('executed', 'w').close()\n",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with the tiny scenario, modules that are no scenarios, and config files."""
    copy_tiny(tmp_path)
    for name, code in MODULES.items():
        (tmp_path / name).write_text(code)
    (tmp_path / "bad.yaml").write_text("trainer: {epochz: 3}\n")
    (tmp_path / "cut.json").write_text('{"trainer": {"epochs"')
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
        (["tiny", *OUT, "--optimizer", "Adamm"], ["--optimizer", "Adamm", "did you mean Adam"]),
        (["tiny", *OUT, "--trainer.epochs", "many"], ["--trainer.epochs", "'many'", "int"]),
        (["tiny", *OUT, "--trainer.epochs", "-1"], ["epochs is -1", "at least 1", "change --trainer.epochs"]),
        (["tiny", *OUT, "--trainer.keep_checkpoints", "1"], ["keep_checkpoints is 1", "at least 2"]),
        (["tiny", *OUT, "--trainer.checkpoint_save_freq", "x"], ["checkpoint_save_freq is 'x'", "'epoch' or a number"]),
        (["tiny"], ["missing required flag: --trainer.output_dir"]),
        (["tiny", *OUT, "--config", "none.yaml"], ["none.yaml", "No such file"]),
        (["tiny", *OUT, "--config", "bad.yaml"], ["bad.yaml", "trainer.epochz", "did you mean trainer.epochs"]),
        (["tiny", *OUT, "--config", "cut.json"], ["cut.json", "broken JSON in line 1"]),
        (["tinny", *OUT], ["no module named 'tinny'", "did you mean tiny"]),
        (["tiny.scenarios", *OUT], ["no module named 'tiny.scenarios'", "did you mean tiny.scenario?"]),
        (["tiny:TinyScenari", *OUT], ["no scenario named 'TinyScenari'", "did you mean TinyScenario?"]),
        (["./nowhere", *OUT], ["nowhere", "the path does not exist"]),
        (["no_scenario", *OUT], ["module no_scenario defines no scenario"]),
        (["two", *OUT], ["module two defines several scenarios", "two:A, two:B"]),
        (["broken_syntax", *OUT], ["broken_syntax fails to import: SyntaxError: invalid syntax"]),
        (["broken_import", *OUT], ["fails to import: ModuleNotFoundError: No module named 'nothing_of_that_name'"]),
        (["broken_name", *OUT], ["fails to import: NameError: name 'undefined_thing' is not defined"]),
        (["broken_exit", *OUT], ["broken_exit fails to import: SystemExit: 0"]),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else None,
)
def test_train(arguments: list[str], fragments: list[str], place: Path, run_command: RunCommand) -> None:
    before = contents(place)
    result = run_command("train", *arguments, cwd=place)
    refused(result, *fragments)
    assert result.stdout == ""
    assert contents(place) == before


@pytest.mark.parametrize(
    ("variable", "value", "fragment"),
    [("KERAS_BACKEND", "torch", "tfaip runs on tensorflow and jax"), ("TFAIP_LOG_LEVEL", "loud", "debug, info")],
)
def test_variables(variable: str, value: str, fragment: str, place: Path, run_command: RunCommand) -> None:
    before = contents(place)
    result = run_command("train", "tiny", *OUT, cwd=place, env={variable: value})
    refused(result, f"{variable} is {value!r}", fragment)
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
        (lambda p: "", ["trainer_params.json", "JSON"]),
        (lambda p: "[]", ["trainer_params.json", "expected a JSON object"]),
        (lambda p: "{}", ["trainer_params.json", "names no scenario"]),
        (lambda p: changed(p, "epochz", 3), ["trainer_params.json", "epochz", "did you mean", "epochs"]),
        (lambda p: changed(p, "epochs", "four"), ["trainer_params.json", "epochs", "four"]),
        (lambda p: changed(p, "optimizer.__cls__", "evil:Params"), ["'evil:Params'", "refused", "evil is not among"]),
        (lambda p: changed(p, "optimizer.__cls__", "os:system"), ["'os:system'", "refused"]),
        (lambda p: changed(p, "optimizer.__cls__", "tfaip.errors:UsageError"), ["not a params class"]),
        (lambda p: changed(p, "scenario.scenario_id", "this:Zen"), ["'this:Zen'", "standard library"]),
        (lambda p: changed(p, "scenario.scenario_id", "evil"), ["'evil'", "module:Class"]),
        (lambda p: changed(p, "scenario.scenario_id", "tinny:T"), ["no module named 'tinny'", "did you mean tiny"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("command", ["resume_training", "train_from_params"])
def test_stored_params(
    command: str,
    damage: Callable[[dict[str, Any]], str],
    fragments: list[str],
    place: Path,
    whole: Path,
    run_command: RunCommand,
) -> None:
    (place / "old").mkdir()
    params = place / "old" / "trainer_params.json"
    params.write_text(damage(read_params(whole / "run")))
    before = contents(place)
    if command == "resume_training":
        result = run_command(command, "old", cwd=place)
    else:
        result = run_command(command, params, *OUT, cwd=place)
    refused(result, *fragments)
    # Neither the file that evil.py writes when it is imported, nor anything else.
    assert contents(place) == before


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["resume_training"], ["which run?"]),
        (["resume_training", "nowhere"], ["no run at nowhere", "does not exist"]),
        (["resume_training", "tiny"], ["no run at tiny", "trainer_params.json"]),
        (["resume_training", "run", "--trust"], ["--trust needs the name of a package"]),
        (["resume_training", "run", "--trainer.epoch", "9"], ["unknown flag --trainer.epoch", "--trainer.epochs"]),
        (["resume_training", "run", "--trainer.epochs", "-2"], ["epochs is -2"]),
        (["resume_training", "run", "--model.units", "5"], ["does not fit the model", "(8,) there and (5,)"]),
        (["train_from_params"], ["which params file?"]),
        (["train_from_params", "nowhere.json"], ["nowhere.json", "No such file"]),
        (["train_from_params", "tiny"], ["tiny", "it is a directory"]),
        (["train_from_params", "run/trainer_params.json"], ["missing required flag: --trainer.output_dir"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_stored_runs(
    arguments: list[str], fragments: list[str], place: Path, whole: Path, run_command: RunCommand
) -> None:
    shutil.copytree(whole / "run", place / "run")
    before = contents(place)
    refused(run_command(*arguments, cwd=place), *fragments)
    assert contents(place) == before


def test_a_trusted_package_may_be_named(place: Path, whole: Path, run_command: RunCommand) -> None:
    (place / "mine.py").write_text("from tiny.scenario import *\nclass Mine(TinyGenerator): pass\n")
    params = place / "params.json"
    params.write_text(changed(read_params(whole / "run"), "gen.train.__cls__", "mine:Mine"))
    refused(run_command("train_from_params", params, *OUT, "--print_config", cwd=place), "'mine:Mine'", "refused")
    trusted = run_command("train_from_params", params, "--trust", "mine", *OUT, "--print_config", cwd=place)
    assert trusted.rc == 0, trusted
    assert any(re.fullmatch("train: .?mine:Mine.?  # default", line) for line in trusted.stdout.splitlines()), trusted


@pytest.mark.slow
def test_output_dir_of_another_run(place: Path, half: Path, workplace: Path, run_command: RunCommand) -> None:
    before = contents(half)
    result = run_command("train", "tiny", "--trainer.output_dir", half, cwd=workplace)
    refused(result, f"{half} holds another run", "--trainer.output_dir", "--overwrite", "tfaip-resume-training")
    assert contents(half) == before

    (half / "notes.txt").write_text("of a user")
    flags = ["--trainer.output_dir", half, "--overwrite", "--trainer.epochs", "1", "--trainer.export_final", "False"]
    result = run_command("train", "tiny", *flags, cwd=workplace)
    refused(result, f"{half}/notes.txt is not what a run writes: move it away, or choose another --trainer.output_dir")
    (half / "notes.txt").unlink()
    run_well("train", "tiny", *flags, cwd=workplace)
    assert checkpoints(half) == ["epoch_0001"]
    assert not (half / "export").exists()


def test_output_dir_with_files_of_somebody(place: Path, run_command: RunCommand) -> None:
    """They are not replaced, whatever is typed."""
    before = contents(place)
    result = run_command("train", "tiny", "--trainer.output_dir", "tiny", "--overwrite", cwd=place)
    refused(result, "tiny exists and is not the directory of a run", "--trainer.output_dir")
    assert contents(place) == before


def test_output_dir_that_cannot_be_made(place: Path, run_command: RunCommand) -> None:
    before = contents(place)
    result = run_command("train", "tiny", "--trainer.output_dir", "two.py/run", cwd=place)
    refused(result, "two.py/run")
    assert contents(place) == before


def test_resume_of_a_run_that_lost_its_checkpoints(place: Path, whole: Path, run_command: RunCommand) -> None:
    """It has epochs, which must not be replaced."""
    shutil.copytree(whole / "run", place / "run", ignore=shutil.ignore_patterns("checkpoint", "export"))
    before = contents(place)
    refused(run_command("resume_training", "run", cwd=place), "no checkpoint in run/checkpoint: nothing to resume")
    assert contents(place) == before


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (lav, ["--export_dir"]),
        (export, []),
        (predict, ["--export_dir"]),
        (resume_training, []),
        (replay_learning_rate, []),
    ],
)
@pytest.mark.parametrize("path", ["x" * 300, "x/" * 3000])
def test_a_path_that_is_too_long(
    path: str, command: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--format", "keras"] if command is export else []
    assert command.main([*arguments, path, *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "the name is too long" in line or "has a part of more than" in line or "is longer than" in line
    assert len(line) <= 300
