"""Weights of convolutions, and the axes of the outputs of layers on pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import layers

from tfaip.backend.keras_private.symbolic import SymbolicCall
from tfaip.model.structure.axis import Unknown, product
from tfaip.model.structure.operations import channel_axis, pool, positions_changed
from tfaip.model.structure.recording import NOT_FOLLOWED, WeightRecord
from tfaip.model.structure.tensors import ONE, TensorAxes, TensorAxis
from tfaip.model.structure.tracing import FlowRule, Tracer, output_shape, rules_of

_GROUPED = "a convolution in groups"


def _declare_conv(record: WeightRecord, layer: Any) -> None:
    kernel = layer.kernel
    rank = len(kernel.shape)
    axes = record.declare(kernel, inputs=[rank - 2], others=range(rank - 2))
    if axes:
        record.equate(layer.bias, 0, axes[-1])


def _conv(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer = call.operation
    source = _channels(tracer, call)
    if layer.groups > 1 and source is not None:
        source = Unknown(source.size // layer.groups, _GROUPED)
    tracer.record.follow(layer.kernel, -2, source, is_input=True)
    filters = tracer.record.axis(layer.kernel, -1)
    if layer.groups > 1 and filters is not None:
        filters = Unknown(filters.size, _GROUPED)
    return [_with_channels(tracer, call, filters)]


def _declare_conv_transpose(record: WeightRecord, layer: Any) -> None:
    rank = len(layer.kernel.shape)
    axes = record.declare(layer.kernel, inputs=[rank - 1], others=range(rank - 2))
    if axes:
        record.equate(layer.bias, 0, axes[-2])


def _conv_transpose(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer = call.operation
    tracer.record.follow(layer.kernel, -1, _channels(tracer, call), is_input=True)
    return [_with_channels(tracer, call, tracer.record.axis(layer.kernel, -2))]


def _declare_depthwise(record: WeightRecord, layer: Any) -> None:
    rank = len(layer.kernel.shape)
    record.declare(layer.kernel, others=range(rank - 2), follows=[rank - 2])
    record.declare(layer.bias, follows=[0])


def _depthwise(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer = call.operation
    channels = _channels(tracer, call)
    tracer.record.follow(layer.kernel, -2, channels)
    multiplied = _multiplied(tracer, layer.kernel, channels)
    tracer.record.follow(layer.bias, 0, multiplied)
    return [_with_channels(tracer, call, multiplied)]


def _multiplied(tracer: Tracer, kernel: Any, channels: TensorAxis) -> TensorAxis:
    """Return the channels after a convolution that makes several of each."""
    if channels is None or isinstance(tracer.bindings.resolve(channels), Unknown):
        return Unknown(kernel.shape[-2] * kernel.shape[-1], NOT_FOLLOWED)
    return product([channels, tracer.record.axes(kernel)[-1]])


def _declare_separable(record: WeightRecord, layer: Any) -> None:
    rank = len(layer.depthwise_kernel.shape)
    record.declare(layer.depthwise_kernel, others=range(rank - 2), follows=[rank - 2])
    pointwise = record.declare(layer.pointwise_kernel, inputs=[rank - 2])
    record.equate(layer.bias, 0, pointwise[-1])


def _separable(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer = call.operation
    channels = _channels(tracer, call)
    tracer.record.follow(layer.depthwise_kernel, -2, channels)
    tracer.record.follow(layer.pointwise_kernel, -2, _multiplied(tracer, layer.depthwise_kernel, channels))
    return [_with_channels(tracer, call, tracer.record.axis(layer.pointwise_kernel, -1))]


def _channels(tracer: Tracer, call: SymbolicCall) -> TensorAxis:
    """Return the axis of the channels of the input."""
    axes = tracer.input_axes(call)
    return axes[channel_axis(call.operation, len(axes))]


def _with_channels(tracer: Tracer, call: SymbolicCall, channels: TensorAxis) -> TensorAxes:
    """Return the axes of the output, which has these channels."""
    axes, shape = tracer.input_axes(call), output_shape(call)
    place = channel_axis(call.operation, len(shape))
    moved = positions_changed(axes, shape, {0, place}, tracer.name_call(call))
    return (*moved[:place], channels, *moved[place + 1 :])


def _global_pool(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer = call.operation
    axes = tracer.input_axes(call)
    channel = channel_axis(layer, len(axes))
    if layer.keepdims:
        return [tuple(axis if i in (0, channel) else ONE for i, axis in enumerate(axes))]
    return [(axes[0], axes[channel])]


_ON_POSITIONS = """
    AveragePooling1D AveragePooling2D AveragePooling3D Cropping1D Cropping2D Cropping3D MaxPooling1D
    MaxPooling2D MaxPooling3D UpSampling1D UpSampling2D UpSampling3D ZeroPadding1D ZeroPadding2D
    ZeroPadding3D
"""
_OVER_POSITIONS = """
    GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D GlobalMaxPooling1D
    GlobalMaxPooling2D GlobalMaxPooling3D
"""

WEIGHT_RULES: dict[type, Callable[[WeightRecord, Any], None]] = {
    **dict.fromkeys((layers.Conv1D, layers.Conv2D, layers.Conv3D), _declare_conv),
    **dict.fromkeys((layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose), _declare_conv_transpose),
    **dict.fromkeys((layers.DepthwiseConv1D, layers.DepthwiseConv2D), _declare_depthwise),
    **dict.fromkeys((layers.SeparableConv1D, layers.SeparableConv2D), _declare_separable),
}

LAYER_RULES: dict[type, FlowRule] = {
    **dict.fromkeys((layers.Conv1D, layers.Conv2D, layers.Conv3D), _conv),
    **dict.fromkeys((layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose), _conv_transpose),
    **dict.fromkeys((layers.DepthwiseConv1D, layers.DepthwiseConv2D), _depthwise),
    **dict.fromkeys((layers.SeparableConv1D, layers.SeparableConv2D), _separable),
    **rules_of(_ON_POSITIONS, pool),
    **rules_of(_OVER_POSITIONS, _global_pool),
}
