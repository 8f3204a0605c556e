"""Models on disk: params, weights, resources, and a SavedModel for other runtimes."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.errors import TfaipError, UsageError
from tfaip.model.graphbase import GenericGraphBase
from tfaip.model.servedmodel import ServedModel, quiet_tensorflow
from tfaip.util.typing import TensorDict

SERVE_DIR = "serve"


class ServingExporter:
    """Writes the prediction graph as a SavedModel, as often as asked; it is traced once.

    Args:
        graph: the outermost graph, built.
        endpoints: functions `inputs -> outputs` by name (`ModelBase._export_graphs`); the first one is also the
            default signature.
        inputs: Keras tensors by name that describe the inputs.

    Raises:
        UsageError: TensorFlow, which writes SavedModels on every backend, is not installed.
    """

    def __init__(
        self,
        graph: GenericGraphBase[Any],
        endpoints: Mapping[str, Callable[[TensorDict], TensorDict]],
        inputs: Mapping[str, keras.KerasTensor],
    ) -> None:
        if importlib.util.find_spec("tensorflow") is None:
            raise UsageError(
                "exporting a SavedModel needs tensorflow, which is not installed: install it, or switch the export off "
                "with --scenario.export_serve False"
            )
        self._graph = graph
        self._endpoints = dict(endpoints)
        # Without a name TensorFlow would call them inputs, inputs_1 ...
        specs = {name: keras.InputSpec(shape=t.shape, dtype=t.dtype, name=name) for name, t in inputs.items()}
        self._signature = [specs]
        self._archive: Any = None

    def write(self, directory: Path) -> None:
        """Write the SavedModel with the current weights into `directory` (created)."""
        with quiet_tensorflow():
            if self._archive is None:
                self._archive = self._trace()
            elif keras.backend.backend() != "tensorflow":
                self._update_copies()
            self._archive.write_out(str(directory), verbose=False)

    def _update_copies(self) -> None:
        """On TensorFlow the archive holds the variables of the graph themselves, on other backends copies."""
        originals = [*self._graph.trainable_variables, *self._graph.non_trainable_variables]
        for copied, original in zip(self._archive.variables, originals, strict=True):
            copied.assign(keras.ops.convert_to_numpy(original.value))

    def _trace(self) -> Any:
        archive = keras.export.ExportArchive()
        archive.track(self._graph)
        for name, function in self._endpoints.items():
            archive.add_endpoint(name, _with_inputs_only(function), input_signature=self._signature)
        return archive


def check_serving(
    exporter: ServingExporter, predict: Callable[[TensorDict], TensorDict], inputs: dict[str, np.ndarray]
) -> None:
    """Export, load and predict one batch: the outputs must be those of the graph itself.

    Args:
        exporter: writes the SavedModel (to a temporary directory that is removed).
        predict: the prediction graph.
        inputs: one batch.

    Raises:
        TfaipError: an output is missing or differs by more than 1e-4 relative to its largest value (the SavedModel
            may be compiled differently, so that float32 results differ in the last bits).
    """
    expected = {name: keras.ops.convert_to_numpy(value) for name, value in predict(inputs).items()}
    with tempfile.TemporaryDirectory(prefix="tfaip-export-") as directory:
        exporter.write(Path(directory) / SERVE_DIR)
        served = ServedModel(Path(directory) / SERVE_DIR)(inputs)
    if set(served) != set(expected):
        raise TfaipError(f"the exported model has the outputs {sorted(served)}, the graph {sorted(expected)}")
    for name, value in expected.items():
        if not _all_close(served[name], value):
            raise TfaipError(
                f"the exported model gives other values for output {name!r} than the graph: the graph depends on "
                "something that is not exported (Python state, random numbers); skip this check with "
                "--trainer.skip_model_load_test True"
            )


def _all_close(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    if not np.issubdtype(b.dtype, np.floating):
        # Decisions (argmax, rounding) on values that differ in the last bits may flip for a rare element.
        return bool(np.sum(a != b) <= max(1, b.size // 100))
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)) or 1.0
    return bool(np.allclose(a, b, rtol=0, atol=1e-4 * scale, equal_nan=True))


def _with_inputs_only(function: Callable[[TensorDict], TensorDict]) -> Callable[[TensorDict], TensorDict]:
    # The name of the argument and the absence of others become part of the signature of the SavedModel.
    def serve(inputs: TensorDict) -> TensorDict:
        return function(inputs)

    return serve
