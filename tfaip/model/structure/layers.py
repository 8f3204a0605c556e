"""Weights of the layers of Keras: the axes that each consists of, and the features of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
from keras import layers

from tfaip.model.structure.axis import Axis, Dimension, Joined, Unknown, WeightStructure, joined, product

NOT_FOLLOWED = "the inputs of its layer are not known"
_GROUPED = "a convolution in groups"


class Weights:
    """Axes of the weights that are known so far.

    Args:
        paths: path of each variable by its id.
    """

    def __init__(self, paths: dict[int, str]) -> None:
        self.paths = paths
        self.found: dict[str, WeightStructure] = {}

    def own(self, variable: Any, axis: int) -> Axis:
        """Return an axis that belongs to no input, as the units of a layer."""
        axis %= len(variable.shape)
        return Dimension(f"{self.paths.get(id(variable), '?')}/{axis}", variable.shape[axis])

    def put(
        self, variable: Any, axes: Sequence[Axis | None], inputs: Sequence[int] = (), others: Sequence[int] = ()
    ) -> None:
        """Note the axes of a weight, unless another call of its layer has told them.

        Args:
            variable: the weight; None: the layer has none.
            axes: one per axis; None: its own.
            inputs: axes over which the layer sums, and that belong to its input.
            others: further axes over which it sums.
        """
        path = self.paths.get(id(variable))
        if path is None or len(axes) != len(variable.shape):
            return
        fitting = [self._fitting(variable, i, axis) for i, axis in enumerate(axes)]
        known = self.found.get(path)
        if known is None or _unknown(fitting) < _unknown(known.axes):
            self.found[path] = WeightStructure(tuple(fitting), tuple(inputs), tuple(others))

    def _fitting(self, variable: Any, place: int, axis: Axis | None) -> Axis:
        size = variable.shape[place]
        if axis is None:
            return self.own(variable, place)
        if axis.size == size:
            return axis
        return Unknown(size, axis.reason if isinstance(axis, Unknown) else NOT_FOLLOWED)


def _unknown(axes: Sequence[Axis]) -> int:
    return sum(isinstance(axis, Unknown) for axis in axes)


# Returns the features of the outputs; the features of the inputs are the last argument.
Rule: TypeAlias = Callable[[Weights, Any, Sequence[Axis]], Sequence[Axis]]


def _dense(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    units = weights.own(layer.kernel, 1)
    weights.put(layer.kernel, [inputs[0], units], inputs=[0])
    weights.put(layer.bias, [units])
    return [units]


def _einsum_dense(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    given, own, output = layer.equation.replace("->", ",").split(",")
    axes: dict[str, Axis] = {letter: weights.own(layer.kernel, i) for i, letter in enumerate(own)}
    summed = [i for i, letter in enumerate(own) if letter in given and letter not in output]
    for i in summed:  # of the other axes of the input nothing is known
        axes[own[i]] = inputs[0] if own[i] == given[-1] else Unknown(axes[own[i]].size, NOT_FOLLOWED)
    weights.put(layer.kernel, [axes[letter] for letter in own], inputs=summed)
    if layer.bias is not None:
        letters = output[len(output) - len(layer.bias.shape) :]
        weights.put(layer.bias, [axes.get(x) if x in (layer.bias_axes or "") else None for x in letters])
    return [axes.get(output[-1], inputs[0] if output[-1] == given[-1] else Unknown(0, NOT_FOLLOWED))]


def _embedding(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    weights.put(layer.embeddings, [None, None])
    return [weights.own(layer.embeddings, 1)]


def _norm(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    for variable in layer.weights:
        weights.put(variable, [None] * (len(variable.shape) - 1) + [inputs[0]])
    return inputs[:1]


def _prelu(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    shared = layer.alpha.shape[-1] == 1
    weights.put(layer.alpha, [None] * (len(layer.alpha.shape) - 1) + [None if shared else inputs[0]])
    return inputs[:1]


def _conv(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    rank = len(layer.kernel.shape)
    filters, source = weights.own(layer.kernel, -1), inputs[0]
    if layer.groups > 1:
        source, filters = Unknown(layer.kernel.shape[-2], _GROUPED), Unknown(filters.size, _GROUPED)
    positions = [None] * (rank - 2)
    weights.put(layer.kernel, [*positions, source, None], inputs=[rank - 2], others=range(rank - 2))
    weights.put(layer.bias, [weights.own(layer.kernel, -1)])
    return [filters]


def _conv_transpose(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    rank = len(layer.kernel.shape)
    positions = [None] * (rank - 2)
    weights.put(layer.kernel, [*positions, None, inputs[0]], inputs=[rank - 1], others=range(rank - 2))
    filters = weights.own(layer.kernel, -2)
    weights.put(layer.bias, [filters])
    return [filters]


def _depthwise(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    features = _each_channel(weights, layer.kernel, inputs[0])
    weights.put(layer.bias, [features])
    return [features]


def _separable(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    features = _each_channel(weights, layer.depthwise_kernel, inputs[0])
    rank = len(layer.pointwise_kernel.shape)
    weights.put(layer.pointwise_kernel, [*[None] * (rank - 2), features, None], inputs=[rank - 2])
    filters = weights.own(layer.pointwise_kernel, -1)
    weights.put(layer.bias, [filters])
    return [filters]


def _each_channel(weights: Weights, kernel: Any, channels: Axis) -> Axis:
    """Note a kernel that has entries for each channel of the input, and return the features of the output."""
    rank = len(kernel.shape)
    weights.put(kernel, [*[None] * (rank - 2), channels, None], others=range(rank - 2))
    multiples = weights.own(kernel, -1)
    if isinstance(channels, Unknown):
        return Unknown(channels.size * multiples.size, channels.reason)
    return product([channels, multiples]) if multiples.size > 1 else channels


def _cell(weights: Weights, cell: Any, inputs: Axis) -> Axis:
    """Note the weights of a cell, and return the features of its output."""
    if isinstance(cell, layers.StackedRNNCells):
        for inner in cell.cells:
            inputs = _cell(weights, inner, inputs)
        return inputs
    if not type(cell).__module__.startswith("keras."):
        return Unknown(cell.state_size if isinstance(cell.state_size, int) else 0, "a cell that is not one of Keras")
    # The last axis is that of the units, once for each gate.
    rank = len(cell.kernel.shape)
    units = weights.own(cell.recurrent_kernel, -2)
    gates = cell.kernel.shape[-1] // units.size
    gated = product([Dimension(f"{gates} gates", gates, is_fixed=True), units]) if gates > 1 else units
    positions = [None] * (rank - 2)
    weights.put(cell.kernel, [*positions, inputs, gated], inputs=[rank - 2], others=range(rank - 2))
    weights.put(cell.recurrent_kernel, [*positions, units, gated], others=range(rank - 1))
    if cell.bias is not None:  # of a GRU with `reset_after`: two rows, one for each kernel
        weights.put(cell.bias, [*[None] * (len(cell.bias.shape) - 1), gated])
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
    return [joined([forward, backward]) if layer.merge_mode == "concat" else forward, *states]


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
    weights.put(layer.output_dense.kernel, [heads, value_size, None], inputs=[0, 1])
    weights.put(layer.output_dense.bias, [features])
    return [features]


def _attention(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    for variable in layer.weights:
        weights.put(variable, inputs[:1] if len(variable.shape) == 1 else [])
    return [inputs[1]]


def _inner(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    rule = rule_of(layer.layer)
    return [] if rule is None else rule(weights, layer.layer, inputs)


def _spectral(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    outputs = _inner(weights, layer, inputs)
    for variable in layer.weights:  # beside those of the inner layer: a vector
        if tuple(variable.shape) == (1, outputs[0].size):
            weights.put(variable, [None, *outputs])
    return outputs


def _merge(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    return merged(inputs)


def _keep(weights: Weights, layer: Any, inputs: Sequence[Axis]) -> Sequence[Axis]:
    return inputs[:1]


_RULES: dict[Rule, str] = {
    _dense: "Dense",
    _einsum_dense: "EinsumDense",
    _embedding: "Embedding",
    _norm: "BatchNormalization LayerNormalization GroupNormalization RMSNormalization",
    _prelu: "PReLU",
    _conv: "Conv1D Conv2D Conv3D",
    _conv_transpose: "Conv1DTranspose Conv2DTranspose Conv3DTranspose",
    _depthwise: "DepthwiseConv1D DepthwiseConv2D",
    _separable: "SeparableConv1D SeparableConv2D",
    _rnn: "RNN LSTM GRU SimpleRNN ConvLSTM1D ConvLSTM2D ConvLSTM3D",
    _bidirectional: "Bidirectional",
    _heads: "MultiHeadAttention",
    _attention: "Attention AdditiveAttention",
    _inner: "TimeDistributed",
    _spectral: "SpectralNormalization",
    _merge: "Add Subtract Multiply Average Maximum Minimum",
    _keep: """
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


def merged(inputs: Sequence[Axis]) -> Sequence[Axis]:
    """Return the features of tensors that are added: those with parts, if there are any; empty: not known."""
    largest = max((axis.size for axis in inputs), default=0)
    known = [axis for axis in inputs if axis.size == largest and not isinstance(axis, Unknown)]
    return sorted(known, key=lambda axis: not isinstance(axis, Joined))[:1]
