"""The data of a scenario: what a sample looks like, and its pipelines by mode."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.specs import TensorSpec, as_specs
from tfaip.params.generics import type_argument
from tfaip.util.overriding import refuse_uncalled

P = TypeVar("P", bound=DataBaseParams)

_FOR_USERS = ("get_or_create_pipeline", "preload")


class DataBase(Generic[P]):
    """What a sample of the scenario looks like when it enters the model.

    Override the methods with a leading underscore.
    Specs are given per sample, without the batch dimension, with at least one dimension; see `TensorSpec`.

    Args:
        params: the params of the data.
    """

    def __init__(self, params: P) -> None:
        self._params = params
        self._pipelines: dict[PipelineMode, DataPipeline] = {}

    @classmethod
    def params_cls(cls) -> type[P]:
        """The params class that the data was declared with."""
        return type_argument(cls, DataBase, 0)

    @classmethod
    def default_params(cls) -> P:
        """Params to start from; override to give a scenario its processors."""
        return cls.params_cls()()

    @property
    def params(self) -> P:
        """The params that the data was built from."""
        return self._params

    def check_hooks(self) -> None:
        """Raise unless everything that the class overrides will be called.

        Raises:
            TypeError: if it overrides what is there to be called by users only.
        """
        refuse_uncalled(type(self), DataBase, dict.fromkeys(_FOR_USERS, "create_pipeline"))

    def _input_layer_specs(self) -> Mapping[str, Any]:
        raise NotImplementedError(f"override _input_layer_specs in {type(self).__name__} and return {{key: spec}}")

    def _target_layer_specs(self) -> Mapping[str, Any]:
        raise NotImplementedError(
            f"override _target_layer_specs in {type(self).__name__} and return {{key: spec}}; "
            f"{{}} if there are no targets"
        )

    def _meta_layer_specs(self) -> Mapping[str, Any]:
        """Keys that `_padding_values` may name besides inputs and targets; meta stays on the host."""
        return {}

    def _padding_values(self) -> Mapping[str, Any]:
        """What fills up shorter samples of a batch, by key; not named: 0, or the empty text."""
        return {}

    def element_length_fn(self, sample: Sample) -> int:
        """Length of a processed sample, for `max_element_length` and `bucket_boundaries`."""
        raise NotImplementedError(
            f"max_element_length and bucket_boundaries need a length: override element_length_fn(sample) in "
            f"{type(self).__name__}"
        )

    def input_layer_specs(self) -> dict[str, TensorSpec]:
        """Specs of the inputs by key."""
        return self._specs("_input_layer_specs")

    def target_layer_specs(self) -> dict[str, TensorSpec]:
        """Specs of the targets by key; empty for unsupervised training."""
        return self._specs("_target_layer_specs")

    def padding_values(self) -> dict[str, Any]:
        """The padding value of every key of inputs and targets."""
        specs = {**self.target_layer_specs(), **self.input_layer_specs()}
        values = dict(self._padding_values())
        unknown = values.keys() - specs.keys() - self._meta_layer_specs().keys()
        if unknown:
            raise ValueError(
                f"{type(self).__name__}._padding_values names {sorted(unknown)}, "
                f"expected keys of the specs: {sorted(specs)}"
            )
        return {key: values.get(key, "" if spec.dtype == "string" else 0) for key, spec in specs.items()}

    def _specs(self, method: str) -> dict[str, TensorSpec]:
        return as_specs(getattr(self, method)(), f"{type(self).__name__}.{method}")

    def create_input_layers(self) -> dict[str, Any]:
        """One `keras.Input` (a KerasTensor with batch dimension) per key of the inputs."""
        return _keras_inputs(self.input_layer_specs())

    def create_target_layers(self) -> dict[str, Any]:
        """The same for the targets."""
        return _keras_inputs(self.target_layer_specs())

    def create_pipeline(
        self, pipeline_params: DataPipelineParams, generator_params: DataGeneratorParams
    ) -> DataPipeline:
        """A new pipeline over the samples of the generator, in the mode of `pipeline_params`."""
        return DataPipeline(pipeline_params, self, generator_params)

    def preload(
        self,
        pipeline_params: DataPipelineParams,
        generator_params: DataGeneratorParams,
        show_progress: bool = False,
    ) -> DataPipeline:
        """Load the data of a mode into memory: `get_or_create_pipeline` gives this pipeline from now on.

        Args:
            pipeline_params: as for `get_or_create_pipeline`.
            generator_params: as for `get_or_create_pipeline`.
            show_progress: show a bar while the samples are processed.
        """
        pipeline = self.create_pipeline(pipeline_params, generator_params).as_preloaded(show_progress)
        self._pipelines[pipeline_params.mode] = pipeline
        return pipeline

    def with_params(self, params: P) -> DataBase[P]:
        """The same data with other params."""
        data = copy.copy(self)
        data._params, data._pipelines = params, {}
        return data

    def get_or_create_pipeline(
        self, pipeline_params: DataPipelineParams, generator_params: DataGeneratorParams
    ) -> DataPipeline:
        """The pipeline of this mode; a new one replaces it when other params objects are given."""
        pipeline = self._pipelines.get(pipeline_params.mode)
        if pipeline is None or not pipeline.serves(pipeline_params, generator_params):
            pipeline = self.create_pipeline(pipeline_params, generator_params)
            self._pipelines[pipeline_params.mode] = pipeline
        return pipeline


def _keras_inputs(specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    import keras

    return {key: keras.Input(shape=spec.shape, dtype=spec.dtype, name=key) for key, spec in specs.items()}
