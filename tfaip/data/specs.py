"""Shapes and types of what enters the model, per sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TensorSpec:
    """Shape and type of one tensor of a sample, without the batch dimension.

    Every function that expects a spec accepts any object with `shape` and `dtype` (`tf.TensorSpec`,
    `keras.InputSpec`, arrays); this class is for scenarios that import nothing else.

    Args:
        shape: e.g. `[28, 28]`, `[None, 48]` (variable length, padded in the batch) or `[1]` for a
            number.
        dtype: name of the type, e.g. `"float32"`, `"int32"`, `"string"`.
    """

    shape: tuple[int | None, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of a batch; text is stored as Python objects."""
        return np.dtype(object) if self.dtype == "string" else np.dtype(self.dtype)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return True if an array of this shape satisfies the spec."""
        if len(shape) != len(self.shape):
            return False
        return all(want is None or got == want for got, want in zip(shape, self.shape, strict=True))


def as_specs(specs: Mapping[str, Any], origin: str) -> dict[str, TensorSpec]:
    """Convert specs of any kind to `TensorSpec`.

    Args:
        specs: by key, each with `shape` (at least rank 1) and `dtype`.
        origin: named in errors, e.g. `MyData._input_layer_specs`.

    Raises:
        TypeError: if a spec has no shape of known rank, or no dtype.
        ValueError: if a spec has rank 0.
    """
    return {key: _as_spec(spec, f"{origin}()[{key!r}]") for key, spec in specs.items()}


def _as_spec(spec: Any, where: str) -> TensorSpec:
    try:
        shape = tuple(None if size is None else int(size) for size in spec.shape)
    except (AttributeError, TypeError, ValueError) as error:
        raise TypeError(f"{where} is {spec!r}, expected something with a shape of known rank and a dtype") from error
    if not shape:
        raise ValueError(f"{where} has shape [], expected at least one dimension: write [1] for a single number")
    return TensorSpec(shape, _dtype_name(getattr(spec, "dtype", None), where))


def _dtype_name(dtype: Any, where: str) -> str:
    name = getattr(dtype, "name", dtype)  # tf.DType and np.dtype have a name, Keras uses strings
    if name in ("string", "str", "object"):
        return "string"
    try:
        if name is None:  # np.dtype(None) would be float64
            raise TypeError("no dtype")
        return np.dtype(name).name
    except TypeError as error:
        raise TypeError(f"{where} has dtype {dtype!r}, expected the name of a type, e.g. 'float32'") from error
