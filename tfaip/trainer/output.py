"""Everything that a run writes, or nothing at all if it has no output directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tfaip.scenario.modeldirectory import ModelDirectoryWriter
from tfaip.trainer.checkpoint import Checkpoint, CheckpointStore
from tfaip.trainer.history import History
from tfaip.trainer.run_directory import RunDirectory
from tfaip.util.files import write_json


class RunOutput:
    """Writes checkpoints, history and models of a run.

    Args:
        directory: where to; None: nothing is written.
        store: the checkpoints; None: there are none.
        models: writes exported models; None: nothing is exported.
        best: whether the best model is exported.
        final: whether the final model is exported.
        history_file: where the history goes; None: `history.json` in the directory.
    """

    def __init__(
        self,
        directory: RunDirectory | None,
        store: CheckpointStore | None = None,
        models: ModelDirectoryWriter | None = None,
        best: bool = False,
        final: bool = False,
        history_file: Path | None = None,
    ) -> None:
        self.directory = directory
        self._store = store if directory is not None else None
        self._models = models if directory is not None else None
        self._best = best
        self._final = final
        in_directory = None if directory is None else directory.history_file
        self.history_file = in_directory if history_file is None else history_file

    def save_checkpoint(self, capture: Callable[[], Checkpoint], epoch: int, step: int = 0) -> None:
        """Commit a checkpoint of what `capture` gives, if there are checkpoints."""
        if self._store is not None:
            self._store.save(capture(), epoch, step)

    def save_history(self, history: History) -> None:
        """Replace the history file."""
        if self.history_file is not None:
            write_json(self.history_file, history.to_dict())

    def export_best(self) -> None:
        """Replace `best/` by the current model."""
        if self.directory is not None and self._models is not None and self._best:
            self._models.write(self.directory.best)

    def export_final(self) -> None:
        """Replace `export/` by the current model."""
        if self.directory is not None and self._models is not None and self._final:
            self._models.write(self.directory.export)

    def how_to_resume(self) -> str:
        """The end of the line that says that a run was stopped."""
        if self._store is None or self.directory is None:
            return ", without a checkpoint"
        return f", checkpoint written; continue with 'tfaip-resume-training {self.directory.root}'"

    def summary(self) -> dict[str, str]:
        """Where to find what was written."""
        if self.directory is None:
            return {}
        candidates = {"Best model": self.directory.best, "Final model": self.directory.export}
        rows = {name: str(path) for name, path in candidates.items() if path.exists()}
        return {**rows, "TensorBoard": f"tensorboard --logdir {self.directory.root}"}
