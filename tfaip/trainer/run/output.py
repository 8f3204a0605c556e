"""Output of a run: checkpoints, history and models.

Best models, checkpoints and the history are committed in the background, in the order in which they are saved. The
training waits only until they are copied into memory that is kept for the run; if a best model has formats that need
the model, until its files are written. A checkpoint waits until the one before is committed.

`<checkpoints>/epoch_0007/` or `epoch_0007_step_000123/` is complete or missing: `state.safetensors` (arrays),
`state.json` (everything else), `manifest.json` (size and SHA-256 of both), and in `best/` links to the best model at
that time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from tfaip.errors import TfaipError, UsageError
from tfaip.export.modelwriting import ModelDirectoryWriter
from tfaip.model.weights import HostBuffer, load_arrays, save_arrays
from tfaip.trainer.history import History
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.names import BEST_DIR, CHECKPOINT_NAME
from tfaip.util import files
from tfaip.util.files import commit_directory, link_tree, write_text
from tfaip.util.logging import logger
from tfaip.util.manifest import CHECKPOINT_MARKS, MODEL_MARKS, verify_files, write_manifest
from tfaip.util.reading import RECORDS_BYTES, read_json
from tfaip.util.text import shorten_text
from tfaip.version import __version__

log = logger(__name__)

ARRAYS_FILE = "state.safetensors"
STATE_FILE = "state.json"
WEIGHTS = "weights/"  # begins the names of the arrays of the graph


@dataclass
class RunOutput:
    """Output of a run, and the context of the thread that writes it; what is switched off is not written.

    When a job of the thread fails, those after it are not done, since they may build on it. The error is raised by each
    later method that writes or waits, and by `check`. The end of the context waits for all jobs; it raises the error,
    or logs it beside another one.

    Args:
        directory: directory of the run; None: nothing but `history_file` is written.
        store: the checkpoints; None: there are none.
        models: writes exported models; None: nothing is exported.
        best: export the best model.
        final: export the final model.
        history_file: file of the history; None: `history.json` in the directory.
        is_resumable: False: the run could not be resumed from what is trained now.
    """

    directory: RunDirectory | None
    store: CheckpointStore | None = None
    models: ModelDirectoryWriter | None = None
    best: bool = False
    final: bool = False
    history_file: Path | None = None
    is_resumable: bool = True
    _pool: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)
    _last: Future[None] | None = field(default=None, init=False, repr=False)
    _error: BaseException | None = field(default=None, init=False, repr=False)
    _saved: Future[None] | None = field(default=None, init=False, repr=False)
    _exported: Future[None] | None = field(default=None, init=False, repr=False)
    _identity: tuple[int, int] | None = field(default=None, init=False, repr=False)
    _saved_at: float = field(default_factory=time.monotonic, init=False, repr=False)
    _buffer: HostBuffer = field(default_factory=HostBuffer, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.directory is not None and self.history_file is None:
            self.history_file = self.directory.history_file

    def __enter__(self) -> Self:
        self._identity = None if self.directory is None else self.directory.identity()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        failure = self._error
        self._pool = self._last = self._error = None
        if failure is not None and error is None:
            raise failure
        if failure is not None and failure is not error:
            log.error("%s", shorten_text(str(failure), 300))

    def submit(self, job: Callable[[], object]) -> Future[None]:
        """Do a job after those before it, unless one of them has failed or the directory is gone."""
        self.check()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")

        def do() -> None:
            if self._error is None:
                try:
                    self.require_own_directory()
                    try:
                        job()
                    finally:  # it may have failed because the directory is gone
                        self.require_own_directory()
                except BaseException as error:  # noqa: BLE001 (it is raised in the thread that submits)
                    self._error = error

        self._last = self._pool.submit(do)
        return self._last

    def check(self) -> None:
        """Raise the error of a job that has failed, if there is one; do not wait."""
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        """Wait until all jobs are done."""
        if self._last is not None:
            self._last.result()
        self.check()

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
            self.check()
            checkpoint = capture(self._buffer)
            self._saved_at = time.monotonic()
            self._saved = self.submit(self.store.saving(checkpoint, epoch, step, self.directory.best))

    def save_history(self, history: History) -> None:
        """Replace the history file, after the checkpoints that were saved before."""
        if self.history_file is not None:
            self.submit(partial(write_text, self.history_file, history.text() + "\n"))

    def export_best(self, hold: Callable[[HostBuffer], Mapping[str, np.ndarray]]) -> None:
        """Replace `best/` by the current model, before the checkpoints that are saved later."""
        if self.directory is not None and self.models is not None and self.best:
            self.wait()  # one is written at a time
            weights = hold(self._buffer) if self.models.writes_values else None
            self._exported = self.submit(self.models.begin(self.directory.best, weights))

    def export_final(self) -> None:
        """Replace `export/` by the current model."""
        if self.directory is not None and self.models is not None and self.final:
            self.wait()
            self.require_own_directory()
            self.models.write(self.directory.export)

    def copy_best(self, target: Path) -> None:
        """Copy the best model, and the copy of the params beside it, into another directory."""
        self.wait()
        if self.directory is None or not self.directory.best.exists():
            log.warning("there is no best model to copy to %s", target)
            return
        best, params_copy = self.directory.best, self.directory.params_copy
        with commit_directory(target / best.name, MODEL_MARKS) as copied:
            link_tree(best, copied)
        if params_copy:
            write_text(target / params_copy, (self.directory.root / params_copy).read_text(encoding="utf-8"))

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
        run = f"continue with 'tfaip-resume-training {self.directory.root}'"
        return f", checkpoint written; {run if self.is_resumable else 'a run cannot be resumed in a later call of fit'}"

    def summary(self, has_best: bool) -> dict[str, str]:
        """Return the paths of what was written, by title; without `has_best` the best model is one of before."""
        if self.directory is None:
            return {}
        best = "Best model" if has_best and self.best else "Earlier best"
        models = {best: self.directory.best, "Final model": self.directory.export}
        rows = {title: str(path) for title, path in models.items() if path.exists()}
        return {**rows, "TensorBoard": f"tensorboard --logdir {self.directory.root}"}


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint: named arrays and JSON-able values."""

    arrays: Mapping[str, np.ndarray]
    state: Mapping[str, Any]


class CheckpointStore:
    """Checkpoints of one run.

    Args:
        directory: their directory; created by the first save.
        keep: number of newest checkpoints that are kept when another one is saved.
        root: directory of the run, outside of which nothing is removed; None: `directory`.
    """

    def __init__(self, directory: Path, keep: int = 2, root: Path | None = None) -> None:
        self._directory, self._keep, self._root = directory, keep, directory if root is None else root

    def saving(self, checkpoint: Checkpoint, epoch: int, step: int = 0, best: Path | None = None) -> Callable[[], Path]:
        """Return a function that commits a checkpoint, then removes old ones.

        Until it is called, only the arrays must stay as they are.
        """
        state, name = json.dumps(checkpoint.state), checkpoint_name(epoch, step)

        def save() -> Path:
            with files.failures_named(self._directory):
                path = self._commit(name, checkpoint.arrays, state, best)
                self._remove_old()
            return path

        return save

    def add(self, checkpoint: Checkpoint, name: str, best: Path | None = None) -> Path:
        """Commit a checkpoint under a name; see `saving`."""
        return self._commit(name, checkpoint.arrays, json.dumps(checkpoint.state), best)

    def _commit(self, name: str, arrays: Mapping[str, np.ndarray], state: str, best: Path | None) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        # Written aside, synced and renamed: a SIGKILL within `model.save` of Keras would lose the previous good file.
        with files.commit_directory(self._directory / name, CHECKPOINT_MARKS) as directory:
            known = {ARRAYS_FILE: save_arrays(directory / ARRAYS_FILE, arrays)}
            (directory / STATE_FILE).write_text(state, encoding="utf-8")
            write_manifest(directory, {"versions": {"tfaip": __version__, "keras": keras.__version__}}, known)
            if best is not None and best.exists():
                # After the manifest, which would read it all: a model has a manifest of its own. A training that
                # continues from this checkpoint must not keep the best model of an abandoned epoch.
                files.link_tree(best, directory / BEST_DIR)
        return self._directory / name

    def checkpoints(self) -> list[Path]:
        """Return all checkpoints, damaged ones included, newest first; nothing that merely has the name of one."""
        if not self._directory.is_dir():
            return []
        named = [entry for entry in self._directory.iterdir() if CHECKPOINT_NAME.fullmatch(entry.name)]
        found = [entry for entry in named if files.is_ours(entry, CHECKPOINT_MARKS) and any(entry.iterdir())]
        return sorted(found, key=_sort_key, reverse=True)

    def newest(self) -> Path | None:
        """Return the newest checkpoint, or None."""
        return next(iter(self.checkpoints()), None)

    def read(self, name: str | None = None) -> tuple[str, Checkpoint]:
        """Read the newest undamaged checkpoint, or the one called `name`; change nothing.

        Damaged ones are passed over with a warning, unless one is given by name.
        """
        paths = self.checkpoints() if name is None else [self._directory / name]
        for path in paths:
            try:
                checkpoint = read_checkpoint(path)
                if not CHECKPOINT_NAME.fullmatch(path.name):
                    # A copy under another name: nothing tells which checkpoints are newer, and must go.
                    raise TfaipError("its name tells no epoch; rename it as it was (epoch_0007)")
                return path.name, checkpoint
            except TfaipError as error:
                if name is not None:
                    raise UsageError(f"checkpoint {shorten_text(name)} cannot be used: {error}") from error
                log.warning("damaged checkpoint passed over: %s", error)
        if paths:
            raise UsageError(f"all checkpoints in {self._directory} are damaged")
        raise UsageError(f"no checkpoint in {self._directory}: nothing to resume")

    def continue_from(self, name: str) -> None:
        """Remove checkpoints that are newer than `name`, and what a killed process did not remove itself."""
        files.remove_temporaries(self._directory, lambda name: CHECKPOINT_NAME.fullmatch(name) is not None)
        for newer in self.checkpoints():
            if _sort_key(newer) > _sort_key(Path(name)):
                files.remove_directory(newer, self._root, CHECKPOINT_MARKS)
        self._remove_old()

    def _remove_old(self) -> None:
        for old in self.checkpoints()[self._keep :]:
            files.remove_directory(old, self._root, CHECKPOINT_MARKS)


def checkpoint_name(epoch: int, step: int = 0) -> str:
    """Return the name of a checkpoint after a number of epochs, and of batches of the next one."""
    return f"epoch_{epoch:04d}" + (f"_step_{step:06d}" if step else "")


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify a checkpoint directory."""
    verify_files(path, (ARRAYS_FILE, STATE_FILE))
    return Checkpoint(load_arrays(path / ARRAYS_FILE), read_json(path / STATE_FILE, RECORDS_BYTES))


def _sort_key(path: Path) -> tuple[int, int]:
    match = CHECKPOINT_NAME.fullmatch(path.name)
    return (int(match[1]), int(match[2] or 0)) if match else (-1, -1)
