"""Graphs: the layers of a model, in one version for training and one for prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import keras
from keras import ops

from tfaip.backend.kerastools import attach_mask, mask_of, own_training_flag
from tfaip.model.layerbase import ParamsLayer
from tfaip.util.classes import check_hook_names
from tfaip.util.oldnames import old_names
from tfaip.util.typing import Tensor, TensorDict

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

P = TypeVar("P")
_HOOKS = ("build_graph", "build_train_graph", "build_prediction_graph", "pre_proc_targets", "params_cls")
_HALF = ("float16", "bfloat16")
MASKS = "_keras_masks"
"""Name of the Keras masks of outputs, by name, where they are passed on as arrays."""


class GenericGraphBase(ParamsLayer[P], Generic[P]):
    """A graph whose training and prediction paths differ (for example an encoder with a decoder).

    Create the layers in `__init__` and call them in the two build functions. Use `train` and `predict` to call a
    graph, also from inside another graph, and eagerly with NumPy arrays.

    Args:
        params: the model params, or those of the graph alone.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_hook_names(cls, GenericGraphBase, _HOOKS)

    # Whoever calls `train` without targets has a graph that takes None.
    def build_train_graph(self, inputs: TensorDict, targets: Any, training: bool | None = None) -> TensorDict:
        """Return the outputs (name -> tensor) for training and validation; `training` is a Python bool."""
        raise NotImplementedError(f"override build_train_graph in {type(self).__name__} and return {{name: tensor}}")

    def build_prediction_graph(self, inputs: TensorDict) -> TensorDict:
        """Return the outputs (name -> tensor) for prediction and export."""
        raise NotImplementedError(
            f"override build_prediction_graph in {type(self).__name__} and return {{name: tensor}}"
        )

    def pre_proc_targets(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
        """Return the targets as the graph, the losses and the metrics see them; default: unchanged."""
        return targets

    def train(self, inputs: TensorDict, targets: TensorDict | None, training: bool | None = None) -> TensorDict:
        """Call the training graph; `training=None` inherits the value of the calling graph (outermost: False).

        Args:
            inputs: a batch by name, or what else the graph takes.
            targets: the same for the targets; None, as the graph gets it, if it needs none.
            training: a Python bool.
        """
        # Keras takes an explicit None as a value, and would inherit nothing.
        given: dict[str, bool] = {} if training is None else {"training": training}
        if targets is None:
            given["as_train_graph"] = True
        return self(inputs, targets=targets, **given)

    def predict(self, inputs: TensorDict) -> TensorDict:
        """Call the prediction graph.

        Args:
            inputs: a batch by name, or what else the graph takes.
        """
        return self(inputs, training=False)

    def __call__(self, *args: Any, **kwargs: Any) -> TensorDict:
        """Call the graph as Keras does, but let a graph that calls another one keep its own `training`."""
        with own_training_flag():
            return super().__call__(*args, **kwargs)

    def call(
        self,
        inputs: TensorDict,
        targets: TensorDict | None = None,
        training: bool | None = None,
        as_train_graph: bool = False,
    ) -> Tensor:
        """Dispatch the call of Keras: without `targets` to the prediction graph, unless `train` was called so."""
        if targets is None and not as_train_graph:
            return self.build_prediction_graph(inputs)
        return self.build_train_graph(inputs, targets, training=bool(training))


def require_outputs(graph: keras.layers.Layer, outputs: Any) -> TensorDict:
    """Return the outputs of the root graph of a model, or of a Keras model.

    Raises:
        TypeError: if they are no dict.
    """
    if not isinstance(outputs, Mapping):
        raise TypeError(
            f"{type(graph).__name__} returns {type(outputs).__name__}, expected a dict of tensors by name, as in "
            "{'y': tensor}"
        )
    return dict(outputs)


def full_precision(outputs: TensorDict) -> TensorDict:
    """Return the outputs, cast to float32 where they are of 16 bits, for losses, metrics and users."""
    cast = dict(outputs)
    for name, value in outputs.items():
        if keras.backend.standardize_dtype(value.dtype) in _HALF:
            cast[name] = ops.cast(value, "float32")
            attach_mask(cast[name], mask_of(value))
    return cast


def with_masks(outputs: TensorDict) -> TensorDict:
    """Return the outputs with their Keras masks under `MASKS`: a step of JAX loses what is attached to a tensor."""
    masks = {name: mask_of(value) for name, value in outputs.items() if mask_of(value) is not None}
    return {**outputs, MASKS: masks} if masks else outputs


def with_masks_attached(outputs: TensorDict) -> TensorDict:
    """Return the outputs without `MASKS`, to which these are attached."""
    plain = copy(outputs)  # of the same class
    for name, mask in plain.pop(MASKS, {}).items():
        attach_mask(plain[name], mask)
    return plain


class GraphBase(GenericGraphBase[P], Generic[P]):
    """A graph that is the same for training and prediction: override `build_graph`."""

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        """Return the outputs (name -> tensor); `training` is a Python bool."""
        raise NotImplementedError(f"override build_graph in {type(self).__name__} and return {{name: tensor}}")

    def build_train_graph(self, inputs: TensorDict, targets: Any, training: bool | None = None) -> TensorDict:
        return self.build_graph(inputs, training=training)

    def build_prediction_graph(self, inputs: TensorDict) -> TensorDict:
        return self.build_graph(inputs, training=False)


@dataclass(frozen=True)
class ExportGraph:
    """A function of a model that other programs call: an endpoint of the SavedModel, a file in other formats.

    Args:
        function: `inputs -> outputs`, both by name; it may use the layers of the graph in any way.
        inputs: names of the inputs that it reads; None: all inputs of the scenario.
    """

    function: Callable[[TensorDict], TensorDict]
    inputs: Sequence[str] | None = None

    def __call__(self, inputs: TensorDict) -> TensorDict:
        """Return the outputs of a batch, which may hold further inputs."""
        outputs = self.function(self.select(inputs))
        if not isinstance(outputs, dict):
            raise TypeError(f"an exported graph returned {type(outputs).__name__}, expected a dict name -> tensor")
        return outputs

    def select(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs that the function reads."""
        return {name: value for name, value in inputs.items() if self.inputs is None or name in self.inputs}


class ExportGraphs:
    """All exported functions of a model.

    Args:
        root: the outermost graph, built.
        functions: the result of `ModelBase._export_graphs`.
        inputs: Keras tensors by name, one for every input of the scenario.

    Raises:
        ValueError: if there is no function, or one has an impossible name or reads an input that does not exist.
    """

    def __init__(
        self,
        root: GenericGraphBase[Any],
        functions: Mapping[str, Callable[[TensorDict], TensorDict] | ExportGraph],
        inputs: Mapping[str, keras.KerasTensor],
    ) -> None:
        if not functions:
            raise ValueError("_export_graphs returned nothing: return {'serve': graph.predict}, or export no format")
        self.root = root
        self.inputs = dict(inputs)
        self.by_name = {n: f if isinstance(f, ExportGraph) else ExportGraph(f) for n, f in functions.items()}
        for name, graph in self.by_name.items():
            if not name.isidentifier() or name.startswith("_"):
                raise ValueError(f"_export_graphs names a graph {name!r}, expected an identifier, e.g. 'encode'")
            unknown = sorted(set(graph.inputs or ()) - set(inputs))
            if unknown:
                raise ValueError(
                    f"_export_graphs: graph {name!r} reads the inputs {unknown}, but the scenario has {sorted(inputs)}"
                )
