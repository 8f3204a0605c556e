"""A run that was killed at any moment, or met an error of the disk, ends as the run that never was."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from test.kill_series import differences, facts_of
from test.scripts.conftest import SEED
from test.support.commands import CommandResult
from test.support.runs import (
    assert_same_run,
    checkpoints,
    fault,
    faulty,
    latest,
    printed_epochs,
    result_lines,
    run_well,
)

RunCommand = Callable[..., CommandResult]


@dataclass(frozen=True)
class Kill:
    """A moment: the `count`-th audit event of this name whose arguments match."""

    event: str
    pattern: str
    count: int = 1


def run_into(kill: Kill, *command: str | Path, run_command: RunCommand, cwd: Path) -> CommandResult:
    """Run a command that does not survive the moment."""
    result = run_command(*command, cwd=cwd, env=faulty(fault("SIGKILL", kill.event, kill.pattern, kill.count)))
    assert result.rc == -9, f"{kill} was never reached\n{result}"
    return result


def resume_through(kills: dict[str, tuple[Kill, str]], run: Path, run_command: RunCommand, cwd: Path) -> None:
    """Resume and kill, moment after moment; after each one the newest checkpoint must match the pattern."""
    for moment, (kill, newest) in kills.items():
        run_into(kill, "resume_training", run, "--trainer.epochs", "4", run_command=run_command, cwd=cwd)
        assert re.fullmatch(newest, checkpoints(run)[-1]), f"{moment}: {checkpoints(run)}"


WRITING = {
    "while a checkpoint is written": (Kill("open", r"epoch_0002_step_000006/state\.json"), "epoch_0002_step_000004"),
    "before the old best is removed": (Kill("shutil.rmtree", "tmp-best"), "epoch_0002_step_000010"),
    "within the removal of an old checkpoint": (Kill("os.remove", r"^state\.", 2), "epoch_0003"),
    # The history is written after the removal of old checkpoints.
    "before the history of the last epoch": (Kill("os.rename", r"/epoch_0003_step_000006 .*/\.tmp-"), "epoch_0004"),
}


AFTER_WRITING = {
    "right behind a checkpoint within an epoch": (
        Kill("os.rename", r"/epoch_0002 .*/\.tmp-"),
        "epoch_0002_step_000006",
    ),
    "while the final export is written": (Kill("open", r"tmp-export/weights"), "epoch_0004"),
}


@pytest.mark.guard
@pytest.mark.parametrize(
    "kills",
    [pytest.param(WRITING, id="writing"), pytest.param(AFTER_WRITING, id="after writing", marks=pytest.mark.backend)],
)
def test_killed_in_later_epochs(
    kills: dict[str, tuple[Kill, str]], half: Path, whole: Path, workplace: Path, run_command: RunCommand
) -> None:
    resume_through(kills, half, run_command, workplace)
    result = run_well("resume_training", half, cwd=workplace)
    if kills is AFTER_WRITING:
        assert "training is finished: 4 of 4 epochs are done" in result.stdout.splitlines()
    assert latest(half) == "epoch_0004"
    assert_same_run(half, whole / "run")


EVERYTHING = [
    *("--trainer.val_every_n", "2", "--trainer.lav_every_n", "2", "--trainer.histogram_every_n", "1"),
    *("--trainer.train_accum_steps", "3", "--trainer.calc_ema", "-1", "--trainer.no_train_scope", "out"),
    *("--optimizer", "AdaBelief", "--optimizer.weight_decay", "0.01", "--optimizer.clip_value", "0.5"),
    *("--optimizer.clip_norm", "0.4", "--optimizer.clip_global_norm", "0.3"),
    *("--learning_rate", "WarmupCosineDecay", "--learning_rate.step_function", "False"),
    *("--learning_rate.warmup_epochs", "2", "--learning_rate.lr", "0.01"),
    *("--early_stopping.n_to_go", "9", "--early_stopping.frequency", "2"),
    *("--scenario.use_input_gradient_regularization", "True", "--trainer.checkpoint_save_freq", "2"),
]


@pytest.mark.guard
@pytest.mark.backend
def test_killed_with_every_option_on(workplace: Path, tmp_path: Path, run_command: RunCommand) -> None:
    run, expected = tmp_path / "run", tmp_path / "expected"
    train = ["train", "tiny", *SEED, *EVERYTHING, "--trainer.output_dir"]
    run_well(*train, expected, cwd=workplace)
    # Two updates of three batches are saved within each epoch; the remainder of an epoch waits in the accumulators.
    in_training = Kill("tiny.sample", "training", 80)
    run_into(in_training, *train, run, run_command=run_command, cwd=workplace)
    assert re.fullmatch("epoch_0001(_step_0000(06|08))?", checkpoints(run)[-1]), checkpoints(run)
    # The validation and the LAV of epoch 2 take 20 samples, so this is in the LAV of epoch 4.
    in_lav = Kill("tiny.sample", "evaluation", 35)
    run_into(in_lav, "resume_training", run, run_command=run_command, cwd=workplace)
    assert re.fullmatch(r"epoch_0003(_step_0000\d\d)?", checkpoints(run)[-1]), checkpoints(run)
    resumed = run_well("resume_training", run, cwd=workplace)
    assert_same_run(run, expected)
    assert printed_epochs(resumed.stdout) == [4]
    assert result_lines(run) == result_lines(expected)
    assert "input_gradient_regularization" in result_lines(run)[-1][1]


def test_every_difference_is_found(whole: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole / "run", tmp_path / "run"))
    facts = facts_of(run)
    assert {"best/weights.safetensors", "export/manifest.json", "arrays", "history", "params"} <= set(facts)
    assert differences(facts_of(run), facts) == []
    weights = run / "export" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    (run / "best" / "more").touch()
    found = ["export/weights.safetensors differs", "best/more differs"]
    assert sorted(differences(facts_of(run), facts)) == sorted(found)
