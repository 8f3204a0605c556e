"""Private names of symbolic calls: the record of a Keras tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras


@dataclass(frozen=True)
class SymbolicCall:
    """Call that made a Keras tensor.

    Args:
        operation: the layer or operation, whose attributes depend on its class.
        args: positional arguments.
        kwargs: keyword arguments.
        outputs: all tensors that it returned.
    """

    operation: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: Sequence[keras.KerasTensor]


def symbolic_call(tensor: keras.KerasTensor) -> SymbolicCall | None:
    """Return the call that made a tensor; None: it is an input, or was made without a record.

    Only whole functional models are public.
    """
    history = getattr(tensor, "_keras_history", None)
    if history is None or history.operation is None:
        return None
    return recorded_calls(history.operation)[history.node_index]


def recorded_calls(operation: keras.Operation) -> list[SymbolicCall]:
    """Return all calls of a layer or operation with Keras tensors."""
    nodes = operation._inbound_nodes
    return [SymbolicCall(operation, node.arguments.args, node.arguments.kwargs, node.outputs) for node in nodes]
