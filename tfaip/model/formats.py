"""A model for other programs: its graphs in every format that is asked for."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

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


class Advice(NamedTuple):
    """Advice about an error, for the end of its message; the name of the format is put in for `{}`.

    Args:
        on_failure: if a format cannot be written.
        on_difference: if it computes something else.
    """

    on_failure: str
    on_difference: str


IN_TRAINING = Advice(
    "switch it off with --scenario.export_{} False", "skip this check with --trainer.skip_model_load_test True"
)
BY_COMMAND = Advice("leave {} out of --format", "leave {} out of --format")


class ExportFormats:
    """Writes the graphs of a model in several formats.

    Args:
        graphs: what is exported.
        names: of `FORMATS`.
        advice: that fits the flags of the caller.

    Raises:
        UsageError: a format cannot be written here; the message says why.
    """

    def __init__(self, graphs: ExportGraphs, names: Sequence[str], advice: Advice = IN_TRAINING) -> None:
        self._graphs = graphs
        self._advice = advice
        self._exporters: dict[str, Exporter] = {}
        for name in names:
            with _advised(advice.on_failure, name):
                self._exporters[name] = FORMATS[name](graphs)

    def write(self, directory: Path) -> None:
        """Write every format into the directory of the model, with the current weights.

        Raises:
            TfaipError: a graph cannot be expressed in a format.
        """
        for name, exporter in self._exporters.items():
            with _advised(self._advice.on_failure, name):
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
                    with _advised(self._advice.on_difference, format_name):
                        _compare(f"graph {name!r} in {format_name}/", exported, graph_outputs(graph, inputs))


@contextlib.contextmanager
def _advised(advice: str, format_name: str) -> Iterator[None]:
    try:
        yield
    except TfaipError as error:
        raise type(error)(f"{error}; {advice.format(format_name)}") from error


def _compare(what: str, exported: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    try:
        compare_outputs(exported, expected)
    except TfaipError as error:
        raise TfaipError(
            f"{what}: {error}; the graph depends on something that is not exported (Python state, random numbers)"
        ) from error
