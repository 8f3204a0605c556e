"""Checkpoints are complete or not there; signals stop a training at the next border, and it continues exactly there."""

import json
import logging
import os
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.support.commands import finish_command, start_python
from test.support.runs import checkpoints, latest
from test.trainer.line import CallbackOf, LineScenario, LineTrainerParams, line_params, train
from tfaip.device.devices import Devices
from tfaip.errors import TfaipError, UsageError
from tfaip.export.savedmodelvariables import read_saved_model
from tfaip.model.weights import HostBuffer, load_arrays
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.output import ARRAYS_FILE, STATE_FILE, Checkpoint, CheckpointStore, RunOutput, read_checkpoint
from tfaip.trainer.signals import StopRequest, TrainingInterrupted
from tfaip.util.manifest import MANIFEST_FILE, verify_files


def checkpoint(number: int) -> Checkpoint:
    return Checkpoint({"weights/w": np.full((2, 3), number, np.float32)}, {"epoch": number, "history": {}})


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def value(restored: Checkpoint) -> int:
    assert restored.state["epoch"] == restored.arrays["weights/w"][0, 0]
    return restored.state["epoch"]


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    """A store in `tmp_path` that keeps 3, with the epochs 1 to 3."""
    store = CheckpointStore(tmp_path, keep=3)
    for epoch in (1, 2, 3):
        store.saving(checkpoint(epoch), epoch)()
    return store


def restored(store: CheckpointStore, name: str | None = None) -> Checkpoint:
    """Read a checkpoint and go on from it."""
    found, content = store.read(name)
    store.continue_from(found)
    return content


@pytest.mark.backend
def test_save_restore_and_replace(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoint")
    saved = Checkpoint({"a": np.array([1.5, -0.0]), "n": np.array(7)}, {"text": "ä", "none": None, "list": [1, 2]})
    path = store.saving(saved, epoch=7)()
    assert path == tmp_path / "checkpoint" / "epoch_0007"
    assert names(path) == sorted([ARRAYS_FILE, STATE_FILE, MANIFEST_FILE])
    content = restored(store)
    assert content.state == saved.state
    assert {n: a.tobytes() for n, a in content.arrays.items()} == {n: a.tobytes() for n, a in saved.arrays.items()}
    manifest = json.loads((path / MANIFEST_FILE).read_text())
    assert set(manifest["files"]) == {ARRAYS_FILE, STATE_FILE}
    assert manifest["files"][STATE_FILE]["size"] == (path / STATE_FILE).stat().st_size
    assert (len(manifest["files"][ARRAYS_FILE]["sha256"]), set(manifest["versions"])) == (64, {"tfaip", "keras"})
    store.saving(Checkpoint({}, {"epoch": "again"}), 7)()
    assert restored(store).state == {"epoch": "again"}
    assert names(tmp_path / "checkpoint") == ["epoch_0007"]


def test_retention_keeps_the_newest_by_number_not_by_text(tmp_path: Path) -> None:
    for keep, kept in ((9, 6), (2, 2)):
        store = CheckpointStore(tmp_path / str(keep), keep=keep)
        for epoch, step in [(0, 5), (2, 0), (9999, 0), (10000, 0), (10000, 999999), (10000, 1000000)]:
            store.saving(checkpoint(epoch), epoch, step)()
        newest = ["epoch_10000_step_1000000", "epoch_10000_step_999999", "epoch_10000", "epoch_9999", "epoch_0002"]
        expected = [*newest, "epoch_0000_step_000005"][:kept]
        assert [path.name for path in store.checkpoints()] == expected
        assert names(tmp_path / str(keep)) == sorted(expected)


def test_reading_changes_nothing_and_going_on_drops_newer_ones(store: CheckpointStore, tmp_path: Path) -> None:
    assert (store.read()[0], store.read("epoch_0001")[0]) == ("epoch_0003", "epoch_0001")
    (tmp_path / "epoch_0003" / STATE_FILE).unlink()
    assert store.read()[0] == "epoch_0002"
    assert names(tmp_path) == ["epoch_0001", "epoch_0002", "epoch_0003"]
    assert value(restored(store, "epoch_0002")) == 2
    assert names(tmp_path) == ["epoch_0001", "epoch_0002"]


@pytest.mark.parametrize("name", ["epoch_0002_step_000010", "elsewhere", "epoch_0002"])
def test_a_name_that_is_unknown_or_damaged(name: str, store: CheckpointStore, tmp_path: Path) -> None:
    (tmp_path / "epoch_0002" / STATE_FILE).unlink()
    before = names(tmp_path)
    reason = f"{STATE_FILE} is missing" if name == "epoch_0002" else MANIFEST_FILE
    with pytest.raises(UsageError, match=f"checkpoint {name} cannot be used: .*{reason}"):
        store.read(name)
    assert names(tmp_path) == before


@pytest.mark.parametrize("damaged", [ARRAYS_FILE, STATE_FILE, MANIFEST_FILE])
@pytest.mark.parametrize("how", ["missing", "cut", "changed"])
def test_damage_falls_back_to_the_one_before(damaged, how, store, tmp_path, caplog):
    path = tmp_path / "epoch_0003" / damaged
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        changed = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
        path.write_bytes(changed if how == "changed" else content[: len(content) // 2])
    if damaged == MANIFEST_FILE and how == "changed":
        # A byte of the version: what the manifest says of the files is still true.
        assert value(restored(store)) == 3
        return
    with caplog.at_level(logging.WARNING, logger="tfaip"):
        assert value(restored(store)) == 2
    (message,) = caplog.messages
    assert message.startswith("damaged checkpoint passed over: ")
    assert str(tmp_path / "epoch_0003") in message
    assert damaged in message or damaged == MANIFEST_FILE
    # The run goes on from epoch 2, and writes its own epoch 3.
    assert names(tmp_path) == ["epoch_0001", "epoch_0002"]


def test_leftovers_are_removed_and_other_files_are_none_of_ours(store: CheckpointStore, tmp_path: Path) -> None:
    (tmp_path / ".tmp-epoch_0004").mkdir()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "epoch_0009_backup").mkdir()
    assert value(restored(store)) == 3
    assert names(tmp_path) == ["epoch_0001", "epoch_0002", "epoch_0003", "epoch_0009_backup", "notes.txt"]


TIMEOUT_S = 60


class HeldArrays(dict[str, np.ndarray]):
    """Arrays that cannot be read before an event."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__(w=np.ones(3, np.float32))
        self.event = event

    def __iter__(self) -> Iterator[str]:
        assert self.event.wait(TIMEOUT_S)
        return super().__iter__()


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
        assert not list(tmp_path.glob("checkpoint/epoch_*"))
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

    def fill(epoch: int, logs: Any = None) -> None:
        if epoch == 1:  # no file may be longer than 9000 bytes: the state of a checkpoint is
            resource.setrlimit(resource.RLIMIT_FSIZE, (9000, limits[1]))

    params = line_params([0.0] * 1000, output_dir=run, epochs=4, steps_per_execution=1)
    count = CallbackOf(on_train_batch_end=lambda batch, logs=None: batches.append(batch), on_epoch_end=fill)
    try:
        with pytest.raises(TfaipError, match=f"^{run}/.*/epoch_0002 cannot be written: .*[Ff]ile too large"):
            train(params, count)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert 2000 < len(batches) < 3000
    assert (checkpoints(run), latest(run), list(run.rglob(".tmp-*"))) == (["epoch_0001"], "epoch_0001", [])
    assert list(json.loads((run / "history.json").read_text())) == ["1"]
    params.samples_per_epoch = 5
    assert train(params, restore=True).epoch == 4


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


@pytest.mark.parametrize("replaced", [False, True])
def test_a_directory_that_was_removed_is_not_made_again(replaced: bool, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def remove(epoch: int, logs: Any) -> None:
        if epoch == 1:
            run.rename(tmp_path / "elsewhere")
            if replaced:
                run.mkdir()
                (run / "mine.txt").touch()

    with pytest.raises(TfaipError, match=f"^{run} was removed or replaced while the run wrote to it: nothing more is "):
        train(line_params([1.0] * 5, output_dir=run, epochs=9, steps_per_execution=1), CallbackOf(on_epoch_end=remove))
    assert run.exists() == replaced
    assert [path.name for path in run.glob("**/*")] == ["mine.txt"] * replaced
    assert (tmp_path / "elsewhere" / "checkpoint" / "epoch_0001").is_dir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_the_first_signal_is_a_flag(number: signal.Signals) -> None:
    stop = StopRequest(Devices(), "SIGUSR1")
    for _ in range(2):  # it can be used again, and handlers come back after an error
        with pytest.raises(ZeroDivisionError), stop:  # noqa: PT012
            assert stop.received is None
            # That of a scheduler only asks, however often it comes.
            for sent in (number, signal.SIGUSR1, signal.SIGUSR1):
                os.kill(os.getpid(), sent)
                assert stop.received is number
            raise ZeroDivisionError


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            for number, received in ((signal.SIGINT, None), (signal.SIGTERM, signal.SIGTERM)):
                os.kill(os.getpid(), number)
                assert stop.received is received
    finally:
        assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN


@pytest.mark.slow
def test_an_uncaught_stop_has_an_exit_code_and_no_traceback() -> None:
    codes = [TrainingInterrupted(number).exit_code for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    assert codes == [130, 143, 138]
    for kind in (Exception, TfaipError, SystemExit):  # an ordinary exception for who catches it
        with pytest.raises(kind, match="training stopped by SIGINT"):
            raise TrainingInterrupted(signal.SIGINT)
    script = "import signal, tfaip.trainer.signals as s; raise s.TrainingInterrupted(signal.SIGTERM)"
    result = finish_command(start_python("-c", script))
    assert (result.rc, result.stdout, "Traceback" in result.stderr) == (143, "", False)


def signal_at(method: str, count: int) -> keras.callbacks.Callback:
    """Send SIGTERM in the n-th call of a method."""
    left = iter(range(count, 0, -1))

    def call(*_: Any, **__: Any) -> None:
        if next(left, 0) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    return CallbackOf(**{method: call})


def params_of(output_dir: Path) -> LineTrainerParams:
    params = line_params([1, 2, 3, 4, 5], [1, 2, 3], output_dir, lr=0.25, epochs=3, steps_per_execution=2)
    params.scenario.model.loss = "square"
    params.scenario.model.start = 1.0
    params.gen.setup.train.shuffle_buffer_size = -1
    params.gen.train.y = [0.5, -0.5, 0.25, 0.0, 1.0]
    params.optimizer.clip_value = 1.0
    return params


def finished(output_dir: Path) -> Any:
    """What a finished run has in its last checkpoint and its history."""
    checkpoint = read_checkpoint(output_dir / "checkpoint" / "epoch_0003")
    arrays = {name: array.tobytes() for name, array in checkpoint.arrays.items()}
    state = {key: checkpoint.state[key] for key in ("epoch", "step", "position", "random")}
    history = json.loads((output_dir / "history.json").read_text())
    return arrays, state, [(epoch["lr"], epoch["values"], epoch["meta"]["updates"]) for epoch in history.values()]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("uninterrupted") / "run"
    train(params_of(directory))
    return finished(directory)


@pytest.mark.guard
@pytest.mark.parametrize(
    ("method", "count", "checkpoint"),
    [
        pytest.param("on_train_batch_end", 5, "epoch_0001_step_000004", marks=pytest.mark.backend),
        # The validation ends at its first border; it is done anew.
        ("on_train_batch_end", 3, "epoch_0000_step_000005"),
        pytest.param("on_test_batch_end", 1, "epoch_0000_step_000005", marks=pytest.mark.backend),
        ("on_epoch_begin", 1, "epoch_0000_step_000002"),
        ("on_epoch_end", 3, "epoch_0003"),
    ],
)
def test_a_stopped_training_goes_on_exactly(method, count, checkpoint, uninterrupted, tmp_path, caplog):
    with caplog.at_level("INFO", logger="tfaip"), pytest.raises(TrainingInterrupted, match="stopped by SIGTERM"):
        train(params_of(tmp_path / "run"), signal_at(method, count))
    assert latest(tmp_path / "run") == checkpoint
    assert any("SIGTERM: stopped after" in m and "tfaip-resume-training" in m for m in caplog.messages)
    train(params_of(tmp_path / "run"), restore=True)
    assert finished(tmp_path / "run") == uninterrupted


@pytest.mark.slow
def test_checkpoints_by_their_age(tmp_path: Path, uninterrupted: Any) -> None:
    """Those of 1e-9 s are due at each border of two batches."""
    params = params_of(tmp_path / "run")
    params.checkpoint_every_s, params.keep_checkpoints = 1e-9, 99
    train(params)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoint").glob("epoch_0000*"))
    assert names == ["epoch_0000_step_000002", "epoch_0000_step_000004"]
    train(params_of(tmp_path / "run"), restore=True, checkpoint="epoch_0000_step_000002")
    assert finished(tmp_path / "run") == uninterrupted
