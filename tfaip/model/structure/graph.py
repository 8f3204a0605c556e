"""Structure of the weights of a built graph: by the classes of its layers, and by how these are connected.

The functional form of the graph, in which a `.keras` file is written, is walked through. Followed are the features of
each tensor (its last axis): through layers and operations that change no feature, joins, `Flatten`, Keras models and
layers that consist of layers. At everything else, as layers with `channels_first`, the features are unknown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeAlias

import keras
from keras import layers

from tfaip.layers.baselayer import call_in_inference, inlined_layers
from tfaip.model.structure.axis import Axis, Dimension, Joined, Product, Unknown, WeightStructure, combined
from tfaip.model.variables import all_layers_by_path, variables_by_path
from tfaip.util.typing import TensorDict

_NOT_FOLLOWED = "the inputs of its layer are not known"
_NO_LAYER = "no layer whose parts are known uses it"
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


def graph_structure(
    graph: keras.layers.Layer, calls: Iterable[tuple[Callable[..., Any], Sequence[TensorDict]]]
) -> dict[str, WeightStructure]:
    """Return the structure of the variables of a graph by path.

    Args:
        graph: the outermost graph, built.
        calls: functions that call it, and their arguments: Keras tensors by name, with the batch dimension.
    """
    variables = variables_by_path(graph)
    weights = Weights({id(variable): path for path, variable in variables.items()})
    walk = _Walk(weights)
    # What layers pass to `add_loss` must not stay in them.
    with keras.StatelessScope(collect_losses=True), inlined_layers():
        for call, tensors in calls:
            walk.follow(call, [_with_sizes(part) for part in tensors])
    for layer in all_layers_by_path(graph).values():  # not followed
        rule = rule_of(layer)
        if rule is not None and layer.weights:
            rule(weights, layer, [Unknown(0, _NOT_FOLLOWED)] * 3)
    for path, variable in variables.items():
        block = tuple(Unknown(size, _NO_LAYER) for size in variable.shape)
        weights.found.setdefault(path, WeightStructure(block, inputs=None))
    return {path: weights.found[path] for path in variables}


def _with_sizes(tensors: Mapping[str, Any]) -> TensorDict:
    """Return inputs with numbers in the place of the sizes that are not known, for code that needs them."""
    shapes = {name: [size or _POSITIONS for size in tensor.shape[1:]] for name, tensor in tensors.items()}
    return {
        name: keras.Input(batch_shape=(_SAMPLES, *shapes[name]), dtype=tensor.dtype) for name, tensor in tensors.items()
    }


class _Walk:
    """Features of the tensors of a graph; the structure of its weights is noted on the way."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        # With the tensors, so that no other tensor gets the id of one that was forgotten.
        self._found: dict[int, tuple[keras.KerasTensor, Axis]] = {}

    def follow(self, call: Callable[..., Any], inputs: Sequence[TensorDict]) -> None:
        """Follow a call of the graph."""
        for name, tensor in [item for part in inputs for item in part.items()]:
            size = tensor.shape[-1] if tensor.shape else None
            self._set(tensor, Unknown(0, _NOT_FOLLOWED) if size is None else Dimension(f"input {name}", size))
        with contextlib.suppress(Exception):  # code of the user, which need not run on tensors without values
            self._through(_keras_tensors(inputs), _keras_tensors(call(*inputs)))

    def _through(self, inputs: Sequence[keras.KerasTensor], outputs: Sequence[keras.KerasTensor]) -> list[Axis]:
        """Return the features of outputs whose graph begins at inputs with known features."""
        try:
            graph = keras.Model(inputs, outputs)
        except (ValueError, AttributeError):  # two layers of one name, no way from the inputs, no graph at all
            if len(outputs) > 1:
                return [axis for output in outputs for axis in self._through(inputs, [output])]
            return [Unknown(0, _NOT_FOLLOWED)]
        followed = keras.models.clone_model(
            graph, input_tensors=inputs, clone_function=lambda operation: operation, call_function=self._apply
        )
        return [self._found[id(tensor)][1] for tensor in followed.outputs]

    def _apply(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        """Call an operation or layer of a graph again, and note the features of its outputs."""
        outputs = operation(*args, **kwargs)
        found: Sequence[Axis] = []
        with contextlib.suppress(Exception):  # code of the user, which need not run on tensors without values
            found = self._features(operation, outputs, args, kwargs)
        reason = f"{operation.name} cannot be followed"
        for output, axis in zip_longest(_keras_tensors(outputs), found):
            if output is not None:
                self._set(output, _of_size((output.shape[-1] if output.shape else None) or 0, axis, reason))
        return outputs

    def _set(self, tensor: keras.KerasTensor, axis: Axis) -> None:
        self._found[id(tensor)] = (tensor, axis)

    def _features(self, operation: Any, outputs: Any, args: Any, kwargs: Mapping[str, Any]) -> Sequence[Axis]:
        """Return the features of the outputs of a call, as far as they are known."""
        tensors = _keras_tensors(_tensor_arguments(args, kwargs))
        inputs, rank = [self._found[id(tensor)][1] for tensor in tensors], len(tensors[0].shape)
        kind, rule = type(operation).__name__, rule_of(operation)
        if isinstance(operation, keras.Model) and operation.inputs:
            for tensor, features in zip(operation.inputs, inputs, strict=True):
                self._set(tensor, features)
            return self._through(operation.inputs, operation.outputs)
        if rule is not None:
            if _acts_on_the_last_axis(operation, rank):
                return rule(self._weights, operation, inputs)
            rule(self._weights, operation, [Unknown(0, "it does not act on the last axis")] * len(inputs))
        elif kind == "Concatenate":
            return [combined(Joined, inputs)] if operation.axis in (-1, rank - 1) else inputs[:1]
        elif kind in ("Flatten", "Reshape"):
            return [_reshaped(tensors[0].shape, outputs.shape, inputs[0])]
        elif not isinstance(operation, keras.layers.Layer):
            if kind in _KEEPING.split():
                return _merged(inputs)
            if kind in (*_REDUCING.split(), "ExpandDims", "Squeeze"):
                axis = operation.axis
                axes = axis if isinstance(axis, list | tuple) else [axis]
                last = rank if kind == "ExpandDims" else rank - 1
                return inputs[:1] if not {None, -1, last} & {*axes} else []
            return inputs[:1] if kind == "GetItem" and _takes_all_features(args[1], rank) else []
        elif rule is None:  # a layer of the user
            own_args, own_kwargs = keras.tree.map_structure(self._fresh, (args, dict(kwargs)))
            own = _keras_tensors((own_args, own_kwargs))
            return self._through(own, _keras_tensors(call_in_inference(operation, *own_args, **own_kwargs)))
        return []

    def _fresh(self, value: Any) -> Any:
        """Return a new input in the place of a tensor, with the same features: a graph of its own begins there."""
        if not isinstance(value, keras.KerasTensor):
            return value
        tensor = keras.Input(batch_shape=value.shape, dtype=value.dtype)
        self._set(tensor, self._found[id(value)][1])
        return tensor


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
        if size is None or combined(Product, axes).size == after[-1]:
            break
        axes.insert(0, Dimension(f"{size} positions", size))
    return combined(Product, axes)


def _takes_all_features(key: Any, rank: int) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    is_short = sum(each is not None for each in keys) < rank and not any(each is Ellipsis for each in keys)
    last = keys[-1]
    return is_short or last is Ellipsis or (isinstance(last, slice) and last == slice(None))


def _keras_tensors(structure: Any) -> list[keras.KerasTensor]:
    return [value for value in keras.tree.flatten(structure) if isinstance(value, keras.KerasTensor)]


class Weights:
    """Axes of the weights that are known so far (`paths`: path of each variable by its id)."""

    def __init__(self, paths: dict[int, str]) -> None:
        self.paths = paths
        self.found: dict[str, WeightStructure] = {}

    def own(self, variable: Any, axis: int) -> Axis:
        """Return an axis that belongs to no input, as the units of a layer."""
        axis %= len(variable.shape)
        return Dimension(f"{self.paths.get(id(variable), '?')}/{axis}", variable.shape[axis])

    def put(self, variable: Any, axes: Sequence[Axis | None], inputs: Sequence[int] = ()) -> None:
        """Note the axes of a weight, unless another call of its layer has told them.

        Args:
            variable: the weight; None: the layer has none.
            axes: the last ones; None, and those before: its own.
            inputs: axes that belong to inputs of the layer.
        """
        path = self.paths.get(id(variable))
        if path is None or len(axes) > len(variable.shape):
            return
        found: list[Axis] = []
        for place, axis in enumerate([None] * (len(variable.shape) - len(axes)) + [*axes]):
            own = self.own(variable, place)
            found.append(own if axis is None else _of_size(own.size, axis, _NOT_FOLLOWED))
        known = self.found.get(path)
        if known is None or _unknown(found) < _unknown(known.axes):
            self.found[path] = WeightStructure(tuple(found), tuple(place % len(found) for place in inputs))


def _of_size(size: int, axis: Axis | None, reason: str) -> Axis:
    """Return an axis if it has this size; else, and if there is none, one of which nothing is known."""
    if isinstance(axis, Unknown):
        return replace(axis, size=size)
    return Unknown(size, reason) if axis is None or axis.size != size else axis


def _unknown(axes: Sequence[Axis]) -> int:
    return sum(isinstance(axis, Unknown) for axis in axes)


# Returns the features of the outputs; the features of the inputs are the last argument.
Rule: TypeAlias = Callable[[Weights, Any, Sequence[Axis]], Sequence[Axis]]


def _kernel(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    """Note the weights of a dense layer or of a convolution."""
    if getattr(layer, "groups", 1) > 1:  # more filters belong to other groups, and so to other inputs
        return []
    units = weights.own(layer.kernel, -1)
    weights.put(layer.kernel, [inputs[0], units], inputs=[-2])
    weights.put(layer.bias, [units])
    return [units]


def _transposed(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    filters = weights.own(layer.kernel, -2)
    weights.put(layer.kernel, [filters, inputs[0]], inputs=[-1])
    weights.put(layer.bias, [filters])
    return [filters]


def _embedding(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    weights.put(layer.embeddings, [])
    return [weights.own(layer.embeddings, 1)]


def _features_each(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    """Note weights with an entry for each feature, as those of a normalisation."""
    for variable in layer.weights:
        weights.put(variable, inputs[:1])
    return inputs[:1]


def _cell(weights: Weights, cell: Any, inputs: Axis) -> Axis:
    """Note the weights of a cell, and return the features of its output."""
    if not type(cell).__module__.startswith("keras.") or isinstance(cell, layers.StackedRNNCells):
        return Unknown(cell.state_size if isinstance(cell.state_size, int) else 0, "a cell that is not one of Keras")
    # The last axis is that of the units, once for each gate.
    gated = units = weights.own(cell.recurrent_kernel, -2)
    gates = cell.kernel.shape[-1] // units.size
    if gates > 1:
        gated = combined(Product, [Dimension(f"{gates} gates", gates, is_fixed=True), units])
    weights.put(cell.kernel, [inputs, gated], inputs=[-2])
    weights.put(cell.recurrent_kernel, [units, gated])
    weights.put(cell.bias, [gated])  # of a GRU with `reset_after`: two rows, one for each kernel
    return units


def _rnn(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    units = _cell(weights, layer.cell, inputs[0])
    return [units] * (1 + len(keras.tree.flatten(layer.cell.state_size)))


def _bidirectional(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    forward, *forward_states = _rnn(weights, layer.forward_layer, inputs)
    backward, *backward_states = _rnn(weights, layer.backward_layer, inputs)
    states = [*forward_states, *backward_states]
    if layer.merge_mode is None:
        return [forward, backward, *states]
    return [combined(Joined, [forward, backward]) if layer.merge_mode == "concat" else forward, *states]


def _heads(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    """Note the weights of an attention: queries, keys, values and the output have the same heads."""
    query, value, *key = inputs
    heads = weights.own(layer.key_dense.kernel, 1)
    size, value_size = weights.own(layer.key_dense.kernel, 2), weights.own(layer.value_dense.kernel, 2)
    sizes = {layer.query_dense: (query, size), layer.key_dense: ([*key, value][0], size)}
    for part, (features, own) in {**sizes, layer.value_dense: (value, value_size)}.items():
        weights.put(part.kernel, [features, heads, own], inputs=[0])
        weights.put(part.bias, [heads, own])
    features = weights.own(layer.output_dense.kernel, -1)
    weights.put(layer.output_dense.kernel, [heads, value_size, features], inputs=[0, 1])
    weights.put(layer.output_dense.bias, [features])
    return [features]


def _inner(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    rule = rule_of(layer.layer)
    return [] if rule is None else rule(weights, layer.layer, inputs)


_RULES: dict[Rule, str] = {
    _kernel: "Dense Conv1D Conv2D Conv3D",
    _transposed: "Conv1DTranspose Conv2DTranspose Conv3DTranspose",
    _embedding: "Embedding",
    _features_each: "BatchNormalization LayerNormalization GroupNormalization RMSNormalization",
    _rnn: "RNN LSTM GRU SimpleRNN ConvLSTM1D ConvLSTM2D ConvLSTM3D",
    _bidirectional: "Bidirectional",
    _heads: "MultiHeadAttention",
    lambda weights, layer, inputs: [inputs[1]]: "Attention AdditiveAttention",
    _inner: "TimeDistributed",
    lambda weights, layer, inputs: _merged(inputs): "Add Subtract Multiply Average Maximum Minimum",
    lambda weights, layer, inputs: inputs[:1]: """
        Activation ActivityRegularization AlphaDropout Dropout ELU GaussianDropout GaussianNoise Identity LeakyReLU
        Masking ReLU Rescaling Softmax SpatialDropout1D SpatialDropout2D SpatialDropout3D UnitNormalization
        AveragePooling1D AveragePooling2D AveragePooling3D Cropping1D Cropping2D Cropping3D MaxPooling1D MaxPooling2D
        MaxPooling3D UpSampling1D UpSampling2D UpSampling3D ZeroPadding1D ZeroPadding2D ZeroPadding3D RepeatVector
        GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D GlobalMaxPooling1D GlobalMaxPooling2D
        GlobalMaxPooling3D
    """,
}
_BY_CLASS = {getattr(layers, name): rule for rule, names in _RULES.items() for name in names.split()}


def rule_of(layer: Any) -> Rule | None:
    """Return the rule of a layer; None: there is none for its class, or its class has a `call` of its own."""
    for kind in type(layer).__mro__:
        if kind in _BY_CLASS:
            return _BY_CLASS[kind] if type(layer).call is kind.call else None  # type: ignore[attr-defined]
    return None


def _merged(inputs: Sequence[Axis]) -> Sequence[Axis]:
    """Return the features of tensors that are added: those with parts, if there are any; empty: not known."""
    largest = max((axis.size for axis in inputs), default=0)
    known = [axis for axis in inputs if axis.size == largest and not isinstance(axis, Unknown)]
    return sorted(known, key=lambda axis: not isinstance(axis, Joined))[:1]
