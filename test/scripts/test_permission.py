"""A run whose classes, functions or scenario were typed is resumed without `--trust`; a copied or edited one is not."""

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from test.scripts.conftest import SEED, read_params, well
from test.support.commands import CommandResult, Run, finish_command, start_command
from test.support.runs import copy_tiny, history, make_once

RATES = "def rate(epoch, lr):\n    return lr / (1 + epoch)\n"
OPTIMIZERS = "from tfaip.trainer.optimizer import SGDOptimizer\nclass Mine(SGDOptimizer):\n    pass\n"
TYPED = (
    *("--learning_rate", "Function", "--learning_rate.function", "typed_rates:rate"),
    *("--optimizer", "my_optimizers:Mine"),
)


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with `scenarios/tiny`, and `project`, a working directory with modules of a user."""

    def make(path: Path) -> None:
        copy_tiny(path / "scenarios")
        (path / "project").mkdir()
        (path / "project" / "typed_rates.py").write_text(RATES)
        (path / "project" / "my_optimizers.py").write_text(OPTIMIZERS)

    return make_once(tmp_path_factory, "code", make)


@pytest.fixture(scope="session")
def typed_original(tmp_path_factory: pytest.TempPathFactory, code: Path) -> Path:
    """Directory with `run`, an epoch whose scenario, function and class were typed, and `state`, the record of it."""

    def make(path: Path) -> None:
        flags = ["--trainer.output_dir", path / "run", "--trainer.epochs", "1", *SEED, *TYPED]
        process = start_command("train", "../scenarios/tiny", *flags, cwd=code / "project", env=state(path))
        result = finish_command(process)
        assert (result.rc, result.stderr) == (0, ""), result

    return make_once(tmp_path_factory, "typed", make)


@pytest.fixture
def typed(typed_original: Path, tmp_path: Path) -> Path:
    """The directory of the same run, with a record of its own."""
    shutil.copytree(typed_original, tmp_path / "typed")
    (record,) = (tmp_path / "typed" / "state" / "tfaip" / "runs").iterdir()
    content = json.loads(record.read_text())
    run = tmp_path / "typed" / "run"
    record.write_text(json.dumps({**content, "run": str(run)}))
    record.rename(record_of(run))
    return run


def state(directory: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(directory / "state")}


def record_of(run: Path) -> Path:
    """The file of the record, by the name that users may look for."""
    name = hashlib.sha256(os.fsencode(run.resolve())).hexdigest()[:32]
    return run.parent / "state" / "tfaip" / "runs" / f"{name}.json"


@pytest.fixture
def project(run: Run, code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`project("lav", *args, scenarios=)`: a command in the project, with the scenarios on the path or without."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "typed" / "state"))

    def run_there(*words: Any, scenarios: bool = False) -> CommandResult:
        with monkeypatch.context() as patched:
            if scenarios:
                patched.setattr(sys, "path", [*sys.path, str(code / "scenarios")])
            return run(*words, cwd=code / "project")

    return run_there


@pytest.mark.slow
def test_what_was_typed_once_is_not_asked_for_again(typed: Path, code: Path, project: Run) -> None:
    well(project("resume_training", typed, "--trainer.epochs", "2"))
    assert list(history(typed)) == ["1", "2"]
    # The params are those that the resume has stored.
    assert read_params(typed)["epochs"] == 2
    assert project("resume_training", typed, "--help").rc == 0
    record = json.loads(record_of(typed).read_text())
    assert (set(record["packages"]), record["import_root"]) == ({"typed_rates", "my_optimizers"}, f"{code}/scenarios")
    assert record_of(typed).parent.stat().st_mode & 0o777 == 0o700
    assert not any("state" in path.name and path.is_dir() for path in typed.iterdir())


def test_a_copied_run_brings_no_permission(typed: Path, code: Path, project: Run) -> None:
    copied = Path(shutil.copytree(typed, typed.parent / "copied"))
    # Not even with a record of its own beside it, or in the place of the other one.
    shutil.copy(record_of(typed), copied / "record.json")
    shutil.copy(record_of(typed), record_of(copied))
    elsewhere = project("resume_training", copied, "--help")
    assert (elsewhere.rc, elsewhere.stderr.count("\n")) == (2, 1), elsewhere
    assert "put the directory that holds tiny on the PYTHONPATH" in elsewhere.stderr
    assert_refused(project("resume_training", copied, "--help", scenarios=True))


@pytest.mark.slow
def test_an_edited_run_is_asked_for_once(typed: Path, project: Run) -> None:
    (typed / "trainer_params.json").write_text(json.dumps({**read_params(typed), "epochs": 2}))
    assert_refused(project("resume_training", typed, "--help", scenarios=True))
    trusted = ["--trust", "typed_rates", "--trust", "my_optimizers"]
    assert project("resume_training", typed, *trusted, scenarios=True).rc == 0
    assert project("resume_training", typed, "--help", scenarios=True).rc == 0


def assert_refused(result: CommandResult) -> None:
    assert (result.rc, result.stderr.count("\n")) == (2, 1), result
    assert "is refused: " in result.stderr
    assert result.stderr.rstrip().endswith(("trust it: --trust typed_rates", "trust it: --trust my_optimizers"))


@pytest.mark.slow
def test_every_command_that_takes_a_config_file_takes_trust(
    typed: Path, whole: Path, project: Run, tmp_path: Path
) -> None:
    (tmp_path / "rates.yaml").write_text("learning_rate: {__cls__: Function, function: typed_rates:rate}")
    (tmp_path / "class.yaml").write_text("optimizer: my_optimizers:Mine")
    new = ["--trainer.output_dir", tmp_path / "new", "--print_config"]
    rates, optimizer = ["--config", tmp_path / "rates.yaml"], ["--config", tmp_path / "class.yaml"]
    commands = [
        ["train", "tiny", *new, *optimizer, *rates],
        ["preview_schedule", "tiny", *optimizer, *rates, "--print_config"],
        ["benchmark_input_pipeline", "tiny", *optimizer, "--print_config"],
        ["resume_training", whole / "run", *rates, "--print_config"],
        ["replay_learning_rate", whole / "run", *rates, "--print_config"],
    ]
    for words in commands:
        assert_refused(project(*words, scenarios=True))
        printed = well(project(*words, "--trust", "typed_rates", "my_optimizers", scenarios=True))
        assert "Mine" in printed or "typed_rates:rate" in printed


def test_a_typed_root_never_shadows_installed_modules(typed: Path, code: Path, project: Run, tmp_path: Path) -> None:
    """Nor is it used once a run has been put there."""
    scenarios = Path(shutil.copytree(code / "scenarios", tmp_path / "scenarios"))
    content = json.loads(record_of(typed).read_text())
    record_of(typed).write_text(json.dumps({**content, "import_root": str(scenarios)}))
    (scenarios / "yaml.py").write_text("raise AssertionError('imported')")
    (tmp_path / "empty.yaml").write_text("{}")
    assert project("resume_training", typed, "--config", tmp_path / "empty.yaml", "--help").rc == 0
    (scenarios / "trainer_params.json").write_text("{}")
    result = project("resume_training", typed, "--help")
    assert (result.rc, "no module named 'tiny.scenario'" in result.stderr) == (2, True), result


@pytest.mark.slow
def test_a_history_outside_of_the_run_is_replaced_only_if_it_was_typed(run: Run, tmp_path: Path) -> None:
    first, copy, shared = tmp_path / "run", tmp_path / "copy", tmp_path / "shared.json"
    flags = ["--trainer.output_dir", first, "--trainer.epochs", "1", "--trainer.history_file", shared, *SEED]
    well(run("train", "test.support.tiny", *flags))
    assert list(json.loads(shared.read_text())) == ["1"]
    shutil.copytree(first, copy)
    well(run("resume_training", first, "--trainer.epochs", "2"))
    assert list(json.loads(shared.read_text())) == ["1", "2"]
    before = shared.read_bytes()
    printed = well(run("resume_training", copy, "--trainer.epochs", "3"))
    assert f"the history file {shared} is not used, since it was not typed for this run" in printed
    assert shared.read_bytes() == before
    assert list(json.loads((copy / "history.json").read_text())) == ["1", "2", "3"]
