"""A model for other programs: its graphs in every format that is asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from tfaip.errors import TfaipError
from tfaip.model.export import SERVE_DIR, ServingExporter
from tfaip.model.exportcheck import compare_outputs, graph_outputs
from tfaip.model.exportgraph import ExportGraphs
from tfaip.model.kerasexport import KERAS_DIR, KerasExporter
from tfaip.model.onnxexport import ONNX_DIR, OnnxExporter
from tfaip.util.typing import TensorDict


class Exporter(Protocol):
    """Writes graphs in one format, as often as asked, and loads what it wrote."""

    def __init__(self, graphs: ExportGraphs) -> None: ...

    def write(self, directory: Path) -> None:
        """Write all graphs with the current weights into `directory` (created)."""

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """One of the graphs as a function of batches."""


# By the name of the directory within the directory of the model.
FORMATS: dict[str, type[Exporter]] = {SERVE_DIR: ServingExporter, KERAS_DIR: KerasExporter, ONNX_DIR: OnnxExporter}


class ExportFormats:
    """Writes the graphs of a model in several formats.

    Args:
        graphs: what is exported.
        names: of `FORMATS`.

    Raises:
        UsageError: a format cannot be written here; the message says why.
    """

    def __init__(self, graphs: ExportGraphs, names: Sequence[str]) -> None:
        self._graphs = graphs
        self._exporters = {name: FORMATS[name](graphs) for name in names}

    def write(self, directory: Path) -> None:
        """Write every format into the directory of the model, with the current weights."""
        for name, exporter in self._exporters.items():
            exporter.write(directory / name)

    def check(self, inputs: dict[str, np.ndarray]) -> None:
        """Export into a temporary directory, load and predict one batch: the outputs must be those of the graphs.

        Raises:
            TfaipError: they are not, or a graph cannot be expressed in a format.
        """
        with tempfile.TemporaryDirectory(prefix="tfaip-export-") as temporary:
            self.write(Path(temporary))
            for format_name, exporter in self._exporters.items():
                for name, graph in self._graphs.by_name.items():
                    exported = exporter.load(Path(temporary) / format_name, name)(inputs)
                    try:
                        compare_outputs(exported, graph_outputs(graph, inputs))
                    except TfaipError as error:
                        raise TfaipError(
                            f"graph {name!r} in {format_name}/: {error}; the graph depends on something that is not "
                            "exported (Python state, random numbers); a training skips this check with "
                            "--trainer.skip_model_load_test True"
                        ) from error
