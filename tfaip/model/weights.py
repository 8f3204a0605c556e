"""Weights on disk: safetensors files with the attribute paths of the variables as names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import keras
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from tfaip.errors import TfaipError, UsageError
from tfaip.util.manifest import MANIFEST_FILE, verify_files
from tfaip.util.text import shorten_text

WEIGHTS_FILE = "weights.safetensors"


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays; equal arrays give equal bytes.

    Raises:
        TfaipError: the file cannot be written, as on a full disk.
    """
    # An array of an accelerator backend may be a view with strides, which the format does not know.
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    try:
        save_file(contiguous, path)
    except (OSError, SafetensorError) as error:
        raise TfaipError(f"{path} cannot be written: {shorten_text(str(error))}") from error


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read named arrays.

    Raises:
        TfaipError: the file is missing or damaged.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise TfaipError(f"{path} cannot be read as weights: {error}") from error


def load_weights_of(directory: Path) -> dict[str, np.ndarray]:
    """The weights in the directory of a model, compared with its manifest if it has one (older ones have none).

    Raises:
        TfaipError: they are missing or damaged.
    """
    if (directory / MANIFEST_FILE).is_file():
        verify_files(directory, [WEIGHTS_FILE])
    return load_arrays(directory / WEIGHTS_FILE)


def variable_arrays(variables: Mapping[str, keras.Variable]) -> dict[str, np.ndarray]:
    """Copies of the values of named variables."""
    # On JAX the array would be a view of a buffer that the next step overwrites.
    return {name: np.array(keras.ops.convert_to_numpy(variable)) for name, variable in variables.items()}


def assign_arrays(variables: Mapping[str, keras.Variable], arrays: Mapping[str, np.ndarray], source: str) -> None:
    """Give every variable its array.

    Raises:
        UsageError: names or shapes differ; the message names them and `source`. Nothing was assigned.
    """
    missing = sorted(set(variables) - set(arrays))
    unused = sorted(set(arrays) - set(variables))
    if missing or unused:
        raise UsageError(
            f"{source} does not fit the model: missing {missing[:5]}, not known to the model {unused[:5]} "
            f"({len(missing)} and {len(unused)} in all); it was written by another model or with other params"
        )
    for name, variable in variables.items():
        if tuple(variable.shape) != arrays[name].shape:
            raise UsageError(
                f"{source} does not fit the model: {name} has shape {arrays[name].shape} there and "
                f"{tuple(variable.shape)} in the model; check the params of the model"
            )
    for name, variable in variables.items():
        variable.assign(arrays[name])
