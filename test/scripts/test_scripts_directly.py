"""The files of the commands can be run themselves, as a debugger does it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from test.scripts.conftest import SEED
from test.support.commands import REPOSITORY, finish_command, start_python
from test.support.runs import assert_same_run, history, printed_epochs, result_lines

pytestmark = pytest.mark.backend

SCRIPTS = REPOSITORY / "tfaip" / "scripts"


@pytest.mark.slow
def test_train_and_resume(workplace: Path, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    # Only the package itself is on the path; the scenario lies in the working directory.
    environment = {"PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": os.environ["TF_CPP_MIN_LOG_LEVEL"]}
    flags = ["--trainer.output_dir", run, "--trainer.epochs", "2", *SEED]
    first = finish_command(start_python(SCRIPTS / "train.py", "tiny", *flags, cwd=workplace, env=environment))
    assert first.rc == 0, first
    assert [record["meta"]["updates"] for record in history(run).values()] == [11, 22]
    resume = [SCRIPTS / "resume_training.py", run, "--trainer.epochs", "4"]
    second = finish_command(start_python(*resume, cwd=workplace, env=environment))
    assert second.rc == 0, second
    assert_same_run(run, whole / "run")
    assert [printed_epochs(result.stdout) for result in (first, second)] == [[1, 2], [3, 4]]
    assert result_lines(run) == result_lines(whole / "run")
