"""Output of a run: checkpoints, history and models.

Best models, checkpoints and the history are committed in the background, in the order in which they are saved. The
training waits only until they are copied into memory that is kept for the run; if a best model has formats that need
the model, until its files are written. A checkpoint waits until the one before is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from tfaip.errors import TfaipError
from tfaip.export.modelwriting import ModelDirectoryWriter
from tfaip.model.weights import HostBuffer
from tfaip.trainer.history import History
from tfaip.trainer.run.checkpoint import Checkpoint, CheckpointStore
from tfaip.trainer.run.directory import RunDirectory
from tfaip.util.files import commit_directory, link_tree, remove_directory, write_text
from tfaip.util.logging import logger
from tfaip.util.manifest import MODEL_MARKS, ModelDirectory, shown_names
from tfaip.util.process import BackgroundWriter
from tfaip.util.text import shorten_text

log = logger(__name__)


@dataclass
class RunOutput:
    """Output of a run, and the context of its writer; each method does nothing if its output is switched off.

    What the writer could not write is raised by the next method that writes or waits, and by `check`.

    Args:
        directory: directory of the run; None: nothing but `history_file` is written.
        store: the checkpoints; None: there are none.
        models: writes exported models; None: nothing is exported.
        best: export the best model.
        final: export the final model.
        history_file: file of the history; None: `history.json` in the directory.
    """

    directory: RunDirectory | None
    store: CheckpointStore | None = None
    models: ModelDirectoryWriter | None = None
    best: bool = False
    final: bool = False
    history_file: Path | None = None
    _writer: BackgroundWriter = field(default_factory=BackgroundWriter, init=False, repr=False)
    _saved: Future[None] | None = field(default=None, init=False, repr=False)
    _exported: Future[None] | None = field(default=None, init=False, repr=False)
    _identity: tuple[int, int] | None = field(default=None, init=False, repr=False)
    _saved_at: float = field(default_factory=time.monotonic, init=False, repr=False)
    _buffer: HostBuffer = field(default_factory=HostBuffer, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.directory is None:
            self.store = self.models = None
        elif self.history_file is None:
            self.history_file = self.directory.history_file

    def __enter__(self) -> Self:
        self._identity = None if self.directory is None else self.directory.identity()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, traceback)

    def check(self) -> None:
        """Raise the error of what could not be written, if there is one; do not wait.

        Raises:
            TfaipError: if the disk is full, for example.
        """
        self._writer.check()

    def wait(self) -> None:
        """Wait until all that was saved is written.

        Raises:
            TfaipError: if it could not be written.
        """
        self._writer.wait()

    def seconds_since_checkpoint(self) -> float:
        """Return the age of the last checkpoint, or of this object if there was none."""
        return time.monotonic() - self._saved_at

    def save_checkpoint(self, capture: Callable[[HostBuffer], Checkpoint], epoch: int, step: int = 0) -> None:
        """Write a checkpoint with the content that `capture` returns, which may be in the buffer."""
        if self.store is not None and self.directory is not None:
            if self._saved is not None:
                self._saved.result()  # until then the buffer is read
            if self._exported is not None and self._exported.done():
                self._buffer.release()
            self._writer.check()
            checkpoint = capture(self._buffer)
            self._saved_at = time.monotonic()
            self._saved = self._submit(self.store.saving(checkpoint, epoch, step, self.directory.best))

    def save_history(self, history: History) -> None:
        """Replace the history file, after the checkpoints that were saved before."""
        if self.history_file is not None:
            self._submit(partial(write_text, self.history_file, history.to_dict().text() + "\n"))

    def export_best(self, hold: Callable[[HostBuffer], Mapping[str, np.ndarray]]) -> None:
        """Replace `best/` by the current model, before the checkpoints that are saved later.

        Args:
            hold: copies the weights into the buffer, and returns them by path.
        """
        if self.directory is not None and self.models is not None and self.best:
            self._writer.wait()  # one is written at a time
            weights = hold(self._buffer) if self.models.writes_values else None
            self._exported = self._submit(self.models.begin(self.directory.best, weights))

    def restore_best(self, kept: Path | None, checkpoint: str) -> None:
        """Set `best/` back to its content at a checkpoint; later epochs are abandoned.

        Args:
            kept: copy of the best model in the checkpoint; None: there is none.
            checkpoint: its name.
        """
        if self.directory is None:
            return
        best = self.directory.best
        if kept is None:
            if best.exists():
                remove_directory(best, self.directory.root, MODEL_MARKS)
                log.info("%s is gone: at checkpoint %s there was no best model", best, checkpoint)
            return
        there, copied = ModelDirectory.at(best), ModelDirectory.at(kept)
        damage = copied.damage()
        if damage is not None:
            log.warning("the best model of checkpoint %s is damaged, %s stays as it is: %s", checkpoint, best, damage)
        elif there.model_files() != copied.model_files() or there.damage() is not None:
            lost = [name for name in [*there.added_formats, *there.foreign_entries()] if not (kept / name).exists()]
            with commit_directory(best, MODEL_MARKS) as directory:
                link_tree(kept, directory)
            log.info("%s is again what it was at checkpoint %s", best, checkpoint)
            if lost:
                log.warning("files that belonged to another model are gone from %s: %s", best, shown_names(lost))

    def export_final(self) -> None:
        """Replace `export/` by the current model."""
        if self.directory is not None and self.models is not None and self.final:
            self._writer.wait()
            self.require_own_directory()
            self.models.write(self.directory.export)

    def copy_best(self, target: Path) -> None:
        """Copy the best model, and the copy of the params beside it, into another directory."""
        self._writer.wait()
        if self.directory is None or not self.directory.best.exists():
            log.warning("there is no best model to copy to %s", target)
            return
        best, params_copy = self.directory.best, self.directory.params_copy
        with commit_directory(target / best.name, MODEL_MARKS) as copied:
            link_tree(best, copied)
        if params_copy:
            write_text(target / params_copy, (self.directory.root / params_copy).read_text(encoding="utf-8"))

    def _submit(self, job: Callable[[], object]) -> Future[None]:
        def write() -> None:
            self.require_own_directory()
            job()

        return self._writer.submit(write)

    def require_own_directory(self) -> None:
        """Raise if the directory of the run has been removed: what is written now would be no complete run."""
        if self.directory is not None and self._identity is not None and self.directory.identity() != self._identity:
            raise TfaipError(
                f"{shorten_text(str(self.directory.root), 160)} was removed or replaced while the run wrote to it: "
                "nothing more is written there"
            )

    def how_to_resume(self) -> str:
        """Return the end of the log line of a stopped run."""
        if self.store is None or self.directory is None:
            return ", without a checkpoint"
        return f", checkpoint written; continue with 'tfaip-resume-training {self.directory.root}'"

    def summary(self, has_best: bool) -> dict[str, str]:
        """Return the paths of what was written, by title; without `has_best` the best model is one of before."""
        if self.directory is None:
            return {}
        rows: dict[str, str] = {}
        best = "Best model" if has_best and self.best else "Earlier best"
        for title, path in ((best, self.directory.best), ("Final model", self.directory.export)):
            if path.exists():
                rows[title] = str(path)
        rows["TensorBoard"] = f"tensorboard --logdir {self.directory.root}"
        return rows
