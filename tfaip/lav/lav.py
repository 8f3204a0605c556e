"""LAV (load and validate): score an exported model on data with targets."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from copy import deepcopy
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from tfaip.components.loading import ScenarioClass, load_trusted_scenario
from tfaip.components.params import ScenarioBaseParams
from tfaip.components.scenario import ScenarioComponents
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import Sample
from tfaip.device.devices import precision_scope
from tfaip.errors import UsageError
from tfaip.export.modelloading import load_weights
from tfaip.lav.callbacks import LAVCallback, on_sample_of
from tfaip.lav.evaluation import (
    PredictionEvaluation,
    SampleScores,
    build_evaluation_model,
    evaluation_pipeline,
    merge_results,
)
from tfaip.model.graphbase import MASKS
from tfaip.model.predictionstep import OUTPUTS, EvaluationModel, EvaluationStep, ScoringModel
from tfaip.predict.modelpass import BenchmarkResults, run_pass
from tfaip.predict.multimodelpredictor import (
    Versions,
    load_models,
    merged,
    process_outputs,
    same_samples,
    versions_of,
    voted_samples,
)
from tfaip.predict.multimodelvoter import MultiModelVoter, stacked
from tfaip.predict.params import LAVParams, PredictorParams
from tfaip.util.classes import construct, refuse_uncalled
from tfaip.util.logging import logger
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict

_UNCALLED = dict.fromkeys(("_custom_callbacks", "extract_dump_data"), "run, and pass callbacks to super().run")
log = logger(__name__)


class LAV:
    """LAV of one exported model. Build it with `ScenarioBase.create_lav`.

    Args:
        params: the LAV params; `params.model_path` is the directory of the model.
        scenario_params: params of the model (`ScenarioBase.params_from_path`).
        scenario: class of the scenario; None: the one that `scenario_params` name.
    """

    # Part of the results that callbacks get; None: all.
    _shown: str | None = None

    def __init__(
        self, params: LAVParams, scenario_params: ScenarioBaseParams[Any, Any], scenario: ScenarioClass | None = None
    ) -> None:
        refuse_uncalled(type(self), LAV, _UNCALLED)
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

        Yields:
            for each generator the losses, the metrics, and the results of the evaluator, by name.

        Raises:
            TypeError: if `generator_params` are the params of a single generator.
            UsageError: if there is no model, or the evaluator and a metric share a name.
            TfaipError: if the weights are damaged.
        """
        if isinstance(generator_params, DataGeneratorParams):
            raise TypeError(
                f"run takes the params of several generators, got {type(generator_params).__name__}: put them into a "
                "list"
            )
        callbacks = callbacks or []
        evaluation = self._load(run_eagerly)
        for generator in generator_params:
            results = evaluation.run(generator, on_sample_of(callbacks, generator))
            self._benchmark = evaluation.benchmark_results
            if not self._params.silent:
                log.info("%s", self._benchmark)
            for callback in callbacks:
                callback.on_lav_end(generator, results if self._shown is None else results[self._shown])
            yield results

    def _load(self, run_eagerly: bool) -> Any:
        with precision_scope(self._params.device.precision):
            scenario_cls = self._scenario or load_trusted_scenario(str(self._scenario_params.scenario_id))
            scenario = construct(scenario_cls, self._scenario_params)
            load_weights(scenario, Path(str(self._params.model_path)))
            return PredictionEvaluation(
                scenario,
                self._params.pipeline,
                self._params.random_seed,
                silent=self._params.silent or not self._params.print_samples,
                run_eagerly=run_eagerly,
            )


VOTED = "voted"


class MultiLAV(LAV):
    """LAV of several exported models. Build it with `ScenarioBase.create_multi_lav`.

    The results of a generator are those of each model by its path (see `LAV.run`), and those of the
    vote as `voted`. Callbacks get the voted samples and their results.

    Args:
        params: the LAV params; `params.model_path` is not used.
        model_paths: directories of the models.
        scenario: class of the scenario; its `multi_predictor_cls` names the voter.
        trusted: packages that stored params may name classes of, besides tfaip and the scenario's own.
    """

    _shown = VOTED

    def __init__(
        self, params: LAVParams, model_paths: Sequence[str | Path], scenario: ScenarioClass, trusted: Iterable[str] = ()
    ) -> None:
        super().__init__(params, cast(Any, None), scenario)
        self._paths, self._trusted = [str(path) for path in model_paths], list(trusted)
        # The results have a value for each of these names.
        if len({Path(path).resolve() for path in self._paths}) < len(self._paths) or VOTED in self._paths:
            raise UsageError(
                f"a model is given twice, or called {VOTED}: {shorten_text(', '.join(self._paths))}: give each once"
            )

    def _load(self, run_eagerly: bool) -> Any:
        # Factories of a scenario are defined above this package, in `ScenarioBase`.
        scenario = cast(Any, self._scenario)
        with precision_scope(self._params.device.precision):
            models = load_models(self._paths, scenario, self._trusted)
        predictor = scenario.multi_predictor_cls()(PredictorParams(), models[0].data)
        voter = predictor.create_voter(models[0].params.data)
        return VotingEvaluation(models, self._paths, voter, self._params, run_eagerly)


class VotingEvaluation:
    """Evaluation of models, each alone and their vote. A model runs once per batch, for both.

    Args:
        scenarios: the loaded models. The first one has the losses, metrics, post-processing and evaluator of the vote.
        names: name of each model in the results.
        run_eagerly: do not compile the models, losses and metrics.
    """

    def __init__(
        self,
        scenarios: Sequence[ScenarioComponents[Any, Any]],
        names: Sequence[str],
        voter: MultiModelVoter[Any],
        params: LAVParams,
        run_eagerly: bool,
    ) -> None:
        self._scenarios = [*scenarios, scenarios[0]]
        self._names = [*names, VOTED]
        self._voter = voter
        self._params = params
        with precision_scope(params.device.precision):
            models = [build_evaluation_model(EvaluationModel(one.model, one.graph), one) for one in scenarios]
        self._steps = [EvaluationStep(model, run_eagerly) for model in models]
        # Outside of the scope, since the outputs that are voted on have full precision. With a
        # second model object, since the metrics of the first one count its own outputs.
        first = scenarios[0]
        scoring = ScoringModel(construct(type(first), first.params).model, first.graph)
        self._vote_step = EvaluationStep(build_evaluation_model(scoring, first), run_eagerly)
        self.benchmark_results = BenchmarkResults()
        """Counts and times of the last run."""

    def run(self, generator: DataGeneratorParams, on_sample: Callable[[Sample], None] | None = None) -> dict[str, Any]:
        """Evaluate all samples of a generator."""
        params = self._params
        pipelines = [
            evaluation_pipeline(scenario, params.pipeline, generator, params.random_seed)
            for scenario in self._scenarios
        ]
        self.benchmark_results = BenchmarkResults()
        steps = [*self._steps, self._vote_step]
        for step in steps:
            step.reset()
        predicted = run_pass(pipelines[0], self._start, self._unbatch, self.benchmark_results, in_order=False)
        with ExitStack() as stack:
            stack.enter_context(pipelines[0].drops_logged())
            scores = [stack.enter_context(SampleScores(one, True, None)) for one in self._scenarios[:-1]]
            is_silent = params.silent or not params.print_samples
            scores.append(stack.enter_context(SampleScores(self._scenarios[-1], is_silent, on_sample)))
            for same_sample in self._processed(predicted, pipelines):
                for score, sample in zip(scores, same_sample, strict=True):
                    if sample is not None:
                        score.update(sample)
            results = [score.result() for score in scores]
        by_name: dict[str, Any] = {}
        for name, step, result in zip(self._names, steps, results, strict=True):
            is_scored = step is not self._vote_step or not self._voter.post_processed
            by_name[name] = merge_results(step.result() if is_scored else {}, result)
        return by_name

    def _processed(
        self, predicted: Iterable[Versions], pipelines: Sequence[DataPipeline]
    ) -> Iterator[tuple[Sample | None, ...]]:
        """Iterate over the processed samples: as each model predicted it, and as they voted (None: dropped)."""
        if self._voter.post_processed:
            streams = process_outputs(predicted, pipelines[:-1])
            return ((*versions, self._vote(deepcopy(versions))) for versions in same_samples(streams))
        streams = process_outputs(predicted, pipelines)
        streams[-1] = map(self._voter.finalize_sample, streams[-1])
        # In parallel: samples only wait while a post-processing drops fewer of them than another.
        return zip_longest(*streams)

    def _vote(self, versions: Versions) -> Sample:
        return self._voter.finalize_sample(self._voter.vote(merged(versions)))

    def _start(self, batch: Batch) -> list[TensorDict]:
        return [step(batch.inputs, batch.targets) for step in self._steps]

    def _unbatch(self, batch: Batch, by_model: Sequence[TensorDict]) -> list[Versions]:
        """Return the versions of each sample of a batch; vote on outputs that are not post-processed, and score it."""
        versions = versions_of(batch, by_model)
        if self._voter.post_processed:
            return versions
        voted = list(voted_samples(batch, by_model, self._voter))
        outputs: TensorDict = {}
        for name in voted[0].outputs:
            outputs[name] = stacked(name, [one.outputs[name] for one in voted], "the votes of a batch")
        outputs[MASKS] = {name: mask for name, mask in self._steps[0].masks.items() if name in outputs}
        self._vote_step({"inputs": batch.inputs, OUTPUTS: outputs}, batch.targets)
        return [(*alone, vote) for alone, vote in zip(versions, voted, strict=True)]
