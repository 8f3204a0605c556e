"""Where weights can be read from."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from test.trainer.net import ENCODER, HEAD, STATISTICS, changed
from tfaip.errors import TfaipError, UsageError
from tfaip.model.weights import load_arrays
from tfaip.trainer.transfer.plan import Source
from tfaip.trainer.warmstart.warmstarter import read_source


def weights(source: Source) -> dict[str, np.ndarray]:
    return {path: source.arrays[path] for path in ENCODER + HEAD}


@pytest.fixture
def run(averaged_run: Path, tmp_path: Path) -> Path:
    """A copy of the run, to damage."""
    return Path(shutil.copytree(averaged_run, tmp_path / "run"))


@pytest.mark.slow
@pytest.mark.backend
def test_a_checkpoint_gives_the_averages_that_were_exported_with_it(averaged_run: Path) -> None:
    checkpoint = averaged_run / "checkpoint" / "epoch_0002"
    exported = read_source(averaged_run / "export")
    assert exported.description == str(averaged_run / "export")
    assert changed(exported.arrays, load_arrays(averaged_run / "export" / "weights.safetensors")) == []
    source = read_source(checkpoint)
    assert source.description == f"{checkpoint} (averaged weights)"
    assert changed(weights(source), weights(exported)) == []
    arrays = load_arrays(checkpoint / "state.safetensors")
    raw = {path: arrays[f"weights/{path}"] for path in ENCODER + HEAD}
    # Statistics have no average; everything that is trained has.
    assert changed(weights(source), raw) == sorted(set(ENCODER + HEAD) - set(STATISTICS))


def test_a_directory_of_checkpoints_gives_the_newest_undamaged_one(run: Path, logged: list[str]) -> None:
    checkpoints = run / "checkpoint"
    assert read_source(checkpoints).description == f"{checkpoints}/epoch_0002 (averaged weights)"
    newest = checkpoints / "epoch_0002" / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    assert read_source(checkpoints).description == f"{checkpoints}/epoch_0001 (averaged weights)"
    assert logged == [f"warning: damaged checkpoint passed over: {newest} differs from its manifest"]
    with pytest.raises(TfaipError, match=f"{newest} differs from its manifest"):
        read_source(newest.parent)
    (checkpoints / "epoch_0001" / "state.json").unlink()
    with pytest.raises(UsageError, match=f"all checkpoints in {checkpoints} are damaged"):
        read_source(checkpoints)
    # Another training's files are read only.
    assert sorted(path.name for path in checkpoints.iterdir()) == ["epoch_0001", "epoch_0002", "latest"]


def test_a_run_gives_its_best_model_else_its_final_one_else_a_checkpoint(run: Path) -> None:
    (run / "checkpoint").rename(run / "saved")
    found = []
    for left in (run / "best", run / "export", run / "saved", None):
        if left is not None:
            found.append(Path(read_source(run).description.removesuffix(" (averaged weights)")))
            shutil.rmtree(left)
    assert found == [run / "best", run / "export", run / "saved" / "epoch_0002"]
    with pytest.raises(UsageError, match=f"the run {run} holds neither an exported model nor a checkpoint yet"):
        read_source(run)


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    expected = "expected an exported model .*, a run .*, a checkpoint"
    for name, text in (("none", "the path does not exist"), ("file", "not a directory"), ("", expected)):
        with pytest.raises(UsageError, match=f"no model at {tmp_path / name}: {text}"):
            read_source(tmp_path / name)


def test_damaged_weights_are_named(run: Path) -> None:
    path = run / "best" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(TfaipError, match=f"{path} differs from its manifest"):
        read_source(run)
    # Weights of other programs have no manifest.
    (run / "best" / "manifest.json").unlink()
    with pytest.raises(TfaipError, match=f"{path} cannot be read as weights"):
        read_source(run)
