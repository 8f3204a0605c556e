"""The format SavedModel (`serve/`), for TensorFlow Serving and other runtimes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.backend.keras_private import archive_variables, write_fingerprint
from tfaip.data.specs import export_name
from tfaip.errors import TfaipError, UsageError
from tfaip.export.savedmodelloading import ServedModel, quiet_tensorflow
from tfaip.export.savedmodelvariables import VARIABLES_DIR
from tfaip.model.graphbase import ExportGraphs
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import HOST_ALIGNMENT
from tfaip.util.manifest import SERVE_DIR as SERVE_DIR
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
            name: keras.InputSpec(shape=tensor.shape, dtype=tensor.dtype, name=export_name(name))
            for name, tensor in graphs.inputs.items()
        }
        self._archive: Any = None
        self._template: SavedModelTemplate | None = None

    def write(self, directory: Path) -> None:
        """Create `directory` and write the SavedModel, with the current weights.

        Raises:
            TfaipError: if TensorFlow cannot write it, for example because the disk is full.
        """
        with quiet_tensorflow():
            is_first = self._archive is None
            if is_first:
                self._archive = self._trace()
            elif keras.backend.backend() != "tensorflow":
                self._update_copies()
            import tensorflow as tf  # a SavedModel is a TensorFlow program, on every backend

            try:
                self._archive.write_out(str(directory), verbose=False)
            except tf.errors.OpError as error:
                raise TfaipError(f"{directory} cannot be written: {shorten_text(str(error.message), 160)}") from error
            if is_first:
                self._template = SavedModelTemplate.of(directory, archive_variables(self._archive), self._paths())

    @property
    def writes_values(self) -> bool:
        """True if `write_values` can be called; before the first `write` it cannot."""
        return self._template is not None

    def write_values(self, directory: Path, weights: Mapping[str, np.ndarray]) -> None:
        """Create `directory` as `write` does, with these weights by path; it does not need the model.

        Raises:
            TfaipError: if TensorFlow cannot write it.
        """
        assert self._template is not None  # noqa: S101 (the caller has asked)
        self._template.write(directory, weights)

    def _paths(self) -> dict[int, str]:
        """Return the path of each weight by the identity of its variable in the archive."""
        by_path = variables_by_path(self._graphs.root)
        paths = {id(variable): path for path, variable in by_path.items()}
        if keras.backend.backend() == "tensorflow":
            return paths | {id(variable.value): path for path, variable in by_path.items()}
        return {id(copied): paths[id(original)] for copied, original in self._copies() if id(original) in paths}

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """Load one of the graphs as a function of batches."""
        return ServedModel(directory, name)

    def _update_copies(self) -> None:
        """Assign the current weights; on TensorFlow the archive has the variables themselves."""
        for copied, original in self._copies():
            copied.assign(keras.ops.convert_to_numpy(original))

    def _copies(self) -> Iterator[tuple[Any, keras.Variable]]:
        """Return the variables of the archive, each with the one that it is a copy of; not on TensorFlow."""
        originals = [*self._graphs.root.trainable_variables, *self._graphs.root.non_trainable_variables]
        return zip(self._archive.variables, originals, strict=True)

    def _trace(self) -> Any:
        archive = keras.export.ExportArchive()
        archive.track(self._graphs.root)
        for name, graph in self._graphs.by_name.items():
            archive.add_endpoint(name, _with_inputs_only(graph), input_signature=[graph.select(self._specs)])
        return archive


def tensorflow_is_imported() -> bool:
    """Return True if a SavedModel can be written without the seconds that the import of TensorFlow takes."""
    return "tensorflow" in sys.modules


def _with_inputs_only(function: Callable[[TensorDict], TensorDict]) -> Callable[[TensorDict], TensorDict]:
    # The name of the argument and the absence of others become part of the signature of the
    # SavedModel.
    def serve(inputs: TensorDict) -> TensorDict:
        return function(inputs)

    return serve


_PREFIX = Path(VARIABLES_DIR, "variables")
_KEY = "{}/{}/.ATTRIBUTES/VARIABLE_VALUE"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_FINGERPRINT_FILE = "fingerprint.pb"
# Smaller arrays are copied: it would take longer to share their memory.
_SHARED_BYTES = 2**16


class SavedModelTemplate:
    """Files of a SavedModel, and the weight whose value each of its variables has.

    Args:
        files: their content by relative path, without the values of variables.
        directories: the relative paths of all directories.
        keys: path of the weight by the key of the variable in the SavedModel.
        objects: the entry of the SavedModel that describes its objects.
    """

    def __init__(
        self, files: Mapping[str, bytes], directories: Sequence[str], keys: Mapping[str, str], objects: bytes
    ) -> None:
        self._files = files
        self._directories = sorted(directories)
        self._keys = keys
        self._objects = objects

    @classmethod
    def of(
        cls, directory: Path, variables: Mapping[str, Sequence[Any]], paths: Mapping[int, str]
    ) -> SavedModelTemplate | None:
        """Return the template of a SavedModel; None: it holds something else than weights.

        Args:
            directory: the SavedModel.
            variables: its variables, by the name of their list in it.
            paths: the path of a weight by the identity of its variable.
        """
        import tensorflow as tf  # a SavedModel is a TensorFlow program, on every backend

        keys = {}
        for name, members in variables.items():
            for position, variable in enumerate(members):
                keys[_KEY.format(name, position)] = paths.get(id(variable))
        reader = tf.train.load_checkpoint(str(directory / _PREFIX))
        found = {key: keys.get(key) for key in reader.get_variable_to_shape_map() if key != _OBJECT_GRAPH}
        known = {key: path for key, path in sorted(found.items()) if path is not None}
        if len(known) < len(found):
            return None
        files, directories = {}, []
        for file in directory.rglob("*"):
            place = file.relative_to(directory)
            if file.is_dir():
                directories.append(place.as_posix())
            elif place.parts[0] != VARIABLES_DIR and file.name != _FINGERPRINT_FILE:
                files[place.as_posix()] = file.read_bytes()
        return cls(files, directories, known, reader.get_tensor(_OBJECT_GRAPH))

    def write(self, directory: Path, weights: Mapping[str, np.ndarray]) -> None:
        """Create `directory` with these values of the weights by path.

        Raises:
            TfaipError: if TensorFlow cannot write it, for example because the disk is full.
        """
        import tensorflow as tf

        for name in (".", *self._directories):
            (directory / name).mkdir(parents=True, exist_ok=True)
        for name, content in self._files.items():
            (directory / name).write_bytes(content)
        try:
            with tf.device("CPU:0"):
                tensors = {path: _tensor(weights[path]) for path in set(self._keys.values())}
                tf.raw_ops.SaveV2(
                    prefix=str(directory / _PREFIX),
                    tensor_names=[_OBJECT_GRAPH, *self._keys],
                    shape_and_slices=[""] * (1 + len(self._keys)),
                    tensors=[tf.constant(self._objects), *(tensors[path] for path in self._keys.values())],
                )
            write_fingerprint(directory)
        except tf.errors.OpError as error:
            raise TfaipError(f"{directory} cannot be written: {shorten_text(str(error.message), 160)}") from error


def _tensor(array: np.ndarray) -> Any:
    """Return an array as a tensor, which shares its memory if TensorFlow can use that as it is."""
    import tensorflow as tf

    is_aligned = array.ctypes.data % HOST_ALIGNMENT == 0
    if array.nbytes >= _SHARED_BYTES and array.dtype.kind == "f" and is_aligned and array.flags.writeable:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.constant(array)
