"""Directories of the stages of a run: what each has written, its part of the history, and if it is done.

`stages/<name>/` contains `stage.json` (what the stage is), its own files, `history.json` (its epochs), `state/` (the
checkpoint at its end), and `DONE` with its result, which is written last. `stages/repeat.json` exists while a command
removes what the run repeats.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.trainer.history import History
from tfaip.trainer.run.names import DONE_FILE, HISTORY_FILE, REPEAT_FILE, STAGE_FILE, STAGE_STATE_DIR
from tfaip.util.files import commit_directory, link_tree, remove_directory, remove_temporaries, write_json, write_text
from tfaip.util.manifest import CHECKPOINT_MARKS
from tfaip.util.reading import read_bytes, read_json
from tfaip.util.text import shorten

STAGE_MARKS = (STAGE_FILE,)
_STAGE, _REPLACES = "stage", "replaces"


class StageDirectories:
    """Directories of the stages of one run.

    Args:
        root: directory of the run.
        directory: the directory that contains those of the stages.
    """

    def __init__(self, root: Path, directory: Path) -> None:
        self._root = root.absolute()
        self._directory = directory.absolute()

    def path(self, name: str) -> Path:
        """Return the directory of a stage."""
        return self._directory / name

    def state(self, name: str) -> Path:
        """Return the directory of the checkpoint at the end of a stage, which may be missing."""
        return self.path(name) / STAGE_STATE_DIR

    def records(self) -> list[dict[str, Any]]:
        """Return the records of all stages that have begun, in order; those that are done have a `result`.

        Raises:
            UsageError: if one cannot be read.
        """
        found = []
        for path in self._directory.iterdir() if self._directory.is_dir() else ():
            if (path / STAGE_FILE).is_file():
                record = read_json(path / STAGE_FILE)
                named = record.get("name") == path.name and isinstance(record.get("kind"), str)
                if type(record.get("number")) is not int or not named:
                    raise UsageError(f"{path / STAGE_FILE} has {shorten(record)}: it is damaged")
                if (path / DONE_FILE).is_file():
                    record["result"] = read_json(path / DONE_FILE)
                found.append(record)
        return sorted(found, key=lambda record: record["number"])

    def begin(self, record: Mapping[str, Any]) -> Path:
        """Create the empty directory of a stage; what a process wrote that was killed in it is removed."""
        path = self.path(record["name"])
        remove_directory(path, self._root, STAGE_MARKS)
        path.mkdir(parents=True)
        write_json(path / STAGE_FILE, dict(record))
        return path

    def finish(self, name: str, result: Mapping[str, Any]) -> None:
        """Store the result of a stage, after all that it has written is on the disk."""
        path = self.path(name)
        for root, _, files in os.walk(path):
            for file in (Path(root, name) for name in files):
                if not file.is_symlink():
                    with file.open("rb") as opened:
                        os.fsync(opened.fileno())
        write_json(path / DONE_FILE, dict(result))

    def keep_history(self, name: str, history: History) -> None:
        """Write the epochs of a stage to its directory."""
        write_text(self.path(name) / HISTORY_FILE, history.to_dict().text() + "\n")

    def keep_state(self, name: str, checkpoint: Path) -> None:
        """Keep a checkpoint as the state at the end of a stage, as links that take no space as long as it exists."""
        with commit_directory(self.state(name), CHECKPOINT_MARKS) as directory:
            link_tree(checkpoint, directory)

    def forget(self, number: int, kept: str | None = None) -> None:
        """Remove the directories of the stages that will run again: this one and those after it.

        The last one is removed first; of the stage `kept` only the result, so that its number stays known.
        """
        for record in reversed(self.records()):
            if record["number"] >= number:
                path = self.path(record["name"])
                if not path.is_symlink():  # a link is refused below: what it leads to is not the run's
                    (path / DONE_FILE).unlink(missing_ok=True)
                if record["name"] != kept:
                    remove_directory(path, self._root, STAGE_MARKS)

    def intend_repetition(self, name: str, params_file: Path, params_text: str) -> None:
        """Store that a run will be repeated from a stage, right before its params are replaced.

        With the new params the intention is valid: whatever is left to do after that, another process can do. Of a
        process that was killed before, nothing has changed.

        Args:
            name: of the stage.
            params_file: the stored params of the run.
            params_text: their new content.
        """
        before = _checksum(params_file)
        replaces = None if before == hashlib.sha256(params_text.encode()).hexdigest() else before
        self._directory.mkdir(parents=True, exist_ok=True)
        write_json(self._directory / REPEAT_FILE, {_STAGE: name, _REPLACES: replaces})

    def intended_repetition(self, params_file: Path) -> str | None:
        """Return the stage that a killed process began to repeat the run from; None: there is none."""
        path = self._directory / REPEAT_FILE
        if not path.is_file():
            return None
        stored = read_json(path)
        name, replaces = stored.get(_STAGE), stored.get(_REPLACES)
        if not isinstance(name, str) or not isinstance(replaces, str | None):
            raise UsageError(f"{path} has {shorten(stored)}: it is damaged; name the stage with --from_stage")
        return name if replaces is None or _checksum(params_file) != replaces else None

    def forget_repetition(self) -> None:
        """Remove the intention, after everything that it tells was done."""
        path = self._directory / REPEAT_FILE
        if path.is_file():
            path.unlink()
            if not any(self._directory.iterdir()):
                self._directory.rmdir()

    def clean_up(self) -> None:
        """Remove the half-written files of a killed process."""
        if self._directory.is_dir():
            remove_temporaries(self._directory, lambda name: True)
            for path in self._directory.iterdir():
                if path.is_dir() and not path.is_symlink():
                    remove_temporaries(path, lambda name: True)


def _checksum(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest() if path.is_file() else ""
