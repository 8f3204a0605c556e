"""Private names of symbolic calls: the record of a Keras tensor, arithmetic of variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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


@contextmanager
def variables_in_symbolic_calls() -> Iterator[None]:
    """Context in which arithmetic of a variable with a Keras tensor makes a Keras tensor, as with any other operand.

    Keras computes `variable * x` at once, which fails if `x` has no values. It is the same class for all variables, so
    use it for the short time of a symbolic call.
    """
    own = {name: getattr(keras.Variable, name) for name in _ARITHMETIC}
    methods = {
        name: _symbolic_arithmetic(own[name], getattr(keras.ops, operation), is_reflected)
        for name, (operation, is_reflected) in _ARITHMETIC.items()
    }
    with _replaced(keras.Variable, methods):
        yield


@contextmanager
def tensors_in_symbolic_calls() -> Iterator[None]:
    """Context in which an operation of a tensor and a Keras tensor makes a Keras tensor: `tensor < x`, `tensor + x`.

    TensorFlow leaves only arithmetic to the other operand, JAX nothing. It is the same class for all tensors, so use it
    for the short time of a symbolic call.
    """
    cls = type(keras.ops.convert_to_tensor(0))
    with _replaced(cls, {name: _deferring(getattr(cls, name)) for name in _OPERATORS}):
        yield


@contextmanager
def _replaced(cls: type, methods: Mapping[str, Any]) -> Iterator[None]:
    """Context in which a class has other methods."""
    own = {name: vars(cls)[name] for name in methods if name in vars(cls)}
    for name, method in methods.items():
        setattr(cls, name, method)
    try:
        yield
    finally:
        for name in methods:
            if name in own:
                setattr(cls, name, own[name])
            else:
                delattr(cls, name)


def _deferring(own: Any) -> Any:
    """Return a method that leaves the work to the other operand if this is a Keras tensor."""

    def compare(tensor: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, keras.KerasTensor) else own(tensor, other)

    return compare


_OPERATORS = [f"__{name}__" for name in ["lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "pow", "and", "or"]]


_ARITHMETIC = {
    **{f"__{name}__": (op, False) for name, op in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"))},
    **{f"__r{name}__": (op, True) for name, op in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"))},
    "__truediv__": ("true_divide", False),
    "__rtruediv__": ("true_divide", True),
    "__pow__": ("power", False),
    "__matmul__": ("matmul", False),
    "__rmatmul__": ("matmul", True),
}


def _symbolic_arithmetic(own: Any, operation: Any, is_reflected: bool) -> Any:
    def arithmetic(variable: keras.Variable, other: Any) -> Any:
        if not isinstance(other, keras.KerasTensor):
            return own(variable, other)
        return operation(other, variable) if is_reflected else operation(variable, other)

    return arithmetic
