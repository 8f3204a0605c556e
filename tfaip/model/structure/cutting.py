"""Axes after operations that cut a tensor into pieces."""

from __future__ import annotations

from tfaip.backend.keras_private.symbolic import SymbolicCall
from tfaip.model.structure.axis import Axis, Dimension
from tfaip.model.structure.tensors import ONE, TensorAxes, TensorAxis
from tfaip.model.structure.tracing import Tracer


def split(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow `split` and the gate of `glu`."""
    axes = tracer.input_axes(call)
    place = call.operation.axis % len(axes)
    whole = axes[place]
    sizes = [output.shape[place] for output in call.outputs]
    if whole is None or None in sizes:
        pieces: list[TensorAxis] = [None] * len(sizes)
    elif len(set(sizes)) == 1:
        pieces = _equal_pieces(tracer, call, whole, len(sizes))
    else:
        pieces = list(tracer.bindings.cut(whole, sizes, f"part {tracer.name_call(call)}"))
    return [(*axes[:place], piece, *axes[place + 1 :]) for piece in pieces]


def _equal_pieces(tracer: Tracer, call: SymbolicCall, whole: Axis, count: int) -> list[TensorAxis]:
    """Return the pieces of an axis that is cut into equal ones: of joined inputs these are its parts."""
    name, size = f"part {tracer.name_call(call)}", whole.size // count
    if isinstance(tracer.bindings.resolve(whole), Dimension):
        factors = [Dimension(f"parts of {count}", count, is_fixed=True), Dimension(name, size)]
        part = tracer.bindings.split(whole, factors)[1]
        return [part] * count
    return list(tracer.bindings.cut(whole, [size] * count, name))


def glu(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow a gated linear unit: one half of an axis times a function of the other."""
    axes = tracer.input_axes(call)
    place = call.operation.axis % len(axes)
    whole = axes[place]
    if whole is None:
        return [axes]
    first, second = _equal_pieces(tracer, call, whole, 2)
    if first is not None and second is not None:
        first = tracer.bindings.unify(first, second)
    return [(*axes[:place], first, *axes[place + 1 :])]


def get_item(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow `x[...]` with numbers, slices, `None` and an ellipsis."""
    tensor, key = call.args
    keys = list(key) if isinstance(key, tuple) else [key]
    axes, name = list(tracer.axes(tensor)), f"part {tracer.name_call(call)}"
    given = sum(k is not None and k is not Ellipsis for k in keys)
    filler = [slice(None)] * (len(axes) - given)
    at = keys.index(Ellipsis) if Ellipsis in keys else len(keys)
    keys = [*keys[:at], *filler, *keys[at + 1 :]]
    result: list[TensorAxis] = []
    for k in keys:
        if k is None:
            result.append(ONE)
            continue
        axis = axes.pop(0)
        if isinstance(k, slice):
            result.append(_sliced(tracer, axis, k, f"{name}/{len(result)}"))
        elif not isinstance(k, int):
            return []
    return [tuple(result)]


def _sliced(tracer: Tracer, axis: TensorAxis, key: slice, name: str) -> TensorAxis:
    if axis is None or key == slice(None):
        return axis
    start, stop, step = key.indices(axis.size)
    if step != 1 or stop <= start:
        return None
    bounds = sorted({0, start, stop, axis.size})
    sizes = [bounds[i + 1] - bounds[i] for i in range(len(bounds) - 1)]
    return tracer.bindings.cut(axis, sizes, name)[bounds.index(start)]
