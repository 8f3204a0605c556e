"""Comparison of the outputs of an exported model with those of its graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import keras
import numpy as np

from tfaip.errors import TfaipError
from tfaip.model.exportgraph import ExportGraph
from tfaip.model.variables import all_layers_by_path

# Relative distance of two neighbouring values.
_STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


@dataclass(frozen=True)
class Tolerance:
    """Allowed distance of the outputs of an exported model from those of its graph.

    Args:
        difference: of floating point outputs, relative to the largest value of an output.
        percent: of the elements of integer and other outputs that may differ, rounded down.
    """

    difference: float = 1e-4
    percent: int = 1

    @classmethod
    def of(cls, graph: keras.layers.Layer, difference: float = 1e-4) -> Tolerance:
        """Return what is usual for the precision of a graph, that of its least exact layer.

        The exported model may be compiled differently, so that float32 results differ in the last
        bits; in half precision each layer rounds them to 3 digits or 2, and classes are often equal.

        Args:
            graph: built.
            difference: allowed if all layers compute in float32.
        """
        layers = [graph, *all_layers_by_path(graph).values()]
        step = max(_STEPS.get(layer.compute_dtype, 0.0) for layer in layers)
        return cls(max(difference, 16 * step), 25) if step else cls(difference)


def graph_outputs(graph: ExportGraph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a batch, computed by the graph itself."""
    return {name: keras.ops.convert_to_numpy(value) for name, value in graph(inputs).items()}


def compare_outputs(
    exported: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], tolerance: Tolerance
) -> float:
    """Compare outputs by name.

    Args:
        exported: outputs of the exported model.
        expected: outputs of the graph.
        tolerance: what is allowed.

    Returns:
        the largest difference of all floating point outputs, relative to the largest value of the
        output.

    Raises:
        TfaipError: if an output is missing or differs by more.
    """
    if set(exported) != set(expected):
        raise TfaipError(f"the exported model has the outputs {sorted(exported)}, the graph {sorted(expected)}")
    worst = 0.0
    for name, value in expected.items():
        difference = _difference(exported[name], value, tolerance.percent)
        if not difference <= tolerance.difference:
            raise TfaipError(
                f"the exported model gives other values for output {name!r} than the graph (difference "
                f"{difference:.2g}, allowed {tolerance.difference:g})"
            )
        worst = max(worst, difference)
    return worst


def _difference(a: np.ndarray, b: np.ndarray, percent: int) -> float:
    """Return the largest difference, relative to the largest value; infinity for other shapes."""
    if a.shape != b.shape:
        return float("inf")
    if b.dtype.kind in "biuOSU":
        # Decisions (argmax, rounding) on values that differ in the last bits may rarely be
        # different ones.
        return 0.0 if np.sum(a != b) <= b.size * percent // 100 else float("inf")
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(b)
    is_equal_elsewhere = np.array_equal(a[~finite], b[~finite], equal_nan=True)
    if not is_equal_elsewhere or not np.all(np.isfinite(a[finite])):
        return float("inf")
    scale = float(np.max(np.abs(b[finite]), initial=0.0)) or 1.0
    return float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)) / scale
