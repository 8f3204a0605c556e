"""Weights of layers of attention, head by head, and the axes of their outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import layers

from tfaip.backend.keras_private.layers import attention_layers
from tfaip.backend.keras_private.symbolic import SymbolicCall
from tfaip.model.structure.axis import Dimension, product
from tfaip.model.structure.einsum import einsum_axes
from tfaip.model.structure.recording import WeightRecord
from tfaip.model.structure.tensors import TensorAxes
from tfaip.model.structure.tracing import FlowRule, Tracer, first_argument


def _declare_heads(record: WeightRecord, layer: Any) -> None:
    """Note that queries, keys, values and the output have the same heads, and which sizes of a head are the same."""
    parts = attention_layers(layer)
    query, key, value, output = (getattr(parts[name], "kernel", None) for name in ("query", "key", "value", "output"))
    queries, keys, values = (record.axes(kernel) for kernel in (query, key, value))
    if len(queries) != 3 or len(keys) != 3 or len(values) != 3:
        return
    repeats = queries[1].size // keys[1].size
    heads = keys[1]
    record.equate(value, 1, heads)
    grouped = isinstance(layer, layers.GroupQueryAttention)
    fixed = Dimension(f"{repeats} queries of a key", repeats, is_fixed=True)
    record.equate(query, 1, product([heads, fixed]) if grouped else heads)
    record.equate(key, 2, queries[2])
    record.equate(output, 0, queries[1])
    record.equate(output, 1, values[2])
    gate = getattr(parts["gate"], "kernel", None)
    record.equate(gate, 1, queries[1])
    record.equate(gate, 2, values[2])


def _heads(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    given = dict(zip(("query", "value", "key"), call.args, strict=False))
    given.update({name: call.kwargs[name] for name in ("query", "value", "key") if name in call.kwargs})
    query, value = given["query"], given["value"]
    key = value if given.get("key") is None else given["key"]
    parts = attention_layers(call.operation)
    queries = _dense(tracer, parts["query"], tracer.axes(query))
    _dense(tracer, parts["key"], tracer.axes(key))
    values = _dense(tracer, parts["value"], tracer.axes(value))
    if parts["gate"] is not None:
        _dense(tracer, parts["gate"], tracer.axes(query))
    attended = (*queries[:-1], values[-1])
    outputs = [_dense(tracer, parts["output"], attended)]
    if len(call.outputs) > 1:
        outputs.append((None,) * len(call.outputs[1].shape))
    return outputs


def _dense(tracer: Tracer, dense: Any, axes: TensorAxes) -> TensorAxes:
    return einsum_axes(tracer, dense.equation, [None, dense.kernel], [axes, tracer.record.axes(dense.kernel)])


def _plain(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    """Follow an attention without heads."""
    query, value, *key = [tracer.axes(tensor) for tensor in first_argument(call)]
    keys = key[0] if key else value
    if query[-1] is not None and keys[-1] is not None:
        tracer.bindings.unify(query[-1], keys[-1])
    for variable in call.operation.weights:
        if len(variable.shape) == 1:
            tracer.record.follow(variable, 0, query[-1], is_input=True)
    outputs: list[TensorAxes] = [(*query[:-1], value[-1])]
    if len(call.outputs) > 1:
        outputs.append((None,) * len(call.outputs[1].shape))
    return outputs


def _declare_plain(record: WeightRecord, layer: Any) -> None:
    for variable in layer.weights:
        record.declare(variable, follows=range(len(variable.shape)))


WEIGHT_RULES: dict[type, Callable[[WeightRecord, Any], None]] = {
    **dict.fromkeys((layers.MultiHeadAttention, layers.GroupQueryAttention), _declare_heads),
    **dict.fromkeys((layers.Attention, layers.AdditiveAttention), _declare_plain),
}

LAYER_RULES: dict[type, FlowRule] = {
    **dict.fromkeys((layers.MultiHeadAttention, layers.GroupQueryAttention), _heads),
    **dict.fromkeys((layers.Attention, layers.AdditiveAttention), _plain),
}
