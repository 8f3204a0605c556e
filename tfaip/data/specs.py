"""Shapes and types of what enters the model, per sample."""

from __future__ import annotations

import keyword
import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfaip.params.names import did_you_mean
from tfaip.params.tree import node_fields

if TYPE_CHECKING:  # commands that only print their help import this module
    import numpy as np

# Types as Keras has them.
_PYTHON_TYPES = {int: "int32", float: "float32", bool: "bool", str: "string"}


@dataclass(frozen=True)
class TensorSpec:
    """Shape and type of one tensor of a sample, without the batch dimension.

    Every function that expects a spec accepts any object with `shape` and `dtype` (`tf.TensorSpec`,
    `keras.InputSpec`, arrays); this class is for scenarios that import nothing else.

    Args:
        shape: e.g. `[28, 28]`, `[None, 48]` (variable length, padded in the batch) or `[1]` for a number.
        dtype: name of the type, e.g. `"float32"`, `"int32"`, `"string"`.
    """

    shape: tuple[int | None, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of a batch; text is stored as Python objects."""
        import numpy as np

        return np.dtype(object) if self.dtype == "string" else np.dtype(self.dtype)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return True if an array of this shape satisfies the spec."""
        if len(shape) != len(self.shape):
            return False
        return all(want is None or got == want for got, want in zip(shape, self.shape, strict=True))


class Spec:
    """Shape and type of one tensor of a sample, of which sizes may be named.

        Spec(28, 28), Spec(None, "height"), Spec(1, int), Spec(64, dtype="uint8")

    A size is a number, None (variable length), or the name of a field of the data params, which is
    read when the specs are needed; an attribute or property of the data serves as well.

    Args:
        sizes: without the batch dimension; a type may follow as the last argument.
        dtype: a type, or its name; int is int32, float is float32. Default: float32.

    Raises:
        TypeError: if a size is something else.
    """

    def __init__(self, *sizes: int | str | type | None, dtype: Any = None) -> None:
        if sizes and isinstance(sizes[-1], type) and dtype is None:
            *sizes, dtype = sizes  # type: ignore[assignment]
        for size in sizes:
            if not (size is None or isinstance(size, str) or type(size) is int):
                raise TypeError(
                    f"a size of Spec is {size!r}, expected a number, None, or the name of a field of the data; a "
                    'type comes last, or as dtype="..."'
                )
        self.sizes: tuple[Any, ...] = tuple(sizes)
        self.dtype: Any = _PYTHON_TYPES.get(dtype, dtype) or "float32"

    def __repr__(self) -> str:
        return f"Spec({', '.join(map(repr, self.sizes))}, dtype={self.dtype!r})"

    def resolved(self, data: Any, where: str) -> TensorSpec:
        """Return the spec with the sizes that fields name.

        Args:
            data: the data, which have the fields.
            where: named in errors.

        Raises:
            TypeError: if there is no such field, or it holds no number.
        """
        shape = [_size_of(data, size, where) if isinstance(size, str) else size for size in self.sizes]
        return _as_spec(TensorSpec(tuple(shape), self.dtype), where)


def _size_of(data: Any, name: str, where: str) -> int | None:
    """Return the size that an attribute of the data, or one of their params, holds."""
    params = getattr(data, "params", data)
    holder = data if hasattr(data, name) else params
    if not hasattr(holder, name):
        hint = did_you_mean(name, [field.name for field in node_fields(params)])
        owner = type(params).__name__
        raise TypeError(f'{where} names the size {name!r}, but {owner} has no such field{hint} (a type: dtype="...")')
    size = getattr(holder, name)
    if size is None or (isinstance(size, numbers.Integral) and not isinstance(size, bool)):
        return None if size is None else int(size)
    raise TypeError(f"{where} names the size {name!r}, but {type(holder).__name__}.{name} is {size!r}, expected an int")


def export_name(key: str) -> str:
    """Return the name that an input has in exported models: letters of ASCII, digits and underscores.

    `petal length` is `petal_length` there, `class` (a word of Python) and `1st` are `input_class` and `input_1st`.
    """
    name = re.sub(r"\W", "_", key, flags=re.ASCII)
    return name if name[:1].isalpha() and not keyword.iskeyword(name) else f"input_{name}"


def as_input_specs(specs: Mapping[str, Any], origin: str, data: Any = None) -> dict[str, TensorSpec]:
    """Convert specs of inputs as `as_specs` does.

    Raises:
        ValueError: also if two inputs have one name in exported models.
    """
    keys: dict[str, str] = {}
    for key in specs:
        name = export_name(key).lower()  # TensorFlow takes capitals for small letters
        if name in keys:
            raise ValueError(f"{origin} names {keys[name]!r} and {key!r}, both {name!r} in an export: rename one")
        keys[name] = key
    return as_specs(specs, origin, data)


def as_specs(specs: Mapping[str, Any], origin: str, data: Any = None) -> dict[str, TensorSpec]:
    """Convert specs of any kind to `TensorSpec`.

    Args:
        specs: by key, each with `shape` (at least rank 1) and `dtype`, or a `Spec`.
        origin: named in errors, e.g. `MyData._input_layer_specs`.
        data: has the fields that sizes of a `Spec` name.

    Raises:
        TypeError: if a spec has no shape of known rank, or no dtype.
        ValueError: if a spec has rank 0.
    """
    converted = {}
    for key, spec in specs.items():
        where = f"{origin}()[{key!r}]"
        converted[key] = spec.resolved(data, where) if isinstance(spec, Spec) else _as_spec(spec, where)
    return converted


def _as_spec(spec: Any, where: str) -> TensorSpec:
    try:
        shape = tuple(None if size is None else int(size) for size in spec.shape)
    except (AttributeError, TypeError, ValueError) as error:
        raise TypeError(f"{where} is {spec!r}, expected something with a shape of known rank and a dtype") from error
    if not shape:
        raise ValueError(f"{where} has shape [], expected at least one dimension: write [1] for a single number")
    return TensorSpec(shape, _dtype_name(getattr(spec, "dtype", None), where))


def _dtype_name(dtype: Any, where: str) -> str:
    import numpy as np

    name = getattr(dtype, "name", dtype)  # tf.DType and np.dtype have a name, Keras uses strings
    if name in ("string", "str", "object"):
        return "string"
    try:
        return np.dtype(name or "none").name  # np.dtype(None) would be float64
    except TypeError as error:
        raise TypeError(f"{where} has dtype {dtype!r}, expected the name of a type, e.g. 'float32'") from error
