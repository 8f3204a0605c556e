"""Symbolic pass through a graph that follows the axes of each tensor from layer to layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import keras

from tfaip.backend.keras_private.symbolic import SymbolicCall, symbolic_call
from tfaip.layers.inlining import call_in_inference
from tfaip.model.structure.recording import WeightRecord
from tfaip.model.structure.tensors import Shape, TensorAxes, sized_like, unknown_axes
from tfaip.util.logging import logger

log = logger(__name__)

# Returns the axes of the outputs of a call.
FlowRule: TypeAlias = Callable[["Tracer", SymbolicCall], Sequence[TensorAxes]]


class Tracer:
    """Axes of the tensors of symbolic calls.

    Args:
        record: of the weights.
        layer_rules: what known layers do, by class.
        operation_rules: what operations of Keras do, by the name of their class.
    """

    def __init__(
        self,
        record: WeightRecord,
        layer_rules: Mapping[type, FlowRule],
        operation_rules: Mapping[str, FlowRule],
    ) -> None:
        self.record = record
        self.bindings = record.bindings
        self._layer_rules = layer_rules
        self._operation_rules = operation_rules
        # With the tensors, so that no other tensor gets the id of one that was forgotten.
        self._found: dict[int, tuple[keras.KerasTensor, TensorAxes]] = {}
        self._calls = 0
        self.is_complete = True
        """False: some code has failed on tensors without values."""

    def set_axes(self, tensor: keras.KerasTensor, axes: TensorAxes, reason: str = "") -> None:
        """Set the axes of a tensor."""
        self._found[id(tensor)] = (tensor, sized_like(axes, tuple(tensor.shape), reason or "its size is not followed"))

    def name_call(self, call: SymbolicCall) -> str:
        """Return a new name, the same in every build, for a call of a layer that may be called several times."""
        self._calls += 1
        return f"{self.record.layer_name(call.operation)} {self._calls}"

    def axes(self, value: Any) -> TensorAxes:
        """Return the axes of a tensor, a variable or a constant."""
        if isinstance(value, keras.KerasTensor):
            self._follow([value])
            return self._found[id(value)][1]
        if isinstance(value, keras.Variable):
            return self.record.axes(value)
        return (None,) * len(getattr(value, "shape", ()))

    def input_axes(self, call: SymbolicCall) -> TensorAxes:
        """Return the axes of the first argument of a call."""
        return self.axes(first_argument(call))

    def new_tensor(self, axes: TensorAxes, shape: Shape) -> keras.KerasTensor:
        """Return a tensor to call a layer with."""
        tensor = keras.KerasTensor(shape, dtype="float32")
        self.set_axes(tensor, axes)
        return tensor

    def follow(self, outputs: Any) -> list[TensorAxes]:
        """Return the axes of all tensors in a structure of outputs."""
        tensors = keras_tensors(outputs)
        self._follow(tensors)
        return [self.axes(tensor) for tensor in tensors]

    def call_inside(self, layer: Any, *args: Any, **kwargs: Any) -> list[TensorAxes]:
        """Follow the calls within a layer.

        Returns:
            The axes of its outputs.

        Raises:
            Exception: whatever its `call` raises on tensors without values.
        """
        return self.follow(call_in_inference(layer, *args, **kwargs))

    def _follow(self, tensors: Iterable[keras.KerasTensor]) -> None:
        stack = list(tensors)
        while stack:
            tensor = stack[-1]
            if id(tensor) in self._found:
                stack.pop()
                continue
            call = symbolic_call(tensor)
            if call is None or isinstance(call.operation, keras.layers.InputLayer):
                self.set_axes(tensor, self._given_axes(tensor))
                continue
            missing = [t for t in keras_tensors((call.args, call.kwargs)) if id(t) not in self._found]
            if missing:
                stack.extend(missing)
            else:
                self._apply(call)

    def _given_axes(self, tensor: keras.KerasTensor) -> TensorAxes:
        sizes = enumerate(tensor.shape)
        given = self.bindings.given
        return tuple(None if size is None else given(f"input {tensor.name}/{i}", size) for i, size in sizes)

    def _apply(self, call: SymbolicCall) -> None:
        name = self.record.layer_name(call.operation)
        try:
            found = self._axes_of_outputs(call)
        except Exception as error:
            # The code of the user runs on tensors without values, which it need not support.
            self.is_complete = False
            log.debug("%s cannot be followed: %r", name, error)
            found = []
        reason = f"{name} cannot be followed"
        for place, output in enumerate(call.outputs):
            axes = found[place] if place < len(found) else unknown_axes(tuple(output.shape), reason)
            self.set_axes(output, axes, reason)

    def _axes_of_outputs(self, call: SymbolicCall) -> Sequence[TensorAxes]:
        operation: Any = call.operation
        if not isinstance(operation, keras.layers.Layer):
            rule = self._operation_rules.get(type(operation).__name__)
            return [] if rule is None else rule(self, call)
        for kind in type(operation).__mro__:
            if kind in self._layer_rules and type(operation).call is kind.call:  # type: ignore[attr-defined]
                return self._layer_rules[kind](self, call)
        return self.call_inside(operation, *call.args, **call.kwargs)


def keras_tensors(structure: Any) -> list[keras.KerasTensor]:
    """Return all Keras tensors of a structure."""
    return [value for value in keras.tree.flatten(structure) if isinstance(value, keras.KerasTensor)]


def first_argument(call: SymbolicCall) -> Any:
    """Return the first argument of a call."""
    return call.args[0] if call.args else next(iter(call.kwargs.values()))


def output_shape(call: SymbolicCall) -> Shape:
    """Return the shape of the first output of a call."""
    return tuple(call.outputs[0].shape)


def rules_of(names: str, rule: FlowRule) -> dict[type, FlowRule]:
    """Return one rule for several layers of Keras, by their names in a text."""
    return {getattr(keras.layers, name): rule for name in names.split()}
