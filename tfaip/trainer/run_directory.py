"""The directory of a run: where everything lies, and whose it is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfaip.errors import UsageError
from tfaip.params.serialization import parse_json, read_text
from tfaip.scenario.scenariobase import SCENARIO_PARAMS_FILE
from tfaip.util.files import TEMPORARY_PREFIX, remove_temporaries

PARAMS_FILE = "trainer_params.json"
HISTORY_FILE = "history.json"
LOG_FILE = "train.log"


@dataclass(frozen=True)
class RunDirectory:
    """Paths below `trainer.output_dir`."""

    root: Path
    checkpoint_sub_dir: str = "checkpoint"
    best_model_name: str = "best"

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
        return self.root / self.checkpoint_sub_dir

    @property
    def best(self) -> Path:
        """The best model so far."""
        return self.root / self.best_model_name

    @property
    def export(self) -> Path:
        """The final model."""
        return self.root / "export"

    def events(self, name: str) -> Path:
        """TensorBoard events of one kind of data, e.g. `train`."""
        return self.root / name

    def check_free(self, overwrite: bool) -> None:
        """Whether a new run may use the directory; changes nothing.

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
        if not self.params_file.exists():
            # Only a run may be replaced: a mistyped path must never cost somebody's files.
            raise UsageError(
                f"{self.root} exists and is not the directory of a run: choose another --trainer.output_dir"
            )
        if not overwrite and not self._is_without_result():
            raise UsageError(
                f"{self.root} holds another run: choose another --trainer.output_dir, continue that run with "
                f"'tfaip-resume-training {self.root}', or replace it with --overwrite"
            )

    def _is_without_result(self) -> bool:
        """Whether a run is all that is here, and wrote neither a checkpoint, nor a model, nor values of an epoch."""
        written_first = {PARAMS_FILE, LOG_FILE, HISTORY_FILE}
        for entry in self.root.iterdir():
            unfinished = entry == self.checkpoints and all(p.name.startswith(TEMPORARY_PREFIX) for p in entry.iterdir())
            if entry.name.removeprefix(TEMPORARY_PREFIX) not in written_first and not unfinished:
                return False
        return not self.history_file.exists() or self.history_file.read_text().strip() == "{}"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory, which is created, for this process alone; released also when the process dies.

        Raises:
            UsageError: another process trains in it, or it cannot be created.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root, os.O_RDONLY)
        except OSError as error:
            raise UsageError(f"cannot create the output directory {self.root}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UsageError(
                    f"another process trains in {self.root}: choose another --trainer.output_dir"
                ) from error
            yield
        finally:
            os.close(descriptor)

    def claim(self, overwrite: bool) -> None:
        """Make the (locked) directory this run's own: check it once more, then empty it.

        Raises:
            UsageError: it holds another run, or other files.
        """
        self.check_free(overwrite)
        # The content goes, the directory stays: it may be a link, a mount point or the working directory. What makes
        # it a run goes last: a process that is killed here leaves a directory that can still be replaced.
        for entry in sorted(self.root.iterdir(), key=lambda entry: entry == self.params_file):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def clean_up(self) -> None:
        """Remove what a killed process left half-written."""
        remove_temporaries(self.root)


def model_of_run(root: Path) -> Path | None:
    """Return the best model of a run, else its final one; None if it has none yet.

    Args:
        root: directory of the run.
    """
    run = RunDirectory(root, best_model_name=_best_model_name(root / PARAMS_FILE))
    for model in (run.best, run.export):
        if (model / SCENARIO_PARAMS_FILE).is_file():
            return model
    return None


def _best_model_name(params_file: Path) -> str:
    """Return the name in the stored params if it is that of a directory in the run, else the default."""
    stopping = parse_json(read_text(params_file), str(params_file)).get("early_stopping")
    name = stopping.get("best_model_name") if isinstance(stopping, dict) else None
    is_plain = isinstance(name, str) and Path(name).name == name and name not in ("", ".", "..")
    return name if is_plain and isinstance(name, str) else RunDirectory.best_model_name


def find_run(path: Path) -> tuple[Path, str | None]:
    """The run that a user means: its directory, its checkpoint directory, or one checkpoint.

    Returns:
        The directory of the run, and the name of the checkpoint if one was meant.

    Raises:
        UsageError: there is no run.
    """
    if not path.exists():
        raise UsageError(f"no run at {path}: the path does not exist")
    # `.` and `..` have parents only when they are resolved.
    candidates = [
        (path, None),
        *((p.parent, None) for p in (path, path.resolve())),
        *((p.parent.parent, p.name) for p in (path, path.resolve())),
    ]
    for root, checkpoint in candidates:
        if (root / PARAMS_FILE).is_file():
            return root, checkpoint
    raise UsageError(f"no run at {path}: expected a directory with {PARAMS_FILE}, or a checkpoint inside of one")
