"""Load and validate: the prediction graph, the whole post-processing and the evaluator on data with targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import numpy as np

from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.model.evaluationmodel import EvaluationModel, EvaluationStep
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.util.logging import logger
from tfaip.util.typing import Logs

log = logger(__name__)


class EvaluationStopped(Exception):  # noqa: N818 (a request, not an error)
    """The evaluation was asked to stop."""


class PredictionEvaluation:
    """Scores the prediction graph of a scenario with its current weights.

    Args:
        scenario: its graph must be built.
        pipeline: params of the pipelines; their mode does not matter.
        seed: of the data.
        silent: do not print samples.
        run_eagerly: do not compile the model.
        should_stop: asked after every batch; True raises `EvaluationStopped`.
    """

    def __init__(
        self,
        scenario: ScenarioBase[Any, Any],
        pipeline: DataPipelineParams,
        seed: int = 0,
        silent: bool = False,
        run_eagerly: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        data = scenario.data
        model = EvaluationModel(scenario.model, scenario.graph)
        model.build_symbolically(data.create_input_layers(), data.create_target_layers())
        self._step = EvaluationStep(model, run_eagerly)
        self._scenario = scenario
        self._pipeline = pipeline
        self._seed = seed
        self._silent = silent
        self._should_stop = should_stop

    def run(self, generator: DataGeneratorParams) -> Logs:
        """Evaluate all samples of a generator.

        Returns:
            losses and metrics, and the numbers among the results of the evaluator, by name.

        Raises:
            UsageError: the evaluator and a metric share a name.
        """
        pipeline = self._scenario.data.create_pipeline(self._pipeline, generator).to_mode(PipelineMode.EVALUATION)
        pipeline.seed = self._seed
        self._step.reset()
        with self._scenario.create_evaluator(self._scenario.params.evaluator) as evaluator:
            for number, sample in enumerate(pipeline.process_output(self._predicted(pipeline))):
                evaluator.update_state(sample)
                if not self._silent and number < self._scenario.params.print_eval_limit:
                    self._scenario.model._print_evaluate(sample, self._scenario.data, log.info)
            results = evaluator.result()
        return _merged(self._step.result(), results)

    def _predicted(self, pipeline: DataPipeline) -> Iterator[Sample]:
        with pipeline.generate_input_batches(auto_repeat=False) as batches:
            for batch in batches:
                yield from _samples(batch, self._step(batch.inputs, batch.targets))
                if self._should_stop():
                    raise EvaluationStopped


def _samples(batch: Batch, outputs: dict[str, np.ndarray]) -> Iterator[Sample]:
    for i, meta in enumerate(batch.meta):
        inputs, out, targets = ({k: v[i] for k, v in part.items()} for part in (batch.inputs, outputs, batch.targets))
        yield Sample(inputs=inputs, outputs=out, targets=targets, meta=meta)


def _merged(values: Logs, results: dict[str, Any]) -> Logs:
    shared = sorted(set(values) & set(results))
    if shared:
        raise UsageError(f"the evaluator returns {', '.join(shared)}, which a loss or metric is called too: rename one")
    numbers = {n: float(v) for n, v in results.items() if isinstance(v, (Real, np.number)) and not isinstance(v, bool)}
    return {**values, **numbers}
