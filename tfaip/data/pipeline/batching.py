"""Batches: samples checked against the specs, padded, stacked and cast, all at once or value by value."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tfaip.data.pipeline.definitions import (
    INPUT_PROCESSOR,
    TARGETS_PROCESSOR,
    FailedSample,
    PipelineMode,
    Sample,
    SampleGroup,
    SampleSpecs,
)
from tfaip.data.specs import TensorSpec
from tfaip.util.text import shorten


@dataclass(eq=False, slots=True)
class Batch:
    """Samples stacked along a new first dimension; `inputs, targets, meta = batch` takes it apart.

    Args:
        inputs: arrays of shape `[size, ...]` by key.
        targets: the same for the targets; empty if there are none.
        meta: `sample.meta` of each sample.
        is_whole: several devices get all of it each, since it cannot be split equally.
    """

    inputs: dict[str, Array]
    targets: dict[str, Array]
    meta: list[Any]
    is_whole: bool = False

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.meta)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.inputs, self.targets, self.meta))

    def __len__(self) -> int:
        return 3


Shard: TypeAlias = tuple[int, int, int]
"""(index, count, devices): the rows of process `index`, from 0, of `count` that have so many devices together."""

UNSHARDED: Shard = (0, 1, 1)


def is_whole(size: int, shard: Shard) -> bool:
    """Return True if a batch of this size cannot be split equally: every device gets all of it."""
    return size % shard[2] > 0


def shard_bounds(size: int, shard: Shard) -> tuple[int, int]:
    """Return the first row of a shard in a batch of this size, and the first one after it."""
    if is_whole(size, shard):
        return 0, size
    index, count, _ = shard
    return size * index // count, size * (index + 1) // count


def shard_batch(batch: Batch, shard: Shard) -> Batch:
    """Return the rows of a shard, consecutive ones; all rows of a batch that cannot be split equally."""
    if shard == UNSHARDED:
        return batch
    rows = slice(*shard_bounds(batch.size, shard))
    inputs = {key: array[rows] for key, array in batch.inputs.items()}
    targets = {key: array[rows] for key, array in batch.targets.items()}
    return Batch(inputs, targets, batch.meta[rows], is_whole(batch.size, shard))


class Batcher:
    """Converter of samples to batches that satisfy the specs.

    Args:
        input_specs: specs of the inputs by key; other keys of a sample are ignored.
        target_specs: the same for the targets.
        padding: value that fills up shorter samples, by key.
        mode: selects whether inputs and targets are read.
    """

    def __init__(
        self,
        input_specs: Mapping[str, TensorSpec],
        target_specs: Mapping[str, TensorSpec],
        padding: Mapping[str, Any],
        mode: PipelineMode,
    ) -> None:
        inputs = input_specs.items() if mode in INPUT_PROCESSOR else ()
        targets = target_specs.items() if mode in TARGETS_PROCESSOR else ()
        self._inputs = {key: Stacker("inputs", key, spec, padding[key]) for key, spec in inputs}
        self._targets = {key: Stacker("targets", key, spec, padding[key]) for key, spec in targets}
        self.needs_inputs = bool(self._inputs)
        """True if a sample without inputs cannot be batched."""
        self.needs_targets = bool(self._targets)
        """True if a sample without targets cannot be batched."""

    def batch(self, samples: Sequence[Sample]) -> Batch:
        """Stack samples; variable dimensions are padded to the longest sample of the batch.

        A value may be an array, nested lists, or a number where the spec is [1]. Nested lists may
        be *ragged*: rows of different length, in variable dimensions, are padded too. (Models get
        dense tensors: JAX, and most layers of Keras, accept no ragged ones.)

        Raises:
            TypeError, ValueError: if a value does not fit its spec; a note shows the meta of the sample.
        """
        try:
            return self._stack(samples)
        except (TypeError, ValueError):
            for failed in filter(None, map(self.failure, samples)):  # one by one only to find the wrong one
                raise failed.error from None
            raise

    def failure(self, sample: Sample) -> FailedSample | None:
        """Return why a sample does not fit the specs; None: it does."""
        try:
            self._stack([sample])
        except (TypeError, ValueError) as error:
            error.add_note(f"the meta of the sample: {reprlib.repr(sample.meta)}")
            return FailedSample(error)
        return None

    def _stack(self, samples: Sequence[Sample]) -> Batch:
        inputs = [sample.inputs for sample in samples]
        targets = [sample.targets for sample in samples]
        return Batch(
            {key: stacker.stack(inputs) for key, stacker in self._inputs.items()},
            {key: stacker.stack(targets) for key, stacker in self._targets.items()},
            [sample.meta for sample in samples],
        )

    def from_ready_made(self, samples: Sequence[Sample]) -> Batch:
        """Return the batch of a single sample that is one already: a group, or stacked (`from_stacked`)."""
        (sample,) = samples
        return self.batch(sample.samples) if isinstance(sample, SampleGroup) else self.from_stacked(sample)

    def from_stacked(self, sample: Sample) -> Batch:
        """Return the batch of a sample whose arrays already have the batch dimension."""
        inputs = {key: stacker.cast(sample.inputs) for key, stacker in self._inputs.items()}
        targets = {key: stacker.cast(sample.targets) for key, stacker in self._targets.items()}
        sizes = {len(array) for part in (inputs, targets) for array in part.values()}
        if len(sizes) != 1 or 0 in sizes:
            found = {key: len(array) for key, array in (inputs | targets).items()}
            raise ValueError(f"the arrays of a batch have different numbers of samples, or none: {found}")
        (size,) = sizes
        meta = [None] * size if sample.meta is None else list(sample.meta)
        if len(meta) != size:
            raise ValueError(f"the meta of a batch has {len(meta)} entries, its arrays {size}")
        return Batch(inputs, targets, meta)


Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]

_CHANGE = "change the spec or the processor that makes the value"

# Kinds of specs by the kind of value that they accept, as NumPy abbreviates them (V: bfloat16 and the like). Numbers
# may change their precision, but must not silently lose their fraction or imaginary part, wrap around, or become text.
_ACCEPTED_BY = {
    **dict.fromkeys("biu", "biufVcO"),
    "f": "biufVcO",  # whole numbers only, see `_check_range`
    "V": "fVcO",
    "c": "cO",
    **dict.fromkeys("OSUTMm", "O"),
}


class Stacker:
    """Converter of the values of one key to an array with a batch dimension.

    Args:
        part: `inputs` or `targets`.
        key: of the value in this part of a sample.
        spec: shape and type that the values must have.
        padding: fills up shorter values.

    Raises:
        TypeError, ValueError: if the padding value is not of the type of the spec.
    """

    def __init__(self, part: str, key: str, spec: TensorSpec, padding: Any) -> None:
        self._part = part
        self._key = key
        self._spec = spec
        self._dtype = spec.numpy_dtype
        self._is_text = spec.dtype == "string"
        self._read_as = object if self._is_text else None
        self._lowest, self._highest = 0, 1
        if self._dtype.kind in "iu":
            limits = np.iinfo(self._dtype)
            self._lowest, self._highest = int(limits.min), int(limits.max)
        self._name = f"the padding of {part}[{key!r}]"
        self._padding = self._cast(np.asarray(padding, dtype=self._read_as))[()]
        self._name = f"{part}[{key!r}]"

    def stack(self, parts: Sequence[Any]) -> Array:
        """Stack the values of several samples, padded to the longest one.

        Args:
            parts: inputs or targets of the samples.

        Raises:
            TypeError, ValueError: if a value does not fit the spec.
        """
        arrays = self._arrays(parts)
        # Most batches have one shape and one type: one check takes less time than one for each sample.
        shapes = {array.shape for array in arrays}
        for shape in shapes:
            if not self._spec.fits(shape):
                raise self._shape_error(shape, list(self._spec.shape))
        if len(shapes) > 1:
            return self._padded(arrays)
        # `np.stack` would make a list of expanded arrays first.
        if self._is_text or len({array.dtype for array in arrays}) > 1:
            # NumPy would join int64 and uint64 as float64; an error about texts shows those of one sample.
            joined = np.concatenate(list(map(self._cast, arrays)))
        else:
            joined = self._cast(np.concatenate(arrays))
        return joined.reshape(len(arrays), *arrays[0].shape)

    def cast(self, part: Any) -> Array:
        """Cast a value that has a batch dimension already.

        Args:
            part: inputs or targets of the batch.

        Raises:
            TypeError, ValueError: if the value does not fit the spec.
        """
        array = np.asarray(self._value(part))
        if not self._spec.fits(array.shape[1:]) or array.ndim == 0:
            raise self._shape_error(array.shape, ["batch", *self._spec.shape])
        return self._cast(array)

    def _cast(self, array: Array) -> Array:
        """Return an array of the type of the spec; raise if a value would be another one."""
        if np.can_cast(array.dtype, self._dtype) and not self._is_text:
            return array.astype(self._dtype, copy=False)
        kind = array.dtype.kind
        if self._dtype.kind not in _ACCEPTED_BY[kind]:
            raise self._dtype_error(array)
        if self._is_text and not all(isinstance(value, (str, bytes)) for value in array.flat):
            raise self._dtype_error(array)
        if kind in "iuf" and self._dtype.kind in "iub" and array.size:
            if kind == "f" and not np.all(np.isfinite(array) & (np.trunc(array) == array)):
                raise self._dtype_error(array)
            low, high = int(array.min()), int(array.max())
            if low < self._lowest or high > self._highest:
                raise ValueError(
                    f"{self._name} has numbers from {low} to {high}, expected {self._lowest} to "
                    f"{self._highest} for {self._spec.dtype} as in the layer specs: {_CHANGE}"
                )
        try:
            with np.errstate(over="raise"):  # a number that becomes infinite
                return array.astype(self._dtype)
        except FloatingPointError as error:
            raise ValueError(
                f"{self._name} has numbers that are too large for {self._spec.dtype} as in the layer specs: {_CHANGE}"
            ) from error

    def _padded(self, arrays: Sequence[Array]) -> Array:
        """Stack arrays of the same rank along a new first dimension."""
        sizes_by_dimension = zip(*(array.shape for array in arrays), strict=True)
        longest = [max(sizes) for sizes in sizes_by_dimension]
        stacked = np.full([len(arrays), *longest], self._padding, dtype=self._dtype)
        for row, array in zip(stacked, arrays, strict=True):
            row[tuple(map(slice, array.shape))] = self._cast(array)
        return stacked

    def _value(self, part: Any) -> Any:
        try:
            return part[self._key]
        except (KeyError, TypeError, IndexError) as error:
            keys = sorted(part) if isinstance(part, Mapping) else f"of type {type(part).__name__}"
            raise ValueError(f"a sample lacks {self._name}; its {self._part} are {keys}") from error

    def _arrays(self, parts: Sequence[Any]) -> list[Array]:
        try:
            values = [part[self._key] for part in parts]
        except (KeyError, TypeError, IndexError):
            values = [self._value(part) for part in parts]  # its error says what is missing
        if self._is_text or {value.__class__ for value in values} != {np.ndarray}:
            return [self._array(value) for value in values]
        return [array if array.ndim and array.dtype.kind != "O" else self._array(array) for array in values]

    def _array(self, value: Any) -> Array:
        try:
            array = np.asarray(value, dtype=self._read_as)
        except ValueError:  # rows of different length
            array = self._dense(value, len(self._spec.shape))
        if array.dtype.kind == "O" and not (self._is_text and array.ndim == len(self._spec.shape)):
            array = self._dense(value, len(self._spec.shape))
        if array.ndim == 0 and self._spec.shape == (1,):
            return array.reshape(1)
        return array if array.size else array.astype(self._dtype)  # without elements any type is right

    def _dense(self, value: Any, rank: int) -> Array:
        """Return ragged rows as one array; other values as they are, for the checks to refuse."""
        is_sequence = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)
        if is_sequence and len(value) == 0:
            return np.zeros([0] * rank, dtype=self._dtype)
        if rank <= 1 or not is_sequence:
            try:
                return np.asarray(value, dtype=self._read_as)
            except ValueError as error:
                raise ValueError(
                    f"{self._name} has rows of different length, nested deeper than the layer "
                    f"specs ({list(self._spec.shape)}): {value!r}"
                ) from error
        rows = [self._dense(row, rank - 1) for row in value]
        if len({row.ndim for row in rows}) > 1:
            raise ValueError(f"{self._name} has rows of different depth: {value!r}")
        return self._padded(rows)

    def _dtype_error(self, array: Array) -> TypeError:
        kind = array.dtype.kind
        shown = f"is {shorten(array.tolist())}" if kind in "OUS" else f"has dtype {array.dtype}"
        if kind == "f" and self._dtype.kind in "iub":
            shown += " with fractions"
        return TypeError(f"{self._name} {shown}, expected {self._spec.dtype} as in the layer specs: {_CHANGE}")

    def _shape_error(self, got: Shape, expected: list[Any]) -> ValueError:
        return ValueError(
            f"{self._name} has shape {list(got)}, expected {expected} as in the layer specs (None: "
            f"any length): {_CHANGE}"
        )


class LengthPadding:
    """Padding of variable dimensions to one of a few lengths, so that few shapes occur.

    Args:
        data: gives specs and padding values.
        lengths: ascending; a dimension that is longer than all of them stays as it is.
    """

    def __init__(self, data: SampleSpecs, lengths: Sequence[int]) -> None:
        self._specs = data.input_layer_specs(), data.target_layer_specs()
        self._padding = data.padding_values()
        self._lengths = lengths

    def __call__(self, element: tuple[dict[str, Array], dict[str, Array]]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Pad inputs and targets of a batch."""
        inputs, targets = map(self._padded, element, self._specs)
        return inputs, targets

    def _padded(self, part: dict[str, Array], specs: Mapping[str, TensorSpec]) -> dict[str, Array]:
        padded = dict(part)
        for key, array in part.items():
            sizes = zip(array.shape[1:], specs[key].shape, strict=True)
            missing = [self._missing(size) if wanted is None else 0 for size, wanted in sizes]
            if any(missing):
                padded[key] = np.pad(array, [(0, more) for more in [0, *missing]], constant_values=self._padding[key])
        return padded

    def _missing(self, size: int) -> int:
        return next((length - size for length in self._lengths if length >= size), 0)


def sample_length(data: SampleSpecs) -> Callable[[Sample], int]:
    """Return the function that measures samples.

    `element_length_fn` may also take no sample and return the function to measure with, which gets the
    inputs and the targets in one dict.

    Args:
        data: has `element_length_fn`.
    """
    method: Any = data.element_length_fn
    parameters = inspect.signature(method).parameters.values()
    if any(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
        return data.element_length_fn
    measure = method()
    return lambda sample: int(measure({**(sample.targets or {}), **(sample.inputs or {})}))
