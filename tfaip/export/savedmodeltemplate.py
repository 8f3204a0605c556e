"""A SavedModel without the values of its variables, from which others are written without the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.errors import TfaipError
from tfaip.export.savedmodelvariables import VARIABLES_DIR
from tfaip.model.hostbuffer import HOST_ALIGNMENT
from tfaip.util.text import shorten_text

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
        from tensorflow.python.saved_model.fingerprinting_utils import write_fingerprint

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
            write_fingerprint(str(directory))
        except tf.errors.OpError as error:
            raise TfaipError(f"{directory} cannot be written: {shorten_text(str(error.message), 160)}") from error


def _tensor(array: np.ndarray) -> Any:
    """Return an array as a tensor, which shares its memory if TensorFlow can use that as it is."""
    import tensorflow as tf

    is_aligned = array.ctypes.data % HOST_ALIGNMENT == 0
    if array.nbytes >= _SHARED_BYTES and array.dtype.kind == "f" and is_aligned and array.flags.writeable:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.constant(array)
