"""The trainer: one run, from params to the exported model."""

from __future__ import annotations

import copy
import random
import secrets
import tempfile
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import keras
import numpy as np

from tfaip.data.data import DataBase
from tfaip.device.devices import Devices, open_devices
from tfaip.device.processes import check_equal, from_chief, lost_ones_named, on_chief, wait_for_all
from tfaip.errors import UsageError
from tfaip.params.generics import type_argument
from tfaip.params.serialization import save_params
from tfaip.params.storable import conform, prepare, require_readable
from tfaip.params.tree import ABSENT, is_hidden
from tfaip.scenario.loading import import_root
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.trainer.build import build_parts
from tfaip.trainer.callbacks.progress import print_summary
from tfaip.trainer.checkpoint import Checkpoint, CheckpointStore
from tfaip.trainer.history import History, read_history
from tfaip.trainer.loop import LoopParts, TrainingLoop
from tfaip.trainer.params import ProgressBarMode, TrainerParams
from tfaip.trainer.permission import Permission, record_permission
from tfaip.trainer.returnnfile import is_learning_rate_file
from tfaip.trainer.run_directory import RunDirectory
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.state import flat_params, require_state, stored_params
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.logging import RunLog, is_debug, logger, only_warnings
from tfaip.util.overriding import refuse_uncalled
from tfaip.util.text import shorten_text
from tfaip.util.typing import Logs
from tfaip.util.userlogs import console_unless_configured, user_logs

P = TypeVar("P", bound=TrainerParams)

log = logger(__name__)

# What subclasses of tfaip 1.2 could override, and what does this now.
_NOT_CALLED = {
    "fit": "train, or setup_callbacks",
    "setup_data": "DataBase.create_pipeline",
    "setup_steps_per_epoch": "DataBase.create_pipeline, or set samples_per_epoch",
    "restore_trainer": "train",
}


class Trainer(Generic[P]):
    """Trains a scenario.

    Args:
        params: the trainer params; `params.scenario` are those of `scenario`.
        scenario: what to train.
        restore: continue the run in `params.output_dir` from its newest checkpoint.
        checkpoint: with `restore`: continue from this checkpoint, by name, instead of the newest.

    Raises:
        UsageError: a value in the params does not fit the type of its field.
        TypeError: a subclass has a method of an older version that is not called any more.
    """

    permission: Permission | None = None
    """Set by commands: what was typed for the run is recorded in the user's state directory."""

    def __init__(
        self,
        params: P,
        scenario: ScenarioBase[Any, Any],
        restore: bool = False,
        checkpoint: str | None = None,
    ) -> None:
        refuse_uncalled(type(self), Trainer, _NOT_CALLED)
        prepare(params, "trainer")
        if scenario.params is not params.scenario:
            prepare(scenario.params, "scenario")
        self._params = params
        self._scenario = scenario
        self._restore = restore
        self._checkpoint = checkpoint
        self._stop = StopRequest()
        self._is_trial = False

    @classmethod
    def params_cls(cls) -> type[P]:
        """The params class that the trainer was declared with."""
        return type_argument(cls, Trainer, 0)

    @property
    def params(self) -> P:
        """The trainer params."""
        return self._params

    @property
    def scenario(self) -> ScenarioBase[Any, Any]:
        """The scenario."""
        return self._scenario

    @property
    def data(self) -> DataBase[Any]:
        """The data of the scenario."""
        return self._scenario.data

    def setup_callbacks(
        self, optimizer: keras.optimizers.Optimizer, callbacks: list[keras.callbacks.Callback] | None
    ) -> list[keras.callbacks.Callback]:
        """The callbacks of this training; override to add some.

        Args:
            optimizer: the built optimizer.
            callbacks: what was passed to `train`.
        """
        return list(callbacks or [])

    def create_warmstarter(self) -> WarmStarter:
        """What gives a fresh training its first weights; override to take them from elsewhere."""
        return WarmStarter(self._params.warmstart)

    def train(self, callbacks: list[keras.callbacks.Callback] | None = None) -> Logs:
        """Train until the last epoch, then export the final model.

        Returns:
            all values of the last epoch by name.

        Raises:
            UsageError: something in the params, the data or the output directory cannot work; nothing was written.
            TrainingInterrupted: Ctrl-C or SIGTERM; a checkpoint was written.
        """
        directory = RunDirectory.of(self._params)
        self._check_params()
        with ExitStack() as stack:
            stack.enter_context(console_unless_configured())
            devices = open_devices(self._params.device)
            stack.enter_context(devices.scope())
            stack.enter_context(lost_ones_named(devices))
            if not devices.is_chief:
                stack.enter_context(only_warnings())
            stack.enter_context(self._stop.shared_by(devices))
            run_log = stack.enter_context(RunLog())
            stack.enter_context(user_logs(type(self), type(self._scenario), self._params))
            restored = self._read_checkpoint(directory)
            if directory is not None and restored is None:
                on_chief(devices, partial(directory.check_free, self._params.overwrite))
            if devices.num_processes > 1:
                check_equal(devices, flat_params(stored_params(self._params)))
            if not devices.is_chief:
                directory = None
            self._seed(devices)
            log.info(
                "training %s on keras/%s, %s, random seed %d",
                self._scenario.scenario_id(),
                keras.backend.backend(),
                devices.describe(),
                self._params.random_seed,
            )
            warmstarter = self.create_warmstarter() if restored is None else None
            parts = build_parts(self._params, self._scenario, directory, self._stop, devices, warmstarter)
            stack.callback(parts.events.close)
            stack.enter_context(parts.train)
            if parts.evaluation.val is not None:
                stack.enter_context(parts.evaluation.val)
            if parts.profiler is not None:
                stack.callback(parts.profiler.close)
            if restored is not None:
                parts.state.restore(restored)
            self._load_history(parts, is_new=restored is None)
            if devices.num_processes > 1:
                history = parts.state.progress.history.to_dict()
                parts.state.progress.history = History.from_dict(from_chief(devices, history))
            if directory is not None:
                stack.enter_context(directory.locked())
                self._open_output(directory, parts)
                run_log.write_to(directory.log_file)
                parts.output.save_history(parts.state.progress.history)
            if restored is not None:
                self._log_changes(restored)
            logs = self._run(parts, self.setup_callbacks(parts.model.optimizer, callbacks))
            wait_for_all(devices, "end of the training")
            return logs

    def check_resume(self) -> tuple[str, int]:
        """Read and verify what `train` would continue from; changes nothing.

        Returns:
            The name of the checkpoint, and the number of epochs that are done.

        Raises:
            UsageError: if there is no undamaged checkpoint, or the run cannot be continued now or with these params.
        """
        directory = RunDirectory.of(self._params)
        checkpoint = self._read_checkpoint(directory)
        if directory is None or checkpoint is None or self._checkpoint is None:
            raise UsageError("the trainer does not resume: create it with restore=True")
        self._check_params()
        with directory.locked():
            history_file = Path(self._params.history_file or directory.history_file)
            if history_file.exists():
                read_history(history_file)
        return self._checkpoint, int(checkpoint.state["epoch"])

    def dry_run(self) -> None:
        """Build everything, and take one batch through training, validation, export, checkpoint and resume.

        Writes to a temporary directory only; what the trial itself logs is shown with `TFAIP_LOG_LEVEL=debug`.
        """
        history_file = self._params.history_file
        if history_file is not None and Path(history_file).exists():
            read_history(history_file)  # the trial has a history of its own
        with console_unless_configured(), tempfile.TemporaryDirectory(prefix="tfaip-dry-run-") as directory:
            params = copy.deepcopy(self._params)
            params.output_dir, params.write_checkpoints = str(Path(directory) / "run"), True
            params.epochs, params.val_every_n, params.samples_per_epoch = (
                1,
                1,
                params.gen.setup.train.batch_size,
            )
            params.gen.setup.val.limit = params.gen.setup.val.batch_size
            params.history_file, params.progress_bar_mode = None, ProgressBarMode.PLAIN
            params.learning_rate.rates = {e: r for e, r in params.learning_rate.listed().items() if e == 1}
            with nullcontext() if is_debug() else only_warnings():
                for restore in (False, True):
                    trial = type(self)(params, type(self._scenario)(params.scenario), restore=restore)
                    trial._is_trial = True
                    trial.train()
            place = (
                "without an output directory" if self._params.output_dir is None else f"into {self._params.output_dir}"
            )
            log.info(
                "dry run: would train %s for %d epochs %s, on keras/%s",
                self._scenario.scenario_id(),
                self._params.epochs,
                place,
                keras.backend.backend(),
            )
            log.info("one batch went through training, validation, export and resume; nothing was kept")

    def _run(self, parts: LoopParts, callbacks: list[keras.callbacks.Callback]) -> Logs:
        progress = parts.state.progress
        loop = TrainingLoop(parts, callbacks)
        if loop.is_finished():
            log.info("training is finished: %d of %d epochs are done", progress.epoch, self._params.epochs)
        elif progress.epoch or progress.step:
            log.info("resuming in epoch %d, after %d batches", progress.epoch + 1, progress.step)
        logs = loop.run()
        if loop.stopped_early_after() is not None:
            log.info("stopped early after epoch %d: %s", progress.epoch, parts.best.describe(progress.history))
        with parts.model.optimizer.with_averages():
            parts.output.export_final()
        if not self._is_trial:  # of which nothing is left to look at
            print_summary({"Best epoch": parts.best.describe(progress.history), **parts.output.summary()})
        return logs

    def _check_params(self) -> None:
        """Raise unless what will be stored can be read again; the params may have changed since the constructor."""
        conform(self._params, "trainer")
        if self._params.output_dir is None:
            return
        require_readable(self._params, type(self._scenario).trainer_params_cls(), "trainer")
        if self._scenario.params is not self._params.scenario:
            require_readable(self._scenario.params, type(self._scenario).params_cls(), "scenario")

    def _read_checkpoint(self, directory: RunDirectory | None) -> Checkpoint | None:
        if not self._restore:
            return None
        if directory is None:
            raise UsageError("there is nothing to resume without an output directory: set --trainer.output_dir")
        directory.check_resumable()
        self._checkpoint, checkpoint = CheckpointStore(directory.checkpoints).read(self._checkpoint)
        require_state(checkpoint.state)
        if checkpoint.state["backend"] != keras.backend.backend():
            log.warning(
                "the checkpoint was written on %s and continues on %s: equal only up to rounding",
                checkpoint.state["backend"],
                keras.backend.backend(),
            )
        return checkpoint

    def _log_changes(self, restored: Checkpoint) -> None:
        """Say what differs from the params that the checkpoint was trained with, by flags or by an edited file."""
        old, new = (flat_params(params) for params in (restored.state["params"], stored_params(self._params)))
        for path in dict.fromkeys([*old, *new]):
            if old.get(path, ABSENT) != new.get(path, ABSENT) and not is_hidden(self._params, path):
                log.info("changed %s: %s -> %s", path, old.get(path, ABSENT), new.get(path, ABSENT))

    def _load_history(self, parts: LoopParts, is_new: bool) -> None:
        """Take over what is in the history file, which somebody may have edited."""
        path, progress = parts.output.history_file, parts.state.progress
        if path is None or (is_new and self._params.history_file is None):
            return
        run = parts.output.directory  # which may be created later
        if not path.parent.is_dir() and (run is None or path.parent.absolute() != run.root.absolute()):
            raise UsageError(f"{shorten_text(str(path.parent), 160)} is no directory: change --trainer.history_file")
        self._params.history_file = self._params.history_file and str(path.absolute())
        if not path.exists():
            return
        file = read_history(path)
        if is_learning_rate_file(path):
            if not is_new:
                raise UsageError(
                    f"{path} is a learning_rate_file of RETURNN, which gives rates to a new training only: leave out "
                    "--trainer.history_file"
                )
            # It is read and never replaced: the run writes its history where it does by default.
            self._params.history_file = None
            parts.output.history_file = None if parts.output.directory is None else parts.output.directory.history_file
        if is_new:
            progress.history = file.rates_only()
            log.info("rates of %d epochs are those in %s", len(progress.history), path)
        else:
            progress.history = progress.history.edited(file, progress.epoch)

    def _seed(self, devices: Devices) -> None:
        if self._params.random_seed is None:
            # Stored with the params: every run can be repeated and resumed.
            self._params.random_seed = from_chief(devices, secrets.randbelow(2**31))
        if keras.backend.backend() == "tensorflow":
            keras.utils.set_random_seed(self._params.random_seed)
        else:
            # The same without TensorFlow, which Keras would import to seed it too.
            random.seed(self._params.random_seed)
            np.random.seed(self._params.random_seed)

    def _open_output(self, directory: RunDirectory, parts: LoopParts) -> None:
        if not self._restore:
            directory.claim(self._params.overwrite)
        elif self._checkpoint is not None:
            directory.clean_up()
            # First: a process that is killed here may be resumed from any checkpoint that there still is.
            store = CheckpointStore(directory.checkpoints, root=directory.root)
            parts.output.restore_best(store, self._checkpoint, bool(parts.best.values(parts.state.progress.history)))
            store.continue_from(self._checkpoint)
        self._params.overwrite = False  # a permission for once: stored params must not carry it on
        self._params.scenario.scenario_id = self._scenario.scenario_id()
        self._params.keras_backend = keras.backend.backend()
        self._params.import_root = import_root(type(self._scenario))
        stored = copy.copy(self._params)
        stored.device = stored.device.without_cluster()  # it is another one whenever the run is started
        if self.permission is not None:
            is_resumed = self._checkpoint is not None
            record_permission(directory.params_file, stored, type(self._scenario), self.permission, is_resumed)
        save_params(directory.params_file, stored)
