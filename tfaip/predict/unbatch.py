"""A batch with its outputs becomes samples again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import TfaipError


def samples_of(batch: Batch, outputs: Mapping[str, Any]) -> Iterator[Sample]:
    """The samples of a batch in order; their arrays are views.

    Args:
        batch: what entered the model; a batch without targets gives samples with `targets` None.
        outputs: arrays of shape `[batch, ...]` by name.

    Raises:
        TfaipError: an output has not one row per sample.
    """
    for name, array in outputs.items():
        if array.ndim == 0 or len(array) != batch.size:
            raise TfaipError(
                f"output {name!r} of the model has the shape {list(array.shape)} for {batch.size} samples: an output "
                "needs one row per sample"
            )
    parts = zip(_rows(batch.inputs), _rows(outputs), batch.meta, strict=False)
    if not batch.targets:
        return (Sample(inputs=inputs, outputs=row, meta=meta) for inputs, row, meta in parts)
    return (
        Sample(inputs=inputs, outputs=row, targets=targets, meta=meta)
        for (inputs, row, meta), targets in zip(parts, _rows(batch.targets), strict=False)
    )


def _rows(arrays: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Row after row; without end if there are no arrays."""
    if not arrays:
        return iter(dict, None)  # an empty dict for each sample
    names = list(arrays)
    return (dict(zip(names, row, strict=True)) for row in zip(*arrays.values(), strict=True))
