"""Removal of a run that is replaced by another one: what a run has written, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tfaip.trainer.directory_names import (
    CHECKPOINT_NAME,
    EVENTS_NAME,
    HISTORY_FILE,
    LATEST_FILE,
    LOG_FILE,
    PARAMS_FILE,
    PLUGINS_DIR,
)
from tfaip.util.files import is_ours, remove_directory, remove_temporaries
from tfaip.util.manifest import CHECKPOINT_MARKS, MODEL_MARKS

_FILES = (HISTORY_FILE, LOG_FILE, PARAMS_FILE)
_EVENT_FILES = "events.out.tfevents."


class Places(Protocol):
    """The directories of a run that have names of their own (`RunDirectory`)."""

    @property
    def best(self) -> Path: ...
    @property
    def export(self) -> Path: ...
    @property
    def checkpoints(self) -> Path: ...


def remove_run(root: Path, names: Sequence[Places]) -> list[str]:
    """Remove what a run wrote to its directory `root`.

    A link is removed, never what it leads to. What makes the directory one of a run goes last, and stays while other
    files do: a process that is killed here leaves a directory that can still be replaced.

    Args:
        root: the directory, which stays.
        names: under which models and checkpoints may be there.

    Returns:
        the names of entries of `root` that stay, since they are, or hold, something that no run has written.
    """
    for place in names:
        for model in (place.best, place.export):
            _remove_model(model, root)
        _remove_checkpoints(place.checkpoints, root)
    own = {*_FILES, *(path.name for place in names for path in (place.best, place.export))}
    remove_temporaries(root, lambda name: name in own)
    for entry in root.iterdir():
        if EVENTS_NAME.fullmatch(entry.name):
            _remove_events(entry)
        elif entry.name in (HISTORY_FILE, LOG_FILE):
            entry.unlink()
    kept = sorted(entry.name for entry in root.iterdir() if entry.name != PARAMS_FILE)
    if not kept:
        (root / PARAMS_FILE).unlink(missing_ok=True)
    return kept


def _remove_model(path: Path, root: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif is_ours(path, MODEL_MARKS):
        remove_directory(path, root, MODEL_MARKS)


def _remove_checkpoints(path: Path, root: Path) -> None:
    """Remove checkpoints, and the directories that lead to them when these are empty then."""
    for way in reversed([path, *path.parents]):
        if way != root and way.is_relative_to(root) and way.is_symlink():
            way.unlink()
            return
    if not path.is_dir():
        return
    for entry in path.iterdir():
        if CHECKPOINT_NAME.fullmatch(entry.name) and is_ours(entry, CHECKPOINT_MARKS):
            remove_directory(entry, root, CHECKPOINT_MARKS)
    remove_temporaries(path, lambda name: name == LATEST_FILE or CHECKPOINT_NAME.fullmatch(name) is not None)
    (path / LATEST_FILE).unlink(missing_ok=True)
    while path != root and not any(path.iterdir()):
        path.rmdir()
        path = path.parent


def _remove_events(path: Path) -> None:
    """Remove the event files and traces of a directory, and itself if it is empty then."""
    if path.is_symlink():
        path.unlink()
        return
    remove_temporaries(path, lambda name: name.startswith(_EVENT_FILES))
    for file in path.glob(f"{_EVENT_FILES}*"):
        if file.is_file() or file.is_symlink():
            file.unlink()
    traces = path / PLUGINS_DIR / "profile"
    if traces.is_dir() and not traces.is_symlink() and not traces.parent.is_symlink():
        shutil.rmtree(traces)
        if not any(traces.parent.iterdir()):
            traces.parent.rmdir()
    if not any(path.iterdir()):
        path.rmdir()
