"""Whether an exported model is what it says: its files, and that every format computes what its graph computes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.data.specs import TensorSpec
from tfaip.errors import TfaipError
from tfaip.model.exportcheck import compare_outputs, graph_outputs
from tfaip.model.formats import FORMATS
from tfaip.model.servedmodel import ServedModel
from tfaip.scenario.modeldirectory import export_graphs
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.util.manifest import read_manifest

_TIMED_CALLS = 10


@dataclass(frozen=True)
class GraphCheck:
    """One graph in one format.

    Args:
        format: name of its directory.
        graph: its name.
        inputs: name -> type and shape.
        outputs: likewise.
        difference: the largest one to the rebuilt graph, relative to the largest value of the output.
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
    """What is known of a model directory that is as it should be.

    Args:
        model: the directory.
        backend: that wrote it.
        versions: of the programs that wrote it.
        sizes: bytes of each file or directory in it.
        batch_size: of the batch that was compared.
        graphs: every graph in every format that is there.
    """

    model: str
    backend: str
    versions: dict[str, str]
    sizes: dict[str, int]
    batch_size: int
    graphs: list[GraphCheck]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def check_formats(
    scenario: ScenarioBase[Any, Any], path: Path, inputs: dict[str, np.ndarray], tolerance: float = 1e-5
) -> ModelCheck:
    """Run every exported format on a batch, compare it with the rebuilt graph, and time it.

    Args:
        scenario: with the weights of the directory.
        path: the directory, whose files are those of its manifest.
        inputs: the batch.
        tolerance: see `compare_outputs`.

    Raises:
        TfaipError: a graph is missing in a format, or has another signature or other outputs; one line that names it.
    """
    graphs, checks = export_graphs(scenario), []
    for format_name, exporter in FORMATS.items():
        if not (path / format_name).is_dir():
            continue
        for name, graph in graphs.by_name.items():
            batch = graph.select(inputs)
            try:
                exported = exporter.load(path / format_name, name)
                _require_signature(exported, graph.select(scenario.data.input_layer_specs()))
                outputs = exported(batch)
                difference = compare_outputs(outputs, graph_outputs(graph, batch), tolerance)
            except TfaipError as error:
                error.add_note(f"graph {name!r} in {path / format_name}")
                raise
            latency_ms = 1000 * statistics.median(_seconds(exported, batch) for _ in range(_TIMED_CALLS))
            texts = _texts(batch), _texts(outputs)
            checks.append(GraphCheck(format_name, name, *texts, difference, latency_ms))
    manifest = read_manifest(path)
    batch_size = len(next(iter(inputs.values())))
    backend, versions = manifest.get("backend", "an unknown backend"), manifest.get("versions", {})
    return ModelCheck(str(path), backend, versions, _sizes(manifest["files"]), batch_size, checks)


def _require_signature(exported: Any, specs: Mapping[str, TensorSpec]) -> None:
    """Only a SavedModel tells its whole signature; of other formats it shows when they are run."""
    if not isinstance(exported, ServedModel):
        return
    found = {name: (spec.dtype, spec.shape[1:]) for name, spec in exported.inputs.items()}
    expected = {name: (spec.dtype, spec.shape) for name, spec in specs.items()}
    if found != expected:
        raise TfaipError(f"the SavedModel has the input signature {found}, the scenario {expected}")


def _seconds(function: Callable[[Any], Any], batch: Any) -> float:
    started = time.perf_counter()
    function(batch)
    return time.perf_counter() - started


def _texts(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    return {name: f"{array.dtype.name}{[None, *array.shape[1:]]}" for name, array in sorted(arrays.items())}


def _sizes(files: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, facts in files.items():
        top, _, below = name.partition("/")
        key = f"{top}/" if below else top
        sizes[key] = sizes.get(key, 0) + facts["size"]
    return sizes
