"""Directories of the stages of a run: what each has written, its part of the history, and if it is done.

`stages/<name>/` contains `stage.json` (what the stage is), its own files, `history.json` (its epochs), `state/` (the
checkpoint at its end), and `DONE`, which is written last.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tfaip.trainer.run.names import DONE_FILE, HISTORY_FILE, STAGE_FILE, STAGE_STATE_DIR
from tfaip.util.files import commit_directory, link_tree, remove_directory, remove_temporaries, write_json
from tfaip.util.manifest import CHECKPOINT_MARKS
from tfaip.util.reading import read_json

STAGE_MARKS = (STAGE_FILE,)


class StageDirectories:
    """Directories of the stages of one run.

    Args:
        root: directory of the run.
        directory: the directory that contains those of the stages.
    """

    def __init__(self, root: Path, directory: Path) -> None:
        self._root = root
        self._directory = directory

    def path(self, name: str) -> Path:
        """Return the directory of a stage."""
        return self._directory / name

    def is_done(self, name: str) -> bool:
        """Return True if a stage has ended."""
        return (self.path(name) / DONE_FILE).is_file()

    def facts(self, name: str) -> dict[str, Any]:
        """Return what a stage was when it began.

        Raises:
            UsageError: if its file cannot be read.
        """
        return read_json(self.path(name) / STAGE_FILE)

    def begin(self, name: str, facts: Mapping[str, Any]) -> Path:
        """Create the empty directory of a stage; what a process wrote that was killed in it is removed.

        Args:
            name: of the stage.
            facts: what the stage is, JSON-able.

        Raises:
            TfaipError: if there is a directory that no run has written.
        """
        path = self.path(name)
        remove_directory(path, self._root, STAGE_MARKS)
        path.mkdir(parents=True)
        write_json(path / STAGE_FILE, dict(facts))
        return path

    def finish(self, name: str, facts: Mapping[str, Any]) -> None:
        """Mark a stage as done, after all that it has written is on the disk.

        Args:
            name: of the stage.
            facts: its result, JSON-able.
        """
        path = self.path(name)
        _sync(path)
        write_json(path / DONE_FILE, dict(facts))

    def keep_history(self, name: str, history: Mapping[str, Any]) -> None:
        """Write the epochs of a stage to its directory."""
        write_json(self.path(name) / HISTORY_FILE, dict(history))

    def keep_state(self, name: str, checkpoint: Path) -> None:
        """Keep a checkpoint as the state at the end of a stage, as links that take no space as long as it exists."""
        with commit_directory(self.state(name), CHECKPOINT_MARKS) as directory:
            link_tree(checkpoint, directory)

    def state(self, name: str) -> Path:
        """Return the directory of the checkpoint at the end of a stage, which may be missing."""
        return self.path(name) / STAGE_STATE_DIR

    def forget(self, names: Iterable[str]) -> None:
        """Remove the directories of stages that will run again."""
        for name in names:
            done = self.path(name) / DONE_FILE
            done.unlink(missing_ok=True)
            remove_directory(self.path(name), self._root, STAGE_MARKS)

    def clean_up(self) -> None:
        """Remove the half-written files of a killed process."""
        if self._directory.is_dir():
            remove_temporaries(self._directory, lambda name: True)
            for path in self._directory.iterdir():
                if path.is_dir() and not path.is_symlink():
                    remove_temporaries(path, lambda name: True)


def _sync(directory: Path) -> None:
    """Write all files below a directory to the disk, so that no marker outlives them in a power failure."""
    for root, _, files in os.walk(directory):
        for name in files:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
