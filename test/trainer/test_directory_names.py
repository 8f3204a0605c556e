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


def refusal(checkpoints: str, best: str) -> str:
    """The text of the refusal of names, one short line."""
    with pytest.raises(ValueError, match=r"is '.*', expected the name of .*\(it .*\)$") as caught:
        check_directory_names(checkpoints, best)
    assert len(str(caught.value)) <= 300
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_names_that_directories_cannot_have() -> None:
    for name in [*BAD, "a/b", "best/", "{epoch}", "checkpoint", "Checkpoint"]:
        assert " is " in refusal("checkpoint", name)
    for name in [*BAD, "best", "best/checkpoint", "export/c", "train/c", "c/epoch_0001", "a/b/c/d/e"]:
        assert refusal(name, "best").startswith("checkpoint_sub_dir")


def test_names_of_the_directory_of_checkpoints(tmp_path: Path) -> None:
    for value, parts in [
        ("ckpt 1.2", ["ckpt 1.2"]),
        ("./state/of/training/", ["state", "of", "training"]),
        # As clients of tfaip 1.2 set it: a directory per epoch, which each checkpoint has anyway.
        ("checkpoint/checkpoint_{epoch:04d}", ["checkpoint"]),
        ("saved/{epoch}/model", ["saved"]),
        ("checkpoint_{epoch:04d}", ["checkpoint"]),
        ("x" * 245, ["x" * 245]),
    ]:
        check_directory_names(value, "best")
        assert checkpoint_parts(value) == tuple(parts)
        assert RunDirectory(tmp_path, value).checkpoints == tmp_path.joinpath(*parts)


@pytest.mark.parametrize("flag", ["--trainer.checkpoint_sub_dir", "--early_stopping.best_model_name"])
def test_flags_stored_params_and_python_are_checked_alike(flag: str) -> None:
    field = flag.rpartition(".")[2]
    message = f"{field} is .*, expected the name of a directory"
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", PARAMS)
    with pytest.raises(UsageError, match=f"{message}.*: change {re.escape(flag)}$"):
        parser.parse(["--trainer.output_dir", "run", flag, "x" * 999])
    stored, params = to_dict(PARAMS()), PARAMS()
    (stored["early_stopping"] if field == "best_model_name" else stored)[field] = ".."
    with pytest.raises(UsageError, match=message):
        from_dict(PARAMS, stored, trusted=["tfaip"])
    setattr(params.early_stopping if field == "best_model_name" else params, field, "..")
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
        *(("", "is empty"), ("a\0b", "holds a NUL character"), ("x" * 999, "has a part of more than 245 bytes")),
        *((name, "is a directory") for name in ("directory", ".")),
        *((name, "is not a regular file") for name in ("pipe", "broken")),
        (".tmp-rates.json", "begins with .tmp-"),
        *((f"run/{name}", "is another file of the run") for name in ("trainer_params.json", "train.log")),
        *((f"{name}/best/rates.json", "is in best/") for name in ("run", "link", "run/../run")),
        *(("run/checkpoint/latest", "is in checkpoint/"), ("run/train/rates.json", "is in train/")),
    ],
)
def test_files_that_the_history_cannot_be_kept_in(file, problem, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("directory").mkdir()
    Path("broken").symlink_to("nowhere")
    Path("link").symlink_to("run")
    os.mkfifo("pipe")
    params = PARAMS()
    params.output_dir, params.history_file = "run", file
    with pytest.raises(ValueError, match=rf"history_file is .*, expected a file of its own \(it {problem}.*\)$"):
        post_init(params)
    for kept in ("rates.json", "run/history.json", "run/rates.json", "runs/best/rates.json"):
        check_history_file(kept, "run", ["best", "export", "checkpoint"])
        check_history_file(kept, None, [])
