"""The prediction graph as a SavedModel, for TensorFlow Serving and other runtimes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.errors import TfaipError, UsageError
from tfaip.model.exportgraph import ExportGraphs
from tfaip.model.servedmodel import ServedModel, quiet_tensorflow
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict

SERVE_DIR = "serve"


class ServingExporter:
    """Writes graphs as one SavedModel, as often as asked; they are traced once.

    Args:
        graphs: what is exported; the first one is also the default signature.

    Raises:
        UsageError: TensorFlow, which writes SavedModels on every backend, is not installed.
    """

    def __init__(self, graphs: ExportGraphs) -> None:
        if importlib.util.find_spec("tensorflow") is None:
            raise UsageError("exporting a SavedModel needs tensorflow, which is not installed: install it")
        self._graphs = graphs
        # Without a name TensorFlow would call them inputs, inputs_1 ...
        self._specs = {n: keras.InputSpec(shape=t.shape, dtype=t.dtype, name=n) for n, t in graphs.inputs.items()}
        self._archive: Any = None

    def write(self, directory: Path) -> None:
        """Write the SavedModel with the current weights into `directory` (created).

        Raises:
            TfaipError: TensorFlow cannot write it, as on a full disk.
        """
        with quiet_tensorflow():
            if self._archive is None:
                self._archive = self._trace()
            elif keras.backend.backend() != "tensorflow":
                self._update_copies()
            import tensorflow as tf

            try:
                self._archive.write_out(str(directory), verbose=False)
            except tf.errors.OpError as error:
                raise TfaipError(f"{directory} cannot be written: {shorten_text(str(error.message), 160)}") from error

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """One of the graphs of a SavedModel, as a function of batches."""
        return ServedModel(directory, name)

    def _update_copies(self) -> None:
        """On TensorFlow the archive holds the variables of the graph themselves, on other backends copies."""
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
    # The name of the argument and the absence of others become part of the signature of the SavedModel.
    def serve(inputs: TensorDict) -> TensorDict:
        return function(inputs)

    return serve
