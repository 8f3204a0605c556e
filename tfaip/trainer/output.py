"""Everything that a run writes, or nothing at all if it has no output directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tfaip.scenario.modeldirectory import ModelDirectoryWriter
from tfaip.trainer.checkpoint import Checkpoint, CheckpointStore
from tfaip.trainer.history import History
from tfaip.trainer.run_directory import RunDirectory
from tfaip.util.files import commit_directory, link_tree, remove_directory, write_json
from tfaip.util.logging import logger
from tfaip.util.manifest import MANIFEST_FILE
from tfaip.util.reading import read_bytes

log = logger(__name__)


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
        if self._store is not None and self.directory is not None:
            self._store.save(capture(), epoch, step, self.directory.best)

    def save_history(self, history: History) -> None:
        """Replace the history file."""
        if self.history_file is not None:
            write_json(self.history_file, history.to_dict())

    def export_best(self) -> None:
        """Replace `best/` by the current model."""
        if self.directory is not None and self._models is not None and self._best:
            self._models.write(self.directory.best)

    def restore_best(self, store: CheckpointStore, checkpoint: str, has_best: bool) -> None:
        """Let `best/` hold what it held when a checkpoint was written: what came later is abandoned.

        Args:
            store: has the checkpoint, also if this training writes none.
            checkpoint: its name.
            has_best: whether the training knew a best epoch then.
        """
        if self.directory is None:
            return
        best, kept = self.directory.best, store.best_of(checkpoint)
        if kept is not None and not _is_same_model(kept, best):
            with commit_directory(best) as directory:
                link_tree(kept, directory)
            log.info("%s is again what it was at checkpoint %s", best, checkpoint)
        elif kept is None and not has_best and best.exists():
            remove_directory(best)
            log.info("%s is gone: at checkpoint %s there was no best epoch yet", best, checkpoint)

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


def _is_same_model(a: Path, b: Path) -> bool:
    """Whether two models have equal manifests, which name the checksums of all files."""
    manifests = [path / MANIFEST_FILE for path in (a, b)]
    return all(path.is_file() for path in manifests) and read_bytes(manifests[0]) == read_bytes(manifests[1])
