"""LAV of several models: each by itself, and all of them voting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.batching import Batch
from tfaip.device.devices import precision_scope
from tfaip.lav.callbacks import LAVCallback, on_sample_of
from tfaip.lav.evaluation import PredictionEvaluation, built
from tfaip.lav.params import LAVParams
from tfaip.model.evaluationmodel import OUTPUTS, EvaluationStep, ScoringModel
from tfaip.model.predictionstep import PredictionStep
from tfaip.predict.multimodelpredictor import load_models, voted_samples
from tfaip.predict.multimodelvoter import MultiModelVoter
from tfaip.predict.params import PredictorParams
from tfaip.scenario.loading import Scenario
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.util.logging import logger
from tfaip.util.typing import Logs, TensorDict

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
            UsageError: a directory is not that of a model, or the models differ in their pre-processing.
            TfaipError: weights are damaged.
        """
        callbacks = list(callbacks or [])
        with precision_scope(self._params.device.precision):
            models = load_models(self._paths, self._scenario, self._trusted)
        single = [self._evaluation(model, silent=True, run_eagerly=run_eagerly) for model in models]
        voted = self._voted(models, run_eagerly)
        for generator in generator_params:
            results = {path: one.run(generator) for path, one in zip(self._paths, single, strict=True)}
            results[VOTED] = voted.run(generator, on_sample_of(callbacks, generator))
            if not self._params.silent:
                log.info("voted: %s", voted.benchmark_results)
            for callback in callbacks:
                callback.on_lav_end(generator, results[VOTED])
            yield results

    def _voted(self, models: Sequence[ScenarioBase[Any, Any]], run_eagerly: bool) -> PredictionEvaluation:
        predictor = self._scenario.multi_predictor_cls()(PredictorParams(), models[0].data)
        voter = predictor.create_voter(models[0].params.data)
        silent = self._params.silent or not self._params.print_samples
        step = VotedStep(models, voter, run_eagerly)
        return self._evaluation(models[0], silent, run_eagerly, step=step, finalize=voter.finalize_sample)

    def _evaluation(
        self, model: ScenarioBase[Any, Any], silent: bool, run_eagerly: bool, **voting: Any
    ) -> PredictionEvaluation:
        return PredictionEvaluation(
            model, self._params.pipeline, self._params.random_seed, silent, run_eagerly, **voting
        )


class VotedStep:
    """Scores what several models vote for.

    Args:
        models: built; the first one has the losses and the metrics.
        voter: votes.
        run_eagerly: do not compile the models.
    """

    def __init__(
        self, models: Sequence[ScenarioBase[Any, Any]], voter: MultiModelVoter[Any], run_eagerly: bool
    ) -> None:
        self._predict = [PredictionStep(model.graph, run_eagerly) for model in models]
        self._voter = voter
        first = models[0]
        self._score = EvaluationStep(built(ScoringModel(first.model, first.graph), first), run_eagerly)

    def reset(self) -> None:
        """Begin a new evaluation."""
        self._score.reset()

    def __call__(self, batch: Batch) -> TensorDict:
        """Vote on a batch, and score the vote; returns the voted outputs."""
        by_model = [predict(batch.inputs) for predict in self._predict]
        voted = [sample.outputs for sample in voted_samples(batch, by_model, self._voter)]
        outputs = {name: np.stack([one[name] for one in voted]) for name in voted[0]}
        return self._score.score({"inputs": batch.inputs, OUTPUTS: outputs}, batch.targets)

    def result(self) -> Logs:
        """Losses and metrics of the vote over all batches since `reset`."""
        return self._score.result()
