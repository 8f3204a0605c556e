"""LAV (load and validate): score an exported model on data with targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tfaip.components.loading import Scenario, load_trusted_scenario
from tfaip.components.params import ScenarioBaseParams
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.device.devices import precision_scope
from tfaip.errors import UsageError
from tfaip.export.modelloading import load_weights
from tfaip.lav.callbacks import LAVCallback, on_sample_of
from tfaip.lav.evaluation import PredictionEvaluation
from tfaip.lav.params import LAVParams
from tfaip.predict.modelpass import BenchmarkResults
from tfaip.util.classes import construct, refuse_uncalled
from tfaip.util.logging import logger

log = logger(__name__)


class Evaluation(Protocol):
    """Evaluation of loaded models on one generator after the other."""

    benchmark_results: BenchmarkResults

    def run(self, generator: DataGeneratorParams, on_sample: Callable[[Sample], None] | None) -> dict[str, Any]:
        """Return the results of a generator; call `on_sample` with every sample."""


class LAV:
    """LAV of one exported model. Build it with `ScenarioBase.create_lav`.

    Args:
        params: the LAV params; `params.model_path` is the directory of the model.
        scenario_params: params of the model (`ScenarioBase.params_from_path`).
        scenario: class of the scenario; None: the one that `scenario_params` name.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        refuse_uncalled(cls, LAV, {"_custom_callbacks": "run, and pass callbacks to super().run"})

    def __init__(
        self, params: LAVParams, scenario_params: ScenarioBaseParams[Any, Any], scenario: Scenario | None = None
    ) -> None:
        self._params = params
        self._scenario_params = scenario_params
        self._scenario = scenario
        self._benchmark = BenchmarkResults()

    @classmethod
    def params_cls(cls) -> type[LAVParams]:
        """Return the class of the LAV params."""
        return LAVParams

    @property
    def params(self) -> LAVParams:
        """The LAV params."""
        return self._params

    @property
    def benchmark_results(self) -> BenchmarkResults:
        """Counts and times of the last evaluation."""
        return self._benchmark

    def run(
        self,
        generator_params: Iterable[DataGeneratorParams],
        callbacks: Sequence[LAVCallback] | None = None,
        run_eagerly: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Evaluate on one generator after the other, lazily.

        Args:
            generator_params: make the samples, with their targets.
            callbacks: get every sample and the results of every generator.
            run_eagerly: do not compile the model, to debug it in Python.

        Returns:
            for each generator the losses, the metrics, and the results of the evaluator, by name.

        Raises:
            TypeError: if `generator_params` is no iterable, for example the params of a single
                generator.
            UsageError: if there is no model, or the evaluator and a metric share a name.
            TfaipError: if the weights are damaged.
        """
        if not isinstance(generator_params, Iterable) or isinstance(generator_params, DataGeneratorParams):
            raise TypeError(
                f"run takes the params of several generators, got {type(generator_params).__name__}: put them into a "
                "list"
            )
        return self._results(generator_params, list(callbacks or []), run_eagerly)

    def _results(
        self, generator_params: Iterable[DataGeneratorParams], callbacks: Sequence[LAVCallback], run_eagerly: bool
    ) -> Iterator[dict[str, Any]]:
        evaluation = self._load(run_eagerly)
        for generator in generator_params:
            results = evaluation.run(generator, on_sample_of(callbacks, generator))
            self._benchmark = evaluation.benchmark_results
            if not self._params.silent:
                log.info("%s", self._describe(self._benchmark))
            for callback in callbacks:
                callback.on_lav_end(generator, self._callback_results(results))
            yield results

    def _load(self, run_eagerly: bool) -> Evaluation:
        if self._params.model_path is None:
            raise UsageError("LAV has no model to load: set model_path of its params")
        with precision_scope(self._params.device.precision):
            scenario_cls = self._scenario or load_trusted_scenario(str(self._scenario_params.scenario_id))
            scenario = construct(scenario_cls, self._scenario_params)
            load_weights(scenario, Path(self._params.model_path))
            return PredictionEvaluation(
                scenario,
                self._params.pipeline,
                self._params.random_seed,
                silent=self._params.silent or not self._params.print_samples,
                run_eagerly=run_eagerly,
            )

    def _describe(self, benchmark: BenchmarkResults) -> str:
        return str(benchmark)

    def _callback_results(self, results: dict[str, Any]) -> dict[str, Any]:
        """Return the part of the results that callbacks get."""
        return results
