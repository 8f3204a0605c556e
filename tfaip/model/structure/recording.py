"""Record of the weights of a graph: their axes, and what has been found out about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tfaip.model.structure.axis import Axes, Axis, Dimension, Unknown, WeightStructure
from tfaip.model.structure.bindings import Bindings
from tfaip.model.structure.tensors import TensorAxis
from tfaip.model.variables import all_layers_by_path, variables_by_path

NOT_FOLLOWED = "the inputs of its layer are not known"
_UNUSED = "no known layer or operation uses it"


class _Weight:
    """Axes of a variable, and what is known of each."""

    def __init__(self, path: str, shape: Sequence[int]) -> None:
        self.path = path
        self.axes: Axes = tuple(Dimension(f"{path}/{i}", size) for i, size in enumerate(shape))
        self.is_used = False
        self.inputs: set[int] = set()
        self.others: set[int] = set()
        # Axes that follow a tensor, with the reason why they are not known; empty: they are.
        self.followed: dict[int, str] = {}


class WeightRecord:
    """Axes of all variables of a graph.

    Args:
        graph: the outermost graph, built.
    """

    def __init__(self, graph: keras.layers.Layer) -> None:
        self.bindings = Bindings()
        self.layers = all_layers_by_path(graph)
        variables = variables_by_path(graph)
        self._weights = {id(variable): _Weight(path, variable.shape) for path, variable in variables.items()}
        self._layer_paths = {id(layer): path for path, layer in self.layers.items()}

    def layer_name(self, layer: Any) -> str:
        """Return the path of a layer, which is the same in every build."""
        return self._layer_paths.get(id(layer), type(layer).__name__)

    def axes(self, variable: Any) -> Axes:
        """Return the axes of a variable, and note that it is used."""
        weight = self._weights.get(id(variable))
        if weight is None:
            return tuple(Unknown(size, _UNUSED) for size in getattr(variable, "shape", ()))
        weight.is_used = True
        return weight.axes

    def axis(self, variable: Any, axis: int) -> TensorAxis:
        """Return an axis of a variable; None: it is not known."""
        axes = self.axes(variable)
        return axes[axis] if axes else None

    def declare(
        self,
        variable: Any,
        inputs: Sequence[int] = (),
        others: Sequence[int] = (),
        follows: Sequence[int] = (),
    ) -> Axes:
        """Return the axes of a weight of a known layer.

        Args:
            variable: the weight; None: the layer has none.
            inputs: axes over which the layer sums, and that belong to its input.
            others: further axes over which it sums.
            follows: axes that belong to its input, but over which it does not sum.
        """
        weight = self._weights.get(id(variable))
        if weight is None:
            return ()
        weight.is_used = True
        weight.inputs.update(_positive(weight, inputs))
        weight.others.update(_positive(weight, others))
        for axis in _positive(weight, [*inputs, *follows]):
            weight.followed.setdefault(axis, NOT_FOLLOWED)
        return weight.axes

    def equate(self, variable: Any, axis: int, other: Axis) -> None:
        """Note that an axis of a weight is another axis, whatever the inputs of the layer are."""
        weight = self._weights.get(id(variable))
        if weight is not None and weight.axes[axis].size == other.size:
            weight.is_used = True
            self.bindings.unify(other, weight.axes[axis])

    def follow(self, variable: Any, axis: int, source: TensorAxis, is_input: bool = False) -> None:
        """Note that an axis of a weight belongs to the axis of a tensor.

        Args:
            variable: the weight; None: the layer has none.
            axis: its axis.
            source: the axis of the tensor.
            is_input: True if the result sums over the axis.
        """
        weight = self._weights.get(id(variable))
        if weight is None:
            return
        weight.is_used = True
        axis = _positive(weight, [axis])[0]
        if is_input:
            weight.inputs.add(axis)
        own = weight.axes[axis]
        if source is None or source.size != own.size:
            found: Axis = Unknown(own.size, NOT_FOLLOWED)
        else:
            found = self.bindings.resolve(source)
        if not isinstance(found, Unknown):
            found = self.bindings.unify(found, own)
        if not isinstance(found, Unknown):
            weight.followed[axis] = ""
        elif weight.followed.get(axis, NOT_FOLLOWED):
            weight.followed[axis] = found.reason

    def structure(self) -> dict[str, WeightStructure]:
        """Return what was found, by the paths of the variables."""
        return {weight.path: self._structure_of(weight) for weight in self._weights.values()}

    def _structure_of(self, weight: _Weight) -> WeightStructure:
        axes: list[Axis] = []
        for i, axis in enumerate(weight.axes):
            reason = weight.followed.get(i, "") if weight.is_used else _UNUSED
            axes.append(Unknown(axis.size, reason) if reason else self.bindings.resolve(axis))
        inputs, others = tuple(sorted(weight.inputs)), tuple(sorted(weight.others - weight.inputs))
        return WeightStructure(tuple(axes), inputs, others)


def _positive(weight: _Weight, axes: Sequence[int]) -> list[int]:
    return [axis % len(weight.axes) for axis in axes]
