"""Structure of the weights of a built graph, from its layers and from how they are connected.

The graph is called once with symbolic tensors, and the functional model of this call is walked through. Followed are
the features of each tensor (its last axis): through layers that change no feature, joins, `Flatten`, Keras models and
layers that consist of layers. At everything else, as layers with `channels_first`, the features are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import keras

from tfaip.backend.kerastools import watched_methods
from tfaip.layers.baselayer import call_in_inference
from tfaip.model.structure.axis import Axis, Dimension, Unknown, WeightStructure, joined, product
from tfaip.model.structure.layers import NOT_FOLLOWED, Weights, merged, rule_of
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import all_layers_by_path, variables_by_path
from tfaip.util.logging import logger
from tfaip.util.typing import TensorDict

log = logger(__name__)

_SAMPLES = 3
# Enough for convolutions and pooling in a row; a prime, so that no reshape takes it for a product of other sizes.
_POSITIONS = 251
# Operations that change no feature, by the names that `.keras` files have for them.
_KEEPING = """
    Abs Absolute Add Cast Clip Cos Cumsum Divide Elu Exp Gelu LeakyRelu Log Log1p LogSigmoid LogSoftmax Maximum Minimum
    Multiply Negative Power Reciprocal Relu Relu6 Rsqrt Selu Sigmoid Sign Silu Sin Softmax Softplus Softsign Sqrt Square
    StopGradient Subtract Tanh TrueDivide Where MaxPool AveragePool
"""
_REDUCING = "Max Mean Min Prod Sum Std Var Logsumexp"


def model_structure(model: TrainingModel, inputs: TensorDict, targets: TensorDict) -> dict[str, WeightStructure]:
    """Return the structure of the weights of a training model.

    Args:
        model: the model, built.
        inputs: Keras tensors by name, with the batch dimension.
        targets: likewise.
    """
    calls = [model.graph.call, lambda *batch: model.call(batch, training=False)]
    return graph_structure(model.graph, zip(calls, [[inputs], [inputs, targets]], strict=True))


def graph_structure(
    graph: keras.layers.Layer, calls: Iterable[tuple[Callable[..., Any], Sequence[TensorDict]]]
) -> dict[str, WeightStructure]:
    """Return the structure of the variables of a graph by path.

    Args:
        graph: the outermost graph, built.
        calls: functions that call it, and their arguments: Keras tensors by name, with the batch dimension.
    """
    walk = _Walk(graph)
    # What layers pass to `add_loss` must not stay in them.
    with keras.StatelessScope(collect_losses=True):
        for call, tensors in calls:
            walk.follow(call, [_with_sizes(part) for part in tensors])
    return walk.structure()


def _with_sizes(tensors: Mapping[str, Any]) -> TensorDict:
    """Return inputs with numbers in the place of the sizes that are not known, for code that needs them."""
    shapes = {name: [size or _POSITIONS for size in tensor.shape[1:]] for name, tensor in tensors.items()}
    return {
        name: keras.Input(batch_shape=(_SAMPLES, *shapes[name]), dtype=tensor.dtype) for name, tensor in tensors.items()
    }


class _Walk:
    """Features of the tensors of a graph, and with them the structure of its weights."""

    def __init__(self, graph: keras.layers.Layer) -> None:
        self._variables = variables_by_path(graph)
        self._layers = all_layers_by_path(graph)
        self._paths = {id(layer): path for path, layer in self._layers.items()}
        self._weights = Weights({id(variable): path for path, variable in self._variables.items()})
        # With the tensors, so that no other tensor gets the id of one that was forgotten.
        self._found: dict[int, tuple[keras.KerasTensor, Axis]] = {}

    def follow(self, call: Callable[..., Any], inputs: Sequence[TensorDict]) -> None:
        """Follow a call of the graph, and all calls of layers in it, also those on which its outputs do not depend."""
        for name, tensor in [item for part in inputs for item in part.items()]:
            size = tensor.shape[-1] if tensor.shape else None
            self._set(tensor, Unknown(0, NOT_FOLLOWED) if size is None else Dimension(f"input {name}", size))
        self._outputs_of(call, inputs, {})

    def structure(self) -> dict[str, WeightStructure]:
        """Return what was found, by the paths of the variables."""
        for layer in self._layers.values():  # never called, as far as it is known
            rule = rule_of(layer)
            if rule is not None and layer.weights:
                rule(self._weights, layer, [Unknown(0, NOT_FOLLOWED)] * 3)
        return {path: self._weights.found.get(path, _one_block(path, v)) for path, v in self._variables.items()}

    def _outputs_of(self, call: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> list[Axis]:
        """Return the features of what a function of known Keras tensors returns."""
        outputs: list[Any] = []
        made: list[Any] = []
        running: list[Any] = []

        def watch(layer: Any, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            running.append(layer)
            try:
                result = method(*args, **kwargs)
            finally:
                running.pop()
            if not running:  # else it is a call within another layer
                made.extend(_keras_tensors(result))
            return result

        try:
            with watched_methods(list(self._layers.values()), "compute_output_spec", watch):
                outputs = _keras_tensors(call(*args, **kwargs))
        except Exception as error:
            # Code of the user, which need not run on tensors without values: what came before is known.
            log.debug("the graph can only be followed in part: %r", error)
        inputs = _keras_tensors((args, kwargs))
        return self._through(inputs, [*outputs, *made])[: len(outputs)]

    def _through(self, inputs: Sequence[keras.KerasTensor], outputs: Sequence[keras.KerasTensor]) -> list[Axis]:
        """Return the features of outputs whose graph begins at inputs with known features."""
        axes = {id(tensor): self._found[id(tensor)][1] for tensor in inputs}
        made = list({id(output): output for output in outputs if id(output) not in axes}.values())
        if made:
            axes.update(zip(map(id, made), self._followed(inputs, made), strict=True))
        return [axes[id(output)] for output in outputs]

    def _followed(self, inputs: Sequence[keras.KerasTensor], outputs: Sequence[keras.KerasTensor]) -> list[Axis]:
        try:
            graph = keras.Model(inputs, outputs)
        except (ValueError, AttributeError) as error:  # two layers of one name, no way from the inputs, no graph at all
            if len(outputs) == 1:
                log.debug("%s cannot be followed: %r", outputs[0].name, error)
                return [Unknown(0, NOT_FOLLOWED)]
            return [axis for output in outputs for axis in self._followed(inputs, [output])]
        followed = keras.models.clone_model(
            graph, input_tensors=inputs, clone_function=lambda operation: operation, call_function=self._apply
        )
        return [self._found[id(tensor)][1] for tensor in followed.outputs]

    def _apply(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        """Call an operation or layer of a graph again, and note the features of its outputs."""
        outputs = operation(*args, **kwargs)
        name = self._paths.get(id(operation), type(operation).__name__)
        try:
            found = self._features(operation, outputs, args, kwargs)
        except Exception as error:
            # The code of the user runs on tensors without values, which it need not support.
            log.debug("%s cannot be followed: %r", name, error)
            found = []
        unknown = Unknown(0, f"{name} cannot be followed")
        for place, output in enumerate(_keras_tensors(outputs)):
            size = (output.shape[-1] if output.shape else None) or 0
            axis = found[place] if place < len(found) else unknown
            if isinstance(axis, Unknown) or axis.size != size:
                axis = Unknown(size, axis.reason if isinstance(axis, Unknown) else unknown.reason)
            self._set(output, axis)
        return outputs

    def _set(self, tensor: keras.KerasTensor, axis: Axis) -> None:
        self._found[id(tensor)] = (tensor, axis)

    def _features(self, operation: Any, outputs: Any, args: Any, kwargs: Mapping[str, Any]) -> Sequence[Axis]:
        """Return the features of the outputs of a call, as far as they are known."""
        tensors = _keras_tensors(_tensor_arguments(args, kwargs))
        inputs = [self._found[id(tensor)][1] for tensor in tensors]
        rank = len(tensors[0].shape)
        if not isinstance(operation, keras.layers.Layer):
            return self._after_operation(operation, tensors, outputs, args)
        if isinstance(operation, keras.layers.Concatenate):
            return self._joined(operation.axis, inputs, rank)
        if isinstance(operation, keras.layers.Flatten | keras.layers.Reshape):
            return [_reshaped(tensors[0].shape, outputs.shape, inputs[0])]
        rule = rule_of(operation)
        if rule is not None:
            if _acts_on_the_last_axis(operation, rank):
                return rule(self._weights, operation, inputs)
            rule(self._weights, operation, [Unknown(0, "it does not act on the last axis")] * len(inputs))
            return []
        if isinstance(operation, keras.Model) and operation.inputs:
            for tensor, features in zip(operation.inputs, inputs, strict=True):
                self._set(tensor, features)
            return self._through(operation.inputs, operation.outputs)
        fresh_args, fresh_kwargs = keras.tree.map_structure(self._fresh, (args, dict(kwargs)))
        return self._outputs_of(partial(call_in_inference, operation), fresh_args, fresh_kwargs)

    def _fresh(self, value: Any) -> Any:
        """Return a new input in the place of a tensor, with the same features: a graph of its own begins there."""
        if not isinstance(value, keras.KerasTensor):
            return value
        tensor = keras.Input(batch_shape=value.shape, dtype=value.dtype)
        self._set(tensor, self._found[id(value)][1])
        return tensor

    def _after_operation(self, operation: Any, tensors: Sequence[Any], outputs: Any, args: Any) -> Sequence[Axis]:
        """Return the features of the outputs of an operation of `keras.ops`."""
        # As `.keras` files have them; the function of Keras that returns both imports TensorFlow on JAX.
        kind, config = type(operation).__name__, operation.get_config()
        axis = config.get("axis")
        inputs, rank = [self._found[id(tensor)][1] for tensor in tensors], len(tensors[0].shape)
        if kind in _KEEPING.split():
            return merged(inputs)
        if kind == "Concatenate":
            return self._joined(axis, inputs, rank)
        if kind in ("Reshape", "Ravel"):
            return [_reshaped(tensors[0].shape, outputs.shape, inputs[0])]
        if kind in (*_REDUCING.split(), "ExpandDims", "Squeeze"):
            axes = axis if isinstance(axis, list | tuple) else [axis]
            last = rank if kind == "ExpandDims" else rank - 1
            return inputs[:1] if not {None, -1, last} & {*axes} else []
        if kind == "Transpose":
            axes = config["axes"]
            return inputs[:1] if axes and axes[-1] in (-1, rank - 1) else []
        return inputs[:1] if kind == "GetItem" and _takes_all_features(args[1], rank) else []

    def _joined(self, axis: int, inputs: Sequence[Axis], rank: int) -> Sequence[Axis]:
        return [joined(inputs)] if axis in (-1, rank - 1) else inputs[:1]


def _one_block(path: str, variable: keras.Variable) -> WeightStructure:
    axes = (Dimension(f"{path}/{i}", size) for i, size in enumerate(variable.shape))
    return WeightStructure(tuple(axes), is_guess=True)


def _tensor_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments without masks, in the order in which attention takes them."""
    named = {name: value for name, value in kwargs.items() if name != "training" and "mask" not in name}
    given = [named.pop(name) for name in ("query", "value", "key") if name in named]
    return [*args, *given, *named.values()]


def _acts_on_the_last_axis(layer: Any, rank: int) -> bool:
    axis = getattr(layer, "axis", -1) if layer.weights else -1
    last = axis[-1] if isinstance(axis, list | tuple) else axis
    return last in (-1, rank - 1) and getattr(layer, "data_format", None) != "channels_first"


def _reshaped(before: Sequence[int | None], after: Sequence[int | None], features: Axis) -> Axis:
    """Return the features after a reshape that joins whole axes: all combinations of their entries."""
    axes = [features]
    for size in reversed(before[1:-1]):
        if size is None or product(axes).size == after[-1]:
            break
        axes.insert(0, Dimension(f"{size} positions", size))
    return product(axes)


def _takes_all_features(key: Any, rank: int) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    is_short = sum(each is not None for each in keys) < rank and not any(each is Ellipsis for each in keys)
    last = keys[-1]
    return is_short or last is Ellipsis or (isinstance(last, slice) and last == slice(None))


def _keras_tensors(structure: Any) -> list[keras.KerasTensor]:
    return [value for value in keras.tree.flatten(structure) if isinstance(value, keras.KerasTensor)]
