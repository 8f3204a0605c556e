"""A run that was stopped, or lost checkpoints, and is resumed is bit for bit the run that never stopped."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from test.scripts.conftest import SEED, read_params, well
from test.support.commands import REPOSITORY, Run, finish_command, start_python
from test.support.runs import (
    assert_same_run,
    checkpoints,
    history,
    printed_epochs,
    result_lines,
)


@pytest.mark.slow
@pytest.mark.backend
def test_two_epochs_and_two_more_are_four(run: Run, half: Path, whole: Path, workplace: Path) -> None:
    result = run("resume_training", half, "--trainer.epochs", "4", cwd=workplace)
    assert_same_run(half, whole / "run")
    lines = well(result).splitlines()
    assert [line for line in lines if line.startswith("changed ")] == ["changed --trainer.epochs: 2 -> 4"]
    assert "changed --trainer.epochs: 2 -> 4" in (half / "train.log").read_text()
    assert "resuming in epoch 3, after 0 batches" in lines
    # The rates: 0.01, halved every second epoch.
    assert [record["lr"] for record in history(half).values()] == [0.01, 0.01, 0.005, 0.005]
    expected = (whole / "stdout").read_text()
    assert result_lines(half) == result_lines(whole / "run")
    assert printed_epochs(result.stdout) == [3, 4]
    best = [[line for line in text.splitlines() if line.startswith("Best epoch")] for text in (result.stdout, expected)]
    assert best[0] == best[1] != []


@pytest.mark.slow
def test_a_finished_run_stays_as_it_is(
    run: Run, whole: Path, workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    copy = Path(shutil.copytree(whole / "run", tmp_path / "run"))
    printed = well(run("resume_training", copy, cwd=workplace))
    assert "training is finished: 4 of 4 epochs are done" in printed.splitlines()
    assert printed_epochs(printed) == []
    assert "changed" not in printed
    assert "exporting and loading the model for a check" not in printed
    assert_same_run(copy, whole / "run")
    # It names no code of its own, so there is nothing to remember.
    assert not (tmp_path / "state").exists()


@pytest.mark.slow
def test_params_changed_in_the_file_are_printed(run: Run, half: Path, whole: Path, workplace: Path) -> None:
    params = json.loads((half / "trainer_params.json").read_text())
    (half / "trainer_params.json").write_text(json.dumps({**params, "epochs": 4}))
    printed = well(run("resume_training", half, cwd=workplace))
    assert "changed --trainer.epochs: 2 -> 4" in printed.splitlines()
    assert_same_run(half, whole / "run")


@pytest.mark.slow
def test_stored_params_name_no_host_to_connect_to(run: Run, half: Path, workplace: Path) -> None:
    with socket.socket() as host:
        host.bind(("127.0.0.1", 0))
        host.listen()
        host.setblocking(False)
        address = f"127.0.0.1:{host.getsockname()[1]}"
        cluster = {"num_processes": 2, "process_id": 1, "coordinator": address}
        params = read_params(half)
        (half / "trainer_params.json").write_text(json.dumps({**params, "device": {**params["device"], **cluster}}))
        printed = well(run("resume_training", half, cwd=workplace))
        with pytest.raises(BlockingIOError):
            host.accept()
    line = f"are ignored (coordinator '{address}', 2 processes): give them with --device.* or --config"
    assert [text for text in printed.splitlines() if text.startswith("cluster settings")] == [
        f"cluster settings in {half}/trainer_params.json {line}"
    ]
    assert "training is finished: 2 of 2 epochs are done" in printed
    assert read_params(half)["device"]["coordinator"] is None

    # What is typed counts, also in a config file.
    (half / "typed.yaml").write_text(json.dumps({"device": cluster}))
    values = well(run("resume_training", half, "--config", half / "typed.yaml", "--print_config", cwd=workplace))
    assert f'device.coordinator: "{address}"' in values


NEWEST, BEFORE = "epoch_0002", "epoch_0001_step_000010"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "name", "complaint"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "state.json", " differs from its manifest"),
        (Path.unlink, "manifest.json", ": cannot be read"),
    ],
    ids=["truncated", "deleted"],
)
def test_the_previous_checkpoint_is_taken(
    damage: Callable[[Path], Any], name: str, complaint: str, run: Run, half: Path, whole: Path, workplace: Path
) -> None:
    """Once the path is that of the run, once that of its checkpoint directory."""
    assert checkpoints(half) == [BEFORE, "epoch_0002"]
    damaged = half / "checkpoint" / "epoch_0002" / name
    damage(damaged)
    path = half / "checkpoint" if name == "state.json" else half
    lines = well(run("resume_training", path, "--trainer.epochs", "4", cwd=workplace)).splitlines()
    (warning,) = [line for line in lines if line.startswith("warning: ")]
    assert warning.startswith(f"warning: damaged checkpoint passed over: {damaged}{complaint}")
    assert "resuming in epoch 2, after 10 batches" in lines
    assert warning.removeprefix("warning: ") in (half / "train.log").read_text()
    assert_same_run(half, whole / "run")


SCRIPTS = REPOSITORY / "tfaip" / "scripts"


@pytest.mark.slow
@pytest.mark.backend
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
