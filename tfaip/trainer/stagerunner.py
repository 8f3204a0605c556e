"""The stages of a run, one after the other: set up, train or do other work, record, hand over to the next."""

import gc
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from tfaip.backend.active import backend
from tfaip.data.data import DataBase
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.sampler import Position
from tfaip.device.collectives import broadcast, check_equal, run_on_chief
from tfaip.device.devices import precision_scope
from tfaip.errors import UsageError, text_with_notes
from tfaip.model.graphbase import full_precision
from tfaip.model.weightrules import TransferMode
from tfaip.model.weights import built_within
from tfaip.params.codec import encode
from tfaip.params.settings import flags_of
from tfaip.params.tree import diff
from tfaip.predict.modelpass import BenchmarkResults, EvaluationStopped, run_pass, samples_of
from tfaip.predict.samplefile import SampleWriter
from tfaip.trainer.build import Run, StageEnd, StopReason, Training, build_training, hand_over
from tfaip.trainer.datasets import Scenario
from tfaip.trainer.history import History
from tfaip.trainer.loop import TrainingLoop
from tfaip.trainer.params import Params
from tfaip.trainer.run.names import STAGES_DIR
from tfaip.trainer.run.output import Checkpoint
from tfaip.trainer.scheduledvalues import EpochSchedules
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import CALL_ARGUMENTS, MAIN
from tfaip.trainer.stages.program import (
    PlannedStage,
    StageResult,
    begins,
    copy_for_stage,
    planned_stages,
    stored_changes,
)
from tfaip.trainer.state import RUNNING, TrainingProgress, beginning
from tfaip.trainer.transferparams import TransferParams
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.classes import construct
from tfaip.util.logging import logger
from tfaip.util.text import shorten, shorten_text

log = logger(__name__)

Callbacks = Callable[[keras.optimizers.Optimizer], list[keras.callbacks.Callback]]


# Params of a pipeline that change neither the samples of a pass nor their order.
_BATCHING = """
    batch_size batch_drop_remainder bucket_boundaries bucket_batch_sizes num_processes worker_timeout_s
    prefetch use_shared_memory
"""
# Params of a scenario of which its graph is independent.
_BESIDE_THE_GRAPH = ("data.pre_proc", "data.post_proc", "evaluator", "print_eval_limit")
_ROOT = "{output_dir}"
_ADVICE = "change it back, or repeat from a stage with --from_stage"
_PLACE = ("number", "name", "kind", "first_epoch")
# Of the facts in the record of a stage that is done.
_TYPES: dict[str, Any] = {"last_epoch": int, "values": dict, "best": dict | None, "value": object, "stop_reason": str}


# Records


def _relative(value: Any, root: Path | None) -> Any:
    """Return a JSON value in whose texts the directory of the run is `{output_dir}`."""
    text = json.dumps(value)
    if root is not None:
        # At the beginning of a text, or of a word in it.
        text = re.sub(rf"(?<![^\s'\"=]){re.escape(_json_text(root))}(?=[/\"])", lambda match: _ROOT, text)
    return json.loads(text)


def _json_text(root: Path) -> str:
    return json.dumps(str(root))[1:-1]


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    changes = stored_changes(before, now).items()
    return [shorten_text(f"{key}: {shorten(old)} -> {shorten(new)}") for key, (old, new) in changes]


def _check_same(record: Mapping[str, Any], now: Mapping[str, Any], state: str) -> None:
    """Raise a `UsageError` if a stage that is done or running is now another one, or differs."""
    if changes := "; ".join(_changes(record, now)):
        raise UsageError(f"the stage {shorten(record['name'])} is {state}, but differs ({changes}): {_ADVICE}")


# The run


class StageRunner:
    """Context that runs the stages of a run in order; those that are done are answered from their records.

    Every process runs the program and takes the same decisions; the chief alone reads and writes the records.

    Args:
        run: the parts that all stages share.
        scenario: built from the params of the run.
        create_warmstarter: returns the source of the first weights.
    """

    def __init__(self, run: Run, scenario: Scenario, create_warmstarter: Callable[[], WarmStarter]) -> None:
        self._run, self._given, self._create_warmstarter = run, scenario, create_warmstarter
        self.latest: Training | None = None
        """The training of the stage that was set up last; None: there is none yet."""
        self._loop: TrainingLoop | None = None
        self._callbacks: Callbacks = lambda optimizer: []
        self.progress = TrainingProgress()
        """Progress of the training through all stages."""
        self._opened = ExitStack()
        directory = run.directory if run.preview.has_stages else None
        self._directories = None if directory is None else directory.stage_directories()
        self._root = None if self._directories is None else self._directories.root
        # What the program sees: it grows with every finished stage.
        self._history = History()
        self._program = planned_stages(run.params, scenario, self._history)
        if run.preview.is_trial:
            self._program = (stage for stage in run.preview.stages)
        self._stored: dict[int, dict[str, Any]] = {}  # the records of the run that is resumed
        self._finished: dict[str, Path] = {}  # directories of the finished stages by name
        self._stage: PlannedStage | None = None  # the stage that is reached; None: all are done

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

    @property
    def current_epoch(self) -> int:
        """Completed epochs as the rate control counts them."""
        return self.progress.epoch - (0 if self.latest is None else self.latest.stage.epoch_offset)

    def begin(self, restored: Checkpoint | None, repeated: int | None = None) -> None:
        """Set up the first stage, or the one of a checkpoint with its state."""
        state = None if restored is None else restored.state
        if state is not None:
            self.progress.load(state)
        for change in self._go_to_stage(state, repeated):
            log.info("changed stage %s: %s", self._reached.name, change)
        stage = self._stage
        if stage is None or not stage.settings.needs_model:
            return
        if restored is None or not restored.arrays:  # that of the beginning of a run has no weights
            self._set_up(stage)
            return
        # A stage may have a larger model than the one before, of which the checkpoint may be.
        with nullcontext() if self._run.preview.has_stages else built_within(restored.arrays, "the checkpoint"):
            self._set_up(stage, is_restored=True)
        self.training.state.restore(restored)
        if self.training.is_finished():
            self._skip_done(has_ended=True)

    def run(self, callbacks: Callbacks) -> None:
        """Run the stages that remain."""
        self._callbacks = callbacks
        progress, output = self.progress, self._run.output
        if self._stage is None:
            log.info("training is finished: %d of %d epochs are done", progress.epoch, self._run.params.epochs)
        elif self._stage.number == 0 and not self._stage.trains:
            # A checkpoint from which a run can be resumed that begins with other work than training.
            state = beginning(self._run.params)
            output.save_checkpoint(lambda buffer: state, 0)
            output.wait()
        while (stage := self._stage) is not None:
            is_new = self.latest is None or (stage.trains and self.latest.stage is not stage)
            if is_new and stage.settings.needs_model:
                self._set_up(stage)
            facts = self._work(stage)
            if facts is None:  # a callback has ended the whole training
                return
            output.require_own_directory()
            newest = None if output.store is None else output.store.newest()
            self._finish(newest, **facts, values=progress.history.values(progress.epoch))
        if self.latest is not None:  # a trainer may change the params in place, and call `fit` again
            self.latest = replace(self.latest, params=copy_for_stage(self.latest.params))

    def train(self) -> dict[str, Any] | None:
        """Train the stage that is set up; return facts for its result, or None if it has not come to its end."""
        training, progress = self.training, self.progress
        stage, best = training.stage, training.best
        self._loop = loop = TrainingLoop(training, self._callbacks(training.model.optimizer))
        if not training.is_finished():
            self._run.output.require_own_directory()
            self._begin_record()
            if progress.step or progress.epoch >= stage.first_epoch:
                log.info("resuming in epoch %d, after %d batches", progress.epoch + 1, progress.step)
            if not self._run.preview.is_trial:
                loop.warn_without_updates()
        elif not self._run.preview.has_stages:
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

    def _work(self, stage: PlannedStage) -> dict[str, Any] | None:
        """Let a stage do its work; return facts for its result, or None if it has not come to its end."""
        run = self._run
        if stage.trains:
            return stage.settings.work(self)
        log.info("stage %s: %s", stage.name, stage.describe())
        if self._directories is None:
            raise UsageError(f"stage {stage.name} writes files: set --trainer.output_dir")
        run.output.require_own_directory()
        self._begin_record()
        # What it draws must not depend on the stages that this process has run before.
        backend.seed(_seed(run.params.random_seed or 0, stage.number))
        facts: dict[str, Any] = stage.settings.work(self)
        run.stop.agree()
        if run.stop.received is not None:  # the work of the stage will be repeated
            log.info("%s: stopped in stage %s%s", run.stop.received.name, stage.name, run.output.how_to_resume())
            raise TrainingInterrupted(run.stop.received)
        return facts

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that the function of the stage may take."""
        stage, directories, stop = self._reached, self._directories, self._run.stop
        assert directories is not None  # noqa: S101 (it has begun)
        own = stage.params, directories.path(stage.name), directories.root, dict(self._finished)
        return dict(zip(CALL_ARGUMENTS, (*own, self.progress.history, lambda: stop.is_asked), strict=True))

    def data(self) -> DataBase[Any]:
        """Return the data of the stage, of a scenario of its own."""
        return construct(type(self._given), self._reached.params.scenario).data

    def on_chief(self, function: Callable[[], None]) -> None:
        """Call a function in the first process, while the others wait."""
        run_on_chief(self._run.devices, function)

    def predict(self, pipeline: DataPipeline, file_name: str, inputs: bool, targets: bool) -> None:
        """Apply the model that was trained last to data, and write the predicted samples, with inputs and targets.

        The processes share the batches, and the chief writes; the state of the model is the same afterwards.
        """
        run, training, devices, count = self._run, self.training, self._run.devices, 0
        given = self.arguments()
        file, seed = given["directory"] / file_name, given["params"].random_seed or 0
        graph, before = training.scenario.graph, training.state.before_evaluation()
        mode = PipelineMode.EVALUATION if targets else PipelineMode.PREDICTION
        whole = replace(pipeline.params, mode=mode, batch_drop_remainder=False)
        pipeline = pipeline.with_params(whole).with_seed(seed)
        variables = [*graph.trainable_variables, *graph.non_trainable_variables]
        step = backend.CompiledStep(
            lambda batch: full_precision(graph.predict(batch)), variables, run_eagerly=training.params.force_eager
        )

        def should_stop() -> bool:
            run.stop.agree()
            return run.stop.received is not None

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
                with pipeline.drops_logged(), SampleWriter(file, inputs) as writer:
                    for sample in pipeline.process_output(samples):
                        writer.write(sample if targets else sample.new_targets(None))
                        count += 1
                log.info("%d samples in %s", count, file)
            # Other processes, and the chief if its post-processing stops early, must run the pass to its end.
            deque(samples, maxlen=0)

    def train_again(self, params: Params) -> None:
        """Let `run` train the last stage again, for a later call of `Trainer.fit` that may have changed its params.

        The rate control counts the epochs from `current_epoch` of the params, the run counts them on. A trial, which
        resumes from its last checkpoint, trains once.
        """
        before, done = self.training.stage, params.current_epoch
        last, epochs = before.last_epoch, params.epochs - done
        if epochs > 0 and not self._run.preview.is_trial:
            log.info("fit again: epochs %d to %d of the run", last + 1, last + epochs)
            self._run.output.is_resumable = False
            own = copy_for_stage(params)  # the caller may change the params in place
            self._stage = replace(
                before, first_epoch=last + 1, last_epoch=last + epochs, params=own, epoch_offset=last - done
            )

    def _set_up(self, stage: PlannedStage, is_restored: bool = False) -> None:
        """Set up a stage, which takes over from the one before, if any has trained.

        The path is the same for a run that was resumed between two stages: the one before is set up and restored then.
        """
        params: Params = stage.params
        before, end, model = self.latest, None, None
        if before is not None:
            keeps = keeps_graph(before.params, params, stage.settings.transfer)
            model, end = before.model if keeps else None, StageEnd.of(before, has_structure=not keeps)
            self.progress.position = next_position(before.params, params, self.progress, stage.first_epoch)
            self.progress.begin_epoch_after(stage.first_epoch - 1)
        self._opened.close()
        if before is not None and model is None:
            if self._loop is not None:
                self._loop.callbacks.release_model()
            self.latest = self._loop = before = None
            gc.collect()  # models contain circles
        if self._run.preview.has_stages:
            text = stage.describe() or "the plain params"
            log.info("stage %s: epochs %d to %d, %s", stage.name, stage.first_epoch, stage.last_epoch, text)
        backend.seed(_seed(params.random_seed or 0, stage.number))
        self._opened.enter_context(precision_scope(params.device.precision))
        warmstarter = None if is_restored or end is not None else self._create_warmstarter()
        try:
            with flags_of(params, "trainer"):
                scenario = self._scenario_of(stage, before)
                record = self._record()
                self.latest = build_training(self._run, stage, scenario, warmstarter, before, self.progress, record)
        except UsageError as error:
            if stage.name == MAIN:
                raise
            raise UsageError(f"stage {stage.name}: {text_with_notes(error)}") from error
        self._opened.enter_context(self.latest.opened())
        if end is not None and self.latest.model is not model:
            path = f"stages.{stage.name}." if stage.name in self._run.params.stages else ""
            with flags_of(self._run.params, "trainer", f"{path}transfer"):
                hand_over(end, self.latest, stage.settings.transfer)

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

    # The stages in order; those that are done are answered from their records

    @property
    def _reached(self) -> PlannedStage:
        """The stage that is reached; there is one."""
        assert self._stage is not None  # noqa: S101 (the caller knows it)
        return self._stage

    def _record(self) -> dict[str, Any]:
        """Return what must not change in the stage that is reached, JSON-able; paths in the run are relative to it."""
        stage = self._reached
        settings = {} if stage.name == MAIN else encode(stage.settings)
        settings.pop("epochs", None)
        place = {name: getattr(stage, name) for name in ("number", "name", "first_epoch", "last_epoch")}
        return _relative({**settings, **place, "kind": stage.settings.kind}, self._root)

    def _begin_record(self) -> None:
        """Write what the stage is that is reached, and remove the records of what is run again."""
        record = self._record()
        if self._directories is not None and self._run.devices.is_chief:
            self._directories.forget(record["number"])
            self._directories.begin(record)

    def _finish(self, newest: Path | None, **facts: Any) -> None:
        """Write the record of the stage that is reached, and go to the next one, as a resumed run does."""
        stage, own = self._reached, self._directories
        stored = _relative(broadcast(self._run.devices, {"last_epoch": stage.last_epoch, **facts}), self._root)
        if own is not None and self._run.devices.is_chief:
            own.finish(stage.name, stored, newest if stage.trains and stage.name != MAIN else None)
        self._next(self._result(stored))

    def _go_to_stage(self, state: Mapping[str, Any] | None, repeated: int | None = None) -> list[str]:
        """Go to the stage of a checkpoint, or to the first one to run; return its changes, in words.

        Args:
            state: of the checkpoint; None: nothing is resumed.
            repeated: number of the stage from which on all are run again; None: those that are done stay.
        """
        if self._directories is not None and state is not None:
            records = broadcast(self._run.devices, self._directories.records() if self._run.devices.is_chief else [])
            self._stored = {r["number"]: r for r in records if repeated is None or r["number"] < repeated}
        running = None if state is None else state[RUNNING]
        self._next(None)
        if state is None or running is None:
            self._skip_done()
            return []
        while self._stage is not None and self._stage.number < running["number"]:
            if not self._answer():
                raise UsageError(
                    f"the stage {self._stage.name} is not done, but stage {running['name']} is running: "
                    f"repeat from it with --from_stage {self._stage.name}"
                )
        now, epochs = {} if self._stage is None else self._record(), state["epoch"]
        if running["name"] == now.get("name") == MAIN and running["first_epoch"] > now["first_epoch"]:
            raise UsageError(
                f"the checkpoint is of a later call of fit, which began with epoch {running['first_epoch']} and cannot "
                "be resumed: resume from an earlier checkpoint"
            )
        _check_same({key: running.get(key) for key in _PLACE}, {key: now.get(key) for key in _PLACE}, "running")
        if now["last_epoch"] < epochs:
            raise UsageError(
                f"the stage {now['name']!r} has trained up to epoch {epochs}, but ends with {now['last_epoch']}"
            )
        return [] if now["name"] == MAIN else _changes(running, now)  # those of the run are listed with its params

    def _skip_done(self, has_ended: bool = False) -> None:
        """Go to the first stage that trains or is not done; `has_ended`: the training that is reached has ended."""
        while self._stage is not None and (has_ended or not self._stage.trains) and self._answer():
            has_ended = False

    def _answer(self) -> bool:
        """Go to the stage after the one that is reached if that is done; else return False."""
        stored = self._stored.get(self._reached.number, {})
        if "result" not in stored:
            return False
        _check_same({key: value for key, value in stored.items() if key != "result"}, self._record(), "done")
        self._next(self._result(stored["result"]))
        return True

    def _next(self, result: StageResult | None) -> None:
        """Send the result of the stage into the program, and go to the stage that it yields."""
        if result is not None:
            if result.directory is not None:
                self._finished[result.name] = Path(result.directory)
            for epoch in self.progress.history.epochs:
                if epoch <= result.last_epoch and epoch not in self._history:
                    self._history.record(epoch, self.progress.history[epoch])
        try:
            self._stage = self._program.send(result)
        except StopIteration:
            self._stage = None
        if self._run.devices.num_processes > 1:
            check_equal(self._run.devices, {} if self._stage is None else {f"stage {self._stage.name}": self._record()})

    def _result(self, stored: Mapping[str, Any]) -> StageResult:
        """Return the result of a stage. Its file becomes the input of later stages: a name is not read from a file."""
        stage = self._reached
        if "last_epoch" not in stored or not all(isinstance(stored[key], _TYPES.get(key, ())) for key in stored):
            raise UsageError(f"the result of stage {stage.name!r} is damaged: {shorten(dict(stored))}")
        if self._root is None:
            return StageResult(stage.name, stage.first_epoch, **stored)
        directory, file_name = f"{self._root}/{STAGES_DIR}/{stage.name}", stage.settings.result_file()
        facts = json.loads(json.dumps(stored).replace(_ROOT, _json_text(self._root)))
        file = None if file_name is None else f"{directory}/{file_name}"
        return StageResult(stage.name, stage.first_epoch, directory=directory, file=file, **facts)


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
    return replace(position, pass_index=position.pass_index + 1, consumed=0, emitted=0, pending=(), failed=0)
