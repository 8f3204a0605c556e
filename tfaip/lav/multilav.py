"""LAV of several models: each by itself, and all of them voting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from copy import deepcopy
from itertools import chain, tee, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import Sample
from tfaip.device.devices import precision_scope
from tfaip.lav.callbacks import LAVCallback, on_sample_of
from tfaip.lav.evaluation import SampleScores, built, evaluation_pipeline, merged, require_generators
from tfaip.lav.params import LAVParams
from tfaip.model.evaluationmodel import OUTPUTS, EvaluationModel, EvaluationStep, ScoringModel
from tfaip.predict.benchmark import BenchmarkResults
from tfaip.predict.multimodelpredictor import load_models, voted_samples
from tfaip.predict.multimodelvoter import MultiModelVoter
from tfaip.predict.params import PredictorParams
from tfaip.predict.unbatch import samples_of
from tfaip.scenario.loading import Scenario
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.util.backend import compiles_each_shape
from tfaip.util.logging import logger
from tfaip.util.typing import TensorDict

VOTED = "voted"

log = logger(__name__)


class MultiLAV:
    """Loads and validates several exported models. Build it with `ScenarioBase.create_multi_lav`.

    Args:
        params: how; `params.model_path` is not used.
        model_paths: directories of the models.
        scenario: class of the scenario; its `multi_predictor_cls` names the voter.
        trusted: packages that stored params may name classes of, besides tfaip and the scenario's own.
    """

    def __init__(
        self, params: LAVParams, model_paths: Sequence[str | Path], scenario: Scenario, trusted: Iterable[str] = ()
    ) -> None:
        self._params = params
        self._paths = [str(path) for path in model_paths]
        self._scenario = scenario
        self._trusted = list(trusted)

    def run(
        self,
        generator_params: Iterable[DataGeneratorParams],
        callbacks: Sequence[LAVCallback] | None = None,
        run_eagerly: bool = False,
    ) -> Iterator[dict[str, dict[str, Any]]]:
        """Evaluate the models on one generator after the other.

        Args:
            generator_params: where the samples, with their targets, come from.
            callbacks: see the voted samples and their results.
            run_eagerly: do not compile the models.

        Returns:
            for each generator the results (see `LAV.run`) by path of the model, and those of the vote as `voted`;
            lazily.

        Raises:
            TypeError: if `generator_params` is no iterable.
            UsageError: a directory is not that of a model, or the models differ in their pre-processing.
            TfaipError: weights are damaged.
        """
        return self._results(require_generators(generator_params), list(callbacks or []), run_eagerly)

    def _results(
        self, generator_params: Iterable[DataGeneratorParams], callbacks: Sequence[LAVCallback], run_eagerly: bool
    ) -> Iterator[dict[str, dict[str, Any]]]:
        with precision_scope(self._params.device.precision):
            models = load_models(self._paths, self._scenario, self._trusted)
            steps = [EvaluationStep(built(EvaluationModel(m.model, m.graph), m), run_eagerly) for m in models]
        vote = Vote(models[0], self._create_voter(models[0]), run_eagerly)
        for generator in generator_params:
            results = self._evaluate(models, steps, vote, generator, on_sample_of(callbacks, generator))
            for callback in callbacks:
                callback.on_lav_end(generator, results[VOTED])
            yield results

    def _create_voter(self, model: ScenarioBase[Any, Any]) -> MultiModelVoter[Any]:
        return self._scenario.multi_predictor_cls()(PredictorParams(), model.data).create_voter(model.params.data)

    def _evaluate(
        self,
        models: Sequence[ScenarioBase[Any, Any]],
        steps: Sequence[EvaluationStep],
        vote: Vote,
        generator: DataGeneratorParams,
        on_sample: Callable[[Sample], None] | None,
    ) -> dict[str, dict[str, Any]]:
        """Results by name. The models see the same inputs, so each runs once per batch: for itself and for the vote."""
        # What the vote gives goes the way of the first model.
        ways = [
            evaluation_pipeline(model, self._params.pipeline, generator, self._params.random_seed)
            for model in (*models, models[0])
        ]
        silent = self._params.silent or not self._params.print_samples
        benchmark = BenchmarkResults()
        with ExitStack() as stack:
            scores = [stack.enter_context(SampleScores(model, True, None)) for model in models]
            scores.append(stack.enter_context(SampleScores(models[0], silent, on_sample)))
            rounds = tee(_rounds(ways[0], steps, vote, benchmark), len(ways))
            streams = [way.process_output(_taken(rounds[i], i)) for i, way in enumerate(ways)]
            streams[-1] = map(vote.voter.finalize_sample, streams[-1])
            # Side by side, so that batches only wait for ways whose post-processing leaves out fewer samples.
            for samples in zip_longest(*streams):
                for score, sample in zip(scores, samples, strict=True):
                    if sample is not None:
                        score.update(sample)
            results = [score.result() for score in scores]
        if not self._params.silent:
            log.info("all models: %s", benchmark)
        values = [step.result() for step in (*steps, vote.score)]
        return dict(zip([*self._paths, VOTED], map(merged, values, results), strict=True))


class Vote:
    """Votes on the outputs of models, and scores the vote.

    Args:
        first: the model that has the losses and the metrics; built.
        voter: votes.
        run_eagerly: do not compile the losses and the metrics.
    """

    def __init__(self, first: ScenarioBase[Any, Any], voter: MultiModelVoter[Any], run_eagerly: bool) -> None:
        self.voter = voter
        # A model of its own: the metrics of the first one count what that one gives.
        model = type(first)(first.params).model
        self.score = EvaluationStep(built(ScoringModel(model, first.graph), first), run_eagerly)

    def __call__(self, batch: Batch, by_model: Sequence[TensorDict]) -> list[Sample]:
        """The samples of a batch with what is voted for, given the outputs of each model."""
        voted = list(voted_samples(batch, by_model, self.voter))
        outputs = {name: np.stack([sample.outputs[name] for sample in voted]) for name in voted[0].outputs}
        self.score.score({"inputs": batch.inputs, OUTPUTS: outputs}, batch.targets)
        return voted


def _rounds(
    pipeline: DataPipeline, steps: Sequence[EvaluationStep], vote: Vote, benchmark: BenchmarkResults
) -> Iterator[list[list[Sample]]]:
    """For each batch its samples, as each model and the vote give them."""
    for step in (*steps, vote.score):
        step.reset()
    started = time.perf_counter()
    with pipeline.generate_input_batches(auto_repeat=False, few_shapes=compiles_each_shape()) as batches:
        for batch in batches:
            with benchmark.in_model():
                by_model = [step(batch) for step in steps]
                voted = vote(batch, by_model)
            benchmark.count(batch.size, started)
            # Copies: post-processing may write into a sample, which no other model must see.
            yield [*(samples_of(deepcopy(batch), outputs) for outputs in by_model), voted]


def _taken(rounds: Iterable[list[list[Sample]]], position: int) -> Iterator[Sample]:
    return chain.from_iterable(one[position] for one in rounds)
