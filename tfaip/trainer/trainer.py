"""The trainer: one run, from params to the exported model."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import keras

from tfaip.backend.active import backend
from tfaip.components.loading import load_trusted_scenario, scenario_id_of
from tfaip.components.scenario import ScenarioComponents
from tfaip.components.userlogs import console_unless_configured, user_logs
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.device.collectives import barrier, run_on_chief
from tfaip.errors import UsageError
from tfaip.lav.evaluation import evaluation_pipeline
from tfaip.model.kerasgraph import KerasGraph
from tfaip.model.summary import summary_lines
from tfaip.model.weights import WeightsDoNotFit
from tfaip.params.fields import copied
from tfaip.params.settings import flags_of, prepare
from tfaip.params.stored import from_dict, load_params
from tfaip.params.tree import fill_shared, nodes_of
from tfaip.params.types import type_argument
from tfaip.predict.params import PredictorParams
from tfaip.predict.predictor import Predictor
from tfaip.trainer import start
from tfaip.trainer.best import EarlyStoppingStatus
from tfaip.trainer.history import History, read_history
from tfaip.trainer.modelbuilding import build_training_model
from tfaip.trainer.params import ProgressBarMode, TrainerParams
from tfaip.trainer.run.directory import RunDirectory, find_run
from tfaip.trainer.run.permission import Permission
from tfaip.trainer.stagedrun import Run
from tfaip.trainer.stages.program import Preview, main_stage, preview_stages
from tfaip.trainer.state import TrainingProgress
from tfaip.trainer.stepcallbacks import named_callbacks
from tfaip.trainer.training import StopReason, Training
from tfaip.trainer.validation import EpochEvaluation
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.classes import construct, refuse_uncalled
from tfaip.util.logging import RunLog, is_debug, logger, only_warnings
from tfaip.util.reading import read_json
from tfaip.util.terminal import table_lines
from tfaip.util.typing import Logs

P = TypeVar("P", bound=TrainerParams)

log = logger(__name__)

_UNCALLED = {
    "restore_trainer": "create_trainer of the scenario",
    "parse_trainer_params": "create_trainer of the scenario",
    "setup_model": "build_model, or create_graph of the model",
    "_create_optimizer": "cls and arguments of the optimizer params",
    "create_train_params_logger_callback": "setup_callbacks",
}


class Trainer(Generic[P]):
    """Trainer of a scenario.

    The trainer works with a copy of the params (`params`), which the run completes: the drawn seed, the backend, the
    status of early stopping. Of the caller's object only `current_epoch` changes, after a training; `params.scenario`
    is shared, since the scenario has been built from it.

    Args:
        params: the trainer params; `params.scenario` are those of `scenario`.
        scenario: the scenario to train.
        restore: continue the run in `params.output_dir` from its newest checkpoint; a run that was stopped before its
            first one begins again.
        checkpoint: with `restore`: continue from the checkpoint of this name instead of the newest.
        from_stage: with `restore`: run all stages again from the one of this name on.
        permission: what the user has typed for the run, recorded in the user's state directory so that resuming does
            not ask for it again; None: nothing is recorded.

    Raises:
        UsageError: if a value in the params does not fit the type of its field.
        TypeError: if a subclass overrides a method that is only called by users.
    """

    def __init__(
        self,
        params: P,
        scenario: ScenarioComponents[Any, Any],
        restore: bool = False,
        checkpoint: str | None = None,
        from_stage: str | None = None,
        permission: Permission | None = None,
    ) -> None:
        refuse_uncalled(type(self), Trainer, _UNCALLED)
        self._given_params = self._params = params
        # What a run finds out completes a copy: nodes, lists, tuples and dicts are copied, other values, which may be
        # large, are shared; so is `params.scenario`, since the scenario was built from this object.
        copies: dict[int, Any] = {}
        with suppress(RecursionError):  # it contains itself: the check of the params names the field
            copies.update((id(node), node) for node in nodes_of(params.scenario))  # copied as they are
            self._params = copied(params, copies)
        prepare(self._params, "trainer")
        if scenario.params is not params.scenario:
            prepare(scenario.params, "scenario")
        fill_shared(self._params, scenario.params)
        self._scenario = scenario
        self._restore = restore
        self._checkpoint = checkpoint
        self._from_stage = from_stage
        self._permission = permission
        self._is_trial = False
        self._callbacks: list[keras.callbacks.Callback] | None = None
        # The run that is trained, or was trained last, or that a model was built in.
        self._run: Run | None = None
        self._is_running = self._is_fitted = False

    @classmethod
    def params_cls(cls) -> type[P]:
        """Return the params class that the trainer was declared with."""
        return type_argument(cls, Trainer, 0)

    @staticmethod
    def parse_trainer_params(values: Mapping[str, Any]) -> TrainerParams[Any, Any]:
        """Return trainer params from the content of a `trainer_params.json`.

        The class is that of the scenario which the content names (`scenario.scenario_id`). Its package, and
        those of the classes in its default params, are trusted.

        Raises:
            UsageError: if it names no scenario, or anything of another package.
        """
        scenario: Any = load_trusted_scenario(scenario_id_of(values, "the dict"))
        params: TrainerParams[Any, Any] = from_dict(
            scenario.trainer_params_cls(), values, trusted=scenario.declared_packages()
        )
        return params

    @staticmethod
    def restore_trainer(path: str | Path, **kwargs: Any) -> Trainer[Any]:
        """Return the trainer that continues a run.

        Args:
            path: the directory of the run, its checkpoint directory, or one checkpoint in it.
            kwargs: further arguments of the trainer.

        Raises:
            UsageError: if there is no run, or its params name something that they must not.
        """
        root, checkpoint = find_run(Path(path))
        file = RunDirectory(root).params_file
        scenario: Any = load_trusted_scenario(scenario_id_of(read_json(file), file))
        params = load_params(file, scenario.trainer_params_cls(), trusted=scenario.declared_packages())
        params.output_dir = str(root)  # it may have been moved
        trainer: Trainer[Any] = scenario.create_trainer(params, restore=True, checkpoint=checkpoint, **kwargs)
        return trainer

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

    _data = data  # for subclasses

    @property
    def epoch(self) -> int:
        """Number of epochs that were trained so far."""
        return self._progress.epoch

    @property
    def _progress(self) -> TrainingProgress:
        return TrainingProgress() if self._run is None else self._run.progress

    @property
    def history(self) -> History:
        """Rates and values of all epochs so far, as in `history.json`."""
        return self._progress.history

    @property
    def early_stopping(self) -> EarlyStoppingStatus:
        """Status of early stopping after the last completed epoch."""
        training = None if self._run is None else self._run.latest
        return EarlyStoppingStatus() if training is None else training.early_stopping()

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the last training has ended; None: it is running, or there was none."""
        training = None if self._run is None else self._run.latest
        if training is None:
            return None
        backend.synchronize(training.model)  # `fit` may run
        return training.stop_reason

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
            UsageError: if the params, the data or the output directory cannot work; what is found before
                the first batch writes nothing.
            TrainingInterrupted: after Ctrl-C or SIGTERM; a checkpoint was written.
        """
        with self._opened_run(callbacks) as run:
            self._run, self._is_running, self._is_fitted = run, True, False
            try:
                self.fit()
            finally:  # also of a training that was interrupted
                self._is_running = False
                self._given_params.current_epoch = self._params.current_epoch
            self._export(run)
            barrier(run.devices, "end of the training")
            return run.progress.history.values(run.progress.epoch)

    @contextmanager
    def _opened_run(self, callbacks: list[keras.callbacks.Callback] | None) -> Iterator[Run]:
        """Find the state to continue from, build the run and its first stage, and take the directory."""
        params, scenario = self._params, self._scenario
        with ExitStack() as stack:
            stack.enter_context(console_unless_configured())
            stack.enter_context(flags_of(params, "trainer"))
            directory = params.run_directory()
            self._call_setup_hooks()
            start.check_params(params, scenario)
            devices, stop = stack.enter_context(start.opened_devices(params))
            run_log = stack.enter_context(RunLog())
            stack.enter_context(user_logs(type(self), type(scenario), params))
            # Find the state to continue from; nothing is changed yet.
            is_resumed = self._restore or self._has_trained(directory)
            state = None
            if is_resumed:
                state = start.state_to_continue(directory, params, self._checkpoint, self._from_stage)
            restored = None if state is None else state.checkpoint
            start.seed_run(params, scenario, devices, restored)  # a drawn seed is one of the params that are compared
            is_new = state is None or not self._restore and start.changes_text(params, restored)
            if directory is not None and is_new:
                check = flags_of(params, "trainer")(directory.check_free)  # other processes get the text of an error
                run_on_chief(devices, partial(check, params.overwrite))
            # Build the run and the first stage, or the one of the checkpoint.
            preview = preview_stages(params, scenario)
            if self._is_trial:
                preview = preview.trial(params)
            run = stack.enter_context(Run(params, scenario, preview, directory, devices, stop, self.create_warmstarter))
            self._callbacks = [*(callbacks or []), *named_callbacks(params, scenario)]
            if preview.has_stages:
                preview.log()
            try:
                run.begin(restored, None if state is None else state.repeated)
            except WeightsDoNotFit as error:
                changes = start.changes_text(params, restored)
                if not changes:
                    raise
                raise UsageError(f"{error}; changed: {changes}") from error
            # A run that begins again continues with the rates that a file gave to it.
            start.load_history(run, is_resumed)
            # Take the directory.
            if run.output.directory is not None:
                # It belongs to one process: a requeued job must not mix with the one that it replaces.
                stack.enter_context(run.output.directory.locked())
                start.claim_directory(run, type(scenario), state, self._permission)
                run_log.write_to(run.output.directory.log_file)
            stack.enter_context(run.output)
            if restored is not None:
                start.log_changes(run, restored)
            if run.output.directory is not None:
                run.output.save_history(run.progress.history)
            yield run

    def _call_setup_hooks(self) -> None:
        """Call `setup_data` and `setup_steps_per_epoch`; warn if they set numbers of steps, as for tfaip 1.2."""
        before, samples = dict(vars(self)), self._params.samples_per_epoch
        self.setup_data()
        self.setup_steps_per_epoch()
        changed = [name for name, value in vars(self).items() if before.get(name) is not value]
        counts = [name for name in changed if "steps" in name or "per_epoch" in name]
        if counts and self._params.samples_per_epoch == samples:
            advice = "which the training does not read: set self.params.samples_per_epoch, a number of samples"
            log.warning("%s sets %s, %s", type(self).__name__, ", ".join(counts), advice)

    def _has_trained(self, directory: RunDirectory | None) -> bool:
        """Return True if the params are those that a training in the directory has left, with all epochs trained."""
        params = self._params
        is_done = 0 < params.epochs <= params.current_epoch
        return is_done and directory is not None and directory.checkpoints.is_dir() and not params.overwrite

    def _export(self, run: Run) -> None:
        """Export the final model, and log the summary."""
        training, output, history = run.training, run.output, run.progress.history
        with training.model.optimizer.with_averages():
            output.export_final()
        copy_to = training.params.early_stopping.best_model_output_dir
        if copy_to and run.devices.is_chief and not self._is_trial:
            output.copy_best(Path(copy_to))
        rows = output.summary(has_best=training.best.epoch(history) is not None)
        pairs = {"Best epoch": training.best.describe(history), **rows}
        for line in table_lines(list(pairs.items()), left=2):
            log.info("%s", line)

    def fit(self) -> Logs:
        """Train with the params as they are, as a part of `train`; override it to train more than once.

        Another call goes on with the same weights, from `params.current_epoch` to `params.epochs`:

            def fit(self):
                super().fit()
                self.params.current_epoch, self.params.learning_rate.lr = 0, 1e-4
                return super().fit()

        The epochs of the run are counted on. A run that was stopped in the first call can be resumed, one that was
        stopped in another call cannot.

        Returns:
            All values of the last epoch by name.

        Raises:
            UsageError: if no training is running.
        """
        run = self._run
        if run is None or not self._is_running:
            raise UsageError("fit is a part of train: call train, and override fit to train a second time in it")
        start.check_params(self._params, self._scenario)
        if self._is_fitted:
            run.train_again(self._params)
        else:
            self._params.current_epoch = run.current_epoch
        run.train(lambda optimizer: self.setup_callbacks(optimizer, self._callbacks))
        self._is_fitted, self._params.current_epoch = True, run.current_epoch
        self._scenario = run.training.scenario
        return run.progress.history.values(run.progress.epoch)

    @property
    def model(self) -> keras.layers.Layer:
        """The Keras model that `build_model` has made, or the graph, with the weights of the last update."""
        with self._ready() as training:
            graph = training.scenario.graph
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
        with self._ready() as training, training.model.optimizer.with_averages():
            params, pipeline = training.params, training.val_data
            if data is not None:
                generator = data if isinstance(data, DataGeneratorParams) else RawDataGeneratorParams(list(data))
                pipeline = evaluation_pipeline(
                    training.scenario, params.gen.setup.val, generator, params.random_seed or 0
                )
            if pipeline is None:
                raise UsageError("there are no validation data: give evaluate the params of a generator, or samples")
            return EpochEvaluation(training).validate(pipeline)

    def predict(self, data: Any) -> list[Sample]:
        """Return the predicted samples, as a predictor with the final model gives them; see `evaluate` for the weights.

        Args:
            data: params of a generator, or samples or inputs as `Predictor.predict_raw` takes them.
        """
        with self._ready() as training, training.model.optimizer.with_averages():
            params, scenario = training.params, training.scenario
            pipeline = replace(params.gen.setup.val, batch_drop_remainder=False)
            options = PredictorParams(pipeline, silent=True, run_eagerly=params.force_eager)
            options.random_seed = params.random_seed or 0
            predictor_cls: type[Predictor] = getattr(type(scenario), "predictor_cls", lambda: Predictor)()
            predictor = predictor_cls(options, scenario.data)
            predictor.set_model(scenario.graph)
            is_generator = isinstance(data, DataGeneratorParams)
            return list(predictor.predict(data) if is_generator else predictor.predict_raw(data))

    @contextmanager
    def _ready(self) -> Iterator[Training]:
        """Open the devices, with the model that was trained last, or a new one."""
        params, scenario, run = self._params, self._scenario, self._run
        if run is not None and self._is_running:  # within `train`
            yield run.training
            return
        known = None if run is None else run.stop
        with flags_of(params, "trainer"), start.opened_devices(params, known) as (devices, stop):
            if run is None:
                if self._restore:
                    raise UsageError("the trainer resumes a run and has no model yet: call train, or open its model")
                self._call_setup_hooks()
                start.check_params(params, scenario)
                start.seed_run(params, scenario, devices, None)
                preview = Preview([main_stage(params)], is_fixed=True)
                with Run(params, scenario, preview, None, devices, stop, self.create_warmstarter) as run:
                    run.begin()
                self._run = run
            yield run.training

    def check_resume(self) -> tuple[str, int] | None:
        """Read and verify the checkpoint that `train` would continue from; change nothing.

        Returns:
            The name of the checkpoint, and the number of completed epochs; None: the run begins again.

        Raises:
            UsageError: if there is no undamaged checkpoint, or the run cannot be continued now or with these params.
        """
        with flags_of(self._params, "trainer"):
            directory = self._params.run_directory()
            state = start.state_to_continue(directory, self._params, self._checkpoint, self._from_stage)
            if state is None or directory is None:
                return None
            start.check_params(self._params, self._scenario)
            with directory.locked():
                return state.name, state.checkpoint.state["epoch"]

    def dry_run(self) -> None:
        """Build everything, and take one batch through training, validation, export, checkpoint and resume.

        Writes to a temporary directory only; the log of the trial is shown with `TFAIP_LOG_LEVEL=debug`.
        """
        params, scenario = self._params, self._scenario
        if params.history_file is not None and Path(params.history_file).exists():
            read_history(params.history_file)  # which a trial has not
        with console_unless_configured(), tempfile.TemporaryDirectory(prefix="tfaip-dry-run-") as directory:
            trial = copy.deepcopy(params)
            trial.output_dir, trial.write_checkpoints, trial.history_file = f"{directory}/run", True, None
            trial.progress_bar_mode, trial.profile_steps = ProgressBarMode.PLAIN, [1, 1]
            with nullcontext() if is_debug() else only_warnings():
                for restore in (False, True):
                    trainer = type(self)(trial, construct(type(scenario), trial.scenario), restore=restore)
                    trainer._is_trial = True
                    trainer.train()
                    trial = trainer.params  # with the seed that was drawn
            preview, stages = preview_stages(params, scenario), ""
            if preview.has_stages:
                stages = f" of each of {len(preview.stages)} {'' if preview.is_complete else 'known '}stages"
                preview.log()
            target = "without an output directory" if params.output_dir is None else f"into {params.output_dir}"
            name, backend = scenario.scenario_id(), keras.backend.backend()
            log.info("dry run: would train %s for %d epochs %s, on keras/%s", name, params.epochs, target, backend)
            log.info("one batch%s went through training, validation, export and resume; nothing was kept", stages)

    def summary(self) -> list[str]:
        """Build the model, without data; return a table of its layers, output shapes and parameters."""
        start.check_params(self._params, self._scenario)
        with only_warnings(), start.opened_devices(self._params) as (devices, _), devices.building():
            with flags_of(self._params, "trainer"):
                build_training_model(self._params, self._scenario, 1, devices)
            return summary_lines(self._scenario.graph)
