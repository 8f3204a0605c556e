"""Checkpoints: complete or not there, and the way back to a good one."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from tfaip.errors import UsageError
from tfaip.trainer.run.checkpoint import ARRAYS_FILE, STATE_FILE, Checkpoint, CheckpointStore
from tfaip.util.manifest import MANIFEST_FILE


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
    assert (tmp_path / "checkpoint" / "latest").read_text() == "epoch_0007\n"
    content = restored(store)
    assert content.state == saved.state
    assert {n: a.tobytes() for n, a in content.arrays.items()} == {n: a.tobytes() for n, a in saved.arrays.items()}
    manifest = json.loads((path / MANIFEST_FILE).read_text())
    assert set(manifest["files"]) == {ARRAYS_FILE, STATE_FILE}
    assert manifest["files"][STATE_FILE]["size"] == (path / STATE_FILE).stat().st_size
    assert (len(manifest["files"][ARRAYS_FILE]["sha256"]), set(manifest["versions"])) == (64, {"tfaip", "keras"})
    store.saving(Checkpoint({}, {"epoch": "again"}), 7)()
    assert restored(store).state == {"epoch": "again"}
    assert names(tmp_path / "checkpoint") == ["epoch_0007", "latest"]


def test_retention_keeps_the_newest_by_number_not_by_text(tmp_path: Path) -> None:
    for keep, kept in ((9, 6), (2, 2)):
        store = CheckpointStore(tmp_path / str(keep), keep=keep)
        for epoch, step in [(0, 5), (2, 0), (9999, 0), (10000, 0), (10000, 999999), (10000, 1000000)]:
            store.saving(checkpoint(epoch), epoch, step)()
        newest = ["epoch_10000_step_1000000", "epoch_10000_step_999999", "epoch_10000", "epoch_9999", "epoch_0002"]
        expected = [*newest, "epoch_0000_step_000005"][:kept]
        assert [path.name for path in store.checkpoints()] == expected
        assert names(tmp_path / str(keep)) == sorted([*expected, "latest"])


def test_a_save_that_fails_leaves_the_old_ones(store: CheckpointStore, tmp_path: Path) -> None:
    before = names(tmp_path)
    with pytest.raises(TypeError, match="not JSON serializable"):
        store.saving(Checkpoint({}, {"bad": object()}), 4)()
    assert names(tmp_path) == before
    assert (tmp_path / "latest").read_text() == "epoch_0003\n"
    assert value(restored(store)) == 3


def test_reading_changes_nothing_and_going_on_drops_newer_ones(store: CheckpointStore, tmp_path: Path) -> None:
    (tmp_path / "latest").write_text("epoch_0001\n")  # a wrong pointer is no obstacle, nor is a lost one
    assert (store.read()[0], store.read("epoch_0001")[0]) == ("epoch_0003", "epoch_0001")
    (tmp_path / "latest").unlink()
    (tmp_path / "epoch_0003" / STATE_FILE).unlink()
    assert store.read()[0] == "epoch_0002"
    assert names(tmp_path) == ["epoch_0001", "epoch_0002", "epoch_0003"]
    assert value(restored(store, "epoch_0002")) == 2
    assert names(tmp_path) == ["epoch_0001", "epoch_0002", "latest"]
    assert (tmp_path / "latest").read_text() == "epoch_0002\n"


@pytest.mark.parametrize("name", ["epoch_0002_step_000010", "epoch_latest", "elsewhere", "epoch_0002"])
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
    assert names(tmp_path) == ["epoch_0001", "epoch_0002", "latest"]


def test_leftovers_are_removed_and_other_files_are_none_of_ours(store: CheckpointStore, tmp_path: Path) -> None:
    (tmp_path / ".tmp-epoch_0004").mkdir()
    (tmp_path / ".tmp-latest").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "epoch_0009_backup").mkdir()
    assert value(restored(store)) == 3
    assert names(tmp_path) == ["epoch_0001", "epoch_0002", "epoch_0003", "epoch_0009_backup", "latest", "notes.txt"]
