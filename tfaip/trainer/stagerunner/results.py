"""Results of the stages of a run: their directories, as far as the run writes any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tfaip.device.collectives import broadcast, run_on_chief
from tfaip.errors import UsageError
from tfaip.trainer.run.stagedirectories import StageDirectories
from tfaip.trainer.runparts import RunParts
from tfaip.trainer.stages.planned import PlannedStage, StageKind
from tfaip.trainer.stages.records import RECORD, check_work, work_record
from tfaip.trainer.state import TrainingProgress


class StageResults:
    """Directories of the stages; of a run without stages, or without an output directory, there are none.

    Args:
        run: the run; its chief writes, and tells the other processes what is done.
    """

    def __init__(self, run: RunParts) -> None:
        self._run = run
        root = run.root if run.has_stages else None
        self._all = None if root is None else StageDirectories(root.root.absolute(), root.stages.absolute())
        self._own = self._all if run.devices.is_chief else None

    def follow(self, run: RunParts) -> None:
        """Take over a run whose plan has grown."""
        self._run = run

    def directories(self) -> dict[str, Path]:
        """Return the directories of the finished stages by name, absolute as of this process.

        They are never stored: a run that is moved, or resumed from elsewhere, finds its stages again.
        """
        if self._all is None:
            return {}
        done = [stage.name for stage in self._run.plan if self._own is not None and self._own.is_done(stage.name)]
        return {name: self._all.path(name) for name in broadcast(self._run.devices, done)}

    def is_done(self, stage: PlannedStage) -> bool:
        """Return True if a stage has ended."""
        return stage.name in self.directories()

    def begin(self, stage: PlannedStage) -> Path:
        """Return the empty directory of a stage that does not train.

        Raises:
            UsageError: if the run has no output directory.
        """
        if self._all is None:
            raise UsageError(f"stage {stage.name} writes files: set --trainer.output_dir")
        if self._own is not None:
            self._run.output.require_own_directory()
            self._own.begin(stage.name, self._facts(stage))
        return self._all.path(stage.name)

    def check_work(self, index: int, epochs: int, repeated: str | None) -> None:
        """Raise if a stage was changed that is done, and is not repeated; see `records.check_work`.

        Args:
            index: of the stage that the training continues in.
            epochs: completed epochs.
            repeated: the stage from which on all are run again; None: the others stay.

        Raises:
            UsageError: if one was changed, or its file is damaged.
        """
        if self._all is not None:
            check = partial(check_work, self._run.plan, index, epochs, self._all, repeated)
            run_on_chief(self._run.devices, check)

    def forget(self, stages: Sequence[PlannedStage]) -> None:
        """Remove the results of stages that will run again."""
        if self._own is not None:
            self._own.forget([stage.name for stage in stages])

    def finish_training(self, stage: PlannedStage, progress: TrainingProgress) -> None:
        """Write the part of the history of a trained stage, and keep the state at its end."""
        if self._own is None or self._own.is_done(stage.name):
            return
        output = self._run.output
        output.require_own_directory()
        self._own.begin(stage.name, self._facts(stage))
        self._own.keep_history(stage.name, progress.history.of_epochs(stage.first_epoch, stage.last_epoch))
        newest = None if output.store is None else output.store.newest()
        if newest is not None and stage is not self._run.plan[-1]:
            self._own.keep_state(stage.name, newest)
        self._own.finish(stage.name, {"epoch": progress.epoch})

    def finish(self, stage: PlannedStage, progress: TrainingProgress, facts: Mapping[str, Any]) -> None:
        """Mark a stage that does not train as done."""
        if self._own is not None:
            self._own.finish(stage.name, {"epoch": progress.epoch, **facts})

    def _facts(self, stage: PlannedStage) -> dict[str, Any]:
        # As it is in the list: directories of other stages are not filled in, so that the run can be moved.
        record = work_record(self._run.plan, stage.name)
        facts: dict[str, Any] = {"name": stage.name, "kind": stage.kind.value, "overrides": record["overrides"]}
        if stage.kind is StageKind.TRAIN:
            facts["epochs"] = [stage.first_epoch, stage.last_epoch]
        facts[RECORD] = record
        return facts
