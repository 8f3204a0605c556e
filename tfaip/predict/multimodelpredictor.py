"""The predictor for several models, whose outputs are combined by a vote."""

from __future__ import annotations

import filecmp
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from itertools import tee, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any, Self, TypeAlias

from tfaip.components.loading import ScenarioClass
from tfaip.components.scenario import ScenarioComponents
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.params import DataProcessorParams
from tfaip.device.devices import precision_scope
from tfaip.errors import TfaipError, UsageError
from tfaip.export.modelloading import load_weights
from tfaip.params.fields import copied
from tfaip.params.resource import Resource
from tfaip.params.tree import Change, diff, flag_of
from tfaip.predict.modelpass import samples_of
from tfaip.predict.multimodelvoter import MeanVoter, MultiModelVoter
from tfaip.predict.params import PredictorParams
from tfaip.predict.predictor import Model, Predictor
from tfaip.util.classes import construct
from tfaip.util.typing import TensorDict


class MultiModelPredictor(Predictor):
    """Applies several models to the same data and votes, before or after their post-processing.

    Override `create_voter` and name the class in `ScenarioBase.multi_predictor_cls`.

    Args:
        params: the predictor params.
        data: makes the pipelines.
    """

    def __init__(self, params: PredictorParams, data: DataBase[Any]) -> None:
        super().__init__(params, data)
        self.datas: list[Any] = []
        """The data of each model, for voters."""

    @cached_property
    def _voter(self) -> MultiModelVoter[Any]:
        return self.create_voter(self._data.params)

    @classmethod
    def from_paths(
        cls,
        paths: Sequence[str | Path],
        params: PredictorParams,
        scenario: ScenarioClass,
        trusted: Iterable[str] = (),
        *,
        model_paths: Sequence[str | Path] | None = None,
        predictor_args: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return a predictor for exported models.

        Args:
            paths: directories of the models, or their files of scenario params.
            params: the predictor params.
            scenario: class of the scenario.
            trusted: packages that stored params may name classes of, besides tfaip and the scenario's own.
            model_paths: directories with the weights, if these are elsewhere.
            predictor_args: further constructor arguments of a subclass.

        Raises:
            UsageError: if a directory holds no model, or the models differ in their pre-processing.
            TfaipError: if weights are damaged.
        """
        with precision_scope(params.device.precision):
            models = load_models(paths, scenario, trusted, model_paths)
        predictor = cls(params=params, data=models[0].data, **(predictor_args or {}))
        predictor.set_models([model.graph for model in models], [model.data for model in models])
        return predictor

    def create_voter(self, data_params: DataBaseParams) -> MultiModelVoter[Any]:
        """Create what votes, when it is first needed; default: `MeanVoter`."""
        return MeanVoter(data_params)

    def set_model(self, model: Model) -> None:
        """Choose a single model, which then votes alone."""
        self.set_models([model])

    def set_models(self, models: Sequence[Model], data: Sequence[DataBase[Any]] | None = None) -> None:
        """Choose the models.

        Args:
            models: each as in `Predictor.set_model`.
            data: those of each model, with its post-processing; None: of all models those of the predictor.
        """
        self._steps = [self._create_step(model) for model in models]
        self.datas = [self._data] * len(models) if data is None else list(data)

    def _processed(self, predicted: Iterable[Any], pipeline: DataPipeline) -> Iterator[Sample]:
        if not self._voter.post_processed:
            return super()._processed(predicted, pipeline)
        streams = process_outputs(predicted, self._pipelines(pipeline))
        return (self._voter.vote(merged(versions)) for versions in same_samples(streams))

    def _pipelines(self, pipeline: DataPipeline) -> list[DataPipeline]:
        """Return a pipeline for each model, whose post-processing is its own; that of other data is for all."""
        data = self.datas
        if pipeline.data is not self._data:
            data = [pipeline.data] * len(self._steps)
        pipelines = []
        for one in data:
            # Each a new one: the samples of all models are processed in parallel.
            own = one.create_pipeline(pipeline.params, pipeline.generator_params)
            pipelines.append(own.with_seed(pipeline.seed))
        return pipelines

    def _unbatch(self, batch: Batch, outputs: list[TensorDict]) -> Iterable[Any]:
        if self._voter.post_processed:
            return versions_of(batch, outputs)
        return voted_samples(batch, outputs, self._voter)

    def _finished(self, sample: Sample) -> Sample:
        return super()._finished(self._voter.finalize_sample(sample))


def merged(versions: Versions) -> Sample:
    """Return one sample with the outputs and meta of all versions in lists, and the inputs and targets of the first."""
    return Sample(
        inputs=versions[0].inputs,
        outputs=[version.outputs for version in versions],
        targets=versions[0].targets,
        meta=[version.meta for version in versions],
    )


def voted_samples(batch: Batch, outputs: Sequence[TensorDict], voter: MultiModelVoter[Any]) -> Iterator[Sample]:
    """Iterate over the samples of a batch with the outputs that the models voted for."""
    by_model = [samples_of(batch, one) for one in outputs]
    return (
        voter.vote(same_sample[0].new_outputs([sample.outputs for sample in same_sample]))
        for same_sample in zip(*by_model, strict=True)
    )


def load_models(
    paths: Sequence[str | Path],
    scenario: ScenarioClass,
    trusted: Iterable[str] = (),
    model_paths: Sequence[str | Path] | None = None,
) -> list[ScenarioComponents[Any, Any]]:
    """Load exported models whose outputs can be compared, since they get the same inputs."""
    trusted = list(trusted)
    models = [construct(scenario, scenario.params_from_path(path, trusted)) for path in paths]
    for path, model in zip(paths[1:], models[1:], strict=True):
        first, other = _of_prediction(models[0].params.data), _of_prediction(model.params.data)
        changes = [change for change in diff(first, other) if _changes_inputs(change)]
        if changes:
            raise UsageError(
                f"{paths[0]} and {path} differ in their pre-processing, so they cannot vote: "
                f"{'; '.join(change.text(flag_of(first, 'data', change.path)) for change in changes)}"
            )
    for path, model in zip(paths if model_paths is None else model_paths, models, strict=True):
        load_weights(model, Path(path))
    return models


def _of_prediction(data: DataBaseParams) -> DataBaseParams:
    """Return data params in which all processors that run in a training only are equal."""
    data = copied(data)
    for sequence in data.pre_proc._sequences():
        for number, processor in enumerate(sequence.processors):
            if processor.modes == {PipelineMode.TRAINING}:
                sequence.processors[number] = DataProcessorParams()
    return data


def _changes_inputs(change: Change) -> bool:
    """Return False for post-processing, and for equal files in the directories of both models."""
    if change.path.split(".")[0] == "post_proc":
        return False
    files = (change.old, change.new)
    if not all(isinstance(file, Resource) and file.path.is_file() for file in files):
        return True
    return not filecmp.cmp(change.old.path, change.new.path, shallow=False)


Versions: TypeAlias = tuple[Sample, ...]


def versions_of(batch: Batch, outputs: Sequence[TensorDict]) -> list[Versions]:
    """Return the samples of a batch, each as all models predicted it."""
    # Copies: post-processing may write into a sample, which must not change that of another model.
    by_model = [samples_of(deepcopy(batch), one) for one in outputs]
    return list(zip(*by_model, strict=True))


def process_outputs(versions: Iterable[Versions], pipelines: Sequence[DataPipeline]) -> list[Iterator[Sample]]:
    """Run the post-processing of each pipeline on its version of the samples."""
    copies = tee(versions, len(pipelines))
    return [one.process_output(map(itemgetter(number), copies[number])) for number, one in enumerate(pipelines)]


def same_samples(streams: Sequence[Iterator[Sample]]) -> Iterator[Versions]:
    """Read the processed samples of all models in parallel."""
    for versions in zip_longest(*streams):
        if any(version is None for version in versions):
            raise TfaipError(
                "the post-processing of the models gives different numbers of samples, which cannot vote: vote on the "
                "outputs of the models instead (post_processed of the voter)"
            )
        yield versions
