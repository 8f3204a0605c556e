"""Best model of a run with stages: that of the stage that runs, or of a chosen one."""

from __future__ import annotations

from dataclasses import replace

from tfaip.trainer.best import BestModel
from tfaip.trainer.history import History
from tfaip.trainer.runparts import RunParts
from tfaip.trainer.stages.records import index_of


def has_best(run: RunParts, best: BestModel, history: History) -> bool:
    """Return True if a best model was exported so far, in any stage that exports one.

    Args:
        run: the run.
        best: of the stage that runs.
        history: of the run so far.
    """
    chosen = run.params.export_best_of
    stages = [stage for stage in run.plan if chosen in (None, stage.name)]
    epochs = history.of_epochs(stages[0].first_epoch, stages[-1].last_epoch)
    return replace(best, first_epoch=1).epoch(epochs) is not None


def describe_best(run: RunParts, best: BestModel, history: History) -> str:
    """Return the best epoch in words: that of the stage whose best model is exported; see `has_best`."""
    chosen = run.params.export_best_of
    if chosen is not None:
        stage = run.plan[index_of(run.plan, chosen)]
        best = replace(best, first_epoch=stage.first_epoch)
        history = history.of_epochs(stage.first_epoch, stage.last_epoch)
    return best.describe(history)
