"""The stages of a run, one after the other: set up, train or do other work, hand over to the next."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from types import TracebackType
from typing import Any, Self

import keras
import numpy as np

from tfaip.backend.active import backend
from tfaip.device.devices import precision_scope
from tfaip.model.weights import built_within
from tfaip.params.settings import flags_of
from tfaip.params.tree import diff
from tfaip.trainer.best import BestModel
from tfaip.trainer.loop import TrainingLoop
from tfaip.trainer.modelexport import prepare_export
from tfaip.trainer.run.checkpoint import Checkpoint
from tfaip.trainer.runparams import Params
from tfaip.trainer.runparts import RunParts
from tfaip.trainer.setup import Scenario, TrainingSetup
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stagerunner.handover import (
    StageEnd,
    hand_over,
    keeps_graph,
    log_transfer,
    next_position,
    transfer_flags,
)
from tfaip.trainer.stagerunner.preview import ExpectedWeights, ModelPreview, log_plan
from tfaip.trainer.stagerunner.results import StageResults
from tfaip.trainer.stagerunner.trial import shorten_params
from tfaip.trainer.stagerunner.work import call_function, check_calls, predict
from tfaip.trainer.stages.plan import resolve_stage
from tfaip.trainer.stages.planned import MAIN, PlannedStage, StageKind
from tfaip.trainer.stages.records import find_place, further_records, index_of, place_of
from tfaip.trainer.stagesetup import set_up_training
from tfaip.trainer.state import TrainingProgress, beginning
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.construction import construct
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

log = logger(__name__)

Callbacks = Callable[[keras.optimizers.Optimizer], list[keras.callbacks.Callback]]


class StageRunner:
    """Context that runs the stages of a run in order.

    Every process of a training takes the same decisions; the chief alone writes.

    Args:
        run: the parts that all stages share.
        scenario: built from the params of the run.
        create_warmstarter: returns the source of the first weights.
        is_trial: run one batch of each stage.
    """

    def __init__(
        self,
        run: RunParts,
        scenario: Scenario,
        create_warmstarter: Callable[[], WarmStarter],
        is_trial: bool = False,
    ) -> None:
        self._run = run
        self._scenario_cls = type(scenario)
        self._given = scenario
        self._create_warmstarter = create_warmstarter
        self._is_trial = is_trial
        self._index = 0
        self._results = StageResults(run)
        self._setup: TrainingSetup | None = None
        self._loop: TrainingLoop | None = None
        self.progress = TrainingProgress()
        """Progress of the training through all stages."""
        self._opened = ExitStack()
        self._repeated: str | None = None
        self._later: Checkpoint | None = None
        self._stage = run.plan[0]
        self.expected: dict[str, ExpectedWeights] = {}
        """The weights that the stages will begin with, by name of the stage; known after `begin`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, traceback)
        if self._run.profiler is not None:
            self._run.profiler.close()

    @property
    def setup(self) -> TrainingSetup:
        """The parts of the stage that was set up last."""
        assert self._setup is not None  # noqa: S101 (the last stage trains)
        return self._setup

    @property
    def latest_setup(self) -> TrainingSetup | None:
        """The same; None: there is none yet."""
        return self._setup

    @property
    def best(self) -> BestModel | None:
        """What decides which epoch of the stage is the best; None: it has no epochs."""
        return None if self._setup is None else self._setup.best

    def begin(self, restored: Checkpoint | None, repeated: str | None = None) -> None:
        """Set up the first stage, or the one of a checkpoint with its state.

        Args:
            restored: the checkpoint; None: the training is fresh.
            repeated: the stage from which on all are run again; None: those that are done stay.

        Raises:
            UsageError: if something cannot work, or a stage was changed that is done.
        """
        # That of the beginning of a run has no weights.
        continued = restored if restored is not None and restored.arrays else None
        check_calls(self._run.plan, self._run.params)
        self._repeated = repeated
        if restored is not None:
            self._index = find_place(self._run.plan, restored.state)
            self._results.check_work(self._index, restored.state["epoch"], repeated)
            self.progress = TrainingProgress.from_dict(restored.state)
        if self._run.has_stages:
            self._preview(continued)
        self._stage = self._reached()
        if self._stage.kind is not StageKind.CALL:
            # A stage may have a larger model than the one before, of which the checkpoint may be.
            known = None if self._run.has_stages else continued
            with nullcontext() if known is None else built_within(known.arrays, "the checkpoint"):
                self._set_up(self._stage, self._create_warmstarter() if continued is None else None)
        if continued is None:
            return
        if further_records(continued.state):
            self._later = continued  # of a stage that is appended when the code that asks for it has run
        else:
            self._restore(continued)

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.setup.state.restore(checkpoint)
        self.progress = self.setup.state.progress

    def append(self, stage: PlannedStage) -> None:
        """Add a stage to the plan, which is the next one."""
        self._run = dataclasses.replace(self._run, plan=[*self._run.plan, stage])
        self._results.follow(self._run)
        self._index = len(self._run.plan) - 1

    def enter_appended(self, trained: Params, is_resumed: bool) -> None:
        """Set up the stage that was appended last.

        Args:
            trained: what the stage before was trained with, if its params were changed in place.
            is_resumed: continue with the checkpoint, which belongs to this stage.
        """
        self._setup = dataclasses.replace(self.setup, params=trained)
        self._stage = self._reached()
        history = self.progress.history
        self._change_to(self._stage)
        if is_resumed and self._later is not None:
            self._restore(self._later)
            self.progress.history = history  # the user may have edited its file
            self._later = None

    def _preview(self, continued: Checkpoint | None) -> None:
        """Build the models of the stages that remain, and log the table of all stages."""
        remaining, first = self._run.plan[self._index :], None
        if continued is not None:
            first = "of the checkpoint"
        elif self._run.params.warmstart.model:
            first = "warm start"
        if len(remaining) > 1:  # else the model is built right after this
            self.expected = ModelPreview(self._run, self._scenario_cls).expect(remaining, first)
        log_plan(self._run.plan, self.expected)

    def run(self, callbacks: Callbacks) -> Logs:
        """Run the stages that remain; return the values of the last epoch.

        Args:
            callbacks: returns the callbacks of a stage, for its optimizer.

        Raises:
            TrainingInterrupted: if a signal asked to stop; the run can be resumed.
        """
        if self._repeated is None and self.progress.epoch == self.progress.step == 0:
            self._save_beginning()
        while True:
            stage, logs = self._stage, Logs()
            if stage.kind is StageKind.TRAIN:
                logs, is_ended_by_user = self._train(stage, callbacks)
                if is_ended_by_user:
                    return logs
            elif not self._results.is_done(stage):
                self._work(stage)
            self._index += 1
            if self._index == len(self._run.plan):
                return logs
            self._stage = stage = self._reached()
            if stage.kind is StageKind.TRAIN or (stage.kind is StageKind.PREDICT and self._setup is None):
                self._change_to(stage)

    def forget_repeated(self) -> None:
        """Remove the results of the stages that are run again."""
        if self._repeated is not None:
            self._results.forget(self._run.plan[index_of(self._run.plan, self._repeated) :])

    def _save_beginning(self) -> None:
        """Write a checkpoint from which a run can be resumed that begins with other work than training."""
        first = self._run.plan[0]
        if first.kind is not StageKind.TRAIN:
            state = beginning(self._run.params, place_of(self._run.plan, first.name))
            self._run.output.save_checkpoint(lambda buffer: state, 0)
            self._run.output.wait()

    def _reached(self) -> PlannedStage:
        """Return the stage that is reached, with its params."""
        planned = self._run.plan[self._index]
        stage = resolve_stage(planned, self._results.directories(), self.progress.history)
        stage.params.random_seed = self._run.params.random_seed  # which was drawn after the stages were planned
        if self._is_trial:
            shorten_params(stage)
        return stage

    def _train(self, stage: PlannedStage, callbacks: Callbacks) -> tuple[Logs, bool]:
        """Train a stage that is set up; also return True if a callback has ended the whole training."""
        setup, progress = self.setup, self.progress
        self._loop = loop = TrainingLoop(setup, callbacks(setup.model.optimizer))
        is_last = self._index == len(self._run.plan) - 1
        if setup.is_finished() and is_last:
            log.info("training is finished: %d of %d epochs are done", progress.epoch, stage.last_epoch)
        elif not setup.is_finished():
            self._results.forget(self._run.plan[self._index :])
            if progress.step or progress.epoch >= stage.first_epoch:
                log.info("resuming in epoch %d, after %d batches", progress.epoch + 1, progress.step)
            if not self._is_trial:
                loop.warn_without_updates()
        logs = loop.run()
        if not setup.is_finished():
            return logs, True
        if setup.early_stopping().stops_after is not None:
            log.info("stopped early after epoch %d: %s", progress.epoch, setup.best.describe(progress.history))
        self._results.finish_training(stage, progress)
        return logs, False

    def _work(self, stage: PlannedStage) -> None:
        """Do the work of a stage that does not train."""
        log.info("stage %s: %s", stage.name, stage.settings.describe())
        directory = self._results.begin(stage)
        # What it draws must not depend on the stages that this process has run before.
        backend.seed(_seed(self._run.params.random_seed or 0, self._index))
        if stage.kind is StageKind.CALL:
            facts = call_function(self._run, stage, directory, self.progress.history, self._results.directories())
        else:
            facts = predict(self._run, stage, directory, self.setup)
        self._stop_if_asked(stage)
        self._results.finish(stage, self.progress, facts)

    def _stop_if_asked(self, stage: PlannedStage) -> None:
        """Raise `TrainingInterrupted` if a signal asked to stop; the work of the stage will be repeated."""
        self._run.stop.agree()
        received = self._run.stop.received
        if received is not None:
            log.info("%s: stopped in stage %s%s", received.name, stage.name, self._run.output.how_to_resume())
            raise TrainingInterrupted(received)

    def _change_to(self, stage: PlannedStage) -> None:
        """Set up a stage that takes over from the one before, if any has trained.

        The path is the same for a run that was resumed between two stages: the one before is set up and restored then.
        """
        before = self._setup
        if before is None:
            self._set_up(stage, self._create_warmstarter())
            return
        keeps = keeps_graph(before.params, stage.params, stage.transfer)
        end = StageEnd.of(before, keeps)
        self.progress.position = next_position(before.params, stage.params, self.progress, stage.first_epoch)
        self.progress.begin_epoch_after(stage.first_epoch - 1)
        model = before.model if keeps else None
        if not keeps:
            # Its memory may be needed for the next one, and models contain circles.
            if self._loop is not None:
                self._loop.release_model()
            self._setup = self._loop = before = None
            self._opened.close()
            gc.collect()
        self._set_up(stage, None, before)
        setup = self.setup
        if setup.model is model:
            return
        with transfer_flags(self._run.params, stage):
            log_transfer(hand_over(end, setup, stage.transfer), end)

    def _set_up(
        self, stage: PlannedStage, warmstarter: WarmStarter | None, before: TrainingSetup | None = None
    ) -> None:
        """Set up a stage.

        Args:
            stage: the stage, with its params.
            warmstarter: gives the model its first weights; None: it gets them later.
            before: the stage before, if its graph may be kept.
        """
        self._opened.close()
        params: Params = stage.params
        if self._run.has_stages:
            log.info("stage %s: epochs %d to %d", stage.name, stage.first_epoch, stage.last_epoch)
        backend.seed(_seed(params.random_seed or 0, self._index))
        run = self._run.with_precision(params.device.precision)
        self._opened.enter_context(precision_scope(params.device.precision))
        with flags_of(params, "trainer"):
            scenario = self._scenario_of(stage, before)
            self._setup = set_up_training(run, stage, scenario, warmstarter, before, self.progress)
            is_same = before is not None and self._setup.model is before.model
            prepare_export(self._setup, run.output.models if is_same else None)
        self._opened.enter_context(self._setup.opened())

    def _scenario_of(self, stage: PlannedStage, before: TrainingSetup | None) -> Scenario:
        """Return the scenario of a stage, with the trained graph of the stage before if that still fits."""
        params: Params = stage.params
        if before is not None and not diff(before.params.scenario, params.scenario):
            return before.scenario
        # The given one is kept for the main stage: the caller holds it, and with it the model of the stage it is
        # built in.
        is_given = params is self._run.params and stage.name == MAIN
        scenario: Scenario = self._given if is_given else construct(self._scenario_cls, params.scenario)
        if before is not None and _specs(scenario) == _specs(before.scenario):
            scenario.take_network(before.scenario)
        return scenario


def _seed(seed: int, index: int) -> int:
    """Return the seed of the stage with an index; the first one has that of the run."""
    return seed if index == 0 else int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


def _specs(scenario: Scenario) -> Any:
    data = scenario.data
    return data.input_layer_specs(), data.target_layer_specs()
