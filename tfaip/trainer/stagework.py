"""Work of the stages that do not train, one function for each kind."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfaip.backend.active import backend
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.device.collectives import run_long_on_chief
from tfaip.errors import UsageError
from tfaip.model.graphbase import full_precision
from tfaip.predict.modelpass import BenchmarkResults, EvaluationStopped, gathered_by_chief, run_pass, samples_of
from tfaip.predict.samplefile import SampleWriter
from tfaip.trainer.build import Run, Training
from tfaip.trainer.datasets import Scenario
from tfaip.trainer.history import History
from tfaip.trainer.params import Params
from tfaip.trainer.stages.params import CALL_ARGUMENTS, PredictData, StageKind
from tfaip.trainer.stages.program import PlannedStage
from tfaip.util.classes import construct
from tfaip.util.logging import logger
from tfaip.util.text import shorten

log = logger(__name__)


@dataclass(frozen=True)
class StageWork:
    """A stage that does not train, and what its work may use.

    Args:
        run: the run.
        stage: the stage, with its params.
        directory: of the stage, which the chief writes to.
        stages: directories of the finished stages by name.
        history: of the run so far.
        training: that was set up last; None: there is none yet, and the stage needs no model.
    """

    run: Run
    stage: PlannedStage
    directory: Path
    stages: Mapping[str, Path]
    history: History
    training: Training | None

    def do(self) -> dict[str, Any]:
        """Do the work on all processes; return facts for the result."""
        return _WORK[self.stage.settings.kind](self)


def _predict(work: StageWork) -> dict[str, Any]:
    """Apply the model that was trained last to data, and write the predicted samples.

    The processes share the batches, and the chief writes to the directory of the stage; the state of the model is the
    same afterwards.
    """
    training, settings, is_chief = work.training, work.stage.settings, work.run.devices.is_chief
    assert training is not None  # noqa: S101 (the stage needs a model)
    pipeline, file = _pipeline(work.stage, training.scenario), work.directory / settings.file_name
    before, count = training.state.evaluation_state(), 0
    try:
        with training.model.optimizer.with_averages():
            samples = _predicted(pipeline, training, work.run)
            if is_chief:
                with pipeline.drops_logged(), SampleWriter(file, settings.include_inputs) as writer:
                    for sample in pipeline.process_output(samples):
                        writer.write(sample if settings.include_targets else sample.new_targets(None))
                        count += 1
            # Other processes, and the chief if its post-processing stops early, must run the pass to its end.
            deque(samples, maxlen=0)
            if is_chief:
                log.info("stage %s: %d samples in %s", work.stage.name, count, file)
    except EvaluationStopped:
        pass  # the caller finds the request
    finally:
        training.state.set_back(before)
    return {}


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


def _call(work: StageWork) -> dict[str, Any]:
    """Call the function of a stage on the chief, while the other processes wait for it."""
    run, settings, facts = work.run, work.stage.settings, {}
    directory = None if run.place is None else run.place.root.absolute()
    values = (work.stage.params, work.directory, directory, dict(work.stages), work.history, lambda: run.stop.is_asked)

    def call() -> None:
        offered = dict(zip(CALL_ARGUMENTS, values, strict=True))
        value = settings.load()(**{**offered, **settings.arguments})
        try:
            facts["value"] = json.loads(json.dumps(value))
        except (TypeError, ValueError) as error:
            returned = f"returned {shorten(value)}, expected a JSON value or None ({error})"
            raise UsageError(f"stage {work.stage.name}: {settings.function} {returned}") from error

    run_long_on_chief(run.devices, call)
    return facts


_WORK: dict[StageKind, Callable[[StageWork], dict[str, Any]]] = {StageKind.PREDICT: _predict, StageKind.CALL: _call}
