"""Weights of the layers of Keras, and the axes of their outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
from keras import layers

from tfaip.backend.keras_private import SymbolicCall
from tfaip.model.structure import attention, operations, recurrent
from tfaip.model.structure.axis import Axes, Dimension, Unknown, product
from tfaip.model.structure.einsum import einsum_axes
from tfaip.model.structure.operations import positions_changed
from tfaip.model.structure.recording import WeightRecord
from tfaip.model.structure.tensors import ONE, TensorAxes, TensorAxis
from tfaip.model.structure.tracing import FlowRule, Tracer, first_argument, output_shape

# Declares the weights of a layer.
WeightRule: TypeAlias = Callable[[WeightRecord, Any], None]

_GROUPED = "a convolution in groups"
_NORMALIZED = "the normalisation depends on all of its inputs"


def declare_weights(record: WeightRecord) -> None:
    """Declare the weights of all layers that are known."""
    for layer in record.layers.values():
        if not layer.weights:
            continue
        for kind in type(layer).__mro__:
            if kind in WEIGHT_RULES:
                WEIGHT_RULES[kind](record, layer)
                break


# Dense layers


def _declare_dense(record: WeightRecord, layer: Any) -> None:
    kernel = record.declare(layer.kernel, inputs=[0])
    if kernel:
        record.equate(layer.bias, 0, kernel[1])


def _dense(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    axes = tracer.axes(first_argument(call))
    tracer.record.follow(layer.kernel, 0, axes[-1], is_input=True)
    return [(*axes[:-1], _axis(tracer.record, layer.kernel, -1))]


def _axis(record: WeightRecord, variable: Any, axis: int) -> TensorAxis:
    axes: Axes = record.axes(variable)
    return axes[axis] if axes else None


def _declare_einsum_dense(record: WeightRecord, layer: Any) -> None:
    inputs, _, output = layer.equation.partition("->")
    given, _, own = inputs.partition(",")
    summed = [i for i, letter in enumerate(own) if letter in given and letter not in output]
    kernel = record.declare(layer.kernel, inputs=summed, follows=[i for i, x in enumerate(own) if x in given])
    for letter in layer.bias_axes or "":
        if kernel and letter in own:
            record.equate(layer.bias, output.index(letter) - len(output), kernel[own.index(letter)])


def _einsum_dense(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    tensor = first_argument(call)
    operands = [tensor, layer.kernel]
    return [einsum_axes(tracer, layer.equation, operands, [tracer.axes(operand) for operand in operands])]


def _declare_embedding(record: WeightRecord, layer: Any) -> None:
    record.declare(layer.embeddings)


def _embedding(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    return [(*tracer.axes(first_argument(call)), _axis(tracer.record, layer.embeddings, 1))]


# Convolutions


def _declare_conv(record: WeightRecord, layer: Any) -> None:
    kernel = layer.kernel
    rank = len(kernel.shape)
    axes = record.declare(kernel, inputs=[rank - 2], others=range(rank - 2))
    if axes:
        record.equate(layer.bias, 0, axes[-1])


def _conv(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    channel, axes = _channel(layer, call), tracer.axes(first_argument(call))
    source = axes[channel]
    if layer.groups > 1 and source is not None:
        source = Unknown(source.size // layer.groups, _GROUPED)
    tracer.record.follow(layer.kernel, -2, source, is_input=True)
    filters = _axis(tracer.record, layer.kernel, -1)
    if layer.groups > 1 and filters is not None:
        filters = Unknown(filters.size, _GROUPED)
    return [_with_channel(tracer, call, channel, filters)]


def _declare_conv_transpose(record: WeightRecord, layer: Any) -> None:
    rank = len(layer.kernel.shape)
    axes = record.declare(layer.kernel, inputs=[rank - 1], others=range(rank - 2))
    if axes:
        record.equate(layer.bias, 0, axes[-2])


def _conv_transpose(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    channel, axes = _channel(layer, call), tracer.axes(first_argument(call))
    tracer.record.follow(layer.kernel, -1, axes[channel], is_input=True)
    return [_with_channel(tracer, call, channel, _axis(tracer.record, layer.kernel, -2))]


def _declare_depthwise(record: WeightRecord, layer: Any) -> None:
    rank = len(layer.kernel.shape)
    record.declare(layer.kernel, others=range(rank - 2), follows=[rank - 2])
    record.declare(layer.bias, follows=[0])


def _depthwise(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    channel, axes = _channel(layer, call), tracer.axes(first_argument(call))
    tracer.record.follow(layer.kernel, -2, axes[channel])
    multiplied = _multiplied(tracer, layer.kernel, axes[channel])
    tracer.record.follow(layer.bias, 0, multiplied)
    return [_with_channel(tracer, call, channel, multiplied)]


def _multiplied(tracer: Tracer, kernel: Any, channels: TensorAxis) -> TensorAxis:
    """Return the channels after a convolution that makes several of each."""
    if channels is None or isinstance(tracer.bindings.resolve(channels), Unknown):
        return Unknown(kernel.shape[-2] * kernel.shape[-1], "the inputs of its layer are not known")
    return product([channels, tracer.record.axes(kernel)[-1]])


def _declare_separable(record: WeightRecord, layer: Any) -> None:
    rank = len(layer.depthwise_kernel.shape)
    record.declare(layer.depthwise_kernel, others=range(rank - 2), follows=[rank - 2])
    pointwise = record.declare(layer.pointwise_kernel, inputs=[rank - 2])
    record.equate(layer.bias, 0, pointwise[-1])


def _separable(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    channel, axes = _channel(layer, call), tracer.axes(first_argument(call))
    tracer.record.follow(layer.depthwise_kernel, -2, axes[channel])
    tracer.record.follow(layer.pointwise_kernel, -2, _multiplied(tracer, layer.depthwise_kernel, axes[channel]))
    return [_with_channel(tracer, call, channel, _axis(tracer.record, layer.pointwise_kernel, -1))]


def _channel(layer: Any, call: SymbolicCall) -> int:
    return 1 if layer.data_format == "channels_first" else len(output_shape(call)) - 1


def _with_channel(tracer: Tracer, call: SymbolicCall, channel: int, axis: TensorAxis) -> TensorAxes:
    axes, shape = tracer.axes(first_argument(call)), output_shape(call)
    name = f"{tracer.record.layer_name(call.operation)} {tracer.count_call()}"
    moved = positions_changed(axes, shape, {0, channel}, name)
    return (*moved[:channel], axis, *moved[channel + 1 :])


def _global_pool(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    axes = tracer.axes(first_argument(call))
    channel = 1 if layer.data_format == "channels_first" else len(axes) - 1
    if layer.keepdims:
        return [tuple(axis if i in (0, channel) else ONE for i, axis in enumerate(axes))]
    return [(axes[0], axes[channel])]


# Normalisation


def _declare_batch_norm(record: WeightRecord, layer: Any) -> None:
    for variable in layer.weights:
        if len(variable.shape) == 1:
            record.declare(variable, follows=[0])


def _batch_norm(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    axes = tracer.axes(first_argument(call))
    for variable in layer.weights:
        if len(variable.shape) == 1:
            tracer.record.follow(variable, 0, axes[layer.axis])
    return [axes]


def _declare_norm(record: WeightRecord, layer: Any) -> None:
    for variable in layer.weights:
        for axis in range(len(variable.shape)):
            record.declare(variable, follows=[axis])
            record.note(variable, axis, _NORMALIZED)


def _norm(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    axes = tracer.axes(first_argument(call))
    places = layer.axis if isinstance(layer.axis, list | tuple) else [layer.axis]
    for variable in layer.weights:
        for i, place in enumerate(places):
            tracer.record.follow(variable, i, axes[place])
    return [axes]


def _declare_prelu(record: WeightRecord, layer: Any) -> None:
    record.declare(layer.alpha, follows=range(len(layer.alpha.shape)))


def _prelu(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    axes = tracer.axes(first_argument(call))
    for i, size in enumerate(layer.alpha.shape):
        tracer.record.follow(layer.alpha, i, ONE if size == 1 else axes[i + 1])
    return [axes]


# Wrappers


def _time_distributed(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    tensor = first_argument(call)
    axes, shape = tracer.axes(tensor), tuple(tensor.shape)
    step = tracer.new_tensor((axes[0], *axes[2:]), (shape[0], *shape[2:]))
    return [(out[0], axes[1], *out[1:]) for out in tracer.follow(layer.layer(step))]


def _declare_spectral(record: WeightRecord, layer: Any) -> None:
    kernel = getattr(layer.layer, "kernel", None)
    vector = record.declare(layer.vector_u)
    if vector and kernel is not None:
        record.equate(layer.vector_u, 1, record.axes(kernel)[-1])
        record.note(layer.vector_u, 1, _NORMALIZED)


def _spectral(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    return tracer.follow(layer.layer(first_argument(call)))


def _repeat(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    axes = tracer.axes(first_argument(call))
    positions = Dimension(f"positions {tracer.record.layer_name(layer)} {tracer.count_call()}", layer.n)
    return [(axes[0], positions, axes[1])]


def _positions(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer: Any = call.operation
    axes, shape = tracer.axes(first_argument(call)), output_shape(call)
    channel = 1 if getattr(layer, "data_format", None) == "channels_first" else len(shape) - 1
    name = f"{tracer.record.layer_name(layer)} {tracer.count_call()}"
    return [positions_changed(axes, shape, {0, channel}, name)]


WEIGHT_RULES: dict[type, WeightRule] = {
    layers.Dense: _declare_dense,
    layers.EinsumDense: _declare_einsum_dense,
    layers.Embedding: _declare_embedding,
    **dict.fromkeys((layers.Conv1D, layers.Conv2D, layers.Conv3D), _declare_conv),
    **dict.fromkeys((layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose), _declare_conv_transpose),
    **dict.fromkeys((layers.DepthwiseConv1D, layers.DepthwiseConv2D), _declare_depthwise),
    **dict.fromkeys((layers.SeparableConv1D, layers.SeparableConv2D), _declare_separable),
    layers.BatchNormalization: _declare_batch_norm,
    **dict.fromkeys((layers.LayerNormalization, layers.GroupNormalization, layers.RMSNormalization), _declare_norm),
    layers.PReLU: _declare_prelu,
    layers.SpectralNormalization: _declare_spectral,
    **recurrent.WEIGHT_RULES,
    **attention.WEIGHT_RULES,
}

LAYER_RULES: dict[type, FlowRule] = {
    layers.Dense: _dense,
    layers.EinsumDense: _einsum_dense,
    layers.Embedding: _embedding,
    **dict.fromkeys((layers.Conv1D, layers.Conv2D, layers.Conv3D), _conv),
    **dict.fromkeys((layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose), _conv_transpose),
    **dict.fromkeys((layers.DepthwiseConv1D, layers.DepthwiseConv2D), _depthwise),
    **dict.fromkeys((layers.SeparableConv1D, layers.SeparableConv2D), _separable),
    layers.BatchNormalization: _batch_norm,
    **dict.fromkeys((layers.LayerNormalization, layers.GroupNormalization, layers.RMSNormalization), _norm),
    layers.PReLU: _prelu,
    layers.TimeDistributed: _time_distributed,
    layers.SpectralNormalization: _spectral,
    layers.RepeatVector: _repeat,
    layers.Flatten: operations.flatten,
    layers.Reshape: operations.reshape,
    layers.Permute: operations.permute,
    layers.Concatenate: operations.concatenate,
    **recurrent.LAYER_RULES,
    **attention.LAYER_RULES,
}


def _add_rules(names: str, rule: FlowRule) -> None:
    for name in names.split():
        kind: Any = getattr(keras.layers, name)
        LAYER_RULES[kind] = rule


_add_rules("Add Subtract Multiply Average Maximum Minimum", operations.merge)
_add_rules(
    """Activation ActivityRegularization AlphaDropout Dropout ELU GaussianDropout GaussianNoise Identity LeakyReLU
    Masking ReLU Rescaling Softmax SpatialDropout1D SpatialDropout2D SpatialDropout3D UnitNormalization""",
    operations.keep,
)
_add_rules(
    """AveragePooling1D AveragePooling2D AveragePooling3D Cropping1D Cropping2D Cropping3D MaxPooling1D MaxPooling2D
    MaxPooling3D UpSampling1D UpSampling2D UpSampling3D ZeroPadding1D ZeroPadding2D ZeroPadding3D""",
    _positions,
)
_add_rules(
    """GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D GlobalMaxPooling1D GlobalMaxPooling2D
    GlobalMaxPooling3D""",
    _global_pool,
)
