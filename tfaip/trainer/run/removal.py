"""Removal of a run that is replaced by another one: files that a run has written, and no others."""

from __future__ import annotations

import shutil
from pathlib import Path

from tfaip.trainer.run import names
from tfaip.trainer.run.checkpoint import is_of_checkpoints
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.stagedirectories import STAGE_MARKS, StageDirectories
from tfaip.util.files import is_ours, remove_directory, remove_temporaries
from tfaip.util.logging import logger
from tfaip.util.manifest import CHECKPOINT_MARKS, MODEL_MARKS
from tfaip.util.text import shorten_text

_FILES = (names.HISTORY_FILE, names.LOG_FILE, names.PARAMS_FILE)

log = logger(__name__)


def claim(directory: RunDirectory, overwrite: bool, begins_again: bool = False) -> None:
    """Make a (locked) directory that of a new run: check it once more, then remove the existing run.

    The directory itself stays: it may be a link, a mount point or the working directory. Files
    that no run has written stay too, with a warning.

    Args:
        directory: the directory.
        overwrite: as for `RunDirectory.check_free`.
        begins_again: as for `RunDirectory.check_free`.

    Raises:
        UsageError: if it contains another run, or other files.
    """
    directory.check_free(overwrite, begins_again)
    kept = _remove_run(directory)
    if kept:
        shown = ", ".join(shorten_text(name) for name in kept[:8]) + (" ..." if kept[8:] else "")
        log.warning("kept in %s, since no run has written it: %s", directory.root, shown)


def _remove_run(directory: RunDirectory) -> list[str]:
    """Remove what a run wrote to a directory.

    A link is removed, never its target. The params file, which marks the directory of a run, is
    removed last and only if nothing else is left: a process that is killed here leaves a directory
    that can still be replaced.

    Returns:
        Names of the entries that stay, since they are, or contain, something that no run has
        written.
    """
    root = directory.root
    runs = directory.possible_runs()
    for paths in runs:
        for model in (paths.best, paths.export):
            _remove_model(model, root)
        _remove_checkpoints(paths.checkpoints, root)
        _remove_stages(paths.stages, root)
    own = {*_FILES, *(path.name for paths in runs for path in (paths.best, paths.export))}
    remove_temporaries(root, lambda name: name in own)
    for entry in root.iterdir():
        if names.EVENTS_NAME.fullmatch(entry.name):
            _remove_events(entry)
        elif entry.name in (names.HISTORY_FILE, names.LOG_FILE) or names.is_id_file(entry):
            entry.unlink()
    kept = sorted(entry.name for entry in root.iterdir() if entry.name != names.PARAMS_FILE)
    if not kept:
        directory.params_file.unlink(missing_ok=True)
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
    remove_temporaries(path, is_of_checkpoints)
    (path / names.LATEST_FILE).unlink(missing_ok=True)
    while path != root and not any(path.iterdir()):
        path.rmdir()
        path = path.parent


def _remove_events(path: Path) -> None:
    """Remove the event files and traces of a directory, and the directory if it is empty afterwards."""
    if path.is_symlink():
        path.unlink()
        return
    remove_temporaries(path, lambda name: name.startswith(names.EVENT_FILES))
    for file in path.glob(f"{names.EVENT_FILES}*"):
        if file.is_file() or file.is_symlink():
            file.unlink()
    traces = path / names.PLUGINS_DIR / "profile"
    if traces.is_dir() and not traces.is_symlink() and not traces.parent.is_symlink():
        shutil.rmtree(traces)
        if not any(traces.parent.iterdir()):
            traces.parent.rmdir()
    if not any(path.iterdir()):
        path.rmdir()
