"""The stages of a run, one after the other: set up, train or do other work, hand over to the next."""

from __future__ import annotations

import gc
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from tfaip.backend.active import backend
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.sampler import Position
from tfaip.device.collectives import run_long_on_chief
from tfaip.device.devices import precision_scope
from tfaip.errors import UsageError
from tfaip.model.graphbase import full_precision
from tfaip.model.structure.axis import Structure
from tfaip.model.weights import assign_arrays, built_within, variable_arrays
from tfaip.params.settings import flags_of
from tfaip.params.tree import diff
from tfaip.predict.modelpass import BenchmarkResults, EvaluationStopped, gathered_by_chief, run_pass, samples_of
from tfaip.predict.samplefile import SampleWriter
from tfaip.trainer.build import Run, StopReason, Training, build_training
from tfaip.trainer.datasets import Scenario
from tfaip.trainer.history import History
from tfaip.trainer.loop import TrainingLoop
from tfaip.trainer.modelbuilding import weight_structure
from tfaip.trainer.optimizer.optimizers import OptimizerParams
from tfaip.trainer.params import Params
from tfaip.trainer.run.output import Checkpoint
from tfaip.trainer.schedules.targets import EpochValues
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import CALL_ARGUMENTS, MAIN, PredictData, PredictStage
from tfaip.trainer.stages.program import PlannedStage, begins, copy_for_stage, planned_stages
from tfaip.trainer.stages.records import RUNNING, StageSequence
from tfaip.trainer.state import TrainingProgress, beginning
from tfaip.trainer.transfer.params import TransferMode, TransferParams
from tfaip.trainer.transfer.plan import Source, Transfer, log_transfer, plan_transfer, slot_arrays
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.classes import construct
from tfaip.util.logging import logger
from tfaip.util.text import shorten
from tfaip.util.typing import Logs

log = logger(__name__)

Callbacks = Callable[[keras.optimizers.Optimizer], list[keras.callbacks.Callback]]


# Params of a pipeline that change neither the samples of a pass nor their order.
_BATCHING = """
    batch_size batch_drop_remainder bucket_boundaries bucket_batch_sizes num_processes worker_start_s worker_timeout_s
    prefetch use_shared_memory
"""
# Params of a scenario of which its graph is independent.
_BESIDE_THE_GRAPH = ("data.pre_proc", "data.post_proc", "evaluator", "print_eval_limit")


class StageRunner:
    """Context that runs the stages of a run in order.

    Every process of a training takes the same decisions; the chief alone writes.

    Args:
        run: the parts that all stages share.
        scenario: built from the params of the run.
        create_warmstarter: returns the source of the first weights.
    """

    def __init__(self, run: Run, scenario: Scenario, create_warmstarter: Callable[[], WarmStarter]) -> None:
        self._run = run
        self._given = scenario
        self._create_warmstarter = create_warmstarter
        self._directories = None if run.directory is None or not run.has_stages else run.directory.stage_directories()
        self.latest: Training | None = None
        """The training of the stage that was set up last; None: there is none yet."""
        self._loop: TrainingLoop | None = None
        self.progress = TrainingProgress()
        """Progress of the training through all stages."""
        self._opened = ExitStack()
        self.later: Checkpoint | None = None
        """The checkpoint that is continued, if it belongs to a later call of `Trainer.fit`, which is still to come."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)
        if self._run.profiler is not None:
            self._run.profiler.close()

    @property
    def training(self) -> Training:
        """The parts of the stage that was set up last."""
        if self.latest is None:
            raise UsageError("no stage trains: yield a TrainStage, or leave an epoch to the plain params")
        return self.latest

    def begin(self, restored: Checkpoint | None, repeated: int | None = None) -> None:
        """Set up the first stage, or the one of a checkpoint with its state."""
        # That of the beginning of a run has no weights.
        continued = restored if restored is not None and restored.arrays else None
        state: Mapping[str, Any] = {RUNNING: None} if restored is None else restored.state
        if restored is not None:
            self.progress.load(state)
        history = History()
        program = planned_stages(self._run.params, self._given, history)
        if self._run.preview.is_trial:
            program = (stage for stage in self._run.preview.stages)
        self._sequence = sequence = StageSequence(
            program, history, self._run.devices, self._directories, restored is not None, repeated
        )
        for change in sequence.reach(state, self.progress.history):
            log.info("changed stage %s: %s", state[RUNNING]["name"], change)
        if continued is None:
            sequence.skip_done(self.progress.history)
        stage = sequence.stage
        if stage is None or not stage.settings.needs_model:
            return
        # A stage may have a larger model than the one before, of which the checkpoint may be.
        known = None if self._run.has_stages else continued
        with nullcontext() if known is None else built_within(known.arrays, "the checkpoint"):
            self._set_up(stage, self._create_warmstarter() if continued is None else None)
        if continued is None:
            return
        if state[RUNNING]["first_epoch"] > stage.last_epoch:
            self.later = continued
            return
        self.training.state.restore(continued)
        if self.training.is_finished():
            sequence.skip_done(self.progress.history, has_ended=True)

    def run(self, callbacks: Callbacks) -> Logs:
        """Run the stages that remain; return the values of the last epoch."""
        progress, sequence = self.progress, self._sequence
        if sequence.stage is None:
            log.info("training is finished: %d of %d epochs are done", progress.epoch, self._run.params.epochs)
        elif sequence.stage.number == 0 and not sequence.stage.trains:
            # A checkpoint from which a run can be resumed that begins with other work than training.
            state = beginning(self._run.params, {RUNNING: None})
            self._run.output.save_checkpoint(lambda buffer: state, 0)
            self._run.output.wait()
        logs = progress.history.values(progress.epoch)
        facts: dict[str, Any]
        while (stage := sequence.stage) is not None:
            is_new = self.latest is None or (stage.trains and self.latest.stage is not stage)
            if is_new and stage.settings.needs_model:
                self._change_to(stage)
            if self.later is not None:
                first, history = self.later.state[RUNNING]["first_epoch"], progress.history
                if first > stage.last_epoch:
                    return history.values(stage.last_epoch)
                if first != stage.first_epoch:
                    raise UsageError(
                        f"the checkpoint belongs to a call of fit that began with epoch {first}, now one begins with "
                        f"epoch {stage.first_epoch}: let the trainer make the same calls as before"
                    )
                self.training.state.restore(self.later)
                progress.history, self.later = history, None  # the user may have edited its file
            if stage.trains:
                logs = self._train(callbacks)
                if not self.training.is_finished():  # a callback has ended the whole training
                    return logs
                best, history = self.training.best, progress.history
                epoch = best.epoch(history)
                value = None if epoch is None else {"epoch": epoch, "value": history.value(epoch, best.monitor)}
                reason = str(self.training.stop_reason)
                facts = {"last_epoch": progress.epoch, "best": value, "stop_reason": reason}
            else:
                facts = self._work(stage)
            facts["values"], output = progress.history.values(progress.epoch), self._run.output
            output.require_own_directory()
            newest = None if output.store is None else output.store.newest()
            result = sequence.finish(progress.history, newest, **facts)
            sequence.next(result, progress.history)
        if self.latest is not None:  # a trainer may change the params in place, and call `fit` again
            self.latest = replace(self.latest, params=copy_for_stage(self.latest.params))
        return logs

    def _train(self, callbacks: Callbacks) -> Logs:
        """Train the stage that is set up."""
        training, progress, stage = self.training, self.progress, self.training.stage
        self._loop = loop = TrainingLoop(training, callbacks(training.model.optimizer))
        if not training.is_finished():
            self._run.output.require_own_directory()
            self._sequence.begin()
            if progress.step or progress.epoch >= stage.first_epoch:
                log.info("resuming in epoch %d, after %d batches", progress.epoch + 1, progress.step)
            if not self._run.preview.is_trial:
                loop.warn_without_updates()
        elif not self._run.has_stages:
            log.info("training is finished: %d of %d epochs are done", progress.epoch, stage.last_epoch)
        logs = loop.run()
        if training.stop_reason is StopReason.EARLY_STOPPING:
            log.info("stopped early after epoch %d: %s", progress.epoch, training.best.describe(progress.history))
        elif training.stop_reason is StopReason.CALLBACK:
            log.info("stopped by a callback after epoch %d", progress.epoch)
        return logs

    def _work(self, stage: PlannedStage) -> dict[str, Any]:
        """Do the work of a stage that does not train; return facts for its result."""
        log.info("stage %s: %s", stage.name, stage.describe())
        if self._directories is None:
            raise UsageError(f"stage {stage.name} writes files: set --trainer.output_dir")
        self._run.output.require_own_directory()
        self._sequence.begin()
        # What it draws must not depend on the stages that this process has run before.
        backend.seed(_seed(self._run.params.random_seed or 0, stage.number))
        directory, facts = self._directories.path(stage.name), {}
        if isinstance(stage.settings, PredictStage):
            _predict(self._run, stage, self.training, directory)
        else:
            root = directory.parent.parent
            stages, history = self._sequence.directories(), self.progress.history
            values = (stage.params, directory, root, stages, history, lambda: self._run.stop.is_asked)
            facts = _call(self._run, stage, dict(zip(CALL_ARGUMENTS, values, strict=True)))
        self._run.stop.agree()
        received = self._run.stop.received
        if received is not None:  # the work of the stage will be repeated
            log.info("%s: stopped in stage %s%s", received.name, stage.name, self._run.output.how_to_resume())
            raise TrainingInterrupted(received)
        return facts

    def train_again(self, params: Params) -> None:
        """Let `run` train the last stage again, for a later call of `Trainer.fit` that may have changed its params.

        The rate control counts the epochs from `current_epoch` of the params, the run counts them on.
        """
        before, done = self.training.stage, params.current_epoch
        last, epochs = before.last_epoch, 1 if self._run.preview.is_trial else params.epochs - done
        if epochs > 0:
            log.info("fit again: epochs %d to %d of the run", last + 1, last + epochs)
            own = copy_for_stage(params)  # the caller may change the params in place
            self._sequence.stage = replace(
                before, first_epoch=last + 1, last_epoch=last + epochs, params=own, epoch_offset=last - done
            )

    @property
    def current_epoch(self) -> int:
        """Completed epochs as the rate control counts them."""
        if self.latest is None:
            return self.progress.epoch
        stage = self.latest.stage
        return (self.progress.epoch if self.later is None else stage.last_epoch) - stage.epoch_offset

    def _change_to(self, stage: PlannedStage) -> None:
        """Set up a stage that takes over from the one before, if any has trained.

        The path is the same for a run that was resumed between two stages: the one before is set up and restored then.
        """
        before = self.latest
        if before is None:
            self._set_up(stage, self._create_warmstarter())
            return
        transfer: TransferParams = stage.settings.transfer
        keeps, params = keeps_graph(before.params, stage.params, transfer), before.params
        # Copies: the memory of the model may be needed for the next one.
        structure = {} if keeps else weight_structure(before.model, before.scenario)
        end = Source(f"stage {before.stage.name}", variable_arrays(before.state.weights_by_path()), structure=structure)
        slots = variable_arrays(before.state.optimizer_variables())
        progress = self.progress
        progress.position = next_position(before.params, stage.params, progress, stage.first_epoch)
        progress.begin_epoch_after(stage.first_epoch - 1)
        model = before.model if keeps else None
        if not keeps:
            # Models contain circles.
            if self._loop is not None:
                self._loop.release_model()
            self.latest = self._loop = before = None
            self._opened.close()
            gc.collect()
        self._set_up(stage, None, before)
        if self.training.model is not model:
            path = f"stages.{stage.name}." if stage.name in self._run.params.stages else ""
            with flags_of(self._run.params, "trainer", f"{path}transfer"):
                planned = hand_over(end, slots, params, self.training, transfer)
            log_transfer(planned, f"weights of {end.description}", only_if_changed=True)

    def _set_up(self, stage: PlannedStage, warmstarter: WarmStarter | None, before: Training | None = None) -> None:
        """Set up a stage."""
        self._opened.close()
        params: Params = stage.params
        if self._run.has_stages:
            text = stage.describe() or "the plain params"
            log.info("stage %s: epochs %d to %d, %s", stage.name, stage.first_epoch, stage.last_epoch, text)
        backend.seed(_seed(params.random_seed or 0, stage.number))
        self._opened.enter_context(precision_scope(params.device.precision))
        try:
            with flags_of(params, "trainer"):
                scenario = self._scenario_of(stage, before)
                place = {RUNNING: self._sequence.record()}
                self.latest = build_training(self._run, stage, scenario, place, warmstarter, before, self.progress)
        except UsageError as error:
            if stage.name == MAIN:
                raise
            raise UsageError(f"stage {stage.name}: {error}") from error
        self._opened.enter_context(self.latest.opened())

    def _scenario_of(self, stage: PlannedStage, before: Training | None) -> Scenario:
        """Return the scenario of a stage, with the trained graph of the stage before if that still fits."""
        params: Params = stage.params
        if before is not None and not diff(before.params.scenario, params.scenario):
            return before.scenario
        # The given one is kept for the main stage: the caller holds it, and with it the model of the stage it is
        # built in.
        is_given = params is self._run.params and stage.name == MAIN
        scenario: Scenario = self._given if is_given else construct(type(self._given), params.scenario)
        if before is not None and _specs(scenario) == _specs(before.scenario):
            scenario.take_network(before.scenario)
        return scenario


# Work of the stages that do not train


def _predict(run: Run, stage: PlannedStage, training: Training, directory: Path) -> None:
    """Apply the model that was trained last to data, and write the predicted samples.

    The processes share the batches, and the chief writes to the directory of the stage; the state of the model is the
    same afterwards.
    """
    settings, is_chief = stage.settings, run.devices.is_chief
    pipeline, file = _pipeline(stage, training.scenario), directory / settings.file_name
    before, count = training.state.before_evaluation(), 0
    try:
        with training.model.optimizer.with_averages():
            samples = _predicted(pipeline, training, run)
            if is_chief:
                with pipeline.drops_logged(), SampleWriter(file, settings.include_inputs) as writer:
                    for sample in pipeline.process_output(samples):
                        writer.write(sample if settings.include_targets else sample.new_targets(None))
                        count += 1
            # Other processes, and the chief if its post-processing stops early, must run the pass to its end.
            deque(samples, maxlen=0)
            if is_chief:
                log.info("stage %s: %d samples in %s", stage.name, count, file)
    except EvaluationStopped:
        pass  # the caller finds the request
    finally:
        training.state.set_back(before)


def _pipeline(stage: PlannedStage, scenario: Scenario) -> DataPipeline:
    params: Params = stage.params
    settings, gen = stage.settings, params.gen
    data, is_training = construct(type(scenario), params.scenario).data, settings.data is PredictData.TRAIN
    if settings.generator is not None:
        pipeline = data.create_pipeline(gen.setup.train if is_training else gen.setup.val, settings.generator)
    else:
        pipeline = gen.train_data(data) if is_training else gen.val_data(data)
    if pipeline is None:
        raise UsageError(f"stage {stage.name}: there are no validation data: set data train, or give a generator")
    mode = PipelineMode.EVALUATION if settings.include_targets else PipelineMode.PREDICTION
    whole = replace(pipeline.params, mode=mode, batch_drop_remainder=False)
    return pipeline.with_params(whole).with_seed(params.random_seed or 0)


def _predicted(pipeline: DataPipeline, training: Training, run: Run) -> Iterator[Sample]:
    """Yield the predicted samples of one pass on the chief; the other processes predict, and yield nothing."""
    graph, devices = training.scenario.graph, run.devices
    variables = [*graph.trainable_variables, *graph.non_trainable_variables]
    step = backend.CompiledStep(
        lambda inputs: full_precision(graph.predict(inputs)), variables, run_eagerly=training.params.force_eager
    )
    step.read(of_this_process=devices.num_processes > 1)

    def should_stop() -> bool:
        run.stop.agree()
        return run.stop.received is not None

    return run_pass(
        pipeline,
        lambda batch: step(batch.inputs),
        samples_of,
        BenchmarkResults(),
        devices=devices,
        collect=lambda own: gathered_by_chief(devices, own),
        should_stop=should_stop,
    )


def _call(run: Run, stage: PlannedStage, offered: Mapping[str, Any]) -> dict[str, Any]:
    """Call the function of a stage on the chief, while the other processes wait for it; return its value."""
    settings, facts = stage.settings, {}

    def call() -> None:
        value = settings.load()(**{**offered, **settings.arguments})
        try:
            facts["value"] = json.loads(json.dumps(value))
        except (TypeError, ValueError) as error:
            returned = f"returned {shorten(value)}, expected a JSON value or None ({error})"
            raise UsageError(f"stage {stage.name}: {settings.function} {returned}") from error

    run_long_on_chief(run.devices, call)
    return facts


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


def hand_over(
    end: Source, slots: Mapping[str, np.ndarray], before: Params, training: Training, transfer: TransferParams
) -> Transfer:
    """Give a new model the weights, and its optimizer the state, that the stage before had at its end."""
    targets = training.state.weights_by_path()
    structure: Structure = {}
    if transfer.mode is TransferMode.SUBSET and end.structure:
        structure = weight_structure(training.model, training.scenario)
    shapes = {path: tuple(variable.shape) for path, variable in targets.items()}
    planned = plan_transfer(shapes, [end], transfer, transfer.mode, structure)
    if transfer.mode is not TransferMode.NONE and not any(row.is_loaded for row in planned.rows):
        raise UsageError(
            f"stage {training.stage.name} takes over no weight of {end.description}: their paths differ, or transfer "
            "excludes all; correct transfer.rename, or set transfer.mode none"
        )
    initial = variable_arrays(targets)
    weights = {**initial, **planned.arrays(initial)}
    assign_arrays(targets, weights, end.description)
    # The variables of the optimizer, as far as they mean the same.
    same_rule = _rules(before.optimizer) == _rules(training.params.optimizer)
    variables = training.state.optimizer_variables()
    assign_arrays(
        variables, slot_arrays(planned, slots, variable_arrays(variables), weights, same_rule), end.description
    )
    training.model.optimizer.continue_after(before.train_accum_steps)
    if not same_rule:
        training.model.optimizer.reset_moments()
    return planned


def _rules(params: OptimizerParams) -> list[Any]:
    """Return the update rules of an optimizer, without their constants."""
    return [type(params), *[(group.match, type(group.optimizer)) for group in params.groups]]


def next_position(before: Params, after: Params, progress: TrainingProgress, first_epoch: int) -> Position:
    """Return the position in the training data at which a stage begins.

    With the same data the stream continues, also in batches of another size. Other data begin with the next pass, which
    has its own order and random numbers.
    """
    position = progress.position
    old = EpochValues(before).params_of(max(progress.epoch, 1))
    new = EpochValues(after).params_of(first_epoch)
    differs = diff(old.gen.train_gen(), new.gen.train_gen()) or diff(old.scenario.data, new.scenario.data)
    changes = diff(old.gen.setup.train, new.gen.setup.train)
    if not differs and all(begins(change.path, _BATCHING.split()) for change in changes):
        return position
    return replace(position, pass_index=position.pass_index + 1, consumed=0, emitted=0, pending=(), failed=0)
