"""The directory of a run: where everything lies, and whose it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import TfaipError, UsageError
from tfaip.scenario.scenariobase import SCENARIO_PARAMS_FILE
from tfaip.trainer.directory_names import (
    BEST_DIR,
    CHECKPOINT_DIR,
    CHECKPOINT_NAME,
    EVENTS_NAME,
    EXPORT_DIR,
    HISTORY_FILE,
    LATEST_FILE,
    LOG_FILE,
    MAX_PARTS,
    PARAMS_FILE,
    PLUGINS_DIR,
    check_directory_names,
    check_output_dir,
    checkpoint_parts,
)
from tfaip.trainer.oldrun import remove_run
from tfaip.util.files import TEMPORARY_PREFIX, final_name, is_ours, locked_directory, remove_temporaries
from tfaip.util.logging import logger
from tfaip.util.manifest import CHECKPOINT_MARKS, MODEL_MARKS, read_json_object
from tfaip.util.names import path_problem
from tfaip.util.text import shorten, shorten_text

if TYPE_CHECKING:
    from tfaip.trainer.params import TrainerParams

log = logger(__name__)


@dataclass(frozen=True)
class RunDirectory:
    """Paths below `trainer.output_dir`, and the only place that empties one.

    Raises:
        UsageError: a name leads out of the directory, is used twice or reserved, whoever chose it.
    """

    root: Path
    checkpoint_sub_dir: str = CHECKPOINT_DIR
    best_model_name: str = BEST_DIR

    def __post_init__(self) -> None:
        problem = path_problem(self.root)
        if problem is not None:
            raise UsageError(f"{shorten(str(self.root))} is no directory of a run: the path {problem}")
        try:
            check_directory_names(self.checkpoint_sub_dir, self.best_model_name)
        except ValueError as error:
            raise UsageError(str(error)) from error

    @classmethod
    def of(cls, params: TrainerParams[Any, Any]) -> RunDirectory | None:
        """The directory that a training with these params writes to; None: it writes nothing."""
        if params.output_dir is None:
            return None
        try:
            check_output_dir(params.output_dir)
        except ValueError as error:
            raise UsageError(str(error)) from error
        return cls(Path(params.output_dir), params.checkpoint_sub_dir, params.early_stopping.best_model_name)

    @classmethod
    def stored(cls, root: Path) -> RunDirectory:
        """The directory of a run that exists, with the names in its params file; the defaults where these are unusable.

        For readers of a run that do not need its params, which perhaps cannot be loaded.
        """
        try:
            content = read_json_object(root / PARAMS_FILE)
            group = content.get("early_stopping")
            best = group.get("best_model_name", BEST_DIR) if isinstance(group, dict) else BEST_DIR
            return cls(root, content.get("checkpoint_sub_dir", CHECKPOINT_DIR), best)
        except TfaipError:
            return cls(root)

    @property
    def params_file(self) -> Path:
        """The resolved trainer params."""
        return self.root / PARAMS_FILE

    @property
    def history_file(self) -> Path:
        """The history of epochs."""
        return self.root / HISTORY_FILE

    @property
    def log_file(self) -> Path:
        """What was logged."""
        return self.root / LOG_FILE

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie."""
        return self.root.joinpath(*checkpoint_parts(self.checkpoint_sub_dir))

    @property
    def best(self) -> Path:
        """The best model so far."""
        return self.root / self.best_model_name

    @property
    def export(self) -> Path:
        """The final model."""
        return self.root / EXPORT_DIR

    def events(self, name: str) -> Path:
        """TensorBoard events of one kind of data, e.g. `train`."""
        return self.root / name

    def check_free(self, overwrite: bool) -> None:
        """Raise unless a new run may use the directory; changes nothing.

        A run that ended before it had a result is no obstacle: there is nothing to continue, and nothing to lose.

        Args:
            overwrite: another run that is there may be replaced.

        Raises:
            UsageError: it holds another run, or other files.
        """
        # The first file that a run writes may be there half-written, by a run that was killed.
        begun = TEMPORARY_PREFIX + PARAMS_FILE
        if not self.root.exists() or (self.root.is_dir() and all(e.name == begun for e in self.root.iterdir())):
            return
        shown = shorten_text(str(self.root), 160)
        if not self.params_file.exists():
            # Only a run may be replaced: a mistyped path must never cost a user other files.
            raise UsageError(
                f"{shown} exists and is not the directory of a run: choose a new or empty --trainer.output_dir"
            )
        if not overwrite and not self._is_without_result():
            raise UsageError(
                f"{shown} holds another run: choose another --trainer.output_dir, continue that run with "
                f"'tfaip-resume-training {shown}', or replace it with --overwrite"
            )
        self._check_places()

    def _is_without_result(self) -> bool:
        """Return True if all that is here is a run without checkpoint, model and values of an epoch."""
        written_first = {PARAMS_FILE, LOG_FILE, HISTORY_FILE}
        for entry in self.root.iterdir():
            if final_name(entry) not in written_first and not self._holds_leftovers_only(entry):
                return False
        if not self.history_file.exists():
            return True
        try:
            return read_json_object(self.history_file) == {}
        except TfaipError:
            return False

    def _holds_leftovers_only(self, entry: Path) -> bool:
        """Return True if `entry` leads to the checkpoints, of which the first one is half-written."""
        if entry.is_symlink() or not entry.is_dir() or not self.checkpoints.is_relative_to(entry):
            return False
        for path in entry.rglob("*"):
            is_way = self.checkpoints.is_relative_to(path) and not path.is_symlink()
            is_unfinished = any(part.startswith(TEMPORARY_PREFIX) for part in path.relative_to(entry).parts)
            if not is_way and not is_unfinished:
                return False
        return True

    def check_resumable(self) -> None:
        """Raise unless all places that a continued run writes to are within the directory, and free or its own.

        Raises:
            UsageError: one is a link, or something that no run has written; it is named.
        """
        if not self.root.is_dir():
            return
        for path in self._places():
            if path.is_symlink():
                raise UsageError(
                    f"{shorten_text(str(path), 160)} is a link: a run writes within its own directory only; put there "
                    "what it leads to"
                )
        self._check_places()

    def _places(self) -> list[Path]:
        """Return the paths that a run writes, as far as they may exist already."""
        parts = self.checkpoints.relative_to(self.root).parts
        ways = [self.root.joinpath(*parts[: depth + 1]) for depth in range(len(parts))]
        events = [path for path in self.root.iterdir() if EVENTS_NAME.fullmatch(path.name)]
        return [self.params_file, self.history_file, self.log_file, self.best, self.export, *ways, *events]

    def _check_places(self) -> None:
        """Raise if something that no run has written is in the way; links do not count."""
        for path in self._places():
            if path.is_symlink() or not path.exists():
                continue
            if path in (self.params_file, self.history_file, self.log_file):
                fits, kind = path.is_file(), "file"
            elif path in (self.best, self.export):
                fits, kind = is_ours(path, MODEL_MARKS), "exported model"
            else:
                fits, kind = path.is_dir(), "directory"
            if not fits:
                shown = shorten_text(str(path), 160)
                raise UsageError(f"{shown} is in the way: it is no {kind} of a run; move it away")
            if EVENTS_NAME.fullmatch(path.name):
                _require_no_links(path / PLUGINS_DIR)
        if self.checkpoints.is_dir() and not self.checkpoints.is_symlink():
            self._check_checkpoints()

    def _check_checkpoints(self) -> None:
        latest = self.checkpoints / LATEST_FILE
        if latest.exists() and not latest.is_file():
            raise UsageError(f"{shorten_text(str(latest), 160)} is in the way: it is no file of a run; move it away")
        for path in self.checkpoints.iterdir():
            if CHECKPOINT_NAME.fullmatch(path.name) and not is_ours(path, CHECKPOINT_MARKS):
                raise UsageError(f"{shorten_text(str(path), 160)} is in the way: it is no checkpoint; move it away")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory, which is created, for this process alone; released also when the process dies.

        Raises:
            UsageError: another process trains in it, or it cannot be created.
        """
        shown = shorten_text(str(self.root), 160)
        with contextlib.ExitStack() as stack:
            try:
                self.root.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked_directory(self.root))
            except BlockingIOError as error:
                raise UsageError(f"another process trains in {shown}: choose another --trainer.output_dir") from error
            except OSError as error:
                raise UsageError(f"cannot create the output directory {shown}: {error.strerror}") from error
            yield

    def claim(self, overwrite: bool) -> None:
        """Make the (locked) directory this run's own: check it once more, then remove the run that is there.

        The directory itself stays: it may be a link, a mount point or the working directory. What no run has written
        stays too, with a warning.

        Raises:
            UsageError: it holds another run, or other files.
        """
        self.check_free(overwrite)
        kept = remove_run(self.root, [self, RunDirectory.stored(self.root), RunDirectory(self.root)])
        if kept:
            names = ", ".join(shorten_text(name) for name in kept[:8]) + (" ..." if kept[8:] else "")
            log.warning("kept in %s, since no run has written it: %s", self.root, names)

    def clean_up(self) -> None:
        """Remove what a killed process left half-written."""
        own = {PARAMS_FILE, HISTORY_FILE, EXPORT_DIR, self.best.name}
        remove_temporaries(self.root, lambda name: name in own)


def _require_no_links(traces: Path) -> None:
    """Raise if a directory of traces, to which other libraries write, is a link or holds one.

    Raises:
        UsageError: the link is named.
    """
    for path in (traces, *traces.rglob("*")):
        if path.is_symlink():
            raise UsageError(
                f"{shorten_text(str(path), 160)} is a link: a run writes within its own directory only; move it away"
            )


def model_of_run(root: Path) -> Path | None:
    """Return the best model of a run, else its final one; None if it has none yet.

    Args:
        root: directory of the run.
    """
    run = RunDirectory.stored(root)
    for model in (run.best, run.export):
        if (model / SCENARIO_PARAMS_FILE).is_file():
            return model
    return None


def find_run(path: Path) -> tuple[Path, str | None]:
    """The run that a user means: its directory, its checkpoint directory, or one checkpoint.

    Returns:
        The directory of the run, and the name of the checkpoint if one was meant.

    Raises:
        UsageError: there is no run.
    """
    problem = path_problem(path)
    if problem is not None:
        raise UsageError(f"no run at {shorten(str(path))}: the path {problem}")
    shown = shorten_text(str(path), 160)
    if not path.exists():
        raise UsageError(f"no run at {shown}: the path does not exist")
    # `.` and `..` have parents only when they are resolved.
    for start in (path, path.resolve()):
        for depth, root in enumerate([start, *start.parents][: MAX_PARTS + 2]):
            if not (root / PARAMS_FILE).is_file():
                continue
            checkpoints = RunDirectory.stored(root).checkpoints
            if depth < 2 or checkpoints.is_relative_to(start):
                return root, None
            if depth == 2 or start.parent == checkpoints:
                return root, start.name
    raise UsageError(f"no run at {shown}: expected a directory with {PARAMS_FILE}, or a checkpoint inside of one")
