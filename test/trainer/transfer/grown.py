"""Layers in two sizes, and the weights of the small one in the large one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from tfaip.model.structure.axis import WeightStructure
from tfaip.model.structure.graph import graph_structure
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.trainer.transfer import NameRules, NewRows, Source, Transfer, TransferMode, plan_transfer

Inputs = Mapping[str, tuple[int | None, ...]]


class Net(keras.layers.Layer):
    """A layer of a function: `Net(inputs, call, dense=keras.layers.Dense(3))`.

    Args:
        inputs: shapes of the inputs by name, without the batch.
        run: returns the output, called with this layer and the inputs.
        parts: layers by attribute.
    """

    def __init__(self, inputs: Inputs, run: Callable[..., Any], **parts: Any) -> None:
        super().__init__(name="net")
        self.shapes, self.run = {"names": list(inputs)}, run
        for name, part in parts.items():
            setattr(self, name, part)
        self.tensors = [keras.Input(shape, name=name) for name, shape in inputs.items()]
        self(*self.tensors)
        self.randomize()

    def call(self, *inputs: Any) -> Any:
        return self.run(self, *inputs)

    def randomize(self) -> None:
        """No weight keeps an initial value that others may have too, as the zeros of a bias."""
        rng = np.random.default_rng(sum(v.shape.num_elements() if hasattr(v.shape, "num_elements") else np.prod(v.shape) for v in self.weights))
        for weight in self.weights:
            weight.assign(rng.uniform(0.1, 0.5, tuple(weight.shape)))

    def variables_by_path(self) -> dict[str, keras.Variable]:
        """Weights without the states of random generators."""
        weights = {id(weight) for weight in self.weights}
        return {path: v for path, v in variables_by_path(self).items() if id(v) in weights}

    def arrays(self) -> dict[str, np.ndarray]:
        return variable_arrays(self.variables_by_path())

    def structure(self) -> dict[str, WeightStructure]:
        return graph_structure(self, [lambda: self.call(*self.tensors)])


def transferred(
    old: Net,
    new: Net,
    zero: bool = False,
    knows_old: bool = True,
    **fields: Any,
) -> Transfer:
    """Plan the transfer, and give the new layer its weights."""
    source = Source("old", old.arrays(), structure=old.structure() if knows_old else {})
    shapes = {path: array.shape for path, array in new.arrays().items()}
    rows = NewRows.ZERO if zero else NewRows.INIT
    fields.setdefault("rules", NameRules())
    plan = plan_transfer(
        shapes, [source], mode=TransferMode.SUBSET, structure=new.structure(), new_rows=rows, **fields
    )
    variables = new.variables_by_path()
    for path, array in plan.arrays(new.arrays()).items():
        variables[path].assign(array)
    return plan


def outcomes(plan: Transfer) -> dict[str, str]:
    """What is said of each weight."""
    return {row.target: str(row.fit) if row.fit is not None else row.reason or str(row.outcome) for row in plan.rows}
