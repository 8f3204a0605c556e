"""A run whose classes, functions or scenario were typed is resumed without `--trust`; a copied or edited one is not."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from test.scripts.conftest import SEED, read_params
from test.support.commands import REPOSITORY, CommandResult, finish_command, start_command
from test.support.runs import copy_tiny, history, make_once
from tfaip.scripts import resume_training, train

RATES = "def rate(epoch, lr):\n    return lr / (1 + epoch)\n"
OPTIMIZERS = """
from dataclasses import dataclass
from tfaip.params import pai_dataclass
from tfaip.trainer.optimizer import SGDOptimizer

@pai_dataclass
@dataclass
class Mine(SGDOptimizer):
    def cls(self):
        import keras
        return keras.optimizers.SGD
"""
TYPED = (
    *("--learning_rate", "Function", "--learning_rate.function", "my_rates:rate"),
    *("--optimizer", "my_optimizers:Mine"),
)


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with `scenarios/tiny`, and `project`, a working directory with modules of a user."""

    def make(path: Path) -> None:
        copy_tiny(path / "scenarios")
        (path / "project").mkdir()
        (path / "project" / "my_rates.py").write_text(RATES)
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


def resume(run: Path, code: Path, *flags: str, scenarios: bool = False) -> CommandResult:
    env = state(run.parent)
    if scenarios:
        env["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), str(code / "scenarios")])
    return finish_command(start_command("resume_training", run, *flags, cwd=code / "project", env=env))


@pytest.mark.slow
def test_what_was_typed_once_is_not_asked_for_again(typed: Path, code: Path) -> None:
    result = resume(typed, code, "--trainer.epochs", "2")
    assert (result.rc, result.stderr) == (0, ""), result
    assert list(history(typed)) == ["1", "2"]
    # The params are those that the resume has stored.
    assert read_params(typed)["epochs"] == 2
    assert resume(typed, code, "--help").rc == 0
    record = json.loads(record_of(typed).read_text())
    assert (set(record["packages"]), record["import_root"]) == ({"my_rates", "my_optimizers"}, f"{code}/scenarios")
    assert record_of(typed).stat().st_mode & 0o777 == 0o600
    assert record_of(typed).parent.stat().st_mode & 0o777 == 0o700
    assert not any("state" in path.name and path.is_dir() for path in typed.iterdir())


def test_another_run_with_its_params_is_permitted_the_same(typed: Path, code: Path, tmp_path: Path) -> None:
    flags = ["--trainer.output_dir", tmp_path / "second", "--print_config"]
    env = state(typed.parent)
    for command in (["train_from_params", typed / "trainer_params.json", *flags], ["replay_learning_rate", typed]):
        result = finish_command(start_command(*command, cwd=code / "project", env=env))
        assert (result.rc, result.stderr) == (0, ""), result


def test_a_copied_run_brings_no_permission(typed: Path, code: Path) -> None:
    copied = Path(shutil.copytree(typed, typed.parent / "copied"))
    # Not even with a record of its own beside it, or in the place of the other one.
    shutil.copy(record_of(typed), copied / "record.json")
    shutil.copy(record_of(typed), record_of(copied))
    elsewhere = resume(copied, code, "--help")
    assert (elsewhere.rc, elsewhere.stderr.count("\n")) == (2, 1), elsewhere
    assert f"put PYTHONPATH={code}/scenarios before the command" in elsewhere.stderr
    assert_refused(resume(copied, code, "--help", scenarios=True))


@pytest.mark.slow
def test_an_edited_run_is_asked_for_once(typed: Path, code: Path) -> None:
    (typed / "trainer_params.json").write_text(json.dumps({**read_params(typed), "epochs": 2}))
    assert_refused(resume(typed, code, "--help", scenarios=True))
    assert resume(typed, code, "--trust", "my_rates", "--trust", "my_optimizers", scenarios=True).rc == 0
    assert resume(typed, code, "--help", scenarios=True).rc == 0


def assert_refused(result: CommandResult) -> None:
    assert (result.rc, result.stderr.count("\n")) == (2, 1), result
    assert "is refused: my_" in result.stderr
    assert result.stderr.rstrip().endswith(("trust it: --trust my_rates", "trust it: --trust my_optimizers"))


@pytest.mark.slow
def test_a_run_without_names_of_its_own_leaves_no_record(whole: Path, tmp_path: Path, workplace: Path) -> None:
    run = Path(shutil.copytree(whole / "run", tmp_path / "run"))
    env = state(tmp_path)
    assert finish_command(start_command("resume_training", run, cwd=workplace, env=env)).rc == 0
    assert not (tmp_path / "state").exists()


@pytest.mark.slow
def test_every_command_that_takes_a_config_file_takes_trust(
    typed: Path, whole: Path, code: Path, tmp_path: Path
) -> None:
    (tmp_path / "rates.yaml").write_text("learning_rate: {__cls__: Function, function: my_rates:rate}")
    (tmp_path / "class.yaml").write_text("optimizer: my_optimizers:Mine")
    new = ["--trainer.output_dir", tmp_path / "new", "--print_config"]
    rates, optimizer = ["--config", tmp_path / "rates.yaml"], ["--config", tmp_path / "class.yaml"]
    commands = {
        "train": ["train", "tiny", *new, *optimizer, *rates],
        "preview_schedule": ["preview_schedule", "tiny", *optimizer, *rates, "--print_config"],
        "benchmark_input_pipeline": ["benchmark_input_pipeline", "tiny", *optimizer, "--print_config"],
        "resume_training": ["resume_training", whole / "run", *rates, "--print_config"],
        "replay_learning_rate": ["replay_learning_rate", whole / "run", *rates, "--print_config"],
    }
    env = {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(code / "scenarios")])}
    trust = ["--trust", "my_rates", "my_optimizers"]
    refused = {name: start_command(*words, cwd=code / "project", env=env) for name, words in commands.items()}
    accepted = {name: start_command(*words, *trust, cwd=code / "project", env=env) for name, words in commands.items()}
    results = {name: finish_command(process) for name, process in refused.items()}
    results_with_trust = {name: finish_command(process) for name, process in accepted.items()}
    for result in results.values():
        assert_refused(result)
    for result in results_with_trust.values():
        assert (result.rc, result.stderr) == (0, ""), result
        assert "Mine" in result.stdout or "my_rates:rate" in result.stdout


def test_trust_names_top_level_packages(code: Path) -> None:
    for name, hint in (("my_rates.inner", ": --trust my_rates"), ("my-rates", ""), ("../my_rates", "")):
        result = finish_command(start_command("train", "tiny", "--trust", name, cwd=code / "scenarios"))
        expected = f"error: --trust {name}: expected the name of a top-level package{hint}\n"
        assert (result.rc, result.stderr) == (2, expected), result


def test_a_typed_root_never_shadows_installed_modules(typed: Path, code: Path, tmp_path: Path) -> None:
    """Nor is it used once a run has been put there."""
    scenarios = Path(shutil.copytree(code / "scenarios", tmp_path / "scenarios"))
    content = json.loads(record_of(typed).read_text())
    record_of(typed).write_text(json.dumps({**content, "import_root": str(scenarios)}))
    (scenarios / "yaml.py").write_text("raise AssertionError('imported')")
    (tmp_path / "empty.yaml").write_text("{}")
    assert resume(typed, code, "--config", str(tmp_path / "empty.yaml"), "--help").rc == 0
    (scenarios / "trainer_params.json").write_text("{}")
    result = resume(typed, code, "--help")
    assert (result.rc, "no module named 'tiny.scenario'" in result.stderr) == (2, True), result


@pytest.mark.slow
def test_a_history_outside_of_the_run_is_replaced_only_if_it_was_typed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run, copy, shared = tmp_path / "run", tmp_path / "copy", tmp_path / "shared.json"
    flags = ["--trainer.output_dir", str(run), "--trainer.epochs", "1", "--trainer.history_file", str(shared), *SEED]
    assert train.main(["test.support.tiny", *flags]) == 0
    assert list(json.loads(shared.read_text())) == ["1"]
    shutil.copytree(run, copy)
    assert resume_training.main([str(run), "--trainer.epochs", "2"]) == 0
    assert list(json.loads(shared.read_text())) == ["1", "2"]
    before = shared.read_bytes()
    capfd.readouterr()
    assert resume_training.main([str(copy), "--trainer.epochs", "3"]) == 0
    assert f"the history file {shared} is not used, since it was not typed for this run" in capfd.readouterr().out
    assert shared.read_bytes() == before
    assert list(json.loads((copy / "history.json").read_text())) == ["1", "2", "3"]
