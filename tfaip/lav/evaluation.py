"""Evaluation of the prediction graph: model, post-processing and evaluator on data with targets."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import keras

from tfaip.components.scenario import ScenarioComponents
from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.device.collectives import broadcast
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams, result_of, scalar_results
from tfaip.model.modelbase import ModelBase
from tfaip.model.predictionstep import EvaluationModel, EvaluationStep
from tfaip.predict.modelpass import BenchmarkResults, run_pass, samples_of
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

log = logger(__name__)


def build_evaluation_model(model: EvaluationModel, scenario: ScenarioComponents[Any, Any]) -> EvaluationModel:
    """Build all variables of a model for the data of a scenario, and return the model."""
    model.build_symbolically(scenario.data.create_input_layers(), scenario.data.create_target_layers())
    return model


class SampleScores:
    """Context that passes the samples of one evaluation to the evaluator, a callback and the log.

    Args:
        scenario: has the evaluator and prints samples.
        on_sample: called with every sample.
        evaluates: use the evaluator of the scenario.
    """

    def __init__(
        self,
        scenario: ScenarioComponents[Any, Any],
        silent: bool,
        on_sample: Callable[[Sample], None] | None,
        evaluates: bool = True,
    ) -> None:
        self._scenario = scenario
        self._evaluator = scenario.new_evaluator() if evaluates else EvaluatorBase(EvaluatorParams())
        self._on_sample = on_sample
        self._number = 0
        self._num_printed = 0
        if not silent and prints_samples(scenario):
            self._num_printed = scenario.params.print_eval_limit
        has_evaluator = type(self._evaluator).update_state is not EvaluatorBase.update_state
        self.needs_all = has_evaluator or on_sample is not None
        """True if every sample is used, not only those that are printed."""

    @property
    def needs_next(self) -> bool:
        """True if the next sample is used. Making samples takes longer than a tiny model."""
        return self.needs_all or self._number < self._num_printed

    def __enter__(self) -> Self:
        self._evaluator.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._evaluator.__exit__(*error)

    def update(self, sample: Sample) -> None:
        """Score a sample, which was post-processed."""
        self._number += 1
        self._evaluator.update_state(sample)
        if self._number <= self._num_printed:
            self._scenario.model._print_evaluate(sample, self._scenario.data, log.info)
        if self._on_sample is not None:
            self._on_sample(sample)

    def result(self) -> dict[str, Any]:
        """Return the results of the evaluator."""
        return result_of(self._evaluator)


def evaluation_pipeline(
    scenario: ScenarioComponents[Any, Any], params: DataPipelineParams, generator: DataGeneratorParams, seed: int
) -> DataPipeline:
    """Return the pipeline for one pass over samples with their targets; the mode of `params` is ignored."""
    return scenario.data.create_pipeline(params, generator).to_mode(PipelineMode.EVALUATION).with_seed(seed)


def prints_samples(scenario: ScenarioComponents[Any, Any]) -> bool:
    """Return True if the model prints samples, and some are to be printed."""
    is_own = type(scenario.model)._print_evaluate is not ModelBase._print_evaluate
    return is_own and scenario.params.print_eval_limit > 0


class PredictionEvaluation:
    """Evaluation of the prediction graph of a scenario with its current weights.

    Args:
        scenario: its graph must be built.
        pipeline: params of the pipelines; their mode is ignored.
        seed: seed of the data.
        run_eagerly: do not compile the model.
        should_stop: asked after every batch; True raises `EvaluationStopped`.
        devices: with several processes each runs its share of the batches through the model, and
            the chief does the rest; None: one process.
        loss_weights: weights of losses by name, instead of those of the model; variables may change from run to run.
    """

    def __init__(
        self,
        scenario: ScenarioComponents[Any, Any],
        pipeline: DataPipelineParams,
        seed: int = 0,
        silent: bool = False,
        run_eagerly: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
        devices: Devices | None = None,
        loss_weights: Mapping[str, float | keras.Variable] | None = None,
    ) -> None:
        weights = loss_weights or {}
        variables = [weight for weight in weights.values() if isinstance(weight, keras.Variable)]
        scored = EvaluationModel(scenario.model, scenario.graph, loss_weights=weights, variables=variables)
        model = build_evaluation_model(scored, scenario)
        self._step = EvaluationStep(model, run_eagerly, devices)
        self._scenario = scenario
        self._pipeline = pipeline
        self._seed = seed
        self._silent = silent
        self._should_stop = should_stop
        self._devices = devices or Devices()
        self.benchmark_results = BenchmarkResults()
        """Counts and times of the last run."""

    def run(self, generator: DataGeneratorParams, on_sample: Callable[[Sample], None] | None = None) -> dict[str, Any]:
        """Evaluate all samples of a generator, see `run_pipeline`."""
        return self.run_pipeline(evaluation_pipeline(self._scenario, self._pipeline, generator, self._seed), on_sample)

    def run_pipeline(self, pipeline: DataPipeline, on_sample: Callable[[Sample], None] | None = None) -> dict[str, Any]:
        """Evaluate all samples of a pipeline."""
        return self._run(pipeline, SampleScores(self._scenario, self._silent, on_sample))

    def print_samples(self, pipeline: DataPipeline) -> None:
        """Print the first `print_eval_limit` samples of a pipeline, predicted and post-processed."""
        params = pipeline.params
        limit = params.limited_size(self._scenario.params.print_eval_limit)
        few = pipeline.with_params(replace(params, limit=limit, batch_drop_remainder=False))
        self._run(few, SampleScores(self._scenario, silent=False, on_sample=None, evaluates=False))

    def _run(self, pipeline: DataPipeline, scores: SampleScores) -> dict[str, Any]:
        self.benchmark_results = BenchmarkResults()
        self._step.reset()
        predicted = run_pass(
            pipeline,
            lambda batch: self._step(batch.inputs, batch.targets),
            samples_of,
            self.benchmark_results,
            in_order=False,  # the batches of the validation, so that the values are equal
            devices=self._devices,
            # Only the chief knows how many samples were printed.
            is_needed=lambda: scores.needs_all or broadcast(self._devices, scores.needs_next),
            should_stop=self._should_stop,
        )
        results: dict[str, Any] = {}
        if self._devices.is_chief:
            with scores, pipeline.drops_logged():
                for sample in pipeline.process_output(predicted):
                    scores.update(sample)
                results = scores.result()
        # Processes other than the chief run their batches here, and make no samples. So does the
        # chief if the post-processing stops before the end of the data.
        deque(predicted, maxlen=0)
        # Curves and images stay with the chief, which draws them.
        scalars = broadcast(self._devices, scalar_results(results))
        return merge_results(self._step.result(), results if self._devices.is_chief else scalars)


def merge_results(values: Logs, results: dict[str, Any]) -> dict[str, Any]:
    """Return losses and metrics together with the results of the evaluator."""
    shared = sorted(set(values) & set(results))
    if shared:
        raise UsageError(f"the evaluator returns {', '.join(shared)}, which a loss or metric is called too: rename one")
    return {**values, **results}
