"""Checkpoints: directories that are complete or not there.

`<dir>/epoch_0007/` or `<dir>/epoch_0007_step_000123/` holds `state.safetensors` (arrays), `state.json` (everything
else) and `manifest.json` (size and SHA-256 of both, versions), and in `best/` what was the best model then, which takes
no space while it is. `<dir>/latest` names the newest one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip import __version__
from tfaip.errors import TfaipError, UsageError
from tfaip.model.weights import load_arrays, save_arrays
from tfaip.util.files import commit_directory, link_tree, remove_directory, remove_temporaries, write_text
from tfaip.util.logging import logger
from tfaip.util.manifest import read_json_object, verify_files, write_manifest
from tfaip.util.reading import RECORDS_BYTES

ARRAYS_FILE = "state.safetensors"
STATE_FILE = "state.json"
LATEST_FILE = "latest"
BEST_DIR = "best"
_NAME = re.compile(r"epoch_(\d{4,})(?:_step_(\d{6,}))?")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint: named arrays and JSON-able values."""

    arrays: Mapping[str, np.ndarray]
    state: Mapping[str, Any]


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        directory: where they lie; created by the first save.
        keep: number of newest checkpoints that `save` keeps.
    """

    def __init__(self, directory: Path, keep: int = 2) -> None:
        self._directory = directory
        self._keep = keep

    def save(self, checkpoint: Checkpoint, epoch: int, step: int = 0, best: Path | None = None) -> Path:
        """Commit a checkpoint, then let `latest` name it, then remove old ones.

        Args:
            checkpoint: the content.
            epoch: completed epochs.
            step: batches of the epoch that is running.
            best: directory of the best model; None, or not there: there is none yet.
        """
        name = f"epoch_{epoch:04d}" + (f"_step_{step:06d}" if step else "")
        self._directory.mkdir(parents=True, exist_ok=True)
        with commit_directory(self._directory / name) as directory:
            save_arrays(directory / ARRAYS_FILE, checkpoint.arrays)
            (directory / STATE_FILE).write_text(json.dumps(checkpoint.state, indent=1), encoding="utf-8")
            write_manifest(directory, {"versions": {"tfaip": __version__, "keras": keras.__version__}})
            if best is not None and best.exists():
                # Behind the manifest, which would read it all: a model has a manifest of its own.
                link_tree(best, directory / BEST_DIR)
        write_text(self._directory / LATEST_FILE, name + "\n")
        for old in self.checkpoints()[self._keep :]:
            remove_directory(old)
        return self._directory / name

    def checkpoints(self) -> list[Path]:
        """All checkpoints, newest first."""
        if not self._directory.is_dir():
            return []
        found = [entry for entry in self._directory.iterdir() if _NAME.fullmatch(entry.name)]
        return sorted(found, key=_sort_key, reverse=True)

    def read(self, name: str | None = None) -> tuple[str, Checkpoint]:
        """The newest undamaged checkpoint, or the one called `name`. Changes nothing.

        Damaged ones are passed over with a warning that names the file, unless one is asked for by name.

        Returns:
            name and content.

        Raises:
            UsageError: there is none, or `name` is damaged.
        """
        if name is not None:
            try:
                return name, read_checkpoint(self._directory / name)
            except TfaipError as error:
                raise UsageError(f"checkpoint {name} cannot be used: {error}") from error
        candidates = self.checkpoints()
        if not candidates:
            raise UsageError(f"no checkpoint in {self._directory}: nothing to resume")
        for path in candidates:
            try:
                return path.name, read_checkpoint(path)
            except TfaipError as error:
                logger(__name__).warning("damaged checkpoint passed over: %s", error)
        raise UsageError(f"all {len(candidates)} checkpoints in {self._directory} are damaged: nothing to resume")

    def best_of(self, name: str) -> Path | None:
        """What was the best model when the checkpoint `name` was written; None: it knows none."""
        path = self._directory / name / BEST_DIR
        return path if path.is_dir() else None

    def continue_from(self, name: str) -> None:
        """Remove what is newer than the checkpoint `name`, and what a killed process left behind."""
        remove_temporaries(self._directory)
        write_text(self._directory / LATEST_FILE, name + "\n")
        for newer in self.checkpoints():
            if _sort_key(newer) > _sort_key(Path(name)):
                remove_directory(newer)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify a checkpoint directory.

    Raises:
        TfaipError: a file is missing or differs from the manifest; the message names it.
    """
    verify_files(path, (ARRAYS_FILE, STATE_FILE))
    return Checkpoint(load_arrays(path / ARRAYS_FILE), read_json_object(path / STATE_FILE, RECORDS_BYTES))


def _sort_key(path: Path) -> tuple[int, int]:
    match = _NAME.fullmatch(path.name)
    return (int(match[1]), int(match[2] or 0)) if match else (-1, -1)
