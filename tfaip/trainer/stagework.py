"""Work of the stages that do not train: the model applied to data, and calls of functions."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras

from tfaip.backend.active import backend
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.device.collectives import all_gather_arrays, run_long_on_chief
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.model.graphbase import full_precision
from tfaip.params.settings import flags_of
from tfaip.params.types import FunctionByName
from tfaip.predict.modelpass import BenchmarkResults, EvaluationStopped, run_pass, samples_of
from tfaip.predict.samplefile import SampleWriter
from tfaip.trainer.build import Run, Training
from tfaip.trainer.datasets import Scenario
from tfaip.trainer.history import History
from tfaip.trainer.params import Params
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stages.params import PredictData, PredictStage
from tfaip.trainer.stages.program import PlannedStage, StageKind
from tfaip.util.classes import construct
from tfaip.util.logging import logger
from tfaip.util.text import shorten
from tfaip.util.typing import TensorDict

log = logger(__name__)

_OFFERED = ("params", "directory", "run_directory", "stages", "history", "should_stop")


def predict(run: Run, stage: PlannedStage, directory: Path, training: Training) -> None:
    """Apply the model that was trained last to data, and write the predicted samples.

    The processes share the batches, and the chief writes to the directory of the stage; the state of the model is the
    same afterwards.
    """
    settings: Any = stage.settings
    pipeline = _pipeline(stage, settings, training.scenario)
    before = training.state.evaluation_state()
    count = 0
    try:
        with training.model.optimizer.with_averages():
            samples = _predicted(pipeline, training, run.devices, run.stop)
            if not run.devices.is_chief:
                deque(samples, maxlen=0)
                return
            file = directory / settings.file_name
            with pipeline.drops_logged(), SampleWriter(file, settings.include_inputs) as writer:
                for sample in pipeline.process_output(samples):
                    writer.write(sample if settings.include_targets else sample.new_targets(None))
                    count += 1
                # If the post-processing stops early: every process must run the pass to its end.
                deque(samples, maxlen=0)
    except EvaluationStopped:
        return  # the caller finds the request
    finally:
        training.state.set_back(before)
    log.info("stage %s: %d samples in %s", stage.name, count, directory / settings.file_name)


def _pipeline(stage: PlannedStage, settings: PredictStage, scenario: Scenario) -> DataPipeline:
    params: Params = stage.params
    gen, is_training = params.gen, settings.data is PredictData.TRAIN
    data = construct(type(scenario), params.scenario).data
    if settings.generator is not None:
        pipeline = data.create_pipeline(gen.setup.train if is_training else gen.setup.val, settings.generator)
    else:
        pipeline = gen.train_data(data) if is_training else gen.val_data(data)
    if pipeline is None:
        raise UsageError(f"stage {stage.name}: there are no validation data: set data train, or give a generator")
    mode = PipelineMode.EVALUATION if settings.include_targets else PipelineMode.PREDICTION
    whole = replace(pipeline.params, mode=mode, batch_drop_remainder=False)
    return pipeline.with_params(whole).with_seed(params.random_seed or 0)


def _predicted(pipeline: DataPipeline, training: Training, devices: Devices, stop: StopRequest) -> Iterator[Sample]:
    """Yield the predicted samples of one pass on the chief; the other processes predict, and yield nothing."""
    graph = training.scenario.graph
    is_shared = devices.num_processes > 1

    def outputs_of(inputs: TensorDict) -> TensorDict:
        return full_precision(graph.predict(inputs))

    variables = [*graph.trainable_variables, *graph.non_trainable_variables]
    step = backend.CompiledStep(outputs_of, variables, run_eagerly=training.params.force_eager)
    step.read(of_this_process=is_shared)

    def collect(own: TensorDict | None) -> list[Any]:
        if not is_shared:
            return [own]
        arrays = {name: keras.ops.convert_to_numpy(value) for name, value in (own or {}).items()}
        gathered = all_gather_arrays(devices, arrays)
        return gathered if devices.is_chief else []

    def should_stop() -> bool:
        stop.agree()
        return stop.received is not None

    return run_pass(
        pipeline,
        lambda batch: step(batch.inputs),
        samples_of,
        BenchmarkResults(),
        devices=devices,
        collect=collect,
        should_stop=should_stop,
    )


def check_calls(stages: Sequence[PlannedStage], params: Params) -> None:
    """Raise unless every function that a stage calls exists and can be called with its arguments."""
    for stage in stages:
        if stage.kind is StageKind.CALL:
            with flags_of(params, "trainer"):
                _function_of(stage)


def call_function(
    run: Run, stage: PlannedStage, directory: Path, history: History, stages: Mapping[str, Path]
) -> dict[str, Any]:
    """Call the function of a stage on the chief, while the other processes wait for it; return facts for the result.

    Args:
        run: the run.
        stage: names function and arguments.
        directory: of the stage, where the function may write.
        history: of the run so far.
        stages: directories of the finished stages by name.
    """
    settings: Any = stage.settings
    offered: dict[str, Any] = {
        "params": stage.params,
        "directory": directory,
        "run_directory": None if run.place is None else run.place.root.absolute(),
        "stages": dict(stages),
        "history": history,
        "should_stop": lambda: run.stop.is_asked,
    }
    facts: dict[str, Any] = {}

    def call() -> None:
        value = _function_of(stage)(**{**offered, **settings.arguments})
        try:
            facts["value"] = json.loads(json.dumps(value))
        except (TypeError, ValueError) as error:
            returned = f"returned {shorten(value)}, expected a JSON value or None ({error})"
            raise UsageError(f"stage {stage.name}: {settings.function} {returned}") from error

    run_long_on_chief(run.devices, call)
    return facts


def _function_of(stage: PlannedStage) -> Callable[..., Any]:
    settings: Any = stage.settings
    function = FunctionByName(settings.function, [*_OFFERED, *settings.arguments], f"stages.{stage.name}.function")
    unknown = sorted(set(settings.arguments) - function.taken)
    if unknown:
        raise UsageError(f"stage {stage.name}: {settings.function} takes no argument {', '.join(unknown)}")
    return function
