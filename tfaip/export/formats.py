"""Export formats: the graphs of a model as files for other programs, compared with the graphs themselves."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np

from tfaip.backend.active import backend
from tfaip.components.scenario import ScenarioComponents
from tfaip.data.specs import export_name
from tfaip.errors import TfaipError
from tfaip.export.onnxformat import ONNX_DIR, OnnxExporter
from tfaip.export.savedmodelformat import SERVE_DIR, ServingExporter, tensorflow_is_imported
from tfaip.layers.baselayer import inlined_layers
from tfaip.model.graphbase import ExportGraph, ExportGraphs
from tfaip.model.variables import all_layers_by_path
from tfaip.util.manifest import KERAS_DIR as KERAS_DIR
from tfaip.util.reading import open_stored
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict

_KERAS_SUFFIX = ".keras"
_SHOWN_CHARACTERS = 120


class KerasExporter:
    """Format of functional Keras models, a file for each graph.

    Layers of tfaip and of the scenario are replaced by the Keras layers and `keras.ops` that they use. Operations of
    TensorFlow or JAX themselves, shapes that are only known at run time, and layers of other packages are errors.

    Args:
        graphs: graphs to export.
    """

    def __init__(self, graphs: ExportGraphs) -> None:
        self._graphs = graphs
        self._models: dict[str, keras.Model] = {}

    def write(self, directory: Path) -> None:
        """Create `directory` and write the files, with the current weights.

        Raises:
            TfaipError: if a graph cannot be expressed.
        """
        directory.mkdir()
        for name, graph in self._graphs.by_name.items():
            try:
                if name not in self._models:
                    self._models[name] = _functional_model(graph, self._graphs.inputs, name)
                self._models[name].save(directory / f"{name}{_KERAS_SUFFIX}")
            except OSError:  # for example a full disk: not the fault of the graph
                raise
            except Exception as error:  # an operation may raise anything for a tensor without values
                raise TfaipError(
                    f"graph {name!r} cannot be written as a .keras file, which holds only layers and operations of "
                    f"Keras on symbolic tensors ({type(error).__name__}: {shorten_text(str(error), _SHOWN_CHARACTERS)})"
                ) from error

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """Load one of the graphs as a function of batches, without executing code of the file."""
        path = directory / f"{name}{_KERAS_SUFFIX}"
        try:
            open_stored(path).close()
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
        except Exception as error:
            # The innermost reason comes last, after the whole config of the model. Keras wraps it in an error whose
            # cause is not kept: only this text separates it.
            reason = str(error).rpartition("Exception encountered: ")[2]
            raise TfaipError(f"{path} cannot be loaded: {shorten_text(reason, _SHOWN_CHARACTERS)}") from error

        def predict(inputs: TensorDict) -> dict[str, np.ndarray]:
            given = {export_name(name): value for name, value in inputs.items()}
            outputs: dict[str, np.ndarray] = model.predict_on_batch({name: given[name] for name in model.input})
            return outputs

        return predict


def _functional_model(graph: ExportGraph, inputs: Mapping[str, keras.KerasTensor], name: str) -> Any:
    selected = graph.select(inputs)
    symbolic = {
        export_name(key): keras.Input(shape=tensor.shape[1:], dtype=tensor.dtype, name=export_name(key))
        for key, tensor in selected.items()
    }
    # A custom layer would need its code and a registration where the file is loaded.
    with inlined_layers():
        outputs = graph(dict(zip(selected, symbolic.values(), strict=True)))
    return keras.Model(symbolic, outputs, name=name)


# One format, which writes graphs with their current weights, and loads one of them as a function of batches.
Exporter: TypeAlias = ServingExporter | KerasExporter | OnnxExporter
# Keys are the names of the directories within the directory of a model.
FORMATS: dict[str, type[Exporter]] = {SERVE_DIR: ServingExporter, KERAS_DIR: KerasExporter, ONNX_DIR: OnnxExporter}


class Advice(NamedTuple):
    """Advice of the caller on an error; `{}` is replaced by the name of the format.

    Args:
        on_failure: if a format cannot be written.
        on_difference: if the exported model gives other outputs.
    """

    on_failure: str = ""
    on_difference: str = "the graph depends on something that is not exported (Python state, random numbers)"


NO_ADVICE = Advice()


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
            with _noted(advice.on_failure.format(name)):
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
            with _noted(self._advice.on_failure.format(name)):
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
        """Export into a temporary directory, load, and compare the outputs of one batch."""
        with tempfile.TemporaryDirectory(prefix="tfaip-export-") as temporary:
            self.write(Path(temporary))
            self._compare(Path(temporary), inputs)

    def begin_check(self, inputs: dict[str, np.ndarray]) -> None:
        """Check now what can be checked without importing TensorFlow, the rest with the first `write`.

        On JAX that import takes longer than all else that comes before the first batch. If the graphs fail without
        TensorFlow, or TensorFlow is imported already, or another format is wanted, this is `check`.
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
        compare_formats(self._graphs, self._exporters, directory, inputs, Tolerance.of(self._graphs.root), self._advice)
        self.compared = self.names


def export_graphs(scenario: ScenarioComponents[Any, Any]) -> ExportGraphs:
    """Return the graphs to export of a scenario, whose graph must be built."""
    functions = scenario.model._export_graphs(scenario.graph)
    return ExportGraphs(scenario.graph, functions, scenario.data.create_input_layers())


@contextlib.contextmanager
def _noted(*notes: str) -> Iterator[None]:
    """Context that adds notes to an error."""
    try:
        yield
    except TfaipError as error:
        for note in filter(None, notes):
            error.add_note(note)
        raise


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
    """Compare outputs by name."""
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
        # Decisions (argmax, rounding) on values that differ in the last bits may rarely be different ones.
        return 0.0 if np.sum(a != b) <= b.size * percent // 100 else float("inf")
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(b)
    is_equal_elsewhere = np.array_equal(a[~finite], b[~finite], equal_nan=True)
    if not is_equal_elsewhere or not np.all(np.isfinite(a[finite])):
        return float("inf")
    scale = float(np.max(np.abs(b[finite]), initial=0.0)) or 1.0
    return float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)) / scale


@dataclass(frozen=True)
class GraphCheck:
    """Result for one graph in one format.

    Args:
        format: name of the directory of the format.
        inputs: name -> type and shape.
        outputs: name -> type and shape.
        difference: largest difference to the rebuilt graph, relative to the largest value of the output.
    """

    format: str
    graph: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    difference: float


def check_formats(
    scenario: ScenarioComponents[Any, Any], path: Path, inputs: dict[str, np.ndarray], tolerance: float | None = None
) -> list[GraphCheck]:
    """Run every exported format on a batch, and compare it with the rebuilt graph."""
    allowed = Tolerance.of(scenario.graph, 1e-5)
    if tolerance is not None:
        allowed = replace(allowed, difference=tolerance)
    names = [name for name in FORMATS if (path / name).is_dir()]
    return compare_formats(export_graphs(scenario), names, path, inputs, allowed, Advice(on_difference=""))


def compare_formats(
    graphs: ExportGraphs,
    names: Iterable[str],
    directory: Path,
    inputs: dict[str, np.ndarray],
    tolerance: Tolerance,
    advice: Advice,
) -> list[GraphCheck]:
    """Raise unless formats of a model give the outputs of its graphs on a batch."""
    checks: list[GraphCheck] = []
    for format_name in names:
        for name, graph in graphs.by_name.items():
            batch, place = graph.select(inputs), f"graph {name!r} in {format_name}/"
            with _noted(place, advice.on_failure.format(format_name)):
                exported = FORMATS[format_name].load(directory / format_name, name)
                try:
                    outputs = exported(batch)
                except TfaipError:
                    raise
                except Exception as error:
                    reason = shorten_text(str(error), 200)
                    raise TfaipError(f"the exported model was written, but fails: {reason}") from error
            expected = graph_outputs(graph, batch)
            with _noted(place, advice.on_difference.format(format_name)):
                difference = compare_outputs(outputs, expected, tolerance)
            signature = _signature_texts(batch), _signature_texts(outputs)
            checks.append(GraphCheck(format_name, name, *signature, difference))
    return checks


def _signature_texts(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    return {name: f"{array.dtype.name}{[None, *array.shape[1:]]}" for name, array in sorted(arrays.items())}
