"""Load and validate: the prediction graph, the whole post-processing and the evaluator on data with targets."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from numbers import Real
from types import TracebackType
from typing import Any, Self

import keras
import numpy as np

from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.device.devices import Devices
from tfaip.device.processes import from_chief, gather_arrays
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import EvaluatorBase, result_of
from tfaip.evaluator.precisionrecall import PrecisionRecallCurve
from tfaip.model.evaluationmodel import EvaluationModel, EvaluationStep
from tfaip.model.modelbase import ModelBase
from tfaip.predict.benchmark import BenchmarkResults
from tfaip.predict.unbatch import samples_of
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.util.backend import compiles_each_shape
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

log = logger(__name__)


class EvaluationStopped(Exception):  # noqa: N818 (a request, not an error)
    """The evaluation was asked to stop."""


def built(model: EvaluationModel, scenario: ScenarioBase[Any, Any]) -> EvaluationModel:
    """The model with all its variables, for the data of a scenario."""
    model.build_symbolically(scenario.data.create_input_layers(), scenario.data.create_target_layers())
    return model


class SampleScores:
    """What looks at the samples of one evaluation: the evaluator, a callback, who reads the printed ones. A context.

    Args:
        scenario: that has the evaluator and prints.
        silent: do not print samples.
        on_sample: called with every sample.
    """

    def __init__(
        self, scenario: ScenarioBase[Any, Any], silent: bool, on_sample: Callable[[Sample], None] | None
    ) -> None:
        self._scenario = scenario
        self._evaluator = scenario.new_evaluator()
        self._num_printed = 0 if silent or not _prints(scenario.model) else scenario.params.print_eval_limit
        self._on_sample = on_sample
        self._number = 0
        self.looks_at_all = (
            on_sample is not None or type(self._evaluator).update_state is not EvaluatorBase.update_state
        )
        """Making samples costs more than a tiny model: only as long as somebody looks at them."""

    @property
    def looks_on(self) -> bool:
        """Whether somebody looks at the next sample."""
        return self.looks_at_all or self._number < self._num_printed

    def __enter__(self) -> Self:
        self._evaluator.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._evaluator.__exit__(kind, error, traceback)

    def update(self, sample: Sample) -> None:
        """Show a sample, behind the post-processing, to all of them."""
        self._number += 1
        self._evaluator.update_state(sample)
        if self._number <= self._num_printed:
            self._scenario.model._print_evaluate(sample, self._scenario.data, log.info)
        if self._on_sample is not None:
            self._on_sample(sample)

    def result(self) -> dict[str, Any]:
        """Return the results of the evaluator."""
        return result_of(self._evaluator)


def require_generators(generator_params: Iterable[DataGeneratorParams]) -> Iterable[DataGeneratorParams]:
    """Return the argument.

    Raises:
        TypeError: if it is no iterable, for example the params of a single generator.
    """
    if not isinstance(generator_params, Iterable) or isinstance(generator_params, DataGeneratorParams):
        raise TypeError(
            f"run takes the params of several generators, got {type(generator_params).__name__}: put them into a list"
        )
    return generator_params


def evaluation_pipeline(
    scenario: ScenarioBase[Any, Any], params: DataPipelineParams, generator: DataGeneratorParams, seed: int
) -> DataPipeline:
    """One pass over the samples of a generator, with their targets; the mode of `params` does not matter."""
    pipeline = scenario.data.create_pipeline(params, generator).to_mode(PipelineMode.EVALUATION)
    pipeline.seed = seed
    return pipeline


class PredictionEvaluation:
    """Scores the prediction graph of a scenario with its current weights.

    Args:
        scenario: its graph must be built.
        pipeline: params of the pipelines; their mode does not matter.
        seed: of the data.
        silent: do not print samples.
        run_eagerly: do not compile the model.
        should_stop: asked after every batch; True raises `EvaluationStopped`.
        devices: with several processes each runs its share of the batches through the model, and the chief does the
            rest; None: one process.
    """

    def __init__(
        self,
        scenario: ScenarioBase[Any, Any],
        pipeline: DataPipelineParams,
        seed: int = 0,
        silent: bool = False,
        run_eagerly: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
        devices: Devices | None = None,
    ) -> None:
        model = built(EvaluationModel(scenario.model, scenario.graph), scenario)
        self._step = EvaluationStep(model, run_eagerly, devices)
        self._scenario = scenario
        self._pipeline = pipeline
        self._seed = seed
        self._silent = silent
        self._should_stop = should_stop
        self._devices = devices or Devices()
        self.benchmark_results = BenchmarkResults()
        """Of the last run."""

    def run(self, generator: DataGeneratorParams, on_sample: Callable[[Sample], None] | None = None) -> dict[str, Any]:
        """Evaluate all samples of a generator.

        Args:
            generator: where the samples come from.
            on_sample: called with every sample after the post-processing, by the chief.

        Returns:
            losses, metrics, and the results of the evaluator, by name; of these only the numbers in processes other
            than the chief.

        Raises:
            UsageError: the evaluator and a metric share a name.
        """
        pipeline = evaluation_pipeline(self._scenario, self._pipeline, generator, self._seed)
        self._step.reset()
        scores = SampleScores(self._scenario, self._silent, on_sample)
        predicted = self._predicted(pipeline, scores)
        results: dict[str, Any] = {}
        if self._devices.is_chief:
            with scores:
                for sample in pipeline.process_output(predicted):
                    scores.update(sample)
                results = scores.result()
        # The other processes run their shares, and make no samples of them. So does the chief if the post-processing
        # stops before the end.
        deque(predicted, maxlen=0)
        # Curves and images stay with the chief, which draws them.
        shared = from_chief(self._devices, numbers(results))
        return merged(self._step.result(), results if self._devices.is_chief else shared)

    def _predicted(self, pipeline: DataPipeline, scores: SampleScores) -> Iterator[Sample]:
        self.benchmark_results = benchmark = BenchmarkResults()
        started = time.perf_counter()
        watched = True
        with pipeline.generate_input_batches(auto_repeat=False, few_shapes=compiles_each_shape()) as batches:
            # A round is a batch for every process.
            while group := list(islice(batches, self._devices.num_processes)):
                # Only the chief knows how many samples were printed. Nobody looks again who has stopped looking.
                watched = watched and (scores.looks_at_all or from_chief(self._devices, scores.looks_on))
                with benchmark.in_model():
                    outputs = self._outputs(group, watched)
                for batch in group:
                    benchmark.count(batch.size, started)
                for batch, arrays in zip(group, outputs, strict=False):
                    yield from samples_of(batch, arrays)
                if self._should_stop():
                    raise EvaluationStopped

    def _outputs(self, group: list[Batch], watched: bool) -> list[dict[str, np.ndarray]]:
        """Outputs of a batch for each process, on the chief; none if nobody looks at them."""
        own = self._devices.process_id
        outputs: dict[str, np.ndarray] = {}
        if own < len(group):
            result = self._step(group[own])
            if watched:
                outputs = {name: keras.ops.convert_to_numpy(value) for name, value in result.items()}
        if not watched:
            return []
        gathered = gather_arrays(self._devices, outputs)
        return gathered if self._devices.is_chief else []


def numbers(results: dict[str, Any]) -> Logs:
    """The numbers among the results of an evaluation, by name."""
    return {n: float(v) for n, v in results.items() if isinstance(v, (Real, np.number)) and not isinstance(v, bool)}


def drawings(results: dict[str, Any]) -> dict[str, Any]:
    """What TensorBoard draws among the results of an evaluation, by name: precision-recall curves and images."""
    return {n: v for n, v in results.items() if isinstance(v, PrecisionRecallCurve) or np.ndim(v) in (3, 4)}


def _prints(model: ModelBase[Any]) -> bool:
    return type(model)._print_evaluate is not ModelBase._print_evaluate


def merged(values: Logs, results: dict[str, Any]) -> dict[str, Any]:
    """The results of an evaluation: losses and metrics, and those of the evaluator.

    Raises:
        UsageError: they share a name.
    """
    shared = sorted(set(values) & set(results))
    if shared:
        raise UsageError(f"the evaluator returns {', '.join(shared)}, which a loss or metric is called too: rename one")
    return {**values, **results}
