"""Removal of a run that is replaced by another one: files that a run has written, and no others."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tfaip.trainer.loggers.runloggers import LOGGED_FILE
from tfaip.trainer.run import names
from tfaip.trainer.run.stagedirectories import STAGE_MARKS, StageDirectories
from tfaip.util.files import is_ours, remove_directory, remove_temporaries
from tfaip.util.manifest import CHECKPOINT_MARKS, MODEL_MARKS

_FILES = (names.HISTORY_FILE, names.LOG_FILE, names.PARAMS_FILE)
_EVENT_FILES = "events.out.tfevents."


class RunPaths(Protocol):
    """Directories of a run whose names params choose (see `RunDirectory`)."""

    @property
    def best(self) -> Path: ...
    @property
    def export(self) -> Path: ...
    @property
    def checkpoints(self) -> Path: ...
    @property
    def stages(self) -> Path: ...


def remove_run(root: Path, runs: Sequence[RunPaths]) -> list[str]:
    """Remove what a run wrote to its directory `root`.

    A link is removed, never its target. The params file, which marks the directory of a run, is
    removed last and only if nothing else is left: a process that is killed here leaves a directory
    that can still be replaced.

    Args:
        root: the directory, which stays.
        runs: possible paths of models and checkpoints.

    Returns:
        Names of the entries of `root` that stay, since they are, or contain, something that no run
        has written.
    """
    for paths in runs:
        for model in (paths.best, paths.export):
            _remove_model(model, root)
        _remove_checkpoints(paths.checkpoints, root)
        _remove_stages(paths.stages, root)
    _remove_loggers(root / names.LOGGERS_DIR, root)
    own = {*_FILES, *(path.name for paths in runs for path in (paths.best, paths.export))}
    remove_temporaries(root, lambda name: name in own)
    for entry in root.iterdir():
        if names.EVENTS_NAME.fullmatch(entry.name):
            _remove_events(entry)
        elif entry.name in (names.HISTORY_FILE, names.LOG_FILE):
            entry.unlink()
    kept = sorted(entry.name for entry in root.iterdir() if entry.name != names.PARAMS_FILE)
    if not kept:
        (root / names.PARAMS_FILE).unlink(missing_ok=True)
    return kept


def _remove_model(path: Path, root: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif is_ours(path, MODEL_MARKS):
        remove_directory(path, root, MODEL_MARKS)


def _remove_stages(path: Path, root: Path) -> None:
    """Remove the directories of stages, and the one above them if it is empty afterwards."""
    if path.is_symlink():
        path.unlink()
    if not path.is_dir():
        return
    directories = StageDirectories(root, path)
    directories.clean_up()
    directories.forget_repetition()
    for entry in path.iterdir():
        if is_ours(entry, STAGE_MARKS):
            remove_directory(entry, root, STAGE_MARKS)
    if not any(path.iterdir()):
        path.rmdir()


def _remove_loggers(path: Path, root: Path) -> None:
    """Remove the directory that loggers wrote to, other libraries' files included."""
    if path.is_symlink():
        path.unlink()
    elif is_ours(path, (LOGGED_FILE,)):
        remove_directory(path, root, (LOGGED_FILE,))


def _remove_checkpoints(path: Path, root: Path) -> None:
    """Remove checkpoints, and the directories above them that are empty afterwards."""
    for above in reversed([path, *path.parents]):
        if above != root and above.is_relative_to(root) and above.is_symlink():
            above.unlink()
            return
    if not path.is_dir():
        return
    for entry in path.iterdir():
        if names.CHECKPOINT_NAME.fullmatch(entry.name) and is_ours(entry, CHECKPOINT_MARKS):
            remove_directory(entry, root, CHECKPOINT_MARKS)
    remove_temporaries(
        path, lambda name: name == names.LATEST_FILE or names.CHECKPOINT_NAME.fullmatch(name) is not None
    )
    (path / names.LATEST_FILE).unlink(missing_ok=True)
    while path != root and not any(path.iterdir()):
        path.rmdir()
        path = path.parent


def _remove_events(path: Path) -> None:
    """Remove the event files and traces of a directory, and the directory if it is empty afterwards."""
    if path.is_symlink():
        path.unlink()
        return
    remove_temporaries(path, lambda name: name.startswith(_EVENT_FILES))
    for file in path.glob(f"{_EVENT_FILES}*"):
        if file.is_file() or file.is_symlink():
            file.unlink()
    traces = path / names.PLUGINS_DIR / "profile"
    if traces.is_dir() and not traces.is_symlink() and not traces.parent.is_symlink():
        shutil.rmtree(traces)
        if not any(traces.parent.iterdir()):
            traces.parent.rmdir()
    if not any(path.iterdir()):
        path.rmdir()
