"""The trainer: one run, from params to the exported model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import keras

from tfaip.components.scenario import ScenarioComponents
from tfaip.components.userlogs import console_unless_configured, user_logs
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.device.collectives import barrier, run_on_chief
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.lav.evaluation import evaluation_pipeline
from tfaip.model.kerasgraph import KerasGraph
from tfaip.model.summary import summary_lines
from tfaip.params.generics import type_argument
from tfaip.params.settings import flags_of
from tfaip.params.sharing import fill_shared
from tfaip.params.storable import prepare
from tfaip.predict.params import PredictorParams
from tfaip.predict.predictor import Predictor
from tfaip.trainer.dryrun import check_left_out, log_trial, shortened, trial_params
from tfaip.trainer.earlystopping import EarlyStoppingStatus
from tfaip.trainer.history import History
from tfaip.trainer.historyreading import read_history_file
from tfaip.trainer.hookeffects import call_setup_hooks, warn_of_searched_callbacks
from tfaip.trainer.modelsetup import build_training_model
from tfaip.trainer.namedcallbacks import named_callbacks
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.reporting.progress import log_summary
from tfaip.trainer.resume import (
    StartState,
    changes_named,
    checkpoint_to_resume,
    end_comparisons,
    load_history,
    log_changes,
    state_before_stage,
)
from tfaip.trainer.run.checkpoint import CheckpointStore
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.output import RunOutput
from tfaip.trainer.run.permission import Permission
from tfaip.trainer.runparams import copy_for_run, store_params
from tfaip.trainer.runparts import create_parts
from tfaip.trainer.runstart import check_equal_params, check_params, opened_devices, seed_run
from tfaip.trainer.setup import TrainingSetup
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stagerunner import StageRunner
from tfaip.trainer.stages.params import MAIN
from tfaip.trainer.stages.program import PlannedStage, Preview, StageKind, StageProgram, planned_stages, preview_stages
from tfaip.trainer.stages.records import RUNNING, StageSequence
from tfaip.trainer.stagesetup import set_up_training
from tfaip.trainer.storedrun import params_of_run, restored_trainer
from tfaip.trainer.trainingprogress import TrainingProgress
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.construction import construct
from tfaip.util.logging import RunLog, is_debug, logger, only_warnings
from tfaip.util.overriding import refuse_uncalled
from tfaip.util.process import collecting_new_objects
from tfaip.util.typing import Logs

P = TypeVar("P", bound=TrainerParams)

log = logger(__name__)

_FOR_USERS = ("restore_trainer", "parse_trainer_params")


class Trainer(Generic[P]):
    """Trainer of a scenario.

    The trainer works with a copy of the params (`params`), which the run completes: the drawn seed,
    the backend, the status of early stopping. Of the caller's object
    only `current_epoch` changes, after a training; `params.scenario` is shared, since the scenario has
    been built from it.

    Args:
        params: the trainer params; `params.scenario` are those of `scenario`.
        scenario: the scenario to train.
        restore: continue the run in `params.output_dir` from its newest checkpoint.
        checkpoint: with `restore`: continue from the checkpoint of this name instead of the newest.
        from_stage: with `restore`: run all stages again from the one of this name on.

    Raises:
        UsageError: if a value in the params does not fit the type of its field.
        TypeError: if a subclass overrides a method that is only called by users.
    """

    permission: Permission | None = None
    """Set by commands: what was typed for the run is recorded in the user's state directory."""
    begins_again = False
    """Set by commands: the run in the output directory is replaced if it was stopped before its first checkpoint."""

    def __init__(
        self,
        params: P,
        scenario: ScenarioComponents[Any, Any],
        restore: bool = False,
        checkpoint: str | None = None,
        from_stage: str | None = None,
    ) -> None:
        refuse_uncalled(type(self), Trainer, dict.fromkeys(_FOR_USERS, "create_trainer of the scenario"))
        self._given_params = params
        self._params = copy_for_run(params)
        prepare(self._params, "trainer")
        if scenario.params is not params.scenario:
            prepare(scenario.params, "scenario")
        fill_shared(self._params, scenario.params)
        self._scenario = scenario
        self._restore = restore
        self._checkpoint = checkpoint
        self._from_stage = from_stage
        self._stop = StopRequest()
        self._progress = TrainingProgress()
        self._runner: StageRunner | None = None
        self._is_fitted = False
        self._callbacks: list[keras.callbacks.Callback] | None = None
        self._setup: TrainingSetup | None = None
        self._logs: Logs = {}
        self._is_trial = False

    @classmethod
    def params_cls(cls) -> type[P]:
        """Return the params class that the trainer was declared with."""
        return type_argument(cls, Trainer, 0)

    @staticmethod
    def parse_trainer_params(values: Mapping[str, Any]) -> TrainerParams[Any, Any]:
        """Return trainer params from the content of a `trainer_params.json`, see `params_of_run`."""
        return params_of_run(values)

    @staticmethod
    def restore_trainer(path: str | Path, **kwargs: Any) -> Trainer[Any]:
        """Return the trainer that continues a run.

        Args:
            path: the directory of the run, its checkpoint directory, or one checkpoint in it.
            kwargs: further arguments of the trainer.

        Raises:
            UsageError: if there is no run, or its params name something that they must not.
        """
        return restored_trainer(Path(path), **kwargs)

    @property
    def params(self) -> P:
        """Trainer params of this run, a copy of those that the constructor got."""
        return self._params

    @property
    def scenario(self) -> ScenarioComponents[Any, Any]:
        """The scenario."""
        return self._scenario

    @property
    def data(self) -> DataBase[Any]:
        """The data of the scenario."""
        return self._scenario.data

    @property
    def _data(self) -> DataBase[Any]:
        """The same, for subclasses."""
        return self._scenario.data

    @property
    def epoch(self) -> int:
        """Number of epochs that were trained so far."""
        return self._current_progress().epoch

    @property
    def history(self) -> History:
        """Rates and values of all epochs so far, as in `history.json`."""
        return self._current_progress().history

    @property
    def early_stopping(self) -> EarlyStoppingStatus:
        """Status of early stopping after the last completed epoch."""
        return self._current_progress().early_stopping

    def _current_progress(self) -> TrainingProgress:
        """Return the progress of the training that is running, or of the last one."""
        return self._progress if self._runner is None else self._runner.progress

    def setup_callbacks(
        self, optimizer: keras.optimizers.Optimizer, callbacks: list[keras.callbacks.Callback] | None
    ) -> list[keras.callbacks.Callback]:
        """Return the callbacks of this training; override to add some.

        Args:
            optimizer: the built optimizer.
            callbacks: the argument of `train`.
        """
        return list(callbacks or [])

    def setup_data(self) -> None:
        """Change params that depend on the data, before the pipelines are built; override it. Default: nothing."""

    def setup_steps_per_epoch(self) -> None:
        """Set `params.samples_per_epoch`, after `setup_data`; override it. Default: nothing, the params say it."""

    def create_warmstarter(self) -> WarmStarter:
        """Return the source of the first weights of a fresh training; override to take them from elsewhere."""
        return WarmStarter(self._params.warmstart)

    def train(self, callbacks: list[keras.callbacks.Callback] | None = None) -> Logs:
        """Train until the last epoch, then export the final model.

        Returns:
            All values of the last epoch by name.

        Raises:
            UsageError: if the params, the data or the output directory cannot work; nothing was
                written.
            TrainingInterrupted: after Ctrl-C or SIGTERM; a checkpoint was written.
        """
        with ExitStack() as stack:
            stack.enter_context(flags_of(self._params, "trainer"))
            directory = self._params.run_directory()
            stack.enter_context(console_unless_configured())
            call_setup_hooks(self, Trainer)
            warn_of_searched_callbacks(type(self), Trainer)
            check_params(self._params, self._scenario)
            devices = stack.enter_context(opened_devices(self._params, self._stop))
            run_log = stack.enter_context(RunLog())
            stack.enter_context(user_logs(type(self), type(self._scenario), self._params))
            start = self._state_to_resume(directory) if self._restore else None
            restored = None if start is None else start.checkpoint
            stack.enter_context(changes_named(self._params, restored))
            if directory is not None and not self._restore:
                run_on_chief(devices, partial(self._check_free, directory))
            check_equal_params(self._params, devices)
            seed_run(self._params, self._scenario.scenario_id(), devices, restored)
            preview = self._preview()
            run = create_parts(self._params, preview, directory, devices, self._stop)
            self._callbacks = [*(callbacks or []), *named_callbacks(self._params, self._scenario)]
            if run.has_stages:  # the model of each stage is freed by a collection
                stack.enter_context(collecting_new_objects())
                preview.log()
            program = partial(self._program, preview)
            runner = StageRunner(run, program, self._scenario, self.create_warmstarter, self._is_trial)
            stages = stack.enter_context(runner)
            stages.begin(restored, None if start is None else start.repeated)
            self._progress = stages.progress
            # A run that begins again continues with the rates that a file gave to it.
            is_resumed = self._restore or self.begins_again
            reached = None if stages.latest_setup is None else stages.latest_setup.params
            load_history(self._params, reached, run.output, self._progress, devices, is_resumed)
            if run.directory is not None:
                # A run directory belongs to one process: a requeued job must not mix with the one
                # that it replaces.
                stack.enter_context(run.directory.locked())
            stack.enter_context(run.output)
            if run.directory is not None:
                self._claim_directory(run.directory, run.output, start, stages)
                run_log.write_to(run.directory.log_file)
            if restored is not None and not stages.is_in_later_fit:
                log_changes(self._params, restored)
                if stages.best is not None:
                    end_comparisons(self._params, restored, stages.best, self._progress.history)
            if run.directory is not None:
                run.output.save_history(self._progress.history)
            logs = self._run(stages)
            barrier(devices, "end of the training")
            return logs

    def fit(self) -> Logs:
        """Train with the params as they are, as a part of `train`; override it to train more than once.

        Another call goes on with the same weights, from `params.current_epoch` to `params.epochs`:

            def fit(self):
                super().fit()
                self.params.current_epoch, self.params.learning_rate.lr = 0, 1e-4
                return super().fit()

        The epochs of the run are counted on. A training that is resumed calls it again from the
        beginning; what is trained already is not repeated.

        Returns:
            All values of the last epoch by name.

        Raises:
            UsageError: if no training is running.
        """
        runner = self._runner
        if runner is None:
            raise UsageError(
                "fit is a part of train: call train, and override fit to train a second time in it; a run that has "
                "ended can only be resumed with more epochs, or be the warm start of another one"
            )
        check_params(self._params, self._scenario)
        if not self._is_fitted:
            self._params.current_epoch = runner.current_epoch
        run = partial(runner.run_again, self._params) if self._is_fitted else runner.run
        self._logs = run(lambda optimizer: self.setup_callbacks(optimizer, self._callbacks))
        self._is_fitted, self._params.current_epoch = True, runner.current_epoch
        self._scenario = runner.setup.scenario
        return self._logs

    def _preview(self) -> Preview:
        """Return the stages as far as they are known; of a trial, each with one epoch."""
        preview = preview_stages(self._params, self._scenario)
        return Preview(list(shortened(preview, self._params)), preview.is_complete) if self._is_trial else preview

    def _program(self, preview: Preview, history: History) -> StageProgram:
        """Return the program of the stages; that of a trial are those of the preview."""
        if self._is_trial:
            return (stage for stage in preview.stages)
        return planned_stages(self._params, self._scenario, history)

    @property
    def model(self) -> keras.layers.Layer:
        """The Keras model that `build_model` has made, or the graph, with the weights of the last update."""
        with self._ready() as setup:
            graph = setup.scenario.graph
            return graph.network if isinstance(graph, KerasGraph) else graph

    def evaluate(self, data: Any = None) -> Logs:
        """Return losses and metrics by name, as the validation of an epoch has them, but without `val_`.

        With averages of the weights (`calc_ema`), they are those of the averages. Without a training the model has its
        first weights.

        Args:
            data: params of a generator, or samples with targets; None: the validation data.

        Raises:
            UsageError: if there are no data, or the trainer resumes a run and has not trained yet.
        """
        with self._ready() as setup, setup.model.optimizer.with_averages():
            params, pipeline = setup.params, setup.evaluation.val
            if data is not None:
                generator = data if isinstance(data, DataGeneratorParams) else RawDataGeneratorParams(list(data))
                pipeline = evaluation_pipeline(setup.scenario, params.gen.setup.val, generator, params.random_seed or 0)
            if pipeline is None:
                raise UsageError("there are no validation data: give evaluate the params of a generator, or samples")
            return setup.evaluation.validate(pipeline)

    def predict(self, data: Any) -> list[Sample]:
        """Return the predicted samples, as a predictor with the final model gives them; see `evaluate` for the weights.

        Args:
            data: params of a generator, or samples or inputs as `Predictor.predict_raw` takes them.
        """
        with self._ready() as setup, setup.model.optimizer.with_averages():
            params, scenario = setup.params, setup.scenario
            pipeline = replace(params.gen.setup.val, batch_drop_remainder=False)
            options = PredictorParams(pipeline, silent=True, run_eagerly=params.force_eager)
            options.random_seed = params.random_seed or 0
            predictor_cls: type[Predictor] = getattr(type(scenario), "predictor_cls", lambda: Predictor)()
            predictor = predictor_cls(options, scenario.data)
            predictor.set_model(scenario.graph)
            is_generator = isinstance(data, DataGeneratorParams)
            return list(predictor.predict(data) if is_generator else predictor.predict_raw(data))

    @contextmanager
    def _ready(self) -> Iterator[TrainingSetup]:
        """Open the devices, with the model that was trained last, or a new one."""
        if self._runner is not None:  # within `train`
            yield self._runner.setup
            return
        with flags_of(self._params, "trainer"), opened_devices(self._params, self._stop) as devices:
            if self._setup is None:
                if self._restore:
                    raise UsageError("the trainer resumes a run and has no model yet: call train, or open its model")
                call_setup_hooks(self, Trainer)
                check_params(self._params, self._scenario)
                seed_run(self._params, self._scenario.scenario_id(), devices, None)
                stage = PlannedStage(MAIN, StageKind.TRAIN, 0, 1, self._params.epochs, self._params)
                run = create_parts(self._params, Preview([stage]), None, devices, self._stop)
                self._setup = set_up_training(run, stage, self._scenario, {RUNNING: None}, self.create_warmstarter())
            yield self._setup

    def check_resume(self) -> tuple[str, int]:
        """Read and verify the checkpoint that `train` would continue from; change nothing.

        Returns:
            The name of the checkpoint, and the number of completed epochs.

        Raises:
            UsageError: if there is no undamaged checkpoint, or the run cannot be continued now or
                with these params.
        """
        with flags_of(self._params, "trainer"):
            directory = self._params.run_directory()
            if directory is None or not self._restore:
                raise UsageError("the trainer does not resume: create it with restore=True, and an output directory")
            start = self._state_to_resume(directory)
            check_params(self._params, self._scenario)
            self._check_stages(directory, start)
            with directory.locked():
                history_file = Path(self._params.history_file or directory.history_file)
                if history_file.exists():
                    read_history_file(history_file)
            return start.name, int(start.checkpoint.state["epoch"])

    def _state_to_resume(self, directory: RunDirectory | None) -> StartState:
        if self._from_stage is None and self._checkpoint is None and directory is not None:
            self._from_stage = directory.stage_directories().intended_repetition(directory.params_file)
            if self._from_stage is not None:
                log.info("the run is repeated from stage %s, as an interrupted command was told", self._from_stage)
        if self._from_stage is None:
            return checkpoint_to_resume(directory, self._checkpoint)
        return state_before_stage(directory, self._params, self._from_stage)

    def _check_stages(self, directory: RunDirectory, start: StartState) -> None:
        """Raise if a stage that is done was changed, and is not repeated."""
        state, history = start.checkpoint.state, History()
        trained = History.from_dict(state["history"])
        program = planned_stages(self._params, self._scenario, history)
        sequence = StageSequence(program, history, directory.root, Devices())
        sequence.load(directory.stage_directories())
        sequence.repeated = start.repeated
        sequence.reach(state, trained)
        if sequence.stage is not None and state["epoch"] >= sequence.stage.last_epoch:
            result = sequence.answer()
            if result is not None:
                sequence.next(result, trained)
        sequence.answer_work(trained)

    def dry_run(self) -> None:
        """Build everything, and take one batch through training, validation, export, checkpoint and resume.

        Writes to a temporary directory only; the log of the trial is shown with
        `TFAIP_LOG_LEVEL=debug`.
        """
        check_left_out(self._params)
        with console_unless_configured(), tempfile.TemporaryDirectory(prefix="tfaip-dry-run-") as directory:
            params = trial_params(self._params, Path(directory) / "run")
            with nullcontext() if is_debug() else only_warnings():
                params = self._try_out(params, restore=False)  # with the seed that was drawn
                self._try_out(params, restore=True)
            log_trial(self._params, self._scenario.scenario_id(), self._preview())

    def _try_out(self, params: P, restore: bool) -> P:
        """Train one batch of each stage; return the completed params."""
        trial = type(self)(params, construct(type(self._scenario), params.scenario), restore=restore)
        trial._is_trial = True
        trial.train()
        return trial.params

    def summary(self) -> list[str]:
        """Build the model, without data; return a table of its layers, output shapes and parameters."""
        check_params(self._params, self._scenario)
        with only_warnings(), opened_devices(self._params, self._stop) as devices, devices.building():
            with flags_of(self._params, "trainer"):
                build_training_model(self._params, self._scenario, 1, devices)
            return summary_lines(self._scenario.graph)

    def _check_free(self, directory: RunDirectory) -> None:
        with flags_of(self._params, "trainer"):  # here: other processes get the text of an error
            directory.check_free(self._params.overwrite, self.begins_again)

    def _claim_directory(
        self, directory: RunDirectory, output: RunOutput, start: StartState | None, stages: StageRunner
    ) -> None:
        """Make the directory this run's own, and store the params in it.

        What the run repeats is removed only now, when the new process has been built and has taken over the state. A
        process that is killed here may be resumed from any checkpoint that there still is, and what it was told to
        repeat is stored before anything is removed.
        """
        if start is None:
            directory.claim(self._params.overwrite, self.begins_again)
        else:
            directory.clean_up()
        is_resumed = start is not None
        store_params(directory, self._params, type(self._scenario), self.permission, is_resumed, self._from_stage)
        if start is not None:
            store = CheckpointStore(directory.checkpoints, self._params.keep_checkpoints, directory.root)
            output.restore_best(start.best, start.name)
            start.store(store)
            stages.forget_repeated(self._from_stage)
            directory.stage_directories().forget_repetition()

    def _run(self, stages: StageRunner) -> Logs:
        """Train all stages, export the final model, and log the summary."""
        self._runner = stages
        self._is_fitted = False
        try:
            self.fit()
            stages.check_restored()
        finally:
            # Also of a training that was interrupted.
            self._progress, self._setup = stages.progress, stages.latest_setup
            self._given_params.current_epoch = self._params.current_epoch
            self._runner = None
        setup = stages.setup
        with setup.model.optimizer.with_averages():
            setup.output.export_final()
        if not self._is_trial:  # a trial leaves nothing that a summary could name
            history = self._progress.history
            rows = setup.output.summary(has_best=setup.best.epoch(history) is not None)
            log_summary({"Best epoch": setup.best.describe(history), **rows})
        return self._logs
