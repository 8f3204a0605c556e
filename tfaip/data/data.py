"""The data of a scenario: the specs of a sample, and its pipelines by mode."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.specs import TensorSpec, as_input_specs, as_specs, export_name
from tfaip.params.classes import Part
from tfaip.params.tree import node_fields
from tfaip.params.types import type_argument
from tfaip.util.classes import check_hook_names, refuse_uncalled
from tfaip.util.oldnames import old_names

if TYPE_CHECKING:
    from tfaip.data.pipeline.datapipeline import DataPipeline

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

P = TypeVar("P", bound=DataBaseParams)

_HOOKS = (
    *("params_cls", "default_params", "_input_layer_specs", "_target_layer_specs", "_meta_layer_specs"),
    *("_padding_values", "element_length_fn", "input_layer_specs", "target_layer_specs", "padding_values"),
    *("create_pipeline", "data_pipeline_cls"),
)
_DECLARED = ("inputs", "targets", "meta", "padding", "length_of")
_UNCALLED = ("get_or_create_pipeline", "preload")


class DataBase(Generic[P]):
    """Samples of a scenario as they enter the model. Override methods with a leading underscore.

    Specs are given per sample, without the batch dimension, with at least one dimension; see `TensorSpec`.

    Args:
        params: the params of the data.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_hook_names(cls, DataBase, (*_HOOKS, *_DECLARED) if issubclass(cls, Part) else _HOOKS)

    def __init__(self, params: P) -> None:
        self._params = params
        self._pipelines: dict[PipelineMode, DataPipeline] = {}

    @classmethod
    def params_cls(cls) -> type[P]:
        """Return the params class that the data was declared with."""
        return type_argument(cls, DataBase, 0)

    @classmethod
    def default_params(cls) -> P:
        """Return default params; override to give a scenario its processors."""
        return cls.params_cls()()

    @property
    def params(self) -> P:
        """The params that the data was built from."""
        return self._params

    # Class attribute, so that a subclass's `__init__` need not call ours.
    _scenario_params: Any = None

    @property
    def shared_source(self) -> Any:
        """Params that have what generators declare with `shared()`: those of the scenario, if there is one."""
        return self.params if self._scenario_params is None else self._scenario_params

    def set_scenario_params(self, params: Any) -> None:
        """Set the params of the scenario that the data belong to."""
        self._scenario_params = params

    def check_hooks(self) -> None:
        """Raise unless everything that the class overrides will be called.

        Raises:
            TypeError: if it overrides a method that is only called by users.
        """
        refuse_uncalled(type(self), DataBase, dict.fromkeys(_UNCALLED, "create_pipeline"))

    def _input_layer_specs(self) -> Mapping[str, Any]:
        raise NotImplementedError(
            f"{type(self).__name__} has no inputs: override _input_layer_specs and return {{key: spec}}, or in a "
            "subclass of Data declare inputs = {'x': Spec(28, 28)}"
        )

    def _target_layer_specs(self) -> Mapping[str, Any]:
        raise NotImplementedError(
            f"override _target_layer_specs in {type(self).__name__} and return {{key: spec}}; "
            f"{{}} if there are no targets"
        )

    def _meta_layer_specs(self) -> Mapping[str, Any]:
        """Return specs of further keys that `_padding_values` may name; meta stays on the host."""
        return {}

    def _padding_values(self) -> Mapping[str, Any]:
        """Return the values that fill up shorter samples, by key; default: 0, or the empty text."""
        return {}

    def element_length_fn(self, sample: Sample) -> int:
        """Return the length of a processed sample, for length limits and buckets.

        An override may also take no sample and return the function to measure with, which gets inputs
        and targets in one dict: `return lambda values: len(values["img"])`.
        """
        raise NotImplementedError(
            "max_element_length and bucket_boundaries need a length: override element_length_fn(sample) in "
            f"{type(self).__name__}, or declare length_of in a subclass of Data"
        )

    def input_layer_specs(self) -> dict[str, TensorSpec]:
        """Return the specs of the inputs by key."""
        return as_input_specs(self._input_layer_specs(), f"{type(self).__name__}._input_layer_specs", self)

    def target_layer_specs(self) -> dict[str, TensorSpec]:
        """Return the specs of the targets by key; empty for unsupervised training."""
        return as_specs(self._target_layer_specs(), f"{type(self).__name__}._target_layer_specs", self)

    def padding_values(self) -> dict[str, Any]:
        """Return the padding value of every key of inputs and targets.

        Raises:
            ValueError: if `_padding_values` names an unknown key.
        """
        specs = {**self.target_layer_specs(), **self.input_layer_specs()}
        values = dict(self._padding_values())
        unknown = values.keys() - specs.keys() - self._meta_layer_specs().keys()
        if unknown:
            raise ValueError(
                f"{type(self).__name__}._padding_values names {sorted(unknown)}, "
                f"expected keys of the specs: {sorted(specs)}"
            )
        return {key: values.get(key, "" if spec.dtype == "string" else 0) for key, spec in specs.items()}

    def create_input_layers(self) -> dict[str, Any]:
        """Return one `keras.Input` (a KerasTensor with batch dimension) per key of the inputs."""
        return _keras_inputs(self.input_layer_specs())

    def create_target_layers(self) -> dict[str, Any]:
        """Return one `keras.Input` per key of the targets."""
        return _keras_inputs(self.target_layer_specs())

    @classmethod
    def data_pipeline_cls(cls) -> type[DataPipeline]:
        """Return the class of the pipelines."""
        # Data workers, which import this module, need no pipeline.
        from tfaip.data.pipeline.datapipeline import DataPipeline

        return DataPipeline

    def create_pipeline(
        self, pipeline_params: DataPipelineParams, generator_params: DataGeneratorParams
    ) -> DataPipeline:
        """Return a new pipeline over the generator, in the mode of `pipeline_params`."""
        return self.data_pipeline_cls()(pipeline_params, self, generator_params)

    def get_or_create_pipeline(
        self, pipeline_params: DataPipelineParams, generator_params: DataGeneratorParams
    ) -> DataPipeline:
        """Return the pipeline of this mode; other params objects replace it by a new one."""
        pipeline = self._pipelines.get(pipeline_params.mode)
        if pipeline is None or not pipeline.serves(pipeline_params, generator_params):
            pipeline = self.create_pipeline(pipeline_params, generator_params)
            self._pipelines[pipeline_params.mode] = pipeline
        return pipeline

    def preload(self, progress_bar: bool = False) -> None:
        """Load the data of all pipelines that `get_or_create_pipeline` has made into memory, and keep these instead.

        Args:
            progress_bar: show a bar while the samples are processed.
        """
        for mode, pipeline in self._pipelines.items():
            self._pipelines[mode] = pipeline.as_preloaded(progress_bar)

    def with_params(self, params: P) -> DataBase[P]:
        """Return the same data with other params."""
        data = copy.copy(self)
        data._params, data._pipelines = params, {}
        return data


class Data(Part, DataBaseParams, DataBase[Any]):
    """Data of a scenario, params and code in one class: its annotated fields are its params.

        class LineData(Data):
            height: int = 16
            inputs = {"img": Spec(None, "height"), "img_len": Spec(1, int)}
            targets = {"labels": Spec(None, int)}
            length_of = "img"

    The specs of the samples are class attributes without an annotation; where they depend on more than sizes, override
    the methods of `DataBase` (`_input_layer_specs` ...) instead. The rules of such classes are described in `Part`.

    Args:
        inputs: specs by key (`Spec`, or whatever `DataBase` takes).
        targets: specs by key; none for unsupervised training.
        meta: further keys that `padding` may name.
        padding: values that fill up shorter samples, by key; default: 0, or the empty text.
        length_of: key of the input or target whose first dimension is the length of a sample, for
            buckets and length limits; by default there is none.
    """

    inputs: ClassVar[Mapping[str, Any]] = {}
    targets: ClassVar[Mapping[str, Any]] = {}
    meta: ClassVar[Mapping[str, Any]] = {}
    padding: ClassVar[Mapping[str, Any]] = {}
    length_of: ClassVar[str | None] = None

    @classmethod
    def params_cls(cls) -> type[Any]:
        return cls

    @property
    def params(self) -> Any:
        """The params that the data was built from; params themselves are their own."""
        return vars(self).get("_params", self)

    def create(self, **kwargs: Any) -> Any:
        cls: Any = self.cls()
        if cls is not type(self):
            return cls(self, **kwargs)
        if kwargs:
            raise TypeError(f"{cls.__name__} takes no arguments ({', '.join(kwargs)}): make them fields, or properties")
        return self._create(_params=self, _pipelines={})

    def with_params(self, params: Any) -> DataBase[Any]:
        if not self._is_created:
            return params
        data = super().with_params(params)
        vars(data).update({field.name: getattr(params, field.name) for field in node_fields(params)})
        return data

    def check_hooks(self) -> None:
        super().check_hooks()
        known = [*self.input_layer_specs(), *self.target_layer_specs()]
        if self.length_of is not None and self.length_of not in known:
            raise TypeError(f"{type(self).__name__}.length_of is {self.length_of!r}, expected one of {known}")

    def _input_layer_specs(self) -> Mapping[str, Any]:
        if not self.inputs:
            return super()._input_layer_specs()
        return self.inputs

    def _target_layer_specs(self) -> Mapping[str, Any]:
        return self.targets

    def _meta_layer_specs(self) -> Mapping[str, Any]:
        return self.meta

    def _padding_values(self) -> Mapping[str, Any]:
        return self.padding

    def element_length_fn(self, sample: Sample) -> int:
        if self.length_of is None:
            return super().element_length_fn(sample)
        part = sample.inputs if self.length_of in self.inputs else sample.targets
        return len(part[self.length_of])


def _keras_inputs(specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    from tfaip.backend.kerastools import keras_inputs

    layers = keras_inputs({export_name(key): (spec.shape, spec.dtype) for key, spec in specs.items()})
    return dict(zip(specs, layers.values(), strict=True))
