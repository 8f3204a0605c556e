"""LAV: load an exported model, run its prediction graph and post-processing on data with targets, score it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.device.devices import precision_scope
from tfaip.errors import UsageError
from tfaip.lav.callbacks import LAVCallback, on_sample_of
from tfaip.lav.evaluation import PredictionEvaluation, require_generators
from tfaip.lav.params import LAVParams
from tfaip.predict.benchmark import BenchmarkResults
from tfaip.scenario.exported import load_weights
from tfaip.scenario.loading import Scenario, load_trusted_scenario
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.util.logging import logger

log = logger(__name__)


class LAV:
    """Loads and validates one exported model. Build it with `ScenarioBase.create_lav`.

    Args:
        params: how; `params.model_path` is the directory of the model.
        scenario_params: those of the model (`ScenarioBase.params_from_path`).
        scenario: class of the scenario; None: the one that `scenario_params` name.
    """

    def __init__(
        self,
        params: LAVParams,
        scenario_params: ScenarioBaseParams[Any, Any],
        scenario: Scenario | None = None,
    ) -> None:
        self._params = params
        self._scenario_params = scenario_params
        self._scenario = scenario
        self._benchmark = BenchmarkResults()

    @property
    def params(self) -> LAVParams:
        """The params."""
        return self._params

    @property
    def benchmark_results(self) -> BenchmarkResults:
        """How fast the last evaluation was."""
        return self._benchmark

    def run(
        self,
        generator_params: Iterable[DataGeneratorParams],
        callbacks: Sequence[LAVCallback] | None = None,
        run_eagerly: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Evaluate the model on one generator after the other.

        Args:
            generator_params: where the samples, with their targets, come from.
            callbacks: see every sample and every result.
            run_eagerly: do not compile the model, to debug it in Python.

        Returns:
            for each generator the losses, the metrics, and the results of the evaluator, by name; lazily.

        Raises:
            TypeError: if `generator_params` is no iterable.
            UsageError: there is no model, or the evaluator and a metric share a name.
            TfaipError: the weights are damaged.
        """
        return self._results(require_generators(generator_params), list(callbacks or []), run_eagerly)

    def _results(
        self, generator_params: Iterable[DataGeneratorParams], callbacks: Sequence[LAVCallback], run_eagerly: bool
    ) -> Iterator[dict[str, Any]]:
        with precision_scope(self._params.device.precision):
            evaluation = PredictionEvaluation(
                self._loaded(),
                self._params.pipeline,
                self._params.random_seed,
                silent=self._params.silent or not self._params.print_samples,
                run_eagerly=run_eagerly,
            )
        for generator in generator_params:
            results = evaluation.run(generator, on_sample_of(callbacks, generator))
            self._benchmark = evaluation.benchmark_results
            if not self._params.silent:
                log.info("%s", self._benchmark)
            for callback in callbacks:
                callback.on_lav_end(generator, results)
            yield results

    def _loaded(self) -> ScenarioBase[Any, Any]:
        if self._params.model_path is None:
            raise UsageError("LAV has no model to load: set model_path of its params (--export_dir)")
        scenario = self._scenario or load_trusted_scenario(str(self._scenario_params.scenario_id))
        loaded = scenario(self._scenario_params)
        load_weights(loaded, Path(self._params.model_path))
        return loaded
