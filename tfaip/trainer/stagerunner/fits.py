"""Calls of `Trainer.fit` within one training: the first runs the planned stages, each later one a stage of its own."""

from __future__ import annotations

from typing import Any

from tfaip.errors import UsageError
from tfaip.trainer.run.checkpoint import Checkpoint
from tfaip.trainer.runparams import Params
from tfaip.trainer.stagerunner.runner import Callbacks, StageRunner
from tfaip.trainer.stages.overrides import copy_for_stage
from tfaip.trainer.stages.planned import MAIN, PlannedStage, StageKind
from tfaip.trainer.stages.records import further_records
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

log = logger(__name__)


class FitCalls:
    """Calls of `Trainer.fit` within one training.

    A later call goes on with the weights, the state of the optimizer and the numbers of the epochs. It
    trains with the params as they are then, from `current_epoch` of the params to `epochs`.

    A training that is resumed makes all calls again. Those that are done train nothing, so that the code
    between them is run in any case.

    Args:
        stages: has begun.
        params: of the run; the caller may change them between two calls.
        restored: the checkpoint that the run continues from; None: it is fresh.
        is_trial: train one epoch in each call.
    """

    def __init__(self, stages: StageRunner, params: Params, restored: Checkpoint | None, is_trial: bool) -> None:
        self._stages = stages
        self._params = params
        self._is_trial = is_trial
        self._done = [] if restored is None else further_records(restored.state)
        """Records of the later calls up to the one that the checkpoint belongs to."""
        self._calls = 0
        self._trained: Params = params
        params.current_epoch = 0 if self._done else stages.progress.epoch

    def run(self, callbacks: Callbacks) -> Logs:
        """Run the next call; return the values of its last epoch."""
        params = self._params
        if self._calls and self._epochs_left() < 1:
            # Not counted: it has no record in a checkpoint, and no params that anything was trained with.
            log.info("training is finished: %d of %d epochs are done", params.current_epoch, params.epochs)
            return self._stages.progress.history.values(self._first_epoch(self._calls + 1) - 1)
        self._calls += 1
        if self._calls == 1 and not self._done:
            logs = self._stages.run(callbacks)
            params.current_epoch = self._stages.progress.epoch
        elif self._calls == 1:
            logs = self._pass_over(0)
        else:
            logs = self._run_further(callbacks)
        # The caller may change the params in place: the next call must know what this one has trained with.
        self._trained = copy_for_stage(params)
        return logs

    def check_restored(self) -> None:
        """Raise if there were fewer calls than the checkpoint has, so that its state was not taken over.

        Raises:
            UsageError: if there were; nothing must be exported.
        """
        if self._done and self._calls <= len(self._done):
            raise UsageError(
                f"the checkpoint belongs to call {len(self._done) + 1} of fit, but the trainer has made only "
                f"{self._calls}: let it make the same calls as before, or resume from an earlier checkpoint"
            )

    def _epochs_left(self) -> int:
        return 1 if self._is_trial else self._params.epochs - self._params.current_epoch

    def _run_further(self, callbacks: Callbacks) -> Logs:
        params, stages = self._params, self._stages
        first = self._first_epoch(self._calls)
        offset = first - 1 - params.current_epoch
        stage = PlannedStage(
            f"{MAIN}.{self._calls}",
            StageKind.TRAIN,
            first,
            first + self._epochs_left() - 1,
            params=params,
            transfer=params.transfer,
            epoch_offset=offset,
        )
        stages.append(stage)
        if self._calls - 1 < len(self._done):
            return self._pass_over(offset)
        stages.enter_appended(self._trained, is_resumed=self._calls - 1 == len(self._done))
        log.info("fit %d: epochs %d to %d of the run", self._calls, stage.first_epoch, stage.last_epoch)
        logs = stages.run(callbacks)
        params.current_epoch = stages.progress.epoch - offset
        return logs

    def _pass_over(self, offset: int) -> Logs:
        """Leave a call as it is that was done before the run was resumed."""
        last = self._first_epoch(self._calls + 1) - 1
        self._params.current_epoch = last - offset
        return self._stages.progress.history.values(last)

    def _first_epoch(self, call: int) -> int:
        """Return the first epoch of a later call, in the numbers of the run."""
        if call - 2 < len(self._done):
            record: dict[str, Any] = self._done[call - 2]
            return int(record["first_epoch"])
        return self._stages.progress.epoch + 1
