"""An error of the disk in each place of saving: one line, and the run that is resumed is the one without the error."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from test.scripts.conftest import SEED
from test.support.commands import CommandResult
from test.support.runs import assert_same_run, fault, faulty, run_well

# Audit event and pattern, and the path in the message: in the order in which a training reaches them.
PLACES = [
    ("os.rename", r"/trainer_params\.json", "trainer_params.json"),
    ("open", r"epoch_0000_step_000004/state\.json", "epoch_0000_step_000004"),
    ("os.rename", r"/epoch_0000_step_000006 ", "epoch_0000_step_000006"),
    ("os.rename", r"/latest", "latest"),
    ("open", r"tmp-best/weights", "best"),
    ("os.rename", r"/history\.json", "history.json"),
    ("os.rename", r"/epoch_0001_step_000006 .*/\.tmp-", "epoch_0001_step_000006"),
    ("open", r"tmp-export/weights", "export"),
]


@pytest.mark.guard
def test_errors_of_the_disk(
    half_original: Path, workplace: Path, tmp_path: Path, run_command: Callable[..., CommandResult]
) -> None:
    run = tmp_path / "run"
    flags = ["--trainer.output_dir", run, *SEED, "--trainer.epochs", "2", "--trainer.checkpoint_save_freq", "3"]
    for event, pattern, path in PLACES:
        command = ["resume_training", run] if (run / "checkpoint" / "latest").exists() else ["train", "tiny", *flags]
        if command[0] == "train" and run.exists():
            command.append("--overwrite")
        result = run_command(*command, cwd=workplace, env=faulty(fault("OSError", event, pattern)))
        assert result.rc == 1, (path, result)
        first, *place = result.stderr.splitlines()
        assert re.fullmatch(f"error: {run}/.*{path} cannot be (written|removed): of a test", first), result
        assert len(place) <= 1, result
    run_well("resume_training", run, cwd=workplace)
    assert_same_run(run, half_original / "run")
