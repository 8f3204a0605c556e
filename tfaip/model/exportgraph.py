"""Functions of a model that are exported, with their names and the inputs that each of them reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from tfaip.model.graphbase import GenericGraphBase
from tfaip.util.typing import TensorDict

# Names that a SavedModel uses itself.
_RESERVED = frozenset(
    {"serving_default", "signatures", "variables", "trainable_variables", "non_trainable_variables", "asset_paths"}
)


@dataclass(frozen=True)
class ExportGraph:
    """A function of a model that other programs call: an endpoint of the SavedModel, a file in other formats.

    Args:
        function: `inputs -> outputs`, both by name; it may use the layers of the graph in any way.
        inputs: names of the inputs that it reads; None: all inputs of the scenario.
    """

    function: Callable[[TensorDict], TensorDict]
    inputs: Sequence[str] | None = None

    def __call__(self, inputs: TensorDict) -> TensorDict:
        """Return the outputs of a batch, which may hold further inputs.

        Raises:
            TypeError: if the function returned no dict.
        """
        outputs = self.function(self.select(inputs))
        if not isinstance(outputs, dict):
            raise TypeError(f"an exported graph returned {type(outputs).__name__}, expected a dict name -> tensor")
        return outputs

    def select(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs that the function reads."""
        return {name: value for name, value in inputs.items() if self.inputs is None or name in self.inputs}


class ExportGraphs:
    """All exported functions of a model.

    Args:
        root: the outermost graph, built.
        functions: the result of `ModelBase._export_graphs`.
        inputs: Keras tensors by name, one for every input of the scenario.

    Raises:
        ValueError: if there is no function, or one has an impossible name or reads an input that does not exist.
    """

    def __init__(
        self,
        root: GenericGraphBase[Any],
        functions: Mapping[str, Callable[[TensorDict], TensorDict] | ExportGraph],
        inputs: Mapping[str, keras.KerasTensor],
    ) -> None:
        if not functions:
            raise ValueError("_export_graphs returned nothing: return {'serve': graph.predict}, or export no format")
        self.root = root
        self.inputs = dict(inputs)
        self.by_name = {n: f if isinstance(f, ExportGraph) else ExportGraph(f) for n, f in functions.items()}
        for name, graph in self.by_name.items():
            if not name.isidentifier() or name.startswith("_") or name in _RESERVED:
                raise ValueError(f"_export_graphs names a graph {name!r}, expected a free identifier, e.g. 'encode'")
            unknown = sorted(set(graph.inputs or ()) - set(inputs))
            if unknown:
                raise ValueError(
                    f"_export_graphs: graph {name!r} reads the inputs {unknown}, but the scenario has {sorted(inputs)}"
                )
