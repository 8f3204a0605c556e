"""Weights of the layers of Keras, and the axes of their outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from keras import layers

from tfaip.backend.keras_private.symbolic import SymbolicCall
from tfaip.model.structure import attention, convolutions, operations, recurrent
from tfaip.model.structure.axis import Dimension
from tfaip.model.structure.einsum import einsum_axes
from tfaip.model.structure.recording import WeightRecord
from tfaip.model.structure.tensors import ONE, TensorAxes
from tfaip.model.structure.tracing import FlowRule, Tracer, first_argument, rules_of

# Declares the weights of a layer.
WeightRule: TypeAlias = Callable[[WeightRecord, Any], None]


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
    layer = call.operation
    axes = tracer.input_axes(call)
    tracer.record.follow(layer.kernel, 0, axes[-1], is_input=True)
    return [(*axes[:-1], tracer.record.axis(layer.kernel, -1))]


def _declare_einsum_dense(record: WeightRecord, layer: Any) -> None:
    inputs, _, output = layer.equation.partition("->")
    given, _, own = inputs.partition(",")
    summed = [i for i, letter in enumerate(own) if letter in given and letter not in output]
    kernel = record.declare(layer.kernel, inputs=summed, follows=[i for i, x in enumerate(own) if x in given])
    for letter in layer.bias_axes or "":
        if kernel and letter in own:
            record.equate(layer.bias, output.index(letter) - len(output), kernel[own.index(letter)])


def _einsum_dense(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer = call.operation
    tensor = first_argument(call)
    operands = [tensor, layer.kernel]
    return [einsum_axes(tracer, layer.equation, operands, [tracer.axes(operand) for operand in operands])]


def _declare_embedding(record: WeightRecord, layer: Any) -> None:
    record.declare(layer.embeddings)


def _embedding(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    return [(*tracer.input_axes(call), tracer.record.axis(call.operation.embeddings, 1))]


# Normalisation


def _declare_batch_norm(record: WeightRecord, layer: Any) -> None:
    for variable in layer.weights:
        if len(variable.shape) == 1:
            record.declare(variable, follows=[0])


def _declare_norm(record: WeightRecord, layer: Any) -> None:
    for variable in layer.weights:
        for axis in range(len(variable.shape)):
            record.declare(variable, follows=[axis])


def _norm(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer = call.operation
    axes = tracer.input_axes(call)
    places = layer.axis if isinstance(layer.axis, list | tuple) else [layer.axis]
    for variable in layer.weights:
        if len(variable.shape) == len(places):
            for i, place in enumerate(places):
                tracer.record.follow(variable, i, axes[place])
    return [axes]


def _declare_prelu(record: WeightRecord, layer: Any) -> None:
    record.declare(layer.alpha, follows=range(len(layer.alpha.shape)))


def _prelu(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer = call.operation
    axes = tracer.input_axes(call)
    for i, size in enumerate(layer.alpha.shape):
        tracer.record.follow(layer.alpha, i, ONE if size == 1 else axes[i + 1])
    return [axes]


# Wrappers


def _time_distributed(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    tensor = first_argument(call)
    axes, shape = tracer.axes(tensor), tuple(tensor.shape)
    step = tracer.new_tensor((axes[0], *axes[2:]), (shape[0], *shape[2:]))
    return [(out[0], axes[1], *out[1:]) for out in tracer.follow(call.operation.layer(step))]


def _declare_spectral(record: WeightRecord, layer: Any) -> None:
    kernel = getattr(layer.layer, "kernel", None)
    vector = record.declare(layer.vector_u)
    if vector and kernel is not None:
        record.equate(layer.vector_u, 1, record.axes(kernel)[-1])


def _spectral(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    return tracer.follow(call.operation.layer(first_argument(call)))


def _repeat(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    axes = tracer.input_axes(call)
    positions = Dimension(f"positions {tracer.name_call(call)}", call.operation.n)
    return [(axes[0], positions, axes[1])]


_NORMALIZATIONS = (layers.LayerNormalization, layers.GroupNormalization, layers.RMSNormalization)

WEIGHT_RULES: dict[type, WeightRule] = {
    layers.Dense: _declare_dense,
    layers.EinsumDense: _declare_einsum_dense,
    layers.Embedding: _declare_embedding,
    layers.BatchNormalization: _declare_batch_norm,
    **dict.fromkeys(_NORMALIZATIONS, _declare_norm),
    layers.PReLU: _declare_prelu,
    layers.SpectralNormalization: _declare_spectral,
    **convolutions.WEIGHT_RULES,
    **recurrent.WEIGHT_RULES,
    **attention.WEIGHT_RULES,
}

_MERGING = "Add Subtract Multiply Average Maximum Minimum"
_KEEPING = """
    Activation ActivityRegularization AlphaDropout Dropout ELU GaussianDropout GaussianNoise
    Identity LeakyReLU Masking ReLU Rescaling Softmax SpatialDropout1D SpatialDropout2D
    SpatialDropout3D UnitNormalization
"""

LAYER_RULES: dict[type, FlowRule] = {
    layers.Dense: _dense,
    layers.EinsumDense: _einsum_dense,
    layers.Embedding: _embedding,
    **dict.fromkeys((layers.BatchNormalization, *_NORMALIZATIONS), _norm),
    layers.PReLU: _prelu,
    layers.TimeDistributed: _time_distributed,
    layers.SpectralNormalization: _spectral,
    layers.RepeatVector: _repeat,
    layers.Flatten: operations.flatten,
    layers.Reshape: operations.reshape,
    layers.Permute: operations.permute,
    layers.Concatenate: operations.concatenate,
    **rules_of(_MERGING, operations.merge),
    **rules_of(_KEEPING, operations.keep),
    **convolutions.LAYER_RULES,
    **recurrent.LAYER_RULES,
    **attention.LAYER_RULES,
}
