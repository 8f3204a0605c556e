"""Axes after the operations of Keras (`keras.ops`) and the layers that are made of a single one."""

from __future__ import annotations

from typing import Any

import keras

from tfaip.backend.keras_private.symbolic import SymbolicCall
from tfaip.model.structure.axis import Dimension, joined, product
from tfaip.model.structure.cutting import get_item, glu, split
from tfaip.model.structure.einsum import einsum_axes
from tfaip.model.structure.tensors import ONE, TensorAxes, TensorAxis, broadcast, reshaped, unknown_axes
from tfaip.model.structure.tracing import FlowRule, Tracer, first_argument, output_shape

# Names of classes that are not public.
_ONE_BY_ONE = """
    Abs Absolute Add Arccos Arccosh Arcsin Arcsinh Arctan Arctan2 Arctanh Average Cast Cbrt Ceil
    Celu Clip Conj Conjugate ConvertToTensor Copy Cos Cosh Cumprod Cumsum Divide DivideNoNan Elu
    Equal Erf Erfc Erfinv Exp Exp2 Expm1 Floor FloorDivide Fmax Fmin Gelu Greater GreaterEqual
    HardShrink HardSigmoid HardSilu HardTanh Heaviside Hypot Isfinite Isinf Isnan LeakyRelu Less
    LessEqual Log Log10 Log1p Log2 LogSigmoid LogSoftmax Logaddexp LogicalAnd LogicalNot LogicalOr
    LogicalXor Maximum Minimum Mod Multiply NanToNum Negative Normalize NotEqual OnesLike Power
    Reciprocal Relu Relu6 Round Rsqrt SaturateCast Selu Sigmoid Sign Silu Sin Sinh SoftShrink
    Softmax Softplus Softsign SparsePlus SparseSigmoid Sparsemax Sqrt Square Squareplus StopGradient
    Subtract Tan Tanh TanhShrink Threshold Tril Triu TrueDivide Trunc Where ZerosLike BroadcastTo
    FullLike
"""
_REDUCING = """
    All Amax Amin Any Argmax Argmin CountNonzero Logsumexp Max Mean Median Min Nanmax Nanmean Nanmin
    Nansum Prod Std Sum Var
"""


def combine(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow an operation on each entry of one or several tensors."""
    operands = [x for x in keras.tree.flatten((call.args, call.kwargs)) if hasattr(x, "shape")]
    shape = output_shape(call)
    symbolic = [tracer.axes(x) for x in operands if isinstance(x, keras.KerasTensor)]
    result = broadcast(tracer.bindings, symbolic, shape)
    for operand in operands:
        if isinstance(operand, keras.Variable):
            _follow_entries(tracer, operand, result)
    return [broadcast(tracer.bindings, [result, *(tracer.axes(x) for x in operands)], shape)]


def _follow_entries(tracer: Tracer, variable: keras.Variable, tensor: TensorAxes) -> None:
    own = tracer.record.axes(variable)
    for axis in range(1, len(own) + 1):
        source = tensor[-axis] if axis <= len(tensor) else None
        if source is not None and own[-axis].size == source.size > 1:
            tracer.record.follow(variable, -axis, source)


def keep(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow a layer that changes no axis."""
    return [tracer.input_axes(call)]


def merge(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow a layer that combines tensors entry by entry."""
    tensors = [tracer.axes(tensor) for tensor in first_argument(call)]
    return [broadcast(tracer.bindings, tensors, output_shape(call))]


def concatenate(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow a join of tensors."""
    tensors = [tracer.axes(tensor) for tensor in first_argument(call)]
    shape = output_shape(call)
    place = call.operation.axis % len(shape)
    axes = list(broadcast(tracer.bindings, tensors, shape))
    parts = [axis for tensor in tensors if (axis := tensor[place]) is not None]
    axes[place] = joined(parts) if len(parts) == len(tensors) else None
    return [tuple(axes)]


def stack(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow a join of tensors along a new axis."""
    shape = output_shape(call)
    place = call.operation.axis % len(shape)
    tensors = [tracer.axes(tensor) for tensor in first_argument(call)]
    axes = broadcast(tracer.bindings, tensors, shape[:place] + shape[place + 1 :])
    new = Dimension("stacked", len(tensors), is_fixed=True)
    return [(*axes[:place], new, *axes[place:])]


def reshape(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow a reshape."""
    tensor = first_argument(call)
    axes, name = tracer.axes(tensor), f"reshape {tracer.name_call(call)}"
    return [reshaped(tracer.bindings, axes, tuple(tensor.shape), output_shape(call), name)]


def flatten(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow the layer `Flatten`."""
    axes = tracer.input_axes(call)
    if call.operation.data_format == "channels_first" and len(axes) > 1:
        axes = (axes[0], *axes[2:], axes[1])
    known = [axis for axis in axes[1:] if axis is not None]
    if len(known) < len(axes) - 1 or not known:
        return [unknown_axes(output_shape(call), "it is flattened with an axis of any size")]
    return [(axes[0], product(known))]


def transpose(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow a permutation of axes."""
    axes = tracer.input_axes(call)
    order = call.operation.axes or tuple(reversed(range(len(axes))))
    return [tuple(axes[i] for i in order)]


def permute(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow the layer `Permute`."""
    axes = tracer.input_axes(call)
    return [(axes[0], *(axes[i] for i in call.operation.dims))]


def move_axes(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow `moveaxis` and `swapaxes`."""
    operation = call.operation
    axes = list(tracer.input_axes(call))
    count = len(axes)
    if hasattr(operation, "axis1"):
        i, j = operation.axis1 % count, operation.axis2 % count
        axes[i], axes[j] = axes[j], axes[i]
        return [tuple(axes)]
    moved = dict(zip((d % count for d in operation.destination), (s % count for s in operation.source), strict=True))
    others = iter([i for i in range(count) if i not in moved.values()])
    return [tuple(axes[moved[i] if i in moved else next(others)] for i in range(count))]


def expand(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow new axes of size 1."""
    shape = output_shape(call)
    places = _places(call.operation.axis, len(shape))
    own = iter(tracer.input_axes(call))
    return [tuple(ONE if i in places else next(own) for i in range(len(shape)))]


def squeeze(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow the removal of axes of size 1."""
    operation = call.operation
    tensor = first_argument(call)
    axes = tracer.axes(tensor)
    if operation.axis is None:
        places = {i for i, size in enumerate(tensor.shape) if size == 1}
    else:
        places = _places(operation.axis, len(axes))
    return [tuple(axis for i, axis in enumerate(axes) if i not in places)]


def reduce(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow a sum, a mean and the like."""
    operation = call.operation
    axes = tracer.input_axes(call)
    places = set(range(len(axes))) if operation.axis is None else _places(operation.axis, len(axes))
    if operation.keepdims:
        return [tuple(ONE if i in places else axis for i, axis in enumerate(axes))]
    return [tuple(axis for i, axis in enumerate(axes) if i not in places)]


def unstack(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow `unstack`, which removes an axis."""
    axes = tracer.input_axes(call)
    place = call.operation.axis % len(axes)
    return [(*axes[:place], *axes[place + 1 :])] * len(call.outputs)


def matmul(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow a product of matrices."""
    first, second = call.args
    left, right = tracer.axes(first), tracer.axes(second)
    if len(left) < 2 or len(right) < 2:
        return []
    contract(tracer, (first, -1, left), (second, -2, right))
    batch = broadcast(tracer.bindings, [left[:-2], right[:-2]], output_shape(call)[:-2])
    return [(*batch, left[-2], right[-1])]


def contract(tracer: Tracer, first: tuple[Any, int, TensorAxes], second: tuple[Any, int, TensorAxes]) -> None:
    """Note that an operation sums over an axis of two tensors or variables (operand, axis, all its axes)."""
    for (operand, axis, _), (other, other_axis, other_axes) in ((first, second), (second, first)):
        if isinstance(operand, keras.Variable) and not isinstance(other, keras.Variable):
            tracer.record.follow(operand, axis, other_axes[other_axis], is_input=True)
            return
    one, two = first[2][first[1]], second[2][second[1]]
    if one is not None and two is not None:
        tracer.bindings.unify(one, two)


def einsum(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow an Einstein sum."""
    operands = [x for x in keras.tree.flatten(call.args) if hasattr(x, "shape")]
    tensors = [tracer.axes(operand) for operand in operands]
    return [einsum_axes(tracer, call.operation.subscripts, operands, tensors)]


def take(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow `take`, e.g. of the rows of an embedding."""
    operation = call.operation
    table, indices = tracer.axes(call.args[0]), tracer.axes(call.args[1])
    if operation.axis is None:
        return []
    place = operation.axis % len(table)
    return [(*table[:place], *indices, *table[place + 1 :])]


def pool(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow an operation or layer on the positions of a picture, which leaves channels alone."""
    axes, shape = tracer.input_axes(call), output_shape(call)
    kept = {0, channel_axis(call.operation, len(shape))}
    return [positions_changed(axes, shape, kept, tracer.name_call(call))]


def channel_axis(operation: Any, rank: int) -> int:
    """Return which axis of a tensor the channels are, by the `data_format` of an operation or layer."""
    return 1 if getattr(operation, "data_format", None) == "channels_first" else rank - 1


def positions_changed(axes: TensorAxes, shape: tuple[int | None, ...], kept: set[int], name: str) -> TensorAxes:
    """Return axes of which some are kept; the others are new positions where their size has changed."""
    result: list[TensorAxis] = []
    for i, size in enumerate(shape):
        axis = axes[i]
        if i in kept or (axis is not None and axis.size == size):
            result.append(axis)
        else:
            result.append(None if size is None else Dimension(f"positions {name}/{i}", size))
    return tuple(result)


def _places(axis: Any, rank: int) -> set[int]:
    """Return one or several axes, counted from the first one."""
    axes = axis if isinstance(axis, list | tuple) else [axis]
    return {number % rank for number in axes}


OPERATION_RULES: dict[str, FlowRule] = {
    **dict.fromkeys(_ONE_BY_ONE.split(), combine),
    **dict.fromkeys(_REDUCING.split(), reduce),
    "Reshape": reshape,
    "Ravel": reshape,
    "Transpose": transpose,
    "Moveaxis": move_axes,
    "Swapaxes": move_axes,
    "ExpandDims": expand,
    "Squeeze": squeeze,
    "Concatenate": concatenate,
    "Stack": stack,
    "Split": split,
    "Unstack": unstack,
    "GetItem": get_item,
    "Matmul": matmul,
    "Einsum": einsum,
    "Take": take,
    "MaxPool": pool,
    "AveragePool": pool,
    "Glu": glu,
}
