"""Samples become batches: check, pad, stack, cast."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tfaip.data.pipeline.definitions import INPUT_PROCESSOR, TARGETS_PROCESSOR, PipelineMode, Sample
from tfaip.data.specs import TensorSpec

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Batch:
    """Samples stacked along a new first dimension.

    Args:
        inputs: arrays of shape `[size, ...]` by key.
        targets: the same for the targets; empty where there are none.
        meta: `sample.meta` of each sample.
    """

    inputs: dict[str, Array]
    targets: dict[str, Array]
    meta: list[Any]

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.meta)


class Batcher:
    """Makes batches of samples, in the form that the specs promise.

    Args:
        input_specs: specs of the inputs by key; other keys of a sample are ignored.
        target_specs: the same for the targets.
        padding: what fills up shorter samples, by key.
        mode: decides whether inputs and targets are read.
    """

    def __init__(
        self,
        input_specs: Mapping[str, TensorSpec],
        target_specs: Mapping[str, TensorSpec],
        padding: Mapping[str, Any],
        mode: PipelineMode,
    ) -> None:
        self._inputs = _stackers(input_specs if mode in INPUT_PROCESSOR else {}, padding, "inputs")
        self._targets = _stackers(target_specs if mode in TARGETS_PROCESSOR else {}, padding, "targets")

    @property
    def needs_inputs(self) -> bool:
        """Whether a sample without inputs cannot be batched."""
        return bool(self._inputs)

    @property
    def needs_targets(self) -> bool:
        """Whether a sample without targets cannot be batched."""
        return bool(self._targets)

    def batch(self, samples: Sequence[Sample]) -> Batch:
        """Stack samples; variable dimensions of a key are padded to the longest sample of the batch.

        A value may be an array, nested lists, or a number where the spec is [1]. Nested lists may be *ragged*: rows
        of different length, in variable dimensions, are padded too.

        Raises:
            TypeError, ValueError: a value does not fit its spec; the message shows the meta of the sample.
        """
        try:
            return self._stacked(samples)
        except (TypeError, ValueError) as error:
            wrong = next((sample for sample in samples if not self._fits(sample)), None)
            if wrong is None or wrong.meta is None:
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{error}; the meta of the sample: {reprlib.repr(wrong.meta)}") from error

    def _fits(self, sample: Sample) -> bool:
        try:
            self._stacked([sample])
        except (TypeError, ValueError):
            return False
        return True

    def _stacked(self, samples: Sequence[Sample]) -> Batch:
        inputs = [s.inputs for s in samples]
        targets = [s.targets for s in samples]
        return Batch(
            {key: stacker.stack(inputs) for key, stacker in self._inputs.items()},
            {key: stacker.stack(targets) for key, stacker in self._targets.items()},
            [s.meta for s in samples],
        )

    def from_ready_made(self, samples: Sequence[Sample]) -> Batch:
        """The batch of one sample, see `from_stacked`."""
        (sample,) = samples
        return self.from_stacked(sample)

    def from_stacked(self, sample: Sample) -> Batch:
        """The batch of a sample whose arrays already have the batch dimension."""
        inputs = {key: stacker.cast(sample.inputs) for key, stacker in self._inputs.items()}
        targets = {key: stacker.cast(sample.targets) for key, stacker in self._targets.items()}
        sizes = {key: len(array) for key, array in (inputs | targets).items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"the arrays of a batch have different numbers of samples: {sizes}")
        size = next(iter(sizes.values()))
        meta = [None] * size if sample.meta is None else list(sample.meta)
        if len(meta) != size:
            raise ValueError(f"the meta of a batch has {len(meta)} entries, its arrays {size}")
        return Batch(inputs, targets, meta)


def _stackers(specs: Mapping[str, TensorSpec], padding: Mapping[str, Any], part: str) -> dict[str, _Stacker]:
    return {key: _Stacker(part, key, spec, padding[key]) for key, spec in specs.items()}


class _Stacker:
    """Checks and stacks the values of one key."""

    def __init__(self, part: str, key: str, spec: TensorSpec, padding: Any) -> None:
        self._part = part
        self._key = key
        self._name = f"{part}[{key!r}]"
        self._spec = spec
        self._dtype = spec.numpy_dtype
        self._is_text = spec.dtype == "string"
        self._read_as = object if self._is_text else None
        self._padding = _padding_value(padding, spec, self._name)
        if self._dtype.kind in "iub":
            limits = np.iinfo(self._dtype) if self._dtype.kind != "b" else None
            self._lowest, self._highest = (int(limits.min), int(limits.max)) if limits is not None else (0, 1)

    def stack(self, parts: Sequence[Any]) -> Array:
        arrays = self._arrays(parts)
        shapes = {array.shape for array in arrays}
        for shape in shapes:
            if not self._spec.fits(shape):
                raise self._shape_error(shape, list(self._spec.shape))
        dtypes = {array.dtype for array in arrays}
        for dtype in dtypes:
            self._check_dtype(dtype)
        if any(self._may_overflow(dtype) for dtype in dtypes):
            self._check_range(np.concatenate([array.ravel() for array in arrays]))
        with self._no_overflow():
            if len(shapes) > 1:
                return _padded(arrays, self._padding, self._dtype)
            joined = np.concatenate(arrays, dtype=self._dtype, casting="unsafe")
        return joined.reshape(len(arrays), *arrays[0].shape)

    def _arrays(self, parts: Sequence[Any]) -> list[Array]:
        try:
            values = [part[self._key] for part in parts]
        except (KeyError, TypeError, IndexError):
            values = [self._value(part) for part in parts]  # says what is missing
        if not self._is_text and {value.__class__ for value in values} == {np.ndarray}:
            return [array if array.ndim and array.dtype.kind != "O" else self._array(array) for array in values]
        return [self._array(value) for value in values]

    def cast(self, part: Any) -> Array:
        array = np.asarray(self._value(part))
        if not self._spec.fits(array.shape[1:]) or array.ndim == 0:
            raise self._shape_error(array.shape, ["batch", *self._spec.shape])
        if np.can_cast(array.dtype, self._dtype):  # every value fits
            return array.astype(self._dtype, copy=False)
        self._check_dtype(array.dtype)
        self._check_range(array)
        with self._no_overflow():
            return array.astype(self._dtype)

    @contextmanager
    def _no_overflow(self) -> Iterator[None]:
        """Large numbers must not become infinite ones. The processor finds them while it casts, at no cost."""
        try:
            with np.errstate(over="raise"):
                yield
        except FloatingPointError as error:
            raise ValueError(
                f"{self._name} has numbers that are too large for {self._spec.dtype} as in the layer specs: change the "
                f"spec or the processor that makes the value"
            ) from error

    def _value(self, part: Any) -> Any:
        try:
            return part[self._key]
        except (KeyError, TypeError, IndexError) as error:
            keys = sorted(part) if isinstance(part, Mapping) else f"of type {type(part).__name__}"
            raise ValueError(f"a sample lacks {self._name}; its {self._part} are {keys}") from error

    def _array(self, value: Any) -> Array:
        try:
            array = np.asarray(value, dtype=self._read_as)
        except ValueError:  # rows of different length
            array = self._dense(value, self._spec.rank)
        if array.dtype.kind == "O" and not (self._is_text and array.ndim == self._spec.rank):
            array = self._dense(value, self._spec.rank)
        if array.ndim == 0 and self._spec.shape == (1,):
            return array.reshape(1)
        return array if array.size else array.astype(self._dtype)  # nothing is of any type

    def _dense(self, value: Any, rank: int) -> Array:
        """Ragged rows as one array; what is no sequence stays as it is, for the checks to refuse."""
        is_sequence = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)
        if is_sequence and len(value) == 0:
            return np.zeros([0] * rank, dtype=self._dtype)
        if rank <= 1 or not is_sequence:
            try:
                return np.asarray(value, dtype=self._read_as)
            except ValueError as error:
                raise ValueError(
                    f"{self._name} has rows of different length, nested deeper than the layer specs "
                    f"({list(self._spec.shape)}): {value!r}"
                ) from error
        rows = [self._dense(row, rank - 1) for row in value]
        if len({row.ndim for row in rows}) > 1:
            raise ValueError(f"{self._name} has rows of different depth: {value!r}")
        for row in rows:
            self._check_dtype(row.dtype)
            self._check_range(row)
        with self._no_overflow():
            return _padded(rows, self._padding, self._dtype)

    def _check_dtype(self, dtype: np.dtype[Any]) -> None:
        # Numbers may change their precision, but must not silently lose a part of them, wrap around, or become text.
        if self._dtype.kind not in _TAKEN_BY[dtype.kind]:
            raise TypeError(
                f"{self._name} has dtype {dtype}, expected {self._spec.dtype} as in the layer specs: change the spec "
                f"or the processor that makes the value"
            )

    def _may_overflow(self, dtype: np.dtype[Any]) -> bool:
        return dtype.kind in "iu" and self._dtype.kind in "iub" and not np.can_cast(dtype, self._dtype)

    def _check_range(self, array: Array) -> None:
        if not self._may_overflow(array.dtype) or array.size == 0:
            return
        low, high = int(array.min()), int(array.max())
        if low < self._lowest or high > self._highest:
            raise ValueError(
                f"{self._name} has numbers from {low} to {high}, expected {self._lowest} to {self._highest} for "
                f"{self._spec.dtype} as in the layer specs: change the spec or the processor that makes the value"
            )

    def _shape_error(self, got: Shape, expected: list[Any]) -> ValueError:
        return ValueError(
            f"{self._name} has shape {list(got)}, expected {expected} as in the layer specs "
            f"(None: any length): change the spec or the processor that makes the value"
        )


_TAKEN_BY = {
    **dict.fromkeys("biu", "biufVcO"),
    **dict.fromkeys("fV", "fVcO"),
    "c": "cO",
    **dict.fromkeys("OSUTMm", "O"),
}
"""Kinds of specs by the kind of value that they take, as NumPy abbreviates them (V: bfloat16 and the like)."""


def _padded(arrays: Sequence[Array], padding: Any, dtype: np.dtype[Any]) -> Array:
    """Stack arrays of the same rank along a new first dimension."""
    longest = [max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True)]
    stacked = np.full([len(arrays), *longest], padding, dtype=dtype)
    for row, array in zip(stacked, arrays, strict=True):
        row[tuple(map(slice, array.shape))] = array
    return stacked


def _padding_value(padding: Any, spec: TensorSpec, name: str) -> Any:
    if spec.dtype == "string":
        if isinstance(padding, (str, bytes)):
            return padding
    elif np.ndim(padding) == 0:
        try:
            with np.errstate(invalid="ignore"):
                value = np.asarray(padding).astype(spec.numpy_dtype)[()]
            if spec.numpy_dtype.kind == "f" or value == padding:
                return value
        except (TypeError, ValueError, OverflowError):
            pass  # refused below
    raise ValueError(f"the padding value of {name} is {padding!r}, expected one value of type {spec.dtype}")
