"""Check of an exported model: every format is compared with the rebuilt graph, and timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.components.scenario import ScenarioComponents
from tfaip.data.specs import TensorSpec, export_name
from tfaip.errors import TfaipError
from tfaip.export.comparison import Tolerance, compare_outputs, graph_outputs
from tfaip.export.formats import FORMATS, export_graphs
from tfaip.export.savedmodelloading import ServedModel
from tfaip.util.manifest import read_manifest

_TIMED_CALLS = 10


@dataclass(frozen=True)
class GraphCheck:
    """Result for one graph in one format.

    Args:
        format: name of the directory of the format.
        graph: name of the graph.
        inputs: name -> type and shape.
        outputs: name -> type and shape.
        difference: largest difference to the rebuilt graph, relative to the largest value of the
            output.
        latency_ms: median time of a batch.
    """

    format: str
    graph: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    difference: float
    latency_ms: float


@dataclass(frozen=True)
class ModelCheck:
    """Results for a model directory.

    Args:
        model: the directory.
        backend: backend that wrote it.
        versions: versions of the programs that wrote it.
        sizes: bytes of each file and directory in it.
        batch_size: samples of the compared batch.
        graphs: results for every graph in every format of the directory.
    """

    model: str
    backend: str
    versions: dict[str, str]
    sizes: dict[str, int]
    batch_size: int
    graphs: list[GraphCheck]


def check_formats(
    scenario: ScenarioComponents[Any, Any], path: Path, inputs: dict[str, np.ndarray], tolerance: float | None = None
) -> ModelCheck:
    """Run every exported format on a batch, compare it with the rebuilt graph, and time it.

    Args:
        scenario: has the weights of the directory.
        path: the directory, whose files were compared with its manifest.
        inputs: the batch.
        tolerance: allowed difference, see `Tolerance`; None: 1e-5, or what is usual for half precision.

    Raises:
        TfaipError: if a graph is missing in a format, or has another signature or other outputs.
    """
    graphs = export_graphs(scenario).by_name
    allowed = Tolerance.of(scenario.graph, 1e-5)
    if tolerance is not None:
        allowed = replace(allowed, difference=tolerance)
    specs = scenario.data.input_layer_specs()
    checks: list[GraphCheck] = []
    for format_name, exporter in FORMATS.items():
        if not (path / format_name).is_dir():
            continue
        for name, graph in graphs.items():
            batch = graph.select(inputs)
            try:
                exported = exporter.load(path / format_name, name)
                _require_signature(exported, graph.select(specs))
                outputs = exported(batch)
                difference = compare_outputs(outputs, graph_outputs(graph, batch), allowed)
            except TfaipError as error:
                error.add_note(f"graph {name!r} in {path / format_name}")
                raise
            latency_ms = 1000 * statistics.median(_seconds(exported, batch) for _ in range(_TIMED_CALLS))
            signature = _signature_texts(batch), _signature_texts(outputs)
            checks.append(GraphCheck(format_name, name, *signature, difference, latency_ms))
    manifest = read_manifest(path)
    batch_size = len(next(iter(inputs.values())))
    backend, versions = manifest.get("backend", "an unknown backend"), manifest.get("versions", {})
    return ModelCheck(str(path), backend, versions, _sizes(manifest["files"]), batch_size, checks)


def _require_signature(exported: Any, specs: Mapping[str, TensorSpec]) -> None:
    """Raise unless a SavedModel has the inputs of the scenario.

    Other formats fail when they are run on the batch.
    """
    if not isinstance(exported, ServedModel):
        return
    found = {name: (spec.dtype, spec.shape[1:]) for name, spec in exported.inputs.items()}
    expected = {export_name(name): (spec.dtype, spec.shape) for name, spec in specs.items()}
    if found != expected:
        raise TfaipError(f"the SavedModel has the input signature {found}, the scenario {expected}")


def _seconds(function: Callable[[Any], Any], batch: Any) -> float:
    started = time.perf_counter()
    function(batch)
    return time.perf_counter() - started


def _signature_texts(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    return {name: f"{array.dtype.name}{[None, *array.shape[1:]]}" for name, array in sorted(arrays.items())}


def _sizes(files: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, facts in files.items():
        top, _, below = name.partition("/")
        key = f"{top}/" if below else top
        sizes[key] = sizes.get(key, 0) + facts["size"]
    return sizes
