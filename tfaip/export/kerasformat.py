"""The format `.keras` (`keras/`): files of Keras' own layers, which Keras loads without code of tfaip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.data.specs import export_name
from tfaip.errors import TfaipError
from tfaip.layers.baselayer import inlined_layers
from tfaip.model.graphbase import ExportGraph, ExportGraphs
from tfaip.util.archives import require_uncompressed
from tfaip.util.manifest import KERAS_DIR as KERAS_DIR
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict

SUFFIX = ".keras"
_SHOWN_CHARACTERS = 120


class KerasExporter:
    """Format of functional Keras models, a file for each graph.

    Layers of tfaip and of the scenario are replaced by the Keras layers and `keras.ops` that they
    use. Operations of TensorFlow or JAX themselves, shapes that are only known at run time, and
    layers of other packages are errors.

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
                self._models[name].save(directory / f"{name}{SUFFIX}")
            except OSError:  # for example a full disk: not the fault of the graph
                raise
            except Exception as error:  # an operation may raise anything for a tensor without values
                raise TfaipError(
                    f"graph {name!r} cannot be written as a .keras file, which holds only layers and operations of "
                    f"Keras on symbolic tensors ({type(error).__name__}: {shorten_text(str(error), _SHOWN_CHARACTERS)})"
                ) from error

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """Load one of the graphs as a function of batches, without executing code of the file.

        Raises:
            TfaipError: if the file is damaged, or needs something that safe mode refuses.
        """
        path = directory / f"{name}{SUFFIX}"
        try:
            require_uncompressed(path)
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
