"""Graph around a Keras model that the author of a scenario brings (`ModelBase.build_model`)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import keras
import numpy as np

from tfaip.backend.kerastools import is_functional, layers_of
from tfaip.data.specs import TensorSpec
from tfaip.layers.baselayer import InlinedLayer, call_in_inference, is_inlined
from tfaip.model.graphbase import GraphBase
from tfaip.params.names import did_you_mean, top_package
from tfaip.util.classes import refuse_uncalled
from tfaip.util.text import shorten
from tfaip.util.typing import TensorDict

P = TypeVar("P")
# Methods of a Keras model that nothing calls.
_UNCALLED = (
    *("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics", "get_metrics_result"),
    *("make_train_function", "make_test_function", "make_predict_function"),
)


class KerasGraph(GraphBase[P]):
    """A graph that is one Keras model or layer, for training and prediction.

    Inputs are matched by name; a model with one input takes the only input of the data, whatever its name is. A model
    without fixed inputs (a layer, a subclass) gets the tensor of the only input, or the dict of several ones. Outputs
    that are no dict are named by the layers that compute them, see `output_names`.

    Args:
        network: what `build_model` returned.
        specs: inputs of the data by name; None: they are not compared.
        owner: name of the class that has built it, for messages.

    Raises:
        TypeError: if `network` is no layer, is compiled, or overrides a method that is never called.
        ValueError: if it has other inputs than the data.
    """

    def __init__(
        self, params: P, network: Any, specs: Mapping[str, TensorSpec] | None, owner: str, **kwargs: Any
    ) -> None:
        super().__init__(params, **kwargs)
        where = f"{owner}.build_model"
        if not isinstance(network, keras.layers.Layer):
            raise TypeError(f"{where} returned {shorten(network)}, expected a keras.Model, or a layer")
        if getattr(network, "optimizer", None) is not None:
            raise TypeError(
                f"{where} returned a compiled model: leave out compile(), and declare `loss` and `metrics` in {owner}"
            )
        if isinstance(network, keras.Model):
            instead = f"_loss or _metric of {owner}, or call,"
            refuse_uncalled(network, keras.Model, dict.fromkeys(_UNCALLED, instead))
        self.network = network
        if specs is not None:
            _check_inputs(_fixed_inputs(network), specs, where)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        """Return the outputs of the Keras model by name."""
        outputs = self._call(_given_inputs(self.network, inputs), training)
        if isinstance(outputs, Mapping):
            return {str(name): value for name, value in outputs.items()}
        values = outputs if isinstance(outputs, list | tuple) else [outputs]
        return dict(zip(output_names(self.network, len(values)), values, strict=True))

    def _call(self, given: Any, training: bool | None) -> Any:
        network: Any = self.network
        if is_functional(network):
            if is_inlined() and any(isinstance(layer, InlinedLayer) for layer in layers_of(network)):
                return call_in_inference(network, given)  # calls the layers one by one
            return network(given, training=training)
        if not is_inlined() or top_package(type(network).__module__) == "keras":
            return network(given)  # `training` is that of this graph
        # A file of Keras cannot hold the class, but the layers that it calls.
        return call_in_inference(network, given)


def _fixed_inputs(network: keras.layers.Layer) -> Any:
    """Return the inputs that a model was declared with, in its structure; None if it takes what comes."""
    if not is_functional(network):
        return None
    if isinstance(network, keras.Sequential):
        return network.inputs[0] if network.built else None
    return network.input


def _given_inputs(network: keras.layers.Layer, inputs: TensorDict) -> Any:
    fixed = _fixed_inputs(network)
    if isinstance(fixed, Mapping):
        return {name: inputs[name] for name in fixed}
    if isinstance(fixed, list | tuple):
        return [inputs[tensor.name] for tensor in fixed]
    if len(inputs) == 1:
        return next(iter(inputs.values()))
    return dict(inputs) if fixed is None else inputs[fixed.name]


def _check_inputs(fixed: Any, specs: Mapping[str, TensorSpec], where: str) -> None:
    if fixed is None:
        return
    if isinstance(fixed, Mapping):
        tensors = dict(fixed)
    else:
        tensors = {tensor.name: tensor for tensor in (fixed if isinstance(fixed, list | tuple) else [fixed])}
        if len(tensors) == len(specs) == 1:
            tensors = {next(iter(specs)): next(iter(tensors.values()))}
    for name, tensor in tensors.items():
        if name not in specs:
            raise ValueError(
                f"{where}: the model has the input {shorten(name)}, which the data do not have"
                f"{did_you_mean(name, specs)}; name it as in the data: keras.Input(shape, name=...)"
            )
        dtype = specs[name].dtype
        if not _can_hold(tensor.dtype, dtype):  # Keras would cast it; it compares the shapes
            raise ValueError(
                f"{where}: the input {name!r} of the model has the type {tensor.dtype}, the data give {dtype}: "
                f"keras.Input(shape, dtype={dtype!r})"
            )


def _can_hold(model: str, data: str) -> bool:
    if "string" in (model, data) or "bfloat16" in (model, data):
        return "string" not in (model, data) or model == data
    return np.can_cast(np.dtype(data), np.dtype(model), "same_kind")


def is_automatic_name(layer: keras.layers.Layer) -> bool:
    """Return True if Keras may have named the layer."""
    return re.fullmatch(rf"{type(layer).__name__.lower()}\d*", layer.name.replace("_", "")) is not None


def counted_names(layers: Sequence[keras.layers.Layer]) -> list[str]:
    """Return a name for each layer of one model: that of its author, or what Keras would name it in a new process."""
    taken = {layer.name for layer in layers if not is_automatic_name(layer)}
    names = []
    for layer in layers:
        name = layer.name
        if is_automatic_name(layer):
            plain = re.sub(r"_\d+$", "", layer.name)
            candidates = [plain, *(f"{plain}_{number}" for number in range(1, len(layers) + 1))]
            name = next(candidate for candidate in candidates if candidate not in taken)
            taken.add(name)
        names.append(name)
    return names


def output_names(network: keras.layers.Layer, count: int) -> list[str]:
    """Return a name for each output of a model that returns no dict.

    The name of the layer that computes it, if its author named it; else `output`, or `output_0`, `output_1` ...
    """
    names: list[str | None] = [None] * count
    if isinstance(network, keras.Model):
        layers = {layer.name: layer for layer in network.layers}
        computing = getattr(network, "output_names", None)
        if isinstance(network, keras.Sequential):
            computing = [network.layers[-1].name]
        for position, name in enumerate(computing or []):
            layer = layers.get(name)
            if layer is not None and not is_automatic_name(layer):
                names[position] = name
    if len(set(names)) < count or None in names:
        return ["output"] if count == 1 else [f"output_{position}" for position in range(count)]
    return [str(name) for name in names]
