"""Names of the directories of a run: which ones params may choose, wherever they come from."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tfaip.errors import UsageError
from tfaip.model.weights import WEIGHTS_FILE
from tfaip.params import post_init
from tfaip.params.commandline import ParamsParser
from tfaip.params.stored import from_dict, to_dict
from tfaip.scenario.scenariobase import SCENARIO_PARAMS_FILE
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.run.checkpoint import ARRAYS_FILE, STATE_FILE
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.names import check_directory_names, check_history_file, checkpoint_parts
from tfaip.util.manifest import CHECKPOINT_MARKS, MODEL_MARKS

PARAMS = TutorialScenario.trainer_params_cls()
OUTSIDE = ["..", "../other", "best/../..", "/etc", "/", "//", "a/../b"]
RESERVED = [".tmp-ck", "trainer_params.json", "history.json", "train.log", "latest", "LATEST", "epoch_0008", "export"]
EVENTS = ["train", "validation", "lav_l0", "lav_l12", "Train"]
IMPOSSIBLE = ["", ".", "a\0b", "x" * 246, "ü" * 123, "a/" * 3000, "a\nb", "a\x1b[31m", "\ud800", "{epoch", "{step}"]
BAD = [*OUTSIDE, *RESERVED, *EVENTS, *IMPOSSIBLE]


def test_the_marks_are_the_files_of_models_and_checkpoints() -> None:
    assert set(MODEL_MARKS) == {SCENARIO_PARAMS_FILE, WEIGHTS_FILE}
    assert set(CHECKPOINT_MARKS) > {STATE_FILE, ARRAYS_FILE}


@pytest.mark.parametrize("name", [*BAD, "a/b", "best/", "{epoch}", "checkpoint", "Checkpoint"])
def test_names_that_the_best_model_cannot_have(name: str) -> None:
    with pytest.raises(ValueError, match=r"(name|dir) is '.*', expected the name of .*\(it .*\)$") as caught:
        check_directory_names("checkpoint", name)
    assert len(str(caught.value)) <= 300
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [*BAD, "best", "best/checkpoint", "export/c", "train/c", "c/epoch_0001", "a/b/c/d/e"])
def test_names_that_checkpoints_cannot_have(name: str) -> None:
    with pytest.raises(ValueError, match=r"checkpoint_sub_dir is '.*', expected the name of .*\(it .*\)$") as caught:
        check_directory_names(name, "best")
    assert len(str(caught.value)) <= 300
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("checkpoint", ["checkpoint"]),
        ("saved", ["saved"]),
        ("ckpt 1.2", ["ckpt 1.2"]),
        ("./state/of/training/", ["state", "of", "training"]),
        # As clients of tfaip 1.2 set it: a directory per epoch, which each checkpoint has anyway.
        ("checkpoint/checkpoint_{epoch:04d}", ["checkpoint"]),
        ("saved/{epoch}/model", ["saved"]),
        ("checkpoint_{epoch:04d}", ["checkpoint"]),
        ("x" * 245, ["x" * 245]),
    ],
)
def test_names_of_the_directory_of_checkpoints(value: str, parts: list[str], tmp_path: Path) -> None:
    check_directory_names(value, "best")
    assert checkpoint_parts(value) == tuple(parts)
    assert RunDirectory(tmp_path, value).checkpoints == tmp_path.joinpath(*parts)


@pytest.mark.parametrize(
    ("field", "flag"),
    [("checkpoint_sub_dir", "--trainer.checkpoint_sub_dir"), ("best_model_name", "--early_stopping.best_model_name")],
)
@pytest.mark.parametrize("name", ["..", ".tmp-ck", "a\0b", "x" * 999])
def test_flags_stored_params_and_python_are_checked_alike(field: str, flag: str, name: str) -> None:
    message = f"{field} is .*, expected the name of a directory"
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", PARAMS)
    typed = f"{message}.*: change {re.escape(flag)}$"
    if "\0" in name:  # in no argument of a process
        typed = "the argument .* holds a NUL character"
    with pytest.raises(UsageError, match=typed):
        parser.parse(["--trainer.output_dir", "run", flag, name])

    stored = to_dict(PARAMS())
    (stored["early_stopping"] if field == "best_model_name" else stored)[field] = name
    with pytest.raises(UsageError, match=message):
        from_dict(PARAMS, stored, trusted=["tfaip"])

    params = PARAMS()
    setattr(params.early_stopping if field == "best_model_name" else params, field, name)
    with pytest.raises(ValueError, match=message):
        post_init(params)
    # Changed later than every check of the params.
    params.output_dir = "run"
    with pytest.raises(UsageError, match=message):
        params.run_directory()


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 246, "a/" * 2048 + "b"])
def test_output_directories_that_cannot_be(name: str) -> None:
    message = r"^output_dir is .*, expected a directory \(it .*\)$"
    params = PARAMS()
    params.output_dir = name
    with pytest.raises(UsageError, match=message):
        params.run_directory()
    if name:
        with pytest.raises(ValueError, match=message):
            post_init(params)
        with pytest.raises(UsageError, match=r"the path (is|holds|has)"):
            RunDirectory(Path(name))


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("", "is empty"),
        ("a\0b", "holds a NUL character"),
        ("x" * 999, "has a part of more than 245 bytes"),
        ("directory", "is a directory"),
        (".", "is a directory"),
        ("pipe", "is not a regular file"),
        ("broken", "is not a regular file"),
        (".tmp-rates.json", "begins with .tmp-"),
        ("run/trainer_params.json", "is another file of the run"),
        ("run/train.log", "is another file of the run"),
        ("run/best/rates.json", "is in best/"),
        ("run/checkpoint/latest", "is in checkpoint/"),
        ("run/train/rates.json", "is in train/"),
        ("link/best/rates.json", "is in best/"),
        ("run/../run/best/rates.json", "is in best/"),
    ],
)
def test_files_that_the_history_cannot_be_kept_in(
    file: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("directory").mkdir()
    Path("broken").symlink_to("nowhere")
    Path("link").symlink_to("run")
    os.mkfifo("pipe")
    params = PARAMS()
    params.output_dir, params.history_file = "run", file
    with pytest.raises(ValueError, match=rf"history_file is .*, expected a file of its own \(it {problem}.*\)$"):
        post_init(params)


@pytest.mark.parametrize("file", ["rates.json", "run/history.json", "run/rates.json", "runs/best/rates.json"])
def test_files_that_the_history_can_be_kept_in(file: str) -> None:
    check_history_file(file, "run", ["best", "export", "checkpoint"])
    check_history_file(file, None, [])
