"""Batches: samples checked against the specs, padded, stacked and cast."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfaip.data.pipeline.definitions import (
    INPUT_PROCESSOR,
    TARGETS_PROCESSOR,
    FailedSample,
    PipelineMode,
    Sample,
    SampleGroup,
)
from tfaip.data.pipeline.stacking import Array, Stacker
from tfaip.data.specs import TensorSpec


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
        self._inputs: dict[str, Stacker] = {}
        self._targets: dict[str, Stacker] = {}
        if mode in INPUT_PROCESSOR:
            self._inputs = {key: Stacker("inputs", key, spec, padding[key]) for key, spec in input_specs.items()}
        if mode in TARGETS_PROCESSOR:
            self._targets = {key: Stacker("targets", key, spec, padding[key]) for key, spec in target_specs.items()}

    @property
    def needs_inputs(self) -> bool:
        """True if a sample without inputs cannot be batched."""
        return bool(self._inputs)

    @property
    def needs_targets(self) -> bool:
        """True if a sample without targets cannot be batched."""
        return bool(self._targets)

    def batch(self, samples: Sequence[Sample]) -> Batch:
        """Stack samples; variable dimensions are padded to the longest sample of the batch.

        A value may be an array, nested lists, or a number where the spec is [1]. Nested lists may
        be *ragged*: rows of different length, in variable dimensions, are padded too. (Models get
        dense tensors: JAX, and most layers of Keras, accept no ragged ones.)

        Raises:
            TypeError, ValueError: if a value does not fit its spec; shows the meta of the sample.
        """
        try:
            return self._stack(samples)
        except (TypeError, ValueError) as error:
            # Samples are stacked one by one only to find the wrong one.
            wrong = next((sample for sample in samples if self.failure(sample) is not None), None)
            if wrong is None or wrong.meta is None:
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{error}; the meta of the sample: {reprlib.repr(wrong.meta)}") from error

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
        """Return the batch of a single sample that is one already: a group, or stacked (`from_stacked`).

        Raises:
            ValueError: if it has no rows.
        """
        (sample,) = samples
        if isinstance(sample, SampleGroup):
            return self.batch(sample.samples)
        batch = self.from_stacked(sample)
        if batch.size == 0:
            raise ValueError("the generator gave a batch without samples: leave it out")
        return batch

    def from_stacked(self, sample: Sample) -> Batch:
        """Return the batch of a sample whose arrays already have the batch dimension."""
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
