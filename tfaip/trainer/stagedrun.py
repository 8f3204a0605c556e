"""A run: its stages one after the other, each set up, trained or worked off, recorded, and handed over to the next."""

import gc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from tfaip.backend.active import backend
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.sampler import Position
from tfaip.device.collectives import run_on_chief
from tfaip.device.devices import Devices, precision_scope
from tfaip.errors import UsageError, text_with_notes
from tfaip.model.graphbase import full_precision
from tfaip.model.weightrules import TransferMode
from tfaip.model.weights import built_within
from tfaip.params.fields import FieldAdvice
from tfaip.params.settings import flags_of
from tfaip.params.tree import diff
from tfaip.predict.modelpass import BenchmarkResults, EvaluationStopped, run_pass, samples_of
from tfaip.predict.samplefile import SampleWriter
from tfaip.trainer.datasets import Scenario
from tfaip.trainer.loop import TrainingLoop
from tfaip.trainer.params import Params
from tfaip.trainer.recordedstages import RecordedStages
from tfaip.trainer.reporting.tensorboard import Profiler
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.names import TRAIN
from tfaip.trainer.run.output import Checkpoint, CheckpointStore, RunOutput
from tfaip.trainer.scheduledvalues import EpochSchedules
from tfaip.trainer.signals import StopRequest, TrainingInterrupted
from tfaip.trainer.stages.params import CALL_ARGUMENTS, MAIN, CallStage, PredictData
from tfaip.trainer.stages.program import PlannedStage, Preview, begins, copy_for_stage
from tfaip.trainer.state import TrainingProgress, beginning
from tfaip.trainer.training import StageEnd, StopReason, Training, hand_over
from tfaip.trainer.transferparams import TransferParams
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.classes import construct
from tfaip.util.logging import logger

log = logger(__name__)

Callbacks = Callable[[keras.optimizers.Optimizer], list[keras.callbacks.Callback]]


# Params of a pipeline that change neither the samples of a pass nor their order.
_BATCHING = """
    batch_size batch_drop_remainder bucket_boundaries bucket_batch_sizes num_processes worker_timeout_s
    prefetch use_shared_memory
"""
# Params of a scenario of which its graph is independent.
_BESIDE_THE_GRAPH = ("data.pre_proc", "data.post_proc", "evaluator", "print_eval_limit")


class Run:
    """A run: context of its stages in order, and of what they share.

    Every process takes the same decisions; the chief alone writes.

    Args:
        params: the params of the run, with a seed.
        scenario: built from them.
        preview: the stages, as far as they are known.
        directory: of the run; None: nothing is written.
        devices: devices and processes, whose scope is active.
        stop: the stop request of a signal.
        create_warmstarter: returns the source of the first weights.
    """

    def __init__(
        self,
        params: Params,
        scenario: Scenario,
        preview: Preview,
        directory: RunDirectory | None,
        devices: Devices,
        stop: StopRequest,
        create_warmstarter: Callable[[], WarmStarter],
    ) -> None:
        if params.profile and params.output_dir is None:
            raise FieldAdvice("profiling writes to the output directory: set {output_dir}", "output_dir")
        self.params, self.preview, self.devices, self.stop = params, preview, devices, stop
        self._given, self._create_warmstarter = scenario, create_warmstarter
        self.latest: Training | None = None
        """The training of the stage that was set up last; None: there is none yet."""
        self.progress = TrainingProgress()
        """Progress of the training through all stages."""
        self._directories = None if directory is None or not preview.has_stages else directory.stage_directories()
        self._stages = RecordedStages(params, scenario, preview, self.progress, self._directories, devices)
        self._loop: TrainingLoop | None = None
        self._opened = ExitStack()
        # Decisions are functions of a history that all processes have.
        own = directory if devices.is_chief else None
        file = Path(params.history_file) if devices.is_chief and params.history_file is not None else None
        store: CheckpointStore | None = None
        self.profiler: Profiler | None = None
        if own is not None and params.write_checkpoints:
            store = CheckpointStore(own.checkpoints, params.keep_checkpoints, own.root)
        if own is not None and params.profile:
            self.profiler = Profiler(own.root / TRAIN, *params.profile_steps)
        self.output = RunOutput(own, store, history_file=file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)
        if self.profiler is not None:
            self.profiler.close()

    @property
    def training(self) -> Training:
        """The training of the stage that was set up last."""
        if self.latest is None:
            raise UsageError("no stage trains: yield a TrainStage, or leave an epoch to the plain params")
        return self.latest

    @property
    def current_epoch(self) -> int:
        """Completed epochs as the rate control counts them."""
        return self.progress.epoch - (0 if self.latest is None else self.latest.stage.epoch_offset)

    def begin(self, restored: Checkpoint | None = None, repeated: int | None = None) -> None:
        """Set up the first stage, or the one of a checkpoint with its state.

        Args:
            restored: the checkpoint; None: nothing is resumed.
            repeated: number of the stage from which on all are run again; None: those that are done stay.
        """
        if not self.preview.has_stages and diff(TransferParams(), self.params.transfer):
            log.warning("transfer has no effect on a run without stages; weights of a model come by warmstart")
        state = None if restored is None else restored.state
        if state is not None:
            self.progress.load(state)
        self._stages.go_to(state, repeated)
        stage = self._stages.reached
        if stage is None or not stage.settings.needs_model:
            return
        if restored is None or not restored.arrays:  # that of the beginning of a run has no weights
            self._set_up(stage)
            return
        # A stage may have a larger model than the one before, of which the checkpoint may be.
        with nullcontext() if self.preview.has_stages else built_within(restored.arrays, "the checkpoint"):
            self._set_up(stage, is_restored=True)
        self.training.state.restore(restored)
        if self.training.is_finished():
            self._stages.skip_done(has_ended=True)

    def train(self, callbacks: Callbacks) -> None:
        """Run the stages that remain; `callbacks` returns those of the user for an optimizer."""
        progress, output, stages = self.progress, self.output, self._stages
        if stages.reached is None:
            log.info("training is finished: %d of %d epochs are done", progress.epoch, self.params.epochs)
        elif stages.reached.number == 0 and not stages.reached.trains:
            # A checkpoint from which a run can be resumed that begins with other work than training.
            state = beginning(self.params)
            output.save_checkpoint(lambda buffer: state, 0)
            output.wait()
        while (stage := stages.reached) is not None:
            is_new = self.latest is None or (stage.trains and self.latest.stage is not stage)
            if is_new and stage.settings.needs_model:
                self._set_up(stage)
            facts = self._train(self.training, callbacks) if stage.trains else self._work(stage)
            if facts is None:  # a callback has ended the whole training
                return
            output.require_own_directory()
            newest = None if output.store is None else output.store.newest()
            stages.finish(stage, newest, {**facts, "values": progress.history.values(progress.epoch)})
        if self.latest is not None:  # a trainer may change the params in place, and call `fit` again
            self.latest.params = copy_for_stage(self.latest.params)

    def train_again(self, params: Params) -> None:
        """Let `train` train the last stage again, for a later call of `Trainer.fit` that may have changed its params.

        The rate control counts the epochs from `current_epoch` of the params, the run counts them on. A trial, which
        resumes from its last checkpoint, trains once.
        """
        before, done = self.training.stage, params.current_epoch
        last, epochs = before.last_epoch, params.epochs - done
        if epochs > 0 and not self.preview.is_fixed:
            log.info("fit again: epochs %d to %d of the run", last + 1, last + epochs)
            self.output.is_resumable = False
            own = copy_for_stage(params)  # the caller may change the params in place
            self._stages.reached = replace(
                before, first_epoch=last + 1, last_epoch=last + epochs, params=own, epoch_offset=last - done
            )

    # The work of a stage

    def _train(self, training: Training, callbacks: Callbacks) -> dict[str, Any] | None:
        """Train the stage that is set up; return facts for its result, or None if it has not come to its end."""
        progress, stage, best = self.progress, training.stage, training.best
        self._loop = loop = TrainingLoop(training, callbacks(training.model.optimizer))
        if not training.is_finished():
            self.output.require_own_directory()
            self._stages.begin(stage)
            if progress.step or progress.epoch >= stage.first_epoch:
                log.info("resuming in epoch %d, after %d batches", progress.epoch + 1, progress.step)
            if not self.preview.is_fixed:
                loop.warn_without_updates()
        elif not self.preview.has_stages:
            log.info("training is finished: %d of %d epochs are done", progress.epoch, stage.last_epoch)
        loop.run()
        if training.stop_reason is StopReason.CALLBACK:
            log.info("stopped by a callback after epoch %d", progress.epoch)
            return None
        if training.stop_reason is StopReason.EARLY_STOPPING:
            log.info("stopped early after epoch %d: %s", progress.epoch, best.describe(progress.history))
        epoch, value = best.epoch(progress.history), None
        if epoch is not None:
            value = {"epoch": epoch, "value": progress.history.value(epoch, best.monitor)}
        return {"last_epoch": progress.epoch, "best": value, "stop_reason": str(training.stop_reason)}

    def _work(self, stage: PlannedStage) -> dict[str, Any]:
        """Do the work of a stage that does not train; return facts for its result."""
        log.info("stage %s: %s", stage.name, stage.describe())
        if self._directories is None:
            raise UsageError(f"stage {stage.name} writes files: set --trainer.output_dir")
        self.output.require_own_directory()
        self._stages.begin(stage)
        # What it draws must not depend on the stages that this process has run before.
        backend.seed(_seed(self.params.random_seed or 0, stage.number))
        directory, facts = self._directories.path(stage.name), dict[str, Any]()
        if isinstance(stage.settings, CallStage):
            own = stage.params, directory, self._directories.root, dict(self._stages.finished)
            values = (*own, self.progress.history, lambda: self.stop.is_asked)
            given = dict(zip(CALL_ARGUMENTS, values, strict=True))
            run_on_chief(self.devices, lambda: facts.update(value=stage.settings.call(given)))
        else:
            self._predict(stage, directory)
        self.stop.agree()
        if self.stop.received is not None:  # the work of the stage will be repeated
            log.info("%s: stopped in stage %s%s", self.stop.received.name, stage.name, self.output.how_to_resume())
            raise TrainingInterrupted(self.stop.received)
        return facts

    def _predict(self, stage: PlannedStage, directory: Path) -> None:
        """Apply the model that was trained last to the data of a stage, and write the predicted samples.

        The processes share the batches, and the chief writes; the state of the model is the same afterwards.
        """
        training, devices, settings, count = self.training, self.devices, stage.settings, 0
        pipeline = self._data_of(stage)
        graph, before = training.scenario.graph, training.state.before_evaluation()
        variables = [*graph.trainable_variables, *graph.non_trainable_variables]
        step = backend.CompiledStep(
            lambda batch: full_precision(graph.predict(batch)), variables, run_eagerly=training.params.force_eager
        )

        def should_stop() -> bool:
            self.stop.agree()
            return self.stop.received is not None

        # A stop ends the pass; the caller finds the request.
        with suppress(EvaluationStopped), ExitStack() as stack:
            stack.callback(training.state.set_back, before)
            stack.enter_context(training.model.optimizer.with_averages())
            step.read(of_this_process=devices.num_processes > 1)
            samples: Iterator[Sample] = run_pass(
                pipeline,
                lambda batch: step(batch.inputs),
                samples_of,
                BenchmarkResults(),
                devices=devices,
                should_stop=should_stop,
            )
            if devices.is_chief:
                file = directory / settings.file_name
                with pipeline.drops_logged(), SampleWriter(file, settings.include_inputs) as writer:
                    for sample in pipeline.process_output(samples):
                        writer.write(sample if settings.include_targets else sample.new_targets(None))
                        count += 1
                log.info("%d samples in %s", count, file)
            # Other processes, and the chief if its post-processing stops early, must run the pass to its end.
            deque(samples, maxlen=0)

    def _data_of(self, stage: PlannedStage) -> DataPipeline:
        """Return the data that a stage applies the model to, of a scenario of its own."""
        settings, gen = stage.settings, stage.params.gen
        data, is_training = construct(type(self._given), stage.params.scenario).data, settings.data is PredictData.TRAIN
        if settings.generator is not None:
            setup = gen.setup.train if is_training else gen.setup.val
            pipeline = data.create_pipeline(setup, settings.generator)
        else:
            pipeline = gen.train_data(data) if is_training else gen.val_data(data)
        if pipeline is None:
            raise UsageError(f"stage {stage.name}: there are no validation data: set data train, or give a generator")
        mode = PipelineMode.EVALUATION if settings.include_targets else PipelineMode.PREDICTION
        whole = replace(pipeline.params, mode=mode, batch_drop_remainder=False)
        return pipeline.with_params(whole).with_seed(stage.params.random_seed or 0)

    # The set-up of a stage

    def _set_up(self, stage: PlannedStage, is_restored: bool = False) -> None:
        """Set up a stage, which takes over from the one before, if any has trained.

        The path is the same for a run that was resumed between two stages: the one before is set up and restored then.
        """
        params: Params = stage.params
        before, kept, end = self.latest, None, None
        if before is not None:
            kept = before if keeps_graph(before.params, params, stage.settings.transfer) else None
            end = StageEnd.of(before, has_structure=kept is None)
            self.progress.position = next_position(before.params, params, self.progress, stage.first_epoch)
            self.progress.begin_epoch_after(stage.first_epoch - 1)
        self._opened.close()
        if before is not None and kept is None:
            if self._loop is not None:
                self._loop.callbacks.release_model()
            self.latest = self._loop = before = None
            gc.collect()  # models contain circles
        if self.preview.has_stages and stage.trains:  # else: a model to apply
            text = stage.describe() or "the plain params"
            log.info("stage %s: epochs %d to %d, %s", stage.name, stage.first_epoch, stage.last_epoch, text)
        backend.seed(_seed(params.random_seed or 0, stage.number))
        self._opened.enter_context(precision_scope(params.device.precision))
        warmstarter = None if is_restored or end is not None else self._create_warmstarter()
        try:
            with flags_of(params, "trainer"):
                record, scenario = self._stages.record(stage), self._scenario_of(stage, kept)
                self.latest = training = Training(self, stage, scenario, record, warmstarter, kept)
        except UsageError as error:
            if stage.name == MAIN:
                raise
            raise UsageError(f"stage {stage.name}: {text_with_notes(error)}") from error
        self._opened.enter_context(training.opened())
        if end is not None and (kept is None or training.model is not kept.model):
            path = f"stages.{stage.name}." if stage.name in self.params.stages else ""
            with flags_of(self.params, "trainer", f"{path}transfer"):
                hand_over(end, training, stage.settings.transfer)

    def _scenario_of(self, stage: PlannedStage, before: Training | None) -> Scenario:
        """Return the scenario of a stage, with the trained graph of the stage before if that still fits."""
        params: Params = stage.params
        if before is not None and not diff(before.params.scenario, params.scenario):
            return before.scenario
        # The given one is kept for the main stage: the caller holds it, and with it the model of the stage it is
        # built in.
        is_given = params is self.params and stage.name == MAIN
        scenario: Scenario = self._given if is_given else construct(type(self._given), params.scenario)
        if before is not None and _specs(scenario) == _specs(before.scenario):
            scenario.take_network(before.scenario)
        return scenario


# From one stage to the next


def _seed(seed: int, number: int) -> int:
    """Return the seed of the stage with a number; the first one has that of the run."""
    return seed if number == 0 else int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _specs(scenario: Scenario) -> Any:
    data = scenario.data
    return data.input_layer_specs(), data.target_layer_specs()


def keeps_graph(before: Params, after: Params, transfer: TransferParams) -> bool:
    """Return True if the graph of a stage can be trained in the next one as it is."""
    is_whole = transfer.mode is not TransferMode.NONE and transfer.include is None and transfer.exclude is None
    if not is_whole or transfer.rename or before.device.precision is not after.device.precision:
        return False
    return all(begins(change.path, _BESIDE_THE_GRAPH) for change in diff(before.scenario, after.scenario))


def next_position(before: Params, after: Params, progress: TrainingProgress, first_epoch: int) -> Position:
    """Return the position in the training data at which a stage begins.

    With the same data the stream continues, also in batches of another size. Other data begin with the next pass, which
    has its own order and random numbers.
    """
    position = progress.position
    old = EpochSchedules(before).params_of(max(progress.epoch, 1))
    new = EpochSchedules(after).params_of(first_epoch)
    differs = diff(old.gen.train_gen(), new.gen.train_gen()) or diff(old.scenario.data, new.scenario.data)
    changes = diff(old.gen.setup.train, new.gen.setup.train)
    if not differs and all(begins(change.path, _BATCHING.split()) for change in changes):
        return position
    return position.next_pass()
