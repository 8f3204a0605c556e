"""Export formats: the graphs of a model as files for other programs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tfaip.backend.active import backend
from tfaip.components.scenario import ScenarioComponents
from tfaip.errors import TfaipError
from tfaip.export.comparison import Tolerance, compare_outputs, graph_outputs
from tfaip.export.kerasformat import KERAS_DIR, KerasExporter
from tfaip.export.onnxformat import ONNX_DIR, OnnxExporter
from tfaip.export.savedmodelformat import SERVE_DIR, ServingExporter, tensorflow_is_imported
from tfaip.model.exportgraph import ExportGraphs
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict


class Exporter(Protocol):
    """One format, which writes graphs with their current weights and loads them."""

    def __init__(self, graphs: ExportGraphs) -> None: ...

    def write(self, directory: Path) -> None:
        """Create `directory` and write all graphs into it."""

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """Return one of the graphs as a function of batches."""


# Keys are the names of the directories within the directory of a model.
FORMATS: dict[str, type[Exporter]] = {SERVE_DIR: ServingExporter, KERAS_DIR: KerasExporter, ONNX_DIR: OnnxExporter}


class Advice(NamedTuple):
    """Advice of the caller at the end of an error message; `{}` is replaced by the name of the format.

    Args:
        on_failure: if a format cannot be written.
        on_difference: if the exported model gives other outputs.
    """

    on_failure: str
    on_difference: str


NO_ADVICE = Advice("", "")


class ExportFormats:
    """The formats in which a model is written.

    Args:
        graphs: graphs to export.
        names: keys of `FORMATS`.
        advice: ends error messages.

    Raises:
        UsageError: if a format cannot be written here; the message says why.
    """

    def __init__(self, graphs: ExportGraphs, names: Sequence[str], advice: Advice = NO_ADVICE) -> None:
        self._graphs = graphs
        self._advice = advice
        self._unchecked: dict[str, np.ndarray] | None = None
        self.compared: frozenset[str] = frozenset()
        """The formats whose outputs were compared with those of the graphs."""
        self._exporters: dict[str, Exporter] = {}
        for name in names:
            with _advised(advice.on_failure, name):
                self._exporters[name] = FORMATS[name](graphs)

    def write(self, directory: Path, weights: Mapping[str, np.ndarray] | None = None) -> None:
        """Write every format into the directory of the model.

        Args:
            directory: of the model.
            weights: the weights by path, if `writes_values`; None: those of the model.

        Raises:
            TfaipError: if a graph cannot be expressed in a format, or gives other outputs there: the first `write` ends
                what `begin_check` has begun.
        """
        for name, exporter in self._exporters.items():
            with _advised(self._advice.on_failure, name):
                if weights is None:
                    exporter.write(directory / name)
                else:
                    assert isinstance(exporter, ServingExporter)  # noqa: S101 (no other writes values)
                    exporter.write_values(directory / name, weights)
        if self._unchecked is not None:
            self._compare(directory, self._unchecked)
            self._unchecked = None

    @property
    def names(self) -> frozenset[str]:
        """Keys of `FORMATS`."""
        return frozenset(self._exporters)

    @property
    def writes_values(self) -> bool:
        """True if all formats can be written without the model, with given weights."""
        exporters = self._exporters.values()
        return all(isinstance(exporter, ServingExporter) and exporter.writes_values for exporter in exporters)

    def check(self, inputs: dict[str, np.ndarray]) -> None:
        """Export into a temporary directory, load, and compare the outputs of one batch.

        Raises:
            TfaipError: if they differ, or a graph cannot be expressed in a format.
        """
        with tempfile.TemporaryDirectory(prefix="tfaip-export-") as temporary:
            self.write(Path(temporary))
            self._compare(Path(temporary), inputs)

    def begin_check(self, inputs: dict[str, np.ndarray]) -> None:
        """Check now what can be checked without importing TensorFlow, the rest with the first `write`.

        On JAX that import takes longer than all else that comes before the first batch. If the graphs fail without
        TensorFlow, or TensorFlow is imported already, or another format is wanted, this is `check`.

        Raises:
            TfaipError: see `check`.
        """
        can_wait = set(self._exporters) == {SERVE_DIR} and not tensorflow_is_imported()
        if can_wait and self._graphs_can_be_exported(inputs):
            self.check_with_write(inputs)
        else:
            self.check(inputs)

    def check_with_write(self, inputs: dict[str, np.ndarray]) -> None:
        """Compare the outputs of one batch in the first `write`, if there is one."""
        self._unchecked = inputs

    def _graphs_can_be_exported(self, inputs: dict[str, np.ndarray]) -> bool:
        variables = self._graphs.root.variables
        shapes = {name: tensor.shape for name, tensor in self._graphs.inputs.items()}
        for graph in self._graphs.by_name.values():
            exported = backend.exported_outputs(graph, variables, graph.select(inputs), shapes)
            try:
                if exported is None:
                    return False
                compare_outputs(exported, graph_outputs(graph, inputs), Tolerance.of(self._graphs.root))
            except Exception:  # it is code of the user; `check` says more
                return False
        return True

    def _compare(self, directory: Path, inputs: dict[str, np.ndarray]) -> None:
        """Raise unless the exported graphs in a directory give the outputs of the graphs themselves."""
        tolerance = Tolerance.of(self._graphs.root)
        for format_name, exporter in self._exporters.items():
            for name, graph in self._graphs.by_name.items():
                with _advised(self._advice.on_failure, format_name):
                    exported = _run(exporter.load(directory / format_name, name), inputs, f"{format_name}/", name)
                expected = graph_outputs(graph, inputs)
                with _advised(self._advice.on_difference, format_name):
                    _require_equal(f"graph {name!r} in {format_name}/", exported, expected, tolerance)
        self.compared = self.names


def export_graphs(scenario: ScenarioComponents[Any, Any]) -> ExportGraphs:
    """Return the graphs to export of a scenario, whose graph must be built."""
    functions = scenario.model._export_graphs(scenario.graph)
    return ExportGraphs(scenario.graph, functions, scenario.data.create_input_layers())


@contextlib.contextmanager
def _advised(advice: str, format_name: str) -> Iterator[None]:
    try:
        yield
    except TfaipError as error:
        if not advice:
            raise
        raise type(error)(f"{error}; {advice.format(format_name)}") from error


def _run(exported: Any, inputs: dict[str, np.ndarray], directory: str, name: str) -> dict[str, np.ndarray]:
    """Return the outputs of an exported graph.

    Raises:
        TfaipError: if the library of its format cannot run it, such as a TensorFlow that is older than the JAX.
    """
    try:
        outputs: dict[str, np.ndarray] = exported(inputs)
    except TfaipError:
        raise
    except Exception as error:
        raise TfaipError(
            f"graph {name!r} in {directory} was written, but fails: {shorten_text(str(error), 200)}"
        ) from error
    return outputs


def _require_equal(
    what: str, exported: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], tolerance: Tolerance
) -> None:
    try:
        compare_outputs(exported, expected, tolerance)
    except TfaipError as error:
        raise TfaipError(
            f"{what}: {error}; the graph depends on something that is not exported (Python state, random numbers)"
        ) from error
