"""Directory of a run: its paths, and the checks before it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from tfaip.components.formermodel import is_model
from tfaip.errors import TfaipError, UsageError
from tfaip.export.modeldirectory import ModelDirectory
from tfaip.params.fields import FieldAdvice
from tfaip.trainer.run import names
from tfaip.trainer.run.stagedirectories import STAGE_MARKS, StageDirectories
from tfaip.util.files import TEMPORARY_PREFIX, final_name, is_ours, locked_directory, remove_entry, remove_temporaries
from tfaip.util.manifest import CHECKPOINT_MARKS, MODEL_MARKS, read_json_object
from tfaip.util.paths import path_problem
from tfaip.util.text import shorten, shorten_text


@dataclass(frozen=True)
class RunDirectory:
    """Paths below `trainer.output_dir`, and the checks before it is used.

    Raises:
        UsageError: if a name leads out of the directory, is used twice or is reserved.
    """

    root: Path
    checkpoint_sub_dir: str = names.CHECKPOINT_DIR
    best_model_name: str = names.BEST_DIR

    def __post_init__(self) -> None:
        problem = path_problem(self.root)
        if problem is not None:
            raise UsageError(f"{shorten(str(self.root))} is not a directory of a run: the path {problem}")
        names.check_directory_names(self.checkpoint_sub_dir, self.best_model_name)

    @classmethod
    def stored(cls, root: Path) -> RunDirectory:
        """Return the directory of an existing run, with the names in its params file if these are usable.

        For readers of a run that do not need its params, which perhaps cannot be loaded.
        """
        try:
            content = read_json_object(root / names.PARAMS_FILE)
            group = content.get("early_stopping")
            best = group.get("best_model_name", names.BEST_DIR) if isinstance(group, dict) else names.BEST_DIR
            return cls(root, content.get("checkpoint_sub_dir", names.CHECKPOINT_DIR), best)
        except TfaipError:
            return cls(root)

    @property
    def params_file(self) -> Path:
        """File of the resolved trainer params."""
        return self.root / names.PARAMS_FILE

    @property
    def history_file(self) -> Path:
        """File of the history of epochs."""
        return self.root / names.HISTORY_FILE

    @property
    def log_file(self) -> Path:
        """File of the log."""
        return self.root / names.LOG_FILE

    @property
    def checkpoints(self) -> Path:
        """Directory of the checkpoints."""
        return self.root.joinpath(*names.checkpoint_parts(self.checkpoint_sub_dir))

    @property
    def best(self) -> Path:
        """Directory of the best model so far."""
        return self.root / self.best_model_name

    @property
    def export(self) -> Path:
        """Directory of the final model."""
        return self.root / names.EXPORT_DIR

    @property
    def stages(self) -> Path:
        """Directory that contains those of the stages."""
        return self.root / names.STAGES_DIR

    def stage_directories(self) -> StageDirectories:
        """Return the directories of the stages."""
        return StageDirectories(self.root, self.stages)

    def events(self, name: str) -> Path:
        """Return the directory of the TensorBoard events of one kind of data, e.g. `train`."""
        return self.root / name

    def possible_runs(self) -> list[RunDirectory]:
        """Return the paths that an existing run may have: flags may have changed their names."""
        return [self, RunDirectory.stored(self.root), RunDirectory(self.root)]

    def check_free(self, overwrite: bool, begins_again: bool = False) -> None:
        """Raise unless a new run may use the directory; change nothing.

        A run that ended before its first checkpoint, model or epoch is no obstacle: there is
        nothing to continue, and nothing to lose.

        Args:
            overwrite: True if an existing run may be replaced.
            begins_again: True if one may be replaced that `may_begin_again`.

        Raises:
            UsageError: if it contains another run, or other files.
        """
        # The first file that a run writes may be there half-written, by a run that was killed.
        # A log alone is that of a start that failed.
        begun = {TEMPORARY_PREFIX + names.PARAMS_FILE, names.LOG_FILE}
        if not self.root.exists() or (self.root.is_dir() and all(e.name in begun for e in self.root.iterdir())):
            return
        shown = shorten_text(str(self.root), 160)
        if not self.params_file.exists():
            # Only a run may be replaced: a mistyped path must never cost a user other files.
            raise FieldAdvice(
                f"{shown} exists and is not the directory of a run: choose a new or empty {{output_dir}}", "output_dir"
            )
        is_replaced = overwrite or (begins_again and self.may_begin_again())
        if not is_replaced and not self._is_without_result():
            raise FieldAdvice(
                f"{shown} holds another run: choose another {{output_dir}}, continue that run with "
                f"'tfaip-resume-training {shown}', or replace it with --overwrite",
                "output_dir",
            )
        self._check_paths()
        for path in self.foreign_entries():
            if overwrite or path.parent != self.root:
                raise FieldAdvice(
                    f"{shorten_text(str(path), 160)} is not what a run writes: move it away, or choose another "
                    "{output_dir}",
                    "output_dir",
                )

    def claim(self, overwrite: bool, begins_again: bool = False) -> None:
        """Make the (locked) directory that of a new run: check it once more, then remove the existing run.

        The directory itself stays: it may be a link, a mount point or the working directory. The params file, which
        marks the directory of a run, is removed last: a process that is killed here leaves a directory that can still
        be replaced.

        Args:
            overwrite: as for `check_free`.
            begins_again: as for `check_free`.

        Raises:
            UsageError: if it contains another run, or other files.
            TfaipError: if something cannot be removed.
        """
        self.check_free(overwrite, begins_again)
        if not self.root.exists():
            return
        others = set(self.foreign_entries())
        for entry in sorted(self.root.iterdir()):
            if entry not in others and entry != self.params_file:
                remove_entry(entry)
        if not others:
            self.params_file.unlink(missing_ok=True)

    def foreign_entries(self) -> Iterator[Path]:
        """Yield what is in the directory of a run, at the places where it writes, and no run has written."""
        runs = self.possible_runs()
        checkpoints = {run.checkpoints for run in runs}
        models = {self.export, *(run.best for run in runs)}
        files = {self.params_file, self.history_file, self.log_file}
        own = {path.name for path in {*models, *files, self.stages}}
        own |= {path.relative_to(self.root).parts[0] for path in checkpoints}
        for entry in sorted(self.root.iterdir()):
            name = final_name(entry)
            if names.is_id_file(entry):
                continue
            if name not in own and not names.EVENTS_NAME.fullmatch(name):
                yield entry
            elif entry.is_symlink() or name != entry.name:
                continue  # a link is removed, not what it leads to; a temporary one is that of a killed process
            elif entry in models and is_ours(entry, MODEL_MARKS):
                yield from (entry / added for added in ModelDirectory.at(entry).foreign_entries())
            elif entry in files or entry in models or not entry.is_dir():
                if entry not in files or not entry.is_file():
                    yield entry
            elif entry == self.stages:
                yield from (path for path in sorted(entry.iterdir()) if not _is_of_stages(path))
            elif names.EVENTS_NAME.fullmatch(name):
                yield from (path for path in sorted(entry.rglob("*")) if not _is_of_events(path, entry))
            else:
                yield from _foreign_checkpoints(entry, checkpoints)

    def may_begin_again(self) -> bool:
        """Return True if the directory contains a run whose first checkpoint is missing, and no epoch of it.

        A best model and TensorBoard events that are there belong to the epoch that was not completed: only then the
        history is there too, and empty. Links may lead to results that cannot be read now.
        """
        if not self.params_file.exists():
            return False
        runs = self.possible_runs()
        if any(path.is_symlink() for run in runs for path in run._paths()):
            return False
        if self._is_without_result():
            return True
        is_any_stage_done = self.stages.is_dir() and any(self.stages.glob(f"*/{names.DONE_FILE}"))
        if self.export.exists() or is_any_stage_done or any(run._checkpoints_begun() for run in runs):
            return False
        return self.history_file.exists() and self._is_history_empty()

    def _checkpoints_begun(self) -> bool:
        return self.checkpoints.exists() and not self._holds_leftovers_only(
            self.root / names.checkpoint_parts(self.checkpoint_sub_dir)[0]
        )

    def _is_history_empty(self) -> bool:
        """Return True unless the history file has an epoch, or something else."""
        if not self.history_file.exists():
            return True
        try:
            return read_json_object(self.history_file) == {}
        except TfaipError:
            return False

    def _is_without_result(self) -> bool:
        """Return True if the directory contains only a run without checkpoint, model and values of an epoch."""
        written_first = {names.PARAMS_FILE, names.LOG_FILE, names.HISTORY_FILE}
        for entry in self.root.iterdir():
            is_first = final_name(entry) in written_first or names.is_id_file(entry)
            if not is_first and not self._holds_leftovers_only(entry):
                return False
        return self._is_history_empty()

    def _holds_leftovers_only(self, entry: Path) -> bool:
        """Return True if `entry` leads to the checkpoints, and the only one is half-written."""
        if entry.is_symlink() or not entry.is_dir() or not self.checkpoints.is_relative_to(entry):
            return False
        for path in entry.rglob("*"):
            leads_there = self.checkpoints.is_relative_to(path) and not path.is_symlink()
            is_unfinished = any(part.startswith(TEMPORARY_PREFIX) for part in path.relative_to(entry).parts)
            if not leads_there and not is_unfinished:
                return False
        return True

    def check_resumable(self) -> None:
        """Raise unless all paths that a continued run writes to are within the directory, and free or its own.

        Raises:
            UsageError: if one is a link, or something that no run has written.
        """
        if not self.root.is_dir():
            return
        for path in self._paths():
            if path.is_symlink():
                raise UsageError(
                    f"{shorten_text(str(path), 160)} is a link: a run writes within its own directory only; put there "
                    "what it leads to"
                )
        self._check_paths()

    def _paths(self) -> list[Path]:
        """Return the paths that a run writes to and that may exist already."""
        parts = self.checkpoints.relative_to(self.root).parts
        directories = [self.root.joinpath(*parts[: depth + 1]) for depth in range(len(parts))]
        files = [self.params_file, self.history_file, self.log_file]
        return [*files, self.best, self.export, self.stages, *directories, *self._event_directories()]

    def _event_directories(self) -> list[Path]:
        return [path for path in self.root.iterdir() if names.EVENTS_NAME.fullmatch(path.name)]

    def _check_paths(self) -> None:
        """Raise if one of the paths is something that no run has written; links do not count."""
        for path in self._paths():
            if path.is_symlink() or not path.exists():
                continue
            if path in (self.params_file, self.history_file, self.log_file):
                fits, kind = path.is_file(), "file"
            elif path in (self.best, self.export):
                fits, kind = is_ours(path, MODEL_MARKS), "exported model"
            else:
                fits, kind = path.is_dir(), "directory"
            if not fits:
                raise _in_the_way(path, kind)
            if names.EVENTS_NAME.fullmatch(path.name):
                _require_no_links(path / names.PLUGINS_DIR)
        if self.checkpoints.is_dir() and not self.checkpoints.is_symlink():
            self._check_checkpoints()

    def _check_checkpoints(self) -> None:
        latest = self.checkpoints / names.LATEST_FILE
        if latest.exists() and not latest.is_file():
            raise _in_the_way(latest, "file")
        for path in self.checkpoints.iterdir():
            if names.CHECKPOINT_NAME.fullmatch(path.name) and not is_ours(path, CHECKPOINT_MARKS):
                raise _in_the_way(path, "checkpoint")

    def identity(self) -> tuple[int, int] | None:
        """Return device and number of the directory, which another one of its name has not; None: it is missing."""
        try:
            status = self.root.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Create the directory and lock it for this process; the lock also ends when the process dies.

        Raises:
            UsageError: if another process trains in it, or it cannot be created.
        """
        shown = shorten_text(str(self.root), 160)
        with contextlib.ExitStack() as stack:
            try:
                self.root.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked_directory(self.root))
            except BlockingIOError as error:
                raise FieldAdvice(
                    f"another process trains in {shown}: choose another {{output_dir}}", "output_dir"
                ) from error
            except OSError as error:
                raise UsageError(f"cannot create the output directory {shown}: {error.strerror}") from error
            yield

    def clean_up(self) -> None:
        """Remove the half-written files of a killed process."""
        own = {names.PARAMS_FILE, names.HISTORY_FILE, names.EXPORT_DIR, self.best.name}
        remove_temporaries(self.root, lambda name: name in own)
        for path in self._event_directories():
            if path.is_dir() and not path.is_symlink():
                remove_temporaries(path, lambda name: name.startswith(names.EVENT_FILES))
        self.stage_directories().clean_up()


def _is_of_stages(path: Path) -> bool:
    if path.name == names.REPEAT_FILE or path.name.startswith(TEMPORARY_PREFIX) or is_ours(path, STAGE_MARKS):
        return True
    if path.is_symlink() or not path.is_dir():
        return False
    # A process was killed before the mark had its name.
    return all(final_name(entry) in STAGE_MARKS for entry in path.iterdir())


def _is_of_events(path: Path, events: Path) -> bool:
    parts = path.relative_to(events).parts
    if parts[0] == names.PLUGINS_DIR:
        return len(parts) == 1 or parts[1] == "profile"
    return len(parts) == 1 and final_name(path).startswith(names.EVENT_FILES) and not path.is_dir()


def _foreign_checkpoints(directory: Path, checkpoints: Collection[Path]) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if any(found.is_relative_to(path) for found in checkpoints):
            if path.is_dir() and not path.is_symlink():
                yield from _foreign_checkpoints(path, checkpoints)
            elif not path.is_symlink():
                yield path
        elif directory not in checkpoints or not _is_of_checkpoints(path):
            yield path


def _is_of_checkpoints(path: Path) -> bool:
    if not names.is_of_checkpoints(final_name(path)):
        return False
    if path.name == names.LATEST_FILE:
        return not path.is_dir()
    return path.name != final_name(path) or is_ours(path, CHECKPOINT_MARKS)


def _in_the_way(path: Path, kind: str) -> UsageError:
    return UsageError(f"{shorten_text(str(path), 160)} is in the way: it is no {kind} of a run; move it away")


def _require_no_links(traces: Path) -> None:
    """Raise a `UsageError` if a directory of traces, to which other libraries write, is or contains a link."""
    for path in (traces, *traces.rglob("*")):
        if path.is_symlink():
            raise UsageError(
                f"{shorten_text(str(path), 160)} is a link: a run writes within its own directory only; move it away"
            )


def model_of_run(root: Path) -> Path | None:
    """Return the best model of a run, else its final one, or None.

    Args:
        root: directory of the run.
    """
    run = RunDirectory.stored(root)
    for model in (run.best, run.export):
        if is_model(model):
            return model
    return None


def find_run(path: Path) -> tuple[Path, str | None]:
    """Find the run of a path: its directory, its directory of checkpoints, or one checkpoint.

    Returns:
        The directory of the run, and the name of the checkpoint if `path` is one.

    Raises:
        UsageError: if there is no run.
    """
    problem = path_problem(path)
    if problem is not None:
        raise UsageError(f"no run at {shorten(str(path))}: the path {problem}")
    shown = shorten_text(str(path), 160)
    if not path.exists():
        raise UsageError(f"no run at {shown}: the path does not exist")
    # `.` and `..` have parents only when they are resolved.
    for start in (path, path.resolve()):
        for depth, root in enumerate([start, *start.parents][: names.MAX_PARTS + 2]):
            if not (root / names.PARAMS_FILE).is_file():
                continue
            checkpoints = RunDirectory.stored(root).checkpoints
            if depth < 2 or checkpoints.is_relative_to(start):
                return root, None
            if depth == 2 or start.parent == checkpoints:
                return root, start.name
    raise UsageError(f"no run at {shown}: expected a directory with {names.PARAMS_FILE}, or a checkpoint inside of one")
