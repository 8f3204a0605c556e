"""Checkpoints that are written while the training continues: their order, and errors of the writer."""

from __future__ import annotations

import json
import logging
import resource
import threading
from collections.abc import ItemsView
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.support.runs import checkpoints, latest
from test.trainer.line import CallbackOf, LineScenario, line_params, train
from test.trainer.test_interruption import params_of, signal_at
from tfaip.errors import TfaipError
from tfaip.export.savedmodelvariables import read_saved_model
from tfaip.model.weights import HostBuffer, load_arrays
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.run.checkpoint import Checkpoint, CheckpointStore, read_checkpoint
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.output import RunOutput
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.util.manifest import verify_files

TIMEOUT_S = 60


class HeldArrays(dict[str, np.ndarray]):
    """Arrays that cannot be read before an event."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__(w=np.ones(3, np.float32))
        self.event = event

    def items(self) -> ItemsView[str, np.ndarray]:
        assert self.event.wait(TIMEOUT_S)
        return super().items()


def test_only_the_next_checkpoint_waits_and_the_history_comes_after_its_own(tmp_path: Path) -> None:
    event, history, buffers, seen = threading.Event(), History(), [], []
    state: dict[str, Any] = {"epoch": 1}

    def checkpoint(buffer: HostBuffer) -> Checkpoint:
        buffers.append(buffer)
        seen.append([path.name for path in tmp_path.glob("checkpoint/epoch_*")])
        return Checkpoint(HeldArrays(event), state)

    directory, release = RunDirectory(tmp_path), threading.Timer(0.3, event.set)
    with RunOutput(directory, CheckpointStore(directory.checkpoints)) as output:
        output.save_checkpoint(checkpoint, 1)
        output.save_history(history)
        # What comes later does not change what was saved.
        state["epoch"] = 2
        history.record(1, EpochRecord(0.5, {}, {}, None))
        assert list(tmp_path.glob("checkpoint/epoch_*")) == []
        assert not (tmp_path / "history.json").exists()
        release.start()
        output.save_checkpoint(checkpoint, 2)
        output.wait()
        assert json.loads((tmp_path / "history.json").read_text()) == {}
    release.join()
    assert (seen, latest(tmp_path), buffers[0] is buffers[1]) == ([[], ["epoch_0001"]], "epoch_0002", True)
    assert read_checkpoint(tmp_path / "checkpoint" / "epoch_0001").state == {"epoch": 1}


@pytest.mark.guard
def test_a_full_disk_ends_the_training_within_the_next_epoch(tmp_path: Path) -> None:
    """An epoch has 1000 batches: the checkpoint of the second one has failed long before the end of the third."""
    run, batches, limits = tmp_path / "run", [], resource.getrlimit(resource.RLIMIT_FSIZE)

    class DiskFills(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            batches.append(batch)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:  # no file may be longer than 9000 bytes: the state of a checkpoint is
                resource.setrlimit(resource.RLIMIT_FSIZE, (9000, limits[1]))

    params = line_params([0.0] * 1000, output_dir=run, epochs=4, steps_per_execution=1)
    try:
        with pytest.raises(TfaipError, match=f"^{run}/.*/epoch_0002 cannot be written: .*[Ff]ile too large"):
            train(params, DiskFills())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert 2000 < len(batches) < 3000
    assert (checkpoints(run), latest(run), list(run.rglob(".tmp-*"))) == (["epoch_0001"], "epoch_0001", [])
    assert list(json.loads((run / "history.json").read_text())) == ["1"]
    params.samples_per_epoch = 5
    assert train(params, restore=True).epoch == 4


def test_the_line_of_a_stop_comes_after_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, seen = tmp_path / "run", []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(latest(run)) if "stopped after" in record.getMessage() else None
    monkeypatch.setattr(logging.getLogger("tfaip"), "handlers", [*logging.getLogger("tfaip").handlers, handler])
    with pytest.raises(TrainingInterrupted):
        train(params_of(run), signal_at("on_epoch_begin", 2))
    assert seen == ["epoch_0001_step_000002"]


@pytest.mark.backend
def test_the_best_model_is_that_before_the_callbacks(tmp_path: Path) -> None:
    """The model is written from the memory of the checkpoint, which has what the callback changes.

    w falls by 1 in each epoch, which is the best one so far, and the callback adds 0.25.
    """
    run = tmp_path / "run"

    def change(epoch: int, logs: Any = None) -> None:
        kernel = trainer.scenario.graph.line.kernel
        kernel.assign(kernel + 0.25)

    params = line_params([1], output_dir=run, epochs=3, export_best=True, keep_checkpoints=9)
    params.scenario.export_serve = True
    trainer = LineScenario.create_trainer(params)
    trainer.train([CallbackOf(on_epoch_end=change)])
    for epoch, best in ((1, -1.0), (2, -1.75), (3, -2.5)):
        checkpoint = run / "checkpoint" / f"epoch_{epoch:04d}"
        assert read_checkpoint(checkpoint).arrays["weights/line/kernel"].tolist() == [[best + 0.25]]
        assert load_arrays(checkpoint / "best" / "weights.safetensors")["line/kernel"].tolist() == [[best]]
        [served] = read_saved_model(checkpoint / "best" / "serve").arrays.values()
        assert served.tolist() == [[best]]
        verify_files(checkpoint / "best")


@pytest.mark.parametrize(("replaced", "after"), [(False, 1), (True, 1), (True, 0)])
def test_a_directory_that_was_removed_is_not_made_again(replaced: bool, after: int, tmp_path: Path) -> None:
    """After 0 epochs there are no event files, which are the first ones that are not written in the background."""
    run = tmp_path / "run"

    def remove(epoch: int, logs: Any) -> None:
        if epoch == after:
            run.rename(tmp_path / "elsewhere")
            if replaced:
                run.mkdir()
                (run / "mine.txt").touch()

    with pytest.raises(TfaipError, match=f"^{run} was removed or replaced while the run wrote to it: nothing more is "):
        train(line_params([1.0] * 5, output_dir=run, epochs=9, steps_per_execution=1), CallbackOf(on_epoch_end=remove))
    assert run.exists() == replaced
    assert [path.name for path in run.glob("**/*")] == ["mine.txt"] * replaced
    assert (tmp_path / "elsewhere" / "checkpoint" / "epoch_0001").is_dir() == (after == 1)
