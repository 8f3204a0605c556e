"""The format SavedModel (`serve/`), for TensorFlow Serving and other runtimes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.errors import TfaipError, UsageError
from tfaip.export.modeldirectory import SERVE_DIR as SERVE_DIR
from tfaip.export.savedmodelloading import ServedModel, quiet_tensorflow
from tfaip.model.exportgraph import ExportGraphs
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict


class ServingExporter:
    """Format of a SavedModel, with a signature for each graph.

    The graphs are traced by the first `write` (0.3 s for a tiny model, 2 s on JAX); later ones take
    0.1 s.

    Args:
        graphs: graphs to export; the first one is also the default signature.

    Raises:
        UsageError: if TensorFlow, which writes SavedModels on every backend, is not installed.
    """

    def __init__(self, graphs: ExportGraphs) -> None:
        if importlib.util.find_spec("tensorflow") is None:
            raise UsageError("exporting a SavedModel needs tensorflow, which is not installed: install it")
        self._graphs = graphs
        # Without a name in the specs, TensorFlow calls the inputs `inputs`, `inputs_1` ..., in an
        # order of its own.
        self._specs = {
            name: keras.InputSpec(shape=tensor.shape, dtype=tensor.dtype, name=name)
            for name, tensor in graphs.inputs.items()
        }
        self._archive: Any = None

    def write(self, directory: Path) -> None:
        """Create `directory` and write the SavedModel, with the current weights.

        Raises:
            TfaipError: if TensorFlow cannot write it, for example because the disk is full.
        """
        with quiet_tensorflow():
            if self._archive is None:
                self._archive = self._trace()
            elif keras.backend.backend() != "tensorflow":
                self._update_copies()
            import tensorflow as tf  # a SavedModel is a TensorFlow program, on every backend

            try:
                self._archive.write_out(str(directory), verbose=False)
            except tf.errors.OpError as error:
                raise TfaipError(f"{directory} cannot be written: {shorten_text(str(error.message), 160)}") from error

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """Load one of the graphs as a function of batches."""
        return ServedModel(directory, name)

    def _update_copies(self) -> None:
        """Assign the current weights; on TensorFlow the archive has the variables themselves."""
        originals = [*self._graphs.root.trainable_variables, *self._graphs.root.non_trainable_variables]
        for copied, original in zip(self._archive.variables, originals, strict=True):
            copied.assign(keras.ops.convert_to_numpy(original))

    def _trace(self) -> Any:
        archive = keras.export.ExportArchive()
        archive.track(self._graphs.root)
        for name, graph in self._graphs.by_name.items():
            archive.add_endpoint(name, _with_inputs_only(graph), input_signature=[graph.select(self._specs)])
        return archive


def _with_inputs_only(function: Callable[[TensorDict], TensorDict]) -> Callable[[TensorDict], TensorDict]:
    # The name of the argument and the absence of others become part of the signature of the
    # SavedModel.
    def serve(inputs: TensorDict) -> TensorDict:
        return function(inputs)

    return serve
