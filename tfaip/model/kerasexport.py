"""Graphs as `.keras` files of layers and operations of Keras: plain Keras loads them without any code of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.errors import TfaipError
from tfaip.model.exportgraph import ExportGraph, ExportGraphs
from tfaip.model.layerbase import inlined_layers
from tfaip.util.archives import require_uncompressed
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict

KERAS_DIR = "keras"
SUFFIX = ".keras"
_SHOWN_CHARACTERS = 120


class KerasExporter:
    """Writes each graph as a functional Keras model, as often as asked.

    Our own layers and graphs are dissolved into the layers and `keras.ops` that they use. What cannot be expressed as
    such (operations of TensorFlow or JAX themselves, shapes known at run time only, layers of others) is an error.

    Args:
        graphs: what is exported.
    """

    def __init__(self, graphs: ExportGraphs) -> None:
        self._graphs = graphs
        self._models: dict[str, keras.Model] = {}

    def write(self, directory: Path) -> None:
        """Write the files with the current weights into `directory` (created).

        Raises:
            TfaipError: a graph cannot be expressed.
        """
        directory.mkdir()
        for name, graph in self._graphs.by_name.items():
            try:
                if name not in self._models:
                    self._models[name] = _functional(graph, self._graphs.inputs, name)
                self._models[name].save(directory / f"{name}{SUFFIX}")
            except OSError:  # a full disk; the graph is not to blame
                raise
            except Exception as error:  # whatever an operation says to a tensor without values
                raise TfaipError(
                    f"graph {name!r} cannot be written as a .keras file, which holds only layers and operations of "
                    f"Keras on symbolic tensors ({type(error).__name__}: {shorten_text(str(error), _SHOWN_CHARACTERS)})"
                ) from error

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """One of the graphs as a function of batches; loaded in Keras' safe mode, which executes no code of the file.

        Raises:
            TfaipError: the file is damaged, or wants something that safe mode refuses.
        """
        path = directory / f"{name}{SUFFIX}"
        try:
            require_uncompressed(path)
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
        except Exception as error:
            # The innermost reason stands last, behind the whole config of the model.
            reason = str(error).rpartition("Exception encountered: ")[2]
            raise TfaipError(f"{path} cannot be loaded: {shorten_text(reason, _SHOWN_CHARACTERS)}") from error

        def predict(inputs: TensorDict) -> dict[str, np.ndarray]:
            outputs: dict[str, np.ndarray] = model.predict_on_batch({n: inputs[n] for n in model.input})
            return outputs

        return predict


def _functional(graph: ExportGraph, inputs: Mapping[str, keras.KerasTensor], name: str) -> Any:
    fresh = {n: keras.Input(shape=t.shape[1:], dtype=t.dtype, name=n) for n, t in graph.select(inputs).items()}
    with inlined_layers():
        outputs = graph(fresh)
    return keras.Model(fresh, outputs, name=name)
