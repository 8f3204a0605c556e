"""The examples of the page about stages: lines read by a network that grows, and by one trained with alignments."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from test.support.commands import REPOSITORY, finish_command, start_command, start_python
from test.support.runs import fault, faulty, make_once, run_well
from test.trainer.stages.stagedruns import differences
from tfaip.predict.samplefile import read_samples

LINES = REPOSITORY / "examples" / "lines"
FEW_LINES = [
    *("--train.size", "16", "--val.size", "4", "--train.bucket_boundaries", "128", "--val.bucket_boundaries", "128"),
    *("--trainer.lav_every_n", "100", "--scenario.export_serve", "False", "--trainer.skip_model_load_test", "True"),
]


def documented(run: str) -> list[str]:
    """The command of the page that trains a run, with few lines."""
    (line,) = re.findall(
        rf"^tfaip-(train .* --trainer.output_dir runs/{run}\b.*)$",
        (REPOSITORY / "docs" / "stages.md").read_text().replace("\\\n", ""),
        re.MULTILINE,
    )
    return [*shlex.split(line), *FEW_LINES]


def copy_lines(directory: Path) -> Path:
    """A copy of the example, as a user makes one."""
    return Path(shutil.copytree(LINES, directory / "lines", ignore=shutil.ignore_patterns("__pycache__", "runs")))


def stages_of(run: Path) -> list[str]:
    """The stage of each epoch."""
    return [record["meta"]["stage"] for record in json.loads((run / "history.json").read_text()).values()]


@pytest.fixture(scope="module")
def linear_first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with the run that begins with linear alignments."""

    def make(directory: Path) -> None:
        run_well(*documented("linear_first"), cwd=copy_lines(directory))

    return make_once(tmp_path_factory, "linear_first", make) / "lines"


@pytest.mark.series
@pytest.mark.backend
def test_killed_in_the_second_repetition(linear_first: Path, tmp_path: Path) -> None:
    place = copy_lines(tmp_path)
    # The second epoch of the second repetition is trained, its checkpoint is not complete.
    kill = fault("SIGKILL", "os.rename", "epoch_0005")
    killed = finish_command(start_command(*documented("linear_first"), cwd=place, env=faulty(kill)))
    assert killed.rc == -9, killed
    run = place / "runs" / "linear_first"
    assert (run / "stages" / "align_2" / "DONE").exists()
    assert not (run / "stages" / "train_2" / "DONE").exists()
    run_well("resume_training", "runs/linear_first", cwd=place)
    assert differences(run, linear_first / "runs" / "linear_first") == []


@pytest.mark.series
@pytest.mark.backend
def test_alignments_replace_the_linear_one(linear_first: Path) -> None:
    run = linear_first / "runs" / "linear_first"
    assert stages_of(run) == ["linear", *["train_1"] * 2, *["train_2"] * 2, *["train_3"] * 3]
    for repetition in (1, 2, 3):
        samples = list(read_samples(run / "stages" / f"align_{repetition}" / "predictions.jsonl"))
        assert sorted(sample.meta["index"] for sample in samples) == list(range(16))
        for sample in samples:
            frames = sample.outputs["frames"]
            assert len(frames) == sample.meta["columns"]
            # Without repetitions and blanks an alignment is the text.
            changes = frames[np.flatnonzero(np.diff(frames, prepend=-1))]
            assert [label - 1 for label in changes if label] == [int(digit) for digit in sample.meta["text"]]
    # The network has grown.
    best = json.loads((run / "best" / "scenario_params.json").read_text())
    assert best["model"]["filters"] == [64, 64]


@pytest.mark.series
def test_a_picture_of_a_network_that_grows(tmp_path: Path) -> None:
    place = copy_lines(tmp_path)
    run_well(*documented("growing"), "--trainer.epochs", "5", cwd=place)
    run = place / "runs" / "growing"
    assert stages_of(run) == ["one", "one", "two", "two", "main"]
    log = (run / "train.log").read_text()
    assert "scores/kernel" in log
    assert "[32+32, 11] -> [48+48, 11]" in log
    assert "[48+48, 11] -> [64+64, 11]" in log
    pytest.importorskip("matplotlib")
    drawn = finish_command(start_python("curves.py", "curves.svg", "val_loss", "runs/growing", cwd=place))
    assert drawn.rc == 0, drawn
    assert (place / "curves.svg").read_text().count("</svg>") == 1


@pytest.mark.series
def test_ctc_first(tmp_path: Path) -> None:
    place = copy_lines(tmp_path)
    run_well(*documented("ctc_first"), cwd=place)
    run = place / "runs" / "ctc_first"
    assert stages_of(run) == ["ctc"] * 3 + ["main"] * 3
    values = [record["values"] for record in json.loads((run / "history.json").read_text()).values()]
    # The loss of a stage is the one that it chooses.
    assert [value["loss"] == value["ctc"] for value in values] == [True] * 3 + [False] * 3
    assert [value["loss"] == value["frames"] for value in values] == [False] * 3 + [True] * 3
