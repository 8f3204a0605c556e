"""Checkpoints: directories that are either complete or missing.

`<dir>/epoch_0007/` or `<dir>/epoch_0007_step_000123/` contains `state.safetensors` (arrays),
`state.json` (everything else), `manifest.json` (size and SHA-256 of both, versions), and in `best/`
links to the best model at that time. `<dir>/latest` names the newest one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.errors import TfaipError, UsageError
from tfaip.model.weights import load_arrays, save_arrays
from tfaip.trainer.history import HistoryDict
from tfaip.trainer.run.names import BEST_DIR, CHECKPOINT_NAME, LATEST_FILE, is_of_checkpoints
from tfaip.util import files
from tfaip.util.logging import logger
from tfaip.util.manifest import CHECKPOINT_MARKS, read_json_object, verify_files, write_manifest
from tfaip.util.reading import RECORDS_BYTES
from tfaip.util.text import shorten
from tfaip.version import __version__

ARRAYS_FILE = "state.safetensors"
STATE_FILE = "state.json"
WEIGHTS = "weights/"  # begins the names of the arrays of the graph

log = logger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint: named arrays and JSON-able values."""

    arrays: Mapping[str, np.ndarray]
    state: Mapping[str, Any]


class CheckpointStore:
    """Checkpoints of one run.

    Args:
        directory: their directory; created by the first save.
        keep: number of newest checkpoints that are kept when another one is saved.
        root: directory of the run, outside of which nothing is removed; None: `directory`.
    """

    def __init__(self, directory: Path, keep: int = 2, root: Path | None = None) -> None:
        self._directory = directory
        self._keep = keep
        self._root = directory if root is None else root

    def saving(self, checkpoint: Checkpoint, epoch: int, step: int = 0, best: Path | None = None) -> Callable[[], Path]:
        """Return a function that commits a checkpoint, then writes its name to `latest`, then removes old ones.

        Until it is called, only the arrays must stay as they are.

        Args:
            checkpoint: the content.
            epoch: completed epochs.
            step: trained batches of the running epoch.
            best: directory of the best model; None or missing: there is none yet.
        """
        state, name = _state_text(checkpoint), checkpoint_name(epoch, step)

        def save() -> Path:
            with files.failures_named(self._directory):
                path = self._commit(name, checkpoint.arrays, state, best)
                files.write_text(self._directory / LATEST_FILE, name + "\n")
                self._remove_old()
            return path

        return save

    def add(self, checkpoint: Checkpoint, name: str, best: Path | None = None) -> Path:
        """Commit a checkpoint under a name; see `saving`."""
        return self._commit(name, checkpoint.arrays, _state_text(checkpoint), best)

    def _commit(self, name: str, arrays: Mapping[str, np.ndarray], state: str, best: Path | None) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        # Written aside, synced and renamed: a SIGKILL within `model.save` of Keras would lose the
        # previous good file.
        with files.commit_directory(self._directory / name, CHECKPOINT_MARKS) as directory:
            known = {ARRAYS_FILE: save_arrays(directory / ARRAYS_FILE, arrays)}
            (directory / STATE_FILE).write_text(state, encoding="utf-8")
            write_manifest(directory, {"versions": {"tfaip": __version__, "keras": keras.__version__}}, known)
            if best is not None and best.exists():
                # After the manifest, which would read it all: a model has a manifest of its own. A
                # training that continues from this checkpoint must not keep the best model of an
                # abandoned epoch.
                files.link_tree(best, directory / BEST_DIR)
        return self._directory / name

    def checkpoints(self) -> list[Path]:
        """Return all checkpoints, damaged ones included, newest first; nothing that merely has the name of one."""
        if not self._directory.is_dir():
            return []
        named = [entry for entry in self._directory.iterdir() if CHECKPOINT_NAME.fullmatch(entry.name)]
        found = [entry for entry in named if files.is_ours(entry, CHECKPOINT_MARKS) and any(entry.iterdir())]
        return sorted(found, key=_sort_key, reverse=True)

    def newest(self) -> Path | None:
        """Return the newest checkpoint, or None."""
        return next(iter(self.checkpoints()), None)

    def read(self, name: str | None = None) -> tuple[str, Checkpoint]:
        """Read the newest undamaged checkpoint, or the one called `name`; change nothing.

        Damaged ones are passed over with a warning, unless one is given by name.

        Returns:
            Name and content.

        Raises:
            UsageError: if there is none, or `name` is damaged or contains no epoch.
        """
        if name is None:
            found, count = self.read_newest(), len(self.checkpoints())
            if found is None:
                state = f"all {count} checkpoints in {self._directory} are damaged"
                raise UsageError(f"{state if count else f'no checkpoint in {self._directory}'}: nothing to resume")
            return found
        try:
            checkpoint = read_checkpoint(self._directory / name)
        except TfaipError as error:
            raise UsageError(f"checkpoint {name} cannot be used: {error}") from error
        if not CHECKPOINT_NAME.fullmatch(name):
            # A copy under another name: nothing tells which checkpoints are newer, and must go.
            raise UsageError(
                f"checkpoint {shorten(name)} cannot be used: its name tells no epoch; rename it as it was (epoch_0007)"
            )
        return name, checkpoint

    def read_newest(self) -> tuple[str, Checkpoint] | None:
        """Read the newest undamaged checkpoint; damaged ones are passed over with a warning. None: there is none."""
        for path in self.checkpoints():
            try:
                return path.name, read_checkpoint(path)
            except TfaipError as error:
                log.warning("damaged checkpoint passed over: %s", error)
        return None

    def continue_from(self, name: str) -> None:
        """Remove checkpoints that are newer than `name`, and what a killed process did not remove itself."""
        files.remove_temporaries(self._directory, is_of_checkpoints)
        files.write_text(self._directory / LATEST_FILE, name + "\n")
        for newer in self.checkpoints():
            if _sort_key(newer) > _sort_key(Path(name)):
                files.remove_directory(newer, self._root, CHECKPOINT_MARKS)
        self._remove_old()

    def _remove_old(self) -> None:
        for old in self.checkpoints()[self._keep :]:
            files.remove_directory(old, self._root, CHECKPOINT_MARKS)


def checkpoint_name(epoch: int, step: int = 0) -> str:
    """Return the name of a checkpoint after a number of epochs, and of batches of the next one."""
    return f"epoch_{epoch:04d}" + (f"_step_{step:06d}" if step else "")


def _state_text(checkpoint: Checkpoint) -> str:
    history = checkpoint.state.get("history")
    if not isinstance(history, HistoryDict):
        return json.dumps(checkpoint.state, indent=1)
    others = {name: value for name, value in checkpoint.state.items() if name != "history"}
    return json.dumps(others, indent=1).removesuffix("\n}") + f',\n "history": {history.text()}\n}}'


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify a checkpoint directory.

    Raises:
        TfaipError: if a file is missing or differs from the manifest; the message names it.
    """
    verify_files(path, (ARRAYS_FILE, STATE_FILE))
    return Checkpoint(load_arrays(path / ARRAYS_FILE), read_json_object(path / STATE_FILE, RECORDS_BYTES))


def _sort_key(path: Path) -> tuple[int, int]:
    match = CHECKPOINT_NAME.fullmatch(path.name)
    return (int(match[1]), int(match[2] or 0)) if match else (-1, -1)
